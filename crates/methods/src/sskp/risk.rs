//! The skill risk predictor of section 4.1.1: P_ζ(c | s, z), learnt from positive and unlabelled pairs (Eq. 1–4), and the
//! pairs themselves, from demonstrations and from online skills (Eq. 7).

use serde::{Deserialize, Serialize};
use sskp_blocks::Result;
use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::demos::{Demonstrations, Trajectory};
use sskp_blocks::nets::{Mlp, Model, Tape, gaussian, linalg};
use sskp_blocks::rng::Rng;

use super::skill::SkillModel;

/// Which estimate of the true loss is minimised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PuLoss {
    /// Eq. 4: the negative part is held above −ξ by a maximum, which stops its gradient where it binds.
    Paper,
    /// Eq. 2 without any maximum (du Plessis et al. 2015): unbiased, and unbounded below.
    Unbiased,
    /// Kiryo et al. 2017: where the negative part is below −ξ, a step that only raises it.
    Kiryo,
}

/// Settings of the predictor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RiskConfig {
    /// Width of the two hidden layers of the "3-layer MLP" (section 5.1).
    pub width: usize,
    /// Learning rate.
    pub rate: f64,
    /// L2 decay of the weights, added to the gradient: keeps logits from growing without end once P is separated.
    pub weight_decay: f64,
    /// Pairs per side of a minibatch.
    pub batch: usize,
    /// Gradient steps on the demonstrations.
    pub steps: u64,
    /// The loss.
    pub loss: PuLoss,
    /// ξ of Eq. 4. Section 5.1: 0.
    pub slack: f64,
    /// λ, the share of positives among the unlabelled; 0 to estimate it from the demonstrations.
    pub class_prior: f64,
    /// λ where it is estimated but the estimate cannot be made (too few pairs).
    pub fallback_class_prior: f64,
    /// Estimates are kept inside these bounds: labelled positives are the last steps before a fall and so no random sample
    /// of all positives, which every estimator assumes.
    pub class_prior_bounds: [f64; 2],
    /// Unlabelled pairs kept; the oldest online ones are overwritten.
    pub capacity: usize,
    /// Draw half of each online minibatch from executed pairs: only those say anything about z. The paper draws uniformly.
    pub executed_half: bool,
    /// Wherever H actions of the demonstrations were played, add the pair of the state and the skill that encodes them, as an
    /// executed pair. The paper draws skills from the prior alone, which makes z independent of the label. Remainders of
    /// fewer than H actions are not encoded: they exist before falls only, and would give the label away.
    pub encode_actions: bool,
    /// Skills before the violating one that count as positive too: a fall often begins before the skill in which it ends.
    /// The paper labels the violating skill alone, 0.
    pub relabel: usize,
    /// Fit a second predictor without a tenth of the episodes, and report how it does on them. Doubles the time of fitting and
    /// changes nothing else.
    pub calibrate: bool,
}

impl Default for RiskConfig {
    fn default() -> Self {
        Self {
            width: 256,
            rate: 3e-4,
            weight_decay: 1e-4,
            batch: 256,
            steps: 10_000,
            loss: PuLoss::Paper,
            slack: 0.0,
            class_prior: 0.0,
            fallback_class_prior: 0.1,
            class_prior_bounds: [0.02, 0.3],
            capacity: 1_000_000,
            executed_half: false,
            encode_actions: false,
            relabel: 0,
            calibrate: true,
        }
    }
}

/// Logits further out count as this far: a log-likelihood cannot run away.
const FAR: f32 = 10.0;

/// What the loss of a minibatch came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PuTerms {
    /// The loss.
    pub loss: f64,
    /// Whether the maximum (or Kiryo's condition) binds.
    pub binds: bool,
}

fn mean(values: &[f32], f: impl Fn(f32) -> f32) -> f64 {
    values.iter().map(|v| f64::from(f(v.clamp(-FAR, FAR)))).sum::<f64>() / values.len() as f64
}

/// Eq. 1: L¹(D) = −E log P(c = 1), on logits.
pub fn positive_loss(logits: &[f32]) -> f64 {
    mean(logits, |f| gaussian::softplus(-f))
}

/// Eq. 3: L⁰(D) = −E log(1 − P(c = 1)), on logits.
pub fn negative_loss(logits: &[f32]) -> f64 {
    mean(logits, gaussian::softplus)
}

/// 1/(1 + e^−x).
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// Eq. 4 on logits: `λ·L¹(D^p) + max(−ξ, L⁰(D^u) − λ·L⁰(D^p))`, with its gradient in both sets of logits.
///
/// Means are taken before the maximum, so the two sides may differ in size.
pub fn pu_loss(
    kind: PuLoss,
    positive: &[f32],
    unlabelled: &[f32],
    class_prior: f64,
    slack: f64,
    d_positive: &mut [f32],
    d_unlabelled: &mut [f32],
) -> PuTerms {
    // Eq. 2: the true negative loss, from unlabelled pairs less the positives among them.
    let negative = negative_loss(unlabelled) - class_prior * negative_loss(positive);
    let binds = negative < -slack;
    // Weights of ∂L¹(P), −∂L⁰(P)·λ and ∂L⁰(U).
    let (of_positive, of_negative) = match (kind, binds) {
        (PuLoss::Unbiased, _) | (_, false) => (1.0, 1.0),
        (PuLoss::Paper, true) => (1.0, 0.0),
        (PuLoss::Kiryo, true) => (0.0, -1.0),
    };
    let free = |f: f32| if f.abs() < FAR { 1.0 } else { 0.0 };
    let scale = class_prior as f32 / positive.len() as f32;
    for (d, &f) in d_positive.iter_mut().zip(positive) {
        *d = scale * free(f) * (-of_positive * sigmoid(-f) - of_negative * sigmoid(f));
    }
    let scale = 1.0 / unlabelled.len() as f32;
    for (d, &f) in d_unlabelled.iter_mut().zip(unlabelled) {
        *d = scale * free(f) * of_negative * sigmoid(f);
    }
    let held = if kind == PuLoss::Unbiased { negative } else { negative.max(-slack) };
    PuTerms { loss: class_prior * positive_loss(positive) + held, binds: binds && kind != PuLoss::Unbiased }
}

/// D^p or D^u: states whose skill is drawn anew from the prior whenever they are sampled, and executed pairs, whose skill is
/// what was played (or encoded). States are standardised.
#[derive(Clone, Debug)]
pub struct Pairs {
    obs: usize,
    dim: usize,
    capacity: usize,
    states: Vec<f32>,
    next_state: usize,
    executed: Vec<f32>,
    next_executed: usize,
}

impl Pairs {
    /// An empty set that keeps up to `capacity` of either kind.
    pub fn new(obs: usize, dim: usize, capacity: usize) -> Self {
        Self { obs, dim, capacity, states: Vec::new(), next_state: 0, executed: Vec::new(), next_executed: 0 }
    }
    /// States with a skill of the prior.
    pub fn prior_pairs(&self) -> usize {
        self.states.len() / self.obs
    }
    /// Pairs with a skill of their own.
    pub fn executed_pairs(&self) -> usize {
        self.executed.len() / (self.obs + self.dim)
    }
    /// All pairs.
    pub fn len(&self) -> usize {
        self.prior_pairs() + self.executed_pairs()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Adds a state, its skill to be drawn from the prior.
    pub fn push_state(&mut self, state: &[f32]) {
        assert_eq!(state.len(), self.obs);
        ring(&mut self.states, &mut self.next_state, self.capacity, &[state]);
    }
    /// Adds a pair with its skill.
    pub fn push_executed(&mut self, state: &[f32], z: &[f32]) {
        assert!(state.len() == self.obs && z.len() == self.dim);
        ring(&mut self.executed, &mut self.next_executed, self.capacity, &[state, z]);
    }

    /// Draws `n` pairs with replacement into rows `[s, z]` of `out`.
    pub fn sample(
        &self,
        n: usize,
        executed_half: bool,
        skills: &SkillModel,
        rng: &mut Rng,
        scratch: &mut PairScratch,
        out: &mut [f32],
    ) {
        let (obs, dim) = (self.obs, self.dim);
        let both = obs + dim;
        assert!(!self.is_empty() && out.len() >= n * both);
        scratch.rows.clear();
        scratch.states.clear();
        for row in 0..n {
            let (prior, executed) = (self.prior_pairs(), self.executed_pairs());
            let from_executed = match executed_half && executed > 0 && prior > 0 {
                true => row % 2 == 0,
                false => rng.below(prior + executed) >= prior,
            };
            let target = &mut out[row * both..][..both];
            if from_executed {
                target.copy_from_slice(&self.executed[rng.below(executed) * both..][..both]);
            } else {
                let state = &self.states[rng.below(prior) * obs..][..obs];
                target[..obs].copy_from_slice(state);
                scratch.rows.push(row);
                scratch.states.extend_from_slice(state);
            }
        }
        let m = scratch.rows.len();
        if m == 0 {
            return;
        }
        let heads = skills.prior(&scratch.states, m, &mut scratch.tape);
        scratch.noise.resize(m * dim, 0.0);
        scratch.z.resize(m * dim, 0.0);
        rng.fill_normal(&mut scratch.noise);
        gaussian::sample(heads, &scratch.noise, dim, &mut scratch.z);
        for (i, row) in scratch.rows.iter().enumerate() {
            out[row * both + obs..][..dim].copy_from_slice(&scratch.z[i * dim..][..dim]);
        }
    }

    /// Adds the set to a checkpoint.
    pub fn save<'a>(&'a self, name: &str, to: &mut Saver<'a>) {
        to.f32s(&format!("replay/{name}.states"), &self.states, self.obs);
        to.f32s(&format!("replay/{name}.executed"), &self.executed, self.obs + self.dim);
        to.json(&format!("{name}.next"), &[self.next_state, self.next_executed]);
    }
    /// Reads it back.
    pub fn load(&mut self, name: &str, from: &Loader) -> Result<()> {
        self.states = from.f32s(&format!("replay/{name}.states"))?;
        self.executed = from.f32s(&format!("replay/{name}.executed"))?;
        [self.next_state, self.next_executed] = from.json(&format!("{name}.next"))?;
        Ok(())
    }
}

/// Appends a row, or overwrites the oldest.
fn ring(rows: &mut Vec<f32>, next: &mut usize, capacity: usize, parts: &[&[f32]]) {
    let width: usize = parts.iter().map(|p| p.len()).sum();
    if rows.len() < capacity * width {
        parts.iter().for_each(|p| rows.extend_from_slice(p));
        return;
    }
    let mut at = *next * width;
    for part in parts {
        rows[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    *next = (*next + 1) % capacity;
}

/// Buffers of [`Pairs::sample`].
#[derive(Clone, Debug, Default)]
pub struct PairScratch {
    rows: Vec<usize>,
    states: Vec<f32>,
    noise: Vec<f32>,
    z: Vec<f32>,
    tape: Tape,
}

/// D^p and D^u out of the demonstrations, as section 4.1.1 says: positive are the pairs at steps with a violation within the
/// next H (or more, with [`RiskConfig::relabel`]); all other pairs are unlabelled.
///
/// Of the episodes whose number `keep` holds; `encoded` is of [`encode_episodes`].
pub fn demonstration_pairs(
    demos: &Demonstrations,
    encoded: &[Vec<f32>],
    skills: &SkillModel,
    config: &RiskConfig,
    keep: impl Fn(usize) -> bool,
) -> (Pairs, Pairs) {
    let (horizon, dim) = (skills.config().horizon, skills.config().dim);
    let mut sets = [(); 2].map(|()| Pairs::new(demos.obs_dim, dim, config.capacity));
    let mut state = vec![0.0; demos.obs_dim];
    let mut labels = demos.states_with_violation_ahead(horizon * (1 + config.relabel)).map(|(_, positive)| positive);
    for (episode, trajectory) in demos.trajectories().iter().enumerate() {
        let mut played = encoded[episode].chunks_exact(dim);
        for (t, positive) in (0..trajectory.steps()).zip(&mut labels) {
            let z = played.next();
            if !keep(episode) {
                continue;
            }
            skills.standardiser.apply(demos.state(episode, t), &mut state);
            let set = &mut sets[usize::from(!positive)];
            set.push_state(&state);
            z.into_iter().for_each(|z| set.push_executed(&state, z));
        }
    }
    let [positive, unlabelled] = sets;
    (positive, unlabelled)
}

/// Of every episode the skills that encode the H actions from each step on, as far as there are H; nothing unless
/// [`RiskConfig::encode_actions`] asks for them.
pub fn encode_episodes(demos: &Demonstrations, skills: &mut SkillModel, config: &RiskConfig) -> Vec<Vec<f32>> {
    let (horizon, dim) = (skills.config().horizon, skills.config().dim);
    let mut windows = Vec::new();
    let mut encode = |(episode, trajectory): (usize, &Trajectory)| {
        let whole = (trajectory.steps() + 1).saturating_sub(horizon);
        if whole == 0 || !config.encode_actions {
            return Vec::new();
        }
        // Of windows that begin one step apart, the k-th actions are one slice.
        windows.clear();
        (0..horizon).for_each(|k| windows.extend_from_slice(demos.actions(episode, k, whole)));
        let heads = skills.encode(&windows, whole, horizon);
        heads.chunks_exact(2 * dim).flat_map(|head| &head[..dim]).copied().collect()
    };
    demos.trajectories().iter().enumerate().map(&mut encode).collect()
}

/// P_ζ(c | s, z) and what trains it.
#[derive(Clone, Debug)]
pub struct RiskPredictor {
    config: RiskConfig,
    obs: usize,
    dim: usize,
    model: Model,
    /// λ.
    pub class_prior: f64,
    scratch: Scratch,
}

#[derive(Clone, Debug, Default)]
struct Scratch {
    tape: Tape,
    input: Vec<f32>,
    d: Vec<f32>,
    pairs: PairScratch,
    first: Vec<f32>,
    hidden: [Vec<f32>; 2],
}

impl RiskPredictor {
    /// A fresh predictor.
    pub fn new(config: RiskConfig, obs: usize, dim: usize, rng: &mut Rng) -> Self {
        let model = Model::new(&[obs + dim, config.width, config.width, 1], config.rate as f32, rng);
        let class_prior = if config.class_prior > 0.0 { config.class_prior } else { config.fallback_class_prior };
        Self { config, obs, dim, model, class_prior, scratch: Scratch::default() }
    }

    /// Its settings.
    pub fn config(&self) -> &RiskConfig {
        &self.config
    }
    /// The network on `[s, z]`, standardised states: a logit.
    pub fn net(&self) -> &Mlp {
        &self.model.net
    }

    #[cfg(test)]
    pub(super) fn set_params(&mut self, params: &[f32]) {
        self.model.net.params.copy_from_slice(params);
    }

    /// Logits of rows `[s, z]`.
    pub fn logits(&mut self, rows: &[f32]) -> &[f32] {
        let n = rows.len() / (self.obs + self.dim);
        self.model.net.forward(rows, n, &mut self.scratch.tape)
    }

    /// Logits of many skills in one state: what the planner asks. The state's part of the first layer is computed once.
    pub fn score(&mut self, state: &[f32], skills: &[f32], out: &mut [f32]) {
        let (n, width, dim) = (out.len(), self.config.width, self.dim);
        let params = &self.model.net.params;
        let (w1, rest) = params.split_at((self.obs + dim) * width);
        let (b1, rest) = rest.split_at(width);
        let (w2, rest) = rest.split_at(width * width);
        let (b2, rest) = rest.split_at(width);
        let (w3, b3) = rest.split_at(width);
        let s = &mut self.scratch;
        s.first.resize(width, 0.0);
        s.first.copy_from_slice(b1);
        linalg::add_ab(&mut s.first, state, &w1[..self.obs * width], 1, self.obs, width);
        let [one, two] = &mut s.hidden;
        one.resize(n * width, 0.0);
        two.resize(n * width, 0.0);
        linalg::ab(one, skills, &w1[self.obs * width..], n, dim, width);
        relu(one, &s.first);
        linalg::ab(two, one, w2, n, width, width);
        relu(two, b2);
        linalg::ab(out, two, w3, n, width, 1);
        out.iter_mut().for_each(|o| *o += b3[0]);
    }

    /// One update on minibatches of both sets (Algorithm 2, line 18).
    pub fn update(&mut self, positive: &Pairs, unlabelled: &Pairs, skills: &SkillModel, rng: &mut Rng) -> PuTerms {
        let (kind, prior, slack) = (self.config.loss, self.class_prior, self.config.slack);
        self.learn(positive, unlabelled, skills, rng, |p, u, d_p, d_u| pu_loss(kind, p, u, prior, slack, d_p, d_u))
    }

    /// One update as a plain classifier of labelled against unlabelled pairs, in the proportion in which there are both: its
    /// probability is P(labelled | pair), what the estimators of λ need.
    pub fn update_as_classifier(&mut self, positive: &Pairs, unlabelled: &Pairs, skills: &SkillModel, rng: &mut Rng) {
        let share = positive.len() as f64 / (positive.len() + unlabelled.len()) as f64;
        self.learn(positive, unlabelled, skills, rng, |p, u, d_p, d_u| {
            let (scale_p, scale_u) = (share as f32 / p.len() as f32, (1.0 - share) as f32 / u.len() as f32);
            d_p.iter_mut().zip(p).for_each(|(d, f)| *d = -scale_p * sigmoid(-f));
            d_u.iter_mut().zip(u).for_each(|(d, f)| *d = scale_u * sigmoid(*f));
            PuTerms { loss: share * positive_loss(p) + (1.0 - share) * negative_loss(u), binds: false }
        });
    }

    /// Probabilities of up to 4000 pairs of a set, drawn as in training.
    pub fn scores(&mut self, pairs: &Pairs, skills: &SkillModel, rng: &mut Rng) -> Vec<f64> {
        let n = pairs.len().min(4000);
        let mut rows = vec![0.0; n * (self.obs + self.dim)];
        pairs.sample(n, false, skills, rng, &mut PairScratch::default(), &mut rows);
        self.logits(&rows).iter().map(|f| f64::from(sigmoid(*f))).collect()
    }

    /// Probabilities of every pair of a set once, skills of the prior drawn anew.
    pub fn scores_of_all(&mut self, pairs: &Pairs, skills: &SkillModel, rng: &mut Rng) -> Vec<f64> {
        let (mut tape, mut all) = (Tape::default(), Vec::with_capacity(pairs.len()));
        let (mut noise, mut z) = (vec![0.0; self.dim], vec![0.0; self.dim]);
        let mut row = vec![0.0; self.obs + self.dim];
        for state in pairs.states.chunks_exact(self.obs) {
            rng.fill_normal(&mut noise);
            gaussian::sample(skills.prior(state, 1, &mut tape), &noise, self.dim, &mut z);
            row[..self.obs].copy_from_slice(state);
            row[self.obs..].copy_from_slice(&z);
            all.push(f64::from(sigmoid(self.logits(&row)[0])));
        }
        for row in pairs.executed.chunks_exact(self.obs + self.dim) {
            all.push(f64::from(sigmoid(self.logits(row)[0])));
        }
        all
    }

    fn learn(
        &mut self,
        positive: &Pairs,
        unlabelled: &Pairs,
        skills: &SkillModel,
        rng: &mut Rng,
        loss: impl FnOnce(&[f32], &[f32], &mut [f32], &mut [f32]) -> PuTerms,
    ) -> PuTerms {
        let (n, both) = (self.config.batch, self.obs + self.dim);
        let s = &mut self.scratch;
        s.input.resize(2 * n * both, 0.0);
        s.d.resize(2 * n, 0.0);
        let (p, u) = s.input.split_at_mut(n * both);
        positive.sample(n, self.config.executed_half, skills, rng, &mut s.pairs, p);
        unlabelled.sample(n, self.config.executed_half, skills, rng, &mut s.pairs, u);
        let logits = self.model.net.forward(&s.input, 2 * n, &mut s.tape);
        let (d_p, d_u) = s.d.split_at_mut(n);
        let terms = loss(&logits[..n], &logits[n..], d_p, d_u);
        self.model.net.backward(&s.input, 2 * n, &mut s.tape, &s.d, Some(&mut self.model.grad), None);
        let decay = self.config.weight_decay as f32;
        self.model.grad.iter_mut().zip(&self.model.net.params).for_each(|(g, w)| *g += decay * w);
        self.model.step();
        terms
    }

    /// Adds the predictor to a checkpoint.
    pub fn save<'a>(&'a self, to: &mut Saver<'a>) {
        self.model.save("policy/risk", to);
        to.json("risk.class_prior", &self.class_prior);
    }
    /// Reads it back.
    pub fn load(&mut self, from: &Loader) -> Result<()> {
        self.model.load("policy/risk", from)?;
        self.class_prior = from.json("risk.class_prior")?;
        Ok(())
    }
    /// Reads back what acting needs.
    pub fn load_policy(&mut self, from: &Loader) -> Result<()> {
        from.f32s_into("policy/risk", &mut self.model.net.params)
    }
}

fn relu(rows: &mut [f32], bias: &[f32]) {
    for row in rows.chunks_exact_mut(bias.len()) {
        for (y, b) in row.iter_mut().zip(bias) {
            *y = (*y + b).max(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::skill::SkillConfig;
    use super::*;
    use sskp_blocks::demos::Ending;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-5
    }

    #[test]
    fn eq_1_and_3_by_hand() {
        // P = σ(0) = 1/2 and σ(ln 3) = 3/4: L¹ = (ln 2 + ln 4/3)/2, L⁰ = (ln 2 + ln 4)/2.
        let logits = [0.0, 3.0f32.ln()];
        assert!(close(positive_loss(&logits), (2.0f64.ln() + (4.0f64 / 3.0).ln()) / 2.0));
        assert!(close(negative_loss(&logits), (2.0f64.ln() + 4.0f64.ln()) / 2.0));
    }

    #[test]
    fn eq_2_and_4_by_hand() {
        let (mut dp, mut du) = ([0.0], [0.0]);
        // Logits 0: L¹ = L⁰ = ln 2. λ = 0.1: 0.1·ln 2 + max(0, ln 2 − 0.1·ln 2) = ln 2.
        let terms = pu_loss(PuLoss::Paper, &[0.0], &[0.0], 0.1, 0.0, &mut dp, &mut du);
        assert!(close(terms.loss, 2.0f64.ln()) && !terms.binds);
        // Positives far up, unlabelled far down: L⁰(U) − λ·L⁰(P) = 0.0486 − 0.5·3.0486 < 0: the maximum binds at −ξ.
        let terms = pu_loss(PuLoss::Paper, &[3.0], &[-3.0], 0.5, 0.2, &mut dp, &mut du);
        assert!(terms.binds && close(terms.loss, 0.5 * 0.048_587_35 - 0.2), "{terms:?}");
        assert_eq!(du, [0.0], "where the maximum binds the unlabelled have no gradient");
        let free = pu_loss(PuLoss::Unbiased, &[3.0], &[-3.0], 0.5, 0.2, &mut dp, &mut du);
        assert!(close(free.loss, 0.5 * 0.048_587_35 + 0.048_587_35 - 0.5 * 3.048_587_35), "{free:?}");
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        // One case where the maximum is inactive, one where it binds.
        for (positive, unlabelled, prior) in
            [([0.3f32, -0.7], [0.2f32, 1.1, -0.4], 0.2), ([2.0, 1.5], [-2.0, -1.0, -3.0], 0.6)]
        {
            for kind in [PuLoss::Paper, PuLoss::Unbiased] {
                let value = |p: &[f32], u: &[f32]| pu_loss(kind, p, u, prior, 0.0, &mut [0.0; 2], &mut [0.0; 3]).loss;
                let (mut dp, mut du) = ([0.0; 2], [0.0; 3]);
                pu_loss(kind, &positive, &unlabelled, prior, 0.0, &mut dp, &mut du);
                let h = 1e-2f32;
                for i in 0..2 {
                    let (mut up, mut down) = (positive, positive);
                    up[i] += h;
                    down[i] -= h;
                    let expected = (value(&up, &unlabelled) - value(&down, &unlabelled)) / (2.0 * f64::from(h));
                    assert!((expected - f64::from(dp[i])).abs() < 1e-4, "{kind:?} positive {i}");
                }
                for i in 0..3 {
                    let (mut up, mut down) = (unlabelled, unlabelled);
                    up[i] += h;
                    down[i] -= h;
                    let expected = (value(&positive, &up) - value(&positive, &down)) / (2.0 * f64::from(h));
                    assert!((expected - f64::from(du[i])).abs() < 1e-4, "{kind:?} unlabelled {i}");
                }
            }
        }
    }

    #[test]
    fn kiryos_step_only_raises_the_negative_part() {
        let (mut dp, mut du) = ([0.0], [0.0]);
        let terms = pu_loss(PuLoss::Kiryo, &[3.0], &[-3.0], 0.5, 0.0, &mut dp, &mut du);
        assert!(terms.binds);
        // Descending these must lower the positive's logit and raise the unlabelled one's.
        assert!(dp[0] > 0.0 && du[0] < 0.0);
    }

    fn small_skills(obs: usize) -> SkillModel {
        let config =
            SkillConfig { hidden: 8, prior_width: 8, prior_layers: 1, dim: 3, horizon: 2, ..Default::default() };
        SkillModel::new(config, obs, 1, &mut Rng::stream(0, "skills"))
    }

    /// States x in [−1, 1]; labelled positives have x > 0.6, and a tenth of the unlabelled do.
    fn line(n: usize, rng: &mut Rng, skills: &SkillModel) -> (Pairs, Pairs) {
        let dim = skills.config().dim;
        let (mut p, mut u) = (Pairs::new(1, dim, 10_000), Pairs::new(1, dim, 10_000));
        for i in 0..n {
            p.push_state(&[rng.uniform(0.6, 1.0) as f32]);
            for j in 0..5 {
                let x = if (i * 5 + j) % 10 == 0 { rng.uniform(0.6, 1.0) } else { rng.uniform(-1.0, 0.6) };
                u.push_state(&[x as f32]);
            }
        }
        (p, u)
    }

    #[test]
    fn it_learns_which_states_are_risky_from_positives_and_unlabelled() {
        let mut rng = Rng::stream(1, "pu");
        let skills = small_skills(1);
        let (p, u) = line(400, &mut rng, &skills);
        let config = RiskConfig { width: 32, rate: 1e-3, class_prior: 0.1, ..Default::default() };
        let mut risk = RiskPredictor::new(config, 1, 3, &mut rng);
        for _ in 0..1500 {
            risk.update(&p, &u, &skills, &mut rng);
        }
        let mut probability = |x: f32| f64::from(sigmoid(risk.logits(&[x, 0.0, 0.0, 0.0])[0]));
        // λ·p_P/p_U is 1 above 0.6 and 0 below.
        assert!(probability(0.9) > 0.8, "{}", probability(0.9));
        assert!(probability(0.0) < 0.1 && probability(-0.8) < 0.1, "{} {}", probability(0.0), probability(-0.8));
    }

    #[test]
    fn the_planners_scores_are_the_networks_logits() {
        let mut rng = Rng::stream(2, "score");
        let mut risk = RiskPredictor::new(RiskConfig { width: 16, ..Default::default() }, 4, 3, &mut rng);
        let (mut state, mut skills, mut scores) = ([0.0; 4], [0.0; 3 * 7], [0.0; 7]);
        rng.fill_normal(&mut state);
        rng.fill_normal(&mut skills);
        risk.score(&state, &skills, &mut scores);
        let rows: Vec<f32> = skills.chunks_exact(3).flat_map(|z| [&state[..], z].concat()).collect();
        for (a, b) in scores.iter().zip(risk.logits(&rows)) {
            assert!((a - b).abs() < 1e-5);
        }
    }

    fn pairs_of(demos: &Demonstrations, skills: &mut SkillModel, config: &RiskConfig) -> (Pairs, Pairs) {
        let encoded = encode_episodes(demos, skills, config);
        demonstration_pairs(demos, &encoded, skills, config, |_| true)
    }

    #[test]
    fn demonstrations_give_positives_within_h_of_a_violation() {
        let mut demos = Demonstrations::new("toy", 1, 1);
        let push = |demos: &mut Demonstrations, steps: usize, end: Ending| {
            let mut costs = vec![0.0; steps];
            if end == Ending::Violation {
                costs[steps - 1] = 1.0;
            }
            let observations = (0..=steps).map(|t| t as f32).collect();
            let (actions, rewards) = ((0..steps).map(|t| 0.1 * t as f32).collect(), vec![0.0; steps]);
            demos.push(Trajectory { observations, actions, rewards, costs, end }).unwrap();
        };
        push(&mut demos, 5, Ending::Violation);
        push(&mut demos, 4, Ending::Truncated);
        let mut skills = small_skills(1); // H = 2
        let (p, u) = pairs_of(&demos, &mut skills, &RiskConfig::default());
        // Steps 3 and 4 of the first episode see the violation (at step 4) within two steps; the other seven do not.
        assert_eq!((p.len(), u.len()), (2, 7));
        let encoded = RiskConfig { encode_actions: true, ..Default::default() };
        let (p, u) = pairs_of(&demos, &mut skills, &encoded);
        // Whole skills begin at steps 0 to 3 and 0 to 2; the one at step 3 of the first episode violates.
        assert_eq!((p.executed_pairs(), u.executed_pairs()), (1, 6));
        let mut long =
            SkillModel::new(SkillConfig { horizon: 9, ..skills.config().clone() }, 1, 1, &mut Rng::stream(0, "skills"));
        let (p9, u9) = pairs_of(&demos, &mut long, &encoded);
        assert_eq!((p9.executed_pairs(), u9.executed_pairs(), p9.len() + u9.len()), (0, 0, 9), "too short to encode");
        assert_eq!((p.prior_pairs(), u.prior_pairs()), (2, 7));
        let alone = skills.encode(demos.actions(0, 3, 2), 1, 2)[..3].to_vec();
        assert!(p.executed[1..].iter().zip(&alone).all(|(a, b)| (a - b).abs() < 1e-6), "{:?} {alone:?}", p.executed);
        // With the skill before it counted too, four steps see it.
        let relabelled = RiskConfig { relabel: 1, ..Default::default() };
        let (p, u) = pairs_of(&demos, &mut skills, &relabelled);
        assert_eq!((p.len(), u.len()), (4, 5));
        // The first episode alone, and the second: 2 + 3 and 0 + 4 steps.
        let encoded = encode_episodes(&demos, &mut skills, &encoded);
        for (episode, positive, unlabelled) in [(0, 2 + 1, 3 + 3), (1, 0, 4 + 3)] {
            let (p, u) = demonstration_pairs(&demos, &encoded, &skills, &RiskConfig::default(), |e| e == episode);
            assert_eq!((p.len(), u.len()), (positive, unlabelled), "episode {episode}");
        }
    }

    #[test]
    fn a_full_set_overwrites_its_oldest_pairs() {
        let mut pairs = Pairs::new(1, 1, 3);
        for i in 0..5 {
            pairs.push_executed(&[i as f32], &[-(i as f32)]);
        }
        assert_eq!(pairs.executed_pairs(), 3);
        let mut states: Vec<f32> = pairs.executed.chunks_exact(2).map(|r| r[0]).collect();
        states.sort_by(f32::total_cmp);
        assert_eq!(states, [2.0, 3.0, 4.0]);
    }
}

//! The skill risk predictor of section 4.1.1: P_ζ(c | s, z), learnt from positive and unlabelled pairs.

use sskp_blocks::Result;
use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::nets::smooth::sigmoid;
use sskp_blocks::nets::{Mlp, Model, Tape, gaussian, linalg};
use sskp_blocks::rng::Rng;

use super::config::RiskConfig;
use super::pairs::{PairScratch, Pairs};
use super::pu_loss::{PuTerms, negative_loss, positive_loss, pu_loss};
use super::skill::SkillModel;

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
    use super::super::pairs::tests::small_skills;
    use super::*;

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
}

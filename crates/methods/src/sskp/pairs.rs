//! The pairs of section 4.1.1 that the risk predictor learns from: D^p and D^u, from demonstrations and from online skills.
//!
//! An executed skill z_t gives its own pair, and one for every state that it passed through, with a skill of the prior (Eq. 7):
//!
//! ```math
//! (s_t, z_t), \quad (s_{t+1}, z_{t+1}), \dots, (s_{t+H-1}, z_{t+H-1}), \qquad z_{t+i} \sim q_\psi(\cdot \mid s_{t+i}).
//! ```
//!
//! All go to D^p if it violated, else to D^u.

use sskp_blocks::Result;
use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::demos::{Demonstrations, Trajectory};
use sskp_blocks::nets::{Tape, gaussian};
use sskp_blocks::rng::Rng;

use super::config::{RiskConfig, SkillConfig};
use super::skill::SkillModel;

/// D^p or D^u: states whose skill is drawn anew from the prior whenever they are sampled, and executed pairs, whose skill is
/// what was played (or encoded). States are standardised.
#[derive(Clone, Debug)]
pub struct Pairs {
    obs: usize,
    dim: usize,
    capacity: usize,
    pub(super) states: Vec<f32>,
    next_state: usize,
    pub(super) executed: Vec<f32>,
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

/// Steps within which a violation makes a pair of the demonstrations positive: H, and as many more as skills before the violating one
/// are relabelled.
pub fn label_steps(skill: &SkillConfig, risk: &RiskConfig) -> usize {
    skill.horizon * (1 + risk.relabel)
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
    let dim = skills.config().dim;
    let mut sets = [(); 2].map(|()| Pairs::new(demos.obs_dim, dim, config.capacity));
    let mut state = vec![0.0; demos.obs_dim];
    let ahead = label_steps(skills.config(), config);
    let mut labels = demos.states_with_violation_ahead(ahead).map(|(_, positive)| positive);
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use sskp_blocks::demos::Ending;

    /// A model of skills of two steps, three numbers each, for a robot with one action.
    pub fn small_skills(obs: usize) -> SkillModel {
        let config =
            SkillConfig { hidden: 8, prior_width: 8, prior_layers: 1, dim: 3, horizon: 2, ..Default::default() };
        SkillModel::new(config, obs, 1, &mut Rng::stream(0, "skills"))
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
        let printed = RiskConfig { encode_actions: false, relabel: 0, ..Default::default() };
        let (p, u) = pairs_of(&demos, &mut skills, &printed);
        // Steps 3 and 4 of the first episode see the violation (at step 4) within two steps; the other seven do not.
        assert_eq!((p.len(), u.len()), (2, 7));
        let encoded = RiskConfig { encode_actions: true, ..printed.clone() };
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
        let relabelled = RiskConfig { relabel: 1, ..printed.clone() };
        let (p, u) = pairs_of(&demos, &mut skills, &relabelled);
        assert_eq!((p.len(), u.len()), (4, 5));
        // The first episode alone, and the second: 2 + 3 and 0 + 4 steps.
        let encoded = encode_episodes(&demos, &mut skills, &encoded);
        for (episode, positive, unlabelled) in [(0, 2 + 1, 3 + 3), (1, 0, 4 + 3)] {
            let (p, u) = demonstration_pairs(&demos, &encoded, &skills, &printed, |e| e == episode);
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

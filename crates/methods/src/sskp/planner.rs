//! Risk planning: Algorithm 1 with Eq. 5 and 6, naive planning and none (section 5.3).

use serde::{Deserialize, Serialize};
use sskp_blocks::nets::gaussian::log_std;
use sskp_blocks::rng::Rng;

/// How a skill is chosen from the policy's Gaussian.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Planning {
    /// Algorithm 1: SSkP.
    #[default]
    Risk,
    /// The least risky of N_s samples, in one round: SSkP-NP.
    Naive,
    /// A sample of the policy: SSkP-w/o-RP.
    Off,
}

/// Settings of the planner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannerConfig {
    /// Which of the three. The method's name says it, so it is no setting that could say otherwise.
    #[serde(skip)]
    pub planning: Planning,
    /// N_s, skills per round. Section 5.1.
    pub samples: usize,
    /// k, skills kept per round. Section 5.1.
    pub elites: usize,
    /// N_p, rounds. Section 5.1.
    pub iterations: usize,
    /// Start from the prior q_ψ, as the box of Algorithm 1 says, instead of the policy π_θ, as the text of section 4.2.1
    /// and Algorithm 2 say. From the prior the policy would never influence what is done.
    pub from_prior: bool,
    /// Least σ of a refitted Gaussian: keeps a collapsed dimension defined.
    pub min_std: f64,
    /// Skills are kept within this many σ of the policy's mean; 0 keeps them in the box alone, as the paper reads. A search
    /// without this bound finds skills that neither the policy nor the demonstrations know, where the predicted risk means
    /// nothing.
    pub near_policy: f64,
    /// Predicted risks up to this count as equal; 0 ranks all, as the paper does. Where nothing is risky the order of tiny
    /// numbers says nothing, and following it would take the choice from the policy.
    pub tolerance: f64,
}

impl Default for PlannerConfig {
    fn default() -> Self {
        Self {
            planning: Planning::Risk,
            samples: 512,
            elites: 64,
            iterations: 6,
            from_prior: false,
            min_std: 1e-6,
            near_policy: 0.0,
            tolerance: 0.0,
        }
    }
}

/// A diagonal Gaussian over skills.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gaussian {
    /// μ.
    pub mean: Vec<f32>,
    /// σ.
    pub std: Vec<f32>,
}

impl Gaussian {
    /// Becomes the Gaussian of a network's head `[mean, log σ]`.
    pub fn read(&mut self, head: &[f32]) {
        let (mean, raw) = head.split_at(head.len() / 2);
        self.mean.clear();
        self.mean.extend_from_slice(mean);
        self.std.clear();
        self.std.extend(raw.iter().map(|r| log_std(*r).exp()));
    }

    /// Draws rows of skills, each coordinate kept between `low` and `high`.
    fn sample(&self, low: &[f32], high: &[f32], rng: &mut Rng, out: &mut [f32]) {
        rng.fill_normal(out);
        for row in out.chunks_exact_mut(self.mean.len()) {
            for (i, z) in row.iter_mut().enumerate() {
                *z = (self.mean[i] + self.std[i] * *z).clamp(low[i], high[i]);
            }
        }
    }
}

/// The planner with its buffers.
#[derive(Clone, Debug)]
pub struct Planner {
    /// Its settings.
    pub config: PlannerConfig,
    /// Skills are kept inside ± this, coordinate by coordinate: an unbounded search runs far out of what the decoder was
    /// trained on, since any direction in which the predicted risk falls is followed without end.
    pub bound: Vec<f32>,
    low: Vec<f32>,
    high: Vec<f32>,
    skills: Vec<f32>,
    scores: Vec<f32>,
    order: Vec<u32>,
}

impl Planner {
    /// A planner of skills inside ±`bound`.
    pub fn new(config: PlannerConfig, bound: Vec<f32>) -> Self {
        Self {
            config,
            bound,
            low: Vec::new(),
            high: Vec::new(),
            skills: Vec::new(),
            scores: Vec::new(),
            order: Vec::new(),
        }
    }

    /// Chooses a skill. `score` fills in a number per skill that grows with its risk (the logit of P_ζ: unlike the
    /// probability it does not saturate into ties); `seen` is shown every Gaussian, the first included.
    pub fn plan(
        &mut self,
        policy: &Gaussian,
        mut score: impl FnMut(&[f32], &mut [f32]),
        rng: &mut Rng,
        mut seen: impl FnMut(&Gaussian),
    ) -> Vec<f32> {
        let dim = policy.mean.len();
        let mut skill = vec![0.0; dim];
        let n = self.config.samples;
        self.limit(policy);
        let tolerance = self.config.tolerance as f32;
        let least = (tolerance / (1.0 - tolerance)).ln(); // −∞ at 0
        let mut score = |skills: &[f32], out: &mut [f32]| {
            score(skills, out);
            // Not f32::max, which would turn a score that is no number into a safe one.
            out.iter_mut().for_each(|logit| *logit = if *logit < least { least } else { *logit });
        };
        let mut gaussian = policy.clone();
        seen(&gaussian);
        match self.config.planning {
            Planning::Off => {}
            Planning::Naive => {
                self.skills.resize(n * dim, 0.0);
                self.scores.resize(n, 0.0);
                gaussian.sample(&self.low, &self.high, rng, &mut self.skills);
                score(&self.skills, &mut self.scores);
                let best = (0..n).min_by(|&a, &b| rank(self.scores[a], self.scores[b])).expect("samples");
                skill.copy_from_slice(&self.skills[best * dim..][..dim]);
                return skill;
            }
            Planning::Risk => {
                self.skills.resize(n * dim, 0.0);
                self.scores.resize(n, 0.0);
                // Line 1: for i = 1, 2, …, N_p.
                for _ in 0..self.config.iterations {
                    // Line 2: sample skills from N(μ_{i−1}, σ_{i−1}²).
                    gaussian.sample(&self.low, &self.high, rng, &mut self.skills);
                    // Line 3: p_j = P_ζ(c = 1 | s_t, z^j).
                    score(&self.skills, &mut self.scores);
                    // Line 4: μ_i, σ_i² of the k skills with the lowest risk.
                    self.refit(&mut gaussian);
                    seen(&gaussian);
                }
            }
        }
        // Line 6: sample z_t from N(μ_{N_p}, σ_{N_p}²).
        gaussian.sample(&self.low, &self.high, rng, &mut skill);
        skill
    }

    /// Draws rows of skills from a Gaussian, kept where those of the last plan were kept.
    pub fn draw(&self, gaussian: &Gaussian, rng: &mut Rng, out: &mut [f32]) {
        gaussian.sample(&self.low, &self.high, rng, out);
    }

    /// Where skills may lie in this state: the box, and near the policy if asked.
    fn limit(&mut self, policy: &Gaussian) {
        let reach = self.config.near_policy as f32;
        self.low.clear();
        self.high.clear();
        for (i, bound) in self.bound.iter().enumerate() {
            let (mut low, mut high) = (-bound, *bound);
            if reach > 0.0 {
                let (mean, std) = (policy.mean[i].clamp(low, high), policy.std[i]);
                (low, high) = (low.max(mean - reach * std), high.min(mean + reach * std));
            }
            self.low.push(low);
            self.high.push(high);
        }
    }

    /// Eq. 5 and 6: mean and (1/k) variance of the k lowest scores.
    fn refit(&mut self, gaussian: &mut Gaussian) {
        let dim = gaussian.mean.len();
        let k = self.config.elites;
        self.order.clear();
        self.order.extend(0..self.scores.len() as u32);
        let scores = &self.scores;
        // Ties keep the order they were drawn in, so that a constant risk gives the same elites everywhere.
        self.order.select_nth_unstable_by(k - 1, |&a, &b| rank(scores[a as usize], scores[b as usize]).then(a.cmp(&b)));
        // The selection's order inside the k is unspecified; sums must not depend on it.
        self.order[..k].sort_unstable();
        let elites = || self.order[..k].iter().map(|&j| &self.skills[j as usize * dim..][..dim]);
        for i in 0..dim {
            let mean = elites().map(|z| f64::from(z[i])).sum::<f64>() / k as f64;
            let variance = elites().map(|z| (f64::from(z[i]) - mean).powi(2)).sum::<f64>() / k as f64;
            gaussian.mean[i] = mean as f32;
            gaussian.std[i] = (variance.sqrt() as f32).max(self.config.min_std as f32);
        }
    }
}

/// Lower first; a score that is no number counts as the riskiest of all.
fn rank(a: f32, b: f32) -> std::cmp::Ordering {
    let key = |x: f32| if x.is_nan() { f32::INFINITY } else { x };
    key(a).total_cmp(&key(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planner(config: PlannerConfig, dim: usize) -> Planner {
        Planner::new(config, vec![100.0; dim])
    }

    fn start(dim: usize) -> Gaussian {
        Gaussian { mean: vec![0.0; dim], std: vec![1.0; dim] }
    }

    #[test]
    fn eq_5_and_6_divide_by_k() {
        let mut planner = planner(PlannerConfig { samples: 4, elites: 2, ..Default::default() }, 1);
        planner.skills = vec![5.0, 1.0, 9.0, 2.0];
        planner.scores = vec![3.0, 0.1, 4.0, 0.2];
        let mut g = start(1);
        planner.refit(&mut g);
        // The two lowest scores are skills 1 and 2: mean 1.5, variance (0.25 + 0.25)/2.
        assert_eq!((g.mean[0], g.std[0]), (1.5, 0.5));
    }

    #[test]
    fn ties_nan_scores_and_a_collapsed_variance_are_defined() {
        let config = PlannerConfig { samples: 3, elites: 2, ..Default::default() };
        let mut planner = planner(config, 1);
        planner.skills = vec![1.0, 2.0, 3.0];
        let mut g = start(1);
        planner.scores = vec![0.0; 3];
        planner.refit(&mut g);
        assert_eq!(g.mean[0], 1.5, "ties keep the order of drawing");
        planner.scores = vec![f32::NAN, 7.0, 8.0];
        planner.refit(&mut g);
        assert_eq!(g.mean[0], 2.5, "no number is the worst number");
        planner.skills = vec![4.0; 3];
        planner.refit(&mut g);
        assert_eq!((g.mean[0], g.std[0]), (4.0, 1e-6));
    }

    #[test]
    fn more_iterations_give_safer_skills_and_naive_planning_lies_between() {
        // A quadratic risk in ten dimensions, least at 1: the mean risk of the chosen skill over many plans.
        let mean_risk = |planning, iterations| {
            let config = PlannerConfig { planning, iterations, ..Default::default() };
            let mut planner = planner(config, 10);
            let mut rng = Rng::stream(0, "plan");
            let risk = |z: &[f32]| z.iter().map(|x| (x - 1.0).powi(2)).sum::<f32>();
            let mut total = 0.0;
            for _ in 0..50 {
                let z = planner.plan(
                    &start(10),
                    |skills, scores| {
                        for (z, s) in skills.chunks_exact(10).zip(scores) {
                            *s = risk(z);
                        }
                    },
                    &mut rng,
                    |_| (),
                );
                total += risk(&z) / 50.0;
            }
            total
        };
        let risks = [0, 1, 2, 4, 6].map(|n| mean_risk(Planning::Risk, n));
        assert!(risks.windows(2).all(|w| w[1] < w[0]), "{risks:?}");
        assert!(risks[0] > 15.0 && risks[4] < 0.5, "{risks:?}");
        let naive = mean_risk(Planning::Naive, 6);
        assert!(naive < risks[1] && naive > risks[4], "naive {naive}, {risks:?}");
        let off = mean_risk(Planning::Off, 6);
        assert!((off - risks[0]).abs() < 3.0, "off {off}");
    }

    #[test]
    fn skills_stay_inside_the_box_and_near_the_policy_if_asked() {
        for (near_policy, furthest) in [(0.0, 2.0), (0.5, 0.5)] {
            let config = PlannerConfig { near_policy, ..Default::default() };
            let mut planner = Planner::new(config, vec![2.0; 10]);
            let mut rng = Rng::stream(0, "box");
            for _ in 0..5 {
                // A risk that falls along one direction for ever.
                let z = planner.plan(
                    &start(10),
                    |skills, scores| {
                        for (z, s) in skills.chunks_exact(10).zip(scores) {
                            *s = -z.iter().sum::<f32>();
                        }
                    },
                    &mut rng,
                    |_| (),
                );
                assert!(z.iter().all(|x| x.abs() <= furthest), "{z:?}");
                assert!(z.iter().sum::<f32>() > 7.0 * furthest, "it goes as far as it may: {z:?}");
            }
        }
    }

    #[test]
    fn risks_within_the_tolerance_leave_the_policy_its_choice() {
        // The logit falls along z; within the tolerance nothing pulls, above it the planner moves away.
        let mean = |tolerance, offset: f32, lost: bool| {
            let mut planner = planner(PlannerConfig { tolerance, ..Default::default() }, 1);
            let mut rng = Rng::stream(0, "tolerance");
            let mut total = 0.0;
            for _ in 0..40 {
                let score = |skills: &[f32], scores: &mut [f32]| {
                    scores.iter_mut().zip(skills).for_each(|(s, z)| *s = offset - z);
                    if lost {
                        scores.iter_mut().zip(skills).filter(|(_, z)| **z > 0.0).for_each(|(s, _)| *s = f32::NAN);
                    }
                };
                total += planner.plan(&start(1), score, &mut rng, |_| ())[0] / 40.0;
            }
            total
        };
        assert!(mean(0.0, -10.0, false) > 1.5, "the paper's planner follows the smallest slope");
        assert!(mean(0.05, -10.0, false).abs() < 0.5, "a risk of e^-10 is none");
        assert!(mean(0.05, 5.0, false) > 1.5, "a real risk is planned against");
        assert!(mean(0.05, -10.0, true) < 0.0, "no number is never a tolerable risk");
    }
}

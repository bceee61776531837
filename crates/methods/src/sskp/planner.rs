//! Risk planning: Algorithm 1, naive planning and none (section 5.3).
//!
//! In each round skills are drawn from N(μ_{i−1}, σ_{i−1}²), and the Gaussian is fitted anew to the k of them with the least risk P_ζ, Z_i:
//!
//! ```math
//! \mu_i = \frac{1}{k} \sum_{z \in Z_i} z \quad \text{(Eq. 5)}, \qquad
//! \sigma_i^2 = \frac{1}{k} \sum_{z \in Z_i} (z - \mu_i)^2 \quad \text{(Eq. 6)}.
//! ```

use sskp_blocks::nets::gaussian::log_std;
use sskp_blocks::rng::Rng;

use super::config::PlannerConfig;

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

    /// Multiplies σ.
    pub(crate) fn widen(&mut self, factor: f32) {
        self.std.iter_mut().for_each(|std| *std *= factor);
    }

    /// Draws rows of skills.
    fn sample(&self, rng: &mut Rng, out: &mut [f32]) {
        rng.fill_normal(out);
        for row in out.chunks_exact_mut(self.mean.len()) {
            for ((z, mean), std) in row.iter_mut().zip(&self.mean).zip(&self.std) {
                *z = mean + std * *z;
            }
        }
    }

    fn copy_from(&mut self, other: &Gaussian) {
        self.mean.clone_from(&other.mean);
        self.std.clone_from(&other.std);
    }
}

/// The planner with its buffers.
#[derive(Clone, Debug)]
pub struct Planner {
    /// Its settings.
    pub config: PlannerConfig,
    /// Skills are played, and judged, inside ± this, coordinate by coordinate: an unbounded search runs far out of what the decoder was
    /// trained on, since any direction in which the predicted risk falls is followed without end.
    pub bound: Vec<f32>,
    /// N(μ_i, σ_i²) of the last round.
    gaussian: Gaussian,
    /// The skills of a round as they were drawn, and inside the box.
    drawn: Vec<f32>,
    skills: Vec<f32>,
    scores: Vec<f32>,
    order: Vec<u32>,
    choice: bool,
}

impl Planner {
    /// A planner of skills inside ±`bound`.
    pub fn new(config: PlannerConfig, bound: Vec<f32>) -> Self {
        Self {
            config,
            bound,
            gaussian: Gaussian::default(),
            drawn: Vec::new(),
            skills: Vec::new(),
            scores: Vec::new(),
            order: Vec::new(),
            choice: false,
        }
    }

    /// Chooses a skill. `score` fills in a number per skill that grows with its risk (the logit of P_ζ: unlike the
    /// probability it does not saturate into ties); `seen` is shown every Gaussian, the first included.
    pub fn plan(
        &mut self,
        policy: &Gaussian,
        score: impl FnMut(&[f32], &mut [f32]),
        rng: &mut Rng,
        seen: impl FnMut(&Gaussian),
    ) -> Vec<f32> {
        self.search(policy, score, rng, seen);
        // Line 6: sample z_t from N(μ_{N_p}, σ_{N_p}²).
        let mut skill = vec![0.0; policy.mean.len()];
        self.draw(&self.gaussian, rng, &mut skill);
        skill
    }

    /// The choice without chance: the mean of the last Gaussian, found with the same numbers in every state, so that it depends on the
    /// state alone.
    pub fn plan_mean(&mut self, policy: &Gaussian, score: impl FnMut(&[f32], &mut [f32])) -> Vec<f32> {
        let mut skill = vec![0.0; policy.mean.len()];
        self.plan_mean_into(policy, score, &mut skill);
        skill
    }

    /// The same, into an array that is there.
    pub fn plan_mean_into(&mut self, policy: &Gaussian, score: impl FnMut(&[f32], &mut [f32]), skill: &mut [f32]) {
        self.search(policy, score, &mut mean_rng(), |_| ());
        skill.copy_from_slice(&self.gaussian.mean);
        keep_inside(&self.bound, skill);
    }

    /// All numbers that [`Planner::plan_mean`] draws: rounds, rows and columns, and themselves.
    pub fn mean_noise(&self) -> ([usize; 3], Vec<f32>) {
        let rounds = match self.config.planning {
            Planning::Risk => self.config.iterations,
            Planning::Naive => 1,
            Planning::Off => 0,
        };
        let shape = [rounds, self.config.samples, self.bound.len()];
        let mut noise = vec![0.0; shape.iter().product()];
        mean_rng().fill_normal(&mut noise);
        (shape, noise)
    }

    /// Whether the last skill was chosen by its risk: skills of a round differed in it, by more than the tolerance.
    pub fn had_a_choice(&self) -> bool {
        self.choice
    }

    /// Lines 1–5 of Algorithm 1, or what stands in their place; leaves the Gaussian of the last line.
    fn search(
        &mut self,
        policy: &Gaussian,
        mut score: impl FnMut(&[f32], &mut [f32]),
        rng: &mut Rng,
        mut seen: impl FnMut(&Gaussian),
    ) {
        let dim = policy.mean.len();
        let (tolerance, placebo) = (self.config.tolerance as f32, self.config.placebo);
        let least = (tolerance / (1.0 - tolerance)).ln(); // −∞ at 0
        let mut score = |skills: &[f32], out: &mut [f32], rng: &mut Rng| {
            score(skills, out);
            // Not f32::max, which would turn a score that is no number into a safe one.
            out.iter_mut().for_each(|logit| *logit = if *logit < least { least } else { *logit });
            if placebo {
                shuffle(out, rng);
            }
        };
        self.choice = false;
        self.gaussian.copy_from(policy);
        seen(&self.gaussian);
        match self.config.planning {
            Planning::Off => {}
            Planning::Naive => {
                self.draw_round(rng);
                score(&self.skills, &mut self.scores, rng);
                self.choice = !tied(&self.scores);
                let best = (0..self.scores.len()).min_by(|&a, &b| rank(self.scores[a], self.scores[b]));
                let best = best.expect("at least one sample");
                self.gaussian.mean.copy_from_slice(&self.drawn[best * dim..][..dim]);
                self.gaussian.std.fill(0.0);
            }
            Planning::Risk => {
                // Line 1: for i = 1, 2, …, N_p.
                for round in 0..self.config.iterations {
                    // Line 2: sample skills from N(μ_{i−1}, σ_{i−1}²).
                    self.draw_round(rng);
                    // Line 3: p_j = P_ζ(c = 1 | s_t, z^j).
                    score(&self.skills, &mut self.scores, rng);
                    if tied(&self.scores) {
                        // Nothing to choose among so many: more of the same Gaussian would say the same. On Hopper nearly every plan ends
                        // in its first round, for a sixth of the time.
                        (round..self.config.iterations).for_each(|_| seen(&self.gaussian));
                        break;
                    }
                    // Line 4: μ_i, σ_i² of the k skills with the lowest risk.
                    self.choice = true;
                    self.refit(policy);
                    seen(&self.gaussian);
                }
            }
        }
    }

    /// Draws rows of skills from a Gaussian, kept inside the box.
    pub fn draw(&self, gaussian: &Gaussian, rng: &mut Rng, out: &mut [f32]) {
        gaussian.sample(rng, out);
        keep_inside(&self.bound, out);
    }

    /// N_s skills. They are judged as they would be played, inside the box, but refitted as they were drawn: to refit what was cut would
    /// shrink the Gaussian in every round, whatever the risk.
    fn draw_round(&mut self, rng: &mut Rng) {
        let n = self.config.samples;
        self.drawn.resize(n * self.bound.len(), 0.0);
        self.scores.resize(n, 0.0);
        self.gaussian.sample(rng, &mut self.drawn);
        self.skills.clone_from(&self.drawn);
        keep_inside(&self.bound, &mut self.skills);
    }

    /// Eq. 5 and 6: mean and (1/k) variance of the k lowest scores; the mean near the policy's if asked.
    fn refit(&mut self, policy: &Gaussian) {
        let Self { config, bound, gaussian, drawn, scores, order, .. } = self;
        let (dim, k) = (gaussian.mean.len(), config.elites);
        order.clear();
        order.extend(0..scores.len() as u32);
        // Ties keep the order they were drawn in, so that equal risks give the same elites everywhere.
        order.select_nth_unstable_by(k - 1, |&a, &b| rank(scores[a as usize], scores[b as usize]).then(a.cmp(&b)));
        // The selection's order inside the k is unspecified; sums must not depend on it.
        order[..k].sort_unstable();
        let elites = || order[..k].iter().map(|&j| &drawn[j as usize * dim..][..dim]);
        let reach = if config.near_policy > 0.0 { config.near_policy as f32 } else { f32::INFINITY };
        for i in 0..dim {
            let mean = elites().map(|z| f64::from(z[i])).sum::<f64>() / k as f64;
            let variance = elites().map(|z| (f64::from(z[i]) - mean).powi(2)).sum::<f64>() / k as f64;
            let furthest = reach * bound[i];
            gaussian.mean[i] = (mean as f32).clamp(policy.mean[i] - furthest, policy.mean[i] + furthest);
            gaussian.std[i] = (variance.sqrt() as f32).max(config.min_std as f32);
        }
    }
}

/// What the choice without chance is found with.
fn mean_rng() -> Rng {
    Rng::stream(0, "mean skill")
}

fn keep_inside(bound: &[f32], skills: &mut [f32]) {
    for row in skills.chunks_exact_mut(bound.len()) {
        row.iter_mut().zip(bound).for_each(|(z, bound)| *z = z.clamp(-bound, *bound));
    }
}

fn tied(scores: &[f32]) -> bool {
    scores.iter().all(|score| *score == scores[0])
}

/// Every order is as likely as any other.
fn shuffle(scores: &mut [f32], rng: &mut Rng) {
    for last in (1..scores.len()).rev() {
        scores.swap(last, rng.below(last + 1));
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

    /// The paper's planner, but for what `change` changes.
    fn planner(dim: usize, change: impl FnOnce(&mut PlannerConfig)) -> Planner {
        let mut config = PlannerConfig { near_policy: 0.0, tolerance: 0.0, ..Default::default() };
        change(&mut config);
        Planner::new(config, vec![100.0; dim])
    }

    fn start(dim: usize) -> Gaussian {
        Gaussian { mean: vec![0.0; dim], std: vec![1.0; dim] }
    }

    /// A refit of given skills and scores.
    fn refitted(planner: &mut Planner, skills: &[f32], scores: &[f32]) -> (f32, f32) {
        planner.gaussian = start(1);
        planner.drawn = skills.to_vec();
        planner.scores = scores.to_vec();
        planner.refit(&start(1));
        (planner.gaussian.mean[0], planner.gaussian.std[0])
    }

    #[test]
    fn eq_5_and_6_divide_by_k() {
        let mut planner = planner(1, |c| (c.samples, c.elites) = (4, 2));
        // The two lowest scores are skills 1 and 2: mean 1.5, variance (0.25 + 0.25)/2.
        assert_eq!(refitted(&mut planner, &[5.0, 1.0, 9.0, 2.0], &[3.0, 0.1, 4.0, 0.2]), (1.5, 0.5));
    }

    #[test]
    fn ties_nan_scores_and_a_collapsed_variance_are_defined() {
        let mut planner = planner(1, |c| (c.samples, c.elites) = (3, 2));
        let skills = [1.0, 2.0, 3.0];
        assert_eq!(refitted(&mut planner, &skills, &[0.0, 0.0, 1.0]).0, 1.5);
        assert_eq!(refitted(&mut planner, &skills, &[0.0, 1.0, 1.0]).0, 1.5, "ties keep the order of drawing");
        assert_eq!(refitted(&mut planner, &skills, &[f32::NAN, 7.0, 8.0]).0, 2.5, "no number is the worst number");
        assert_eq!(refitted(&mut planner, &[4.0; 3], &[0.0, 1.0, 2.0]), (4.0, 1e-6));
    }

    /// Mean and variance, over many plans and all coordinates, of z in units of the policy's σ, with these scores. The policy is so wide
    /// that the box cuts nothing, and has another mean and σ in every coordinate.
    fn moments(change: impl FnOnce(&mut PlannerConfig), mut score: impl FnMut(&mut f32)) -> (f64, f64) {
        moments_by(change, |_, out| out.iter_mut().for_each(&mut score))
    }

    /// The same, with scores that may look at the skills.
    fn moments_by(change: impl FnOnce(&mut PlannerConfig), mut score: impl FnMut(&[f32], &mut [f32])) -> (f64, f64) {
        let policy = Gaussian { mean: vec![1.0, -2.0, 0.5], std: vec![0.2, 1.0, 3.0] };
        let mut planner = planner(3, change);
        (planner.config.samples, planner.config.elites) = (64, 8);
        let mut rng = Rng::stream(0, "ties");
        let (plans, mut sum, mut squares) = (4000, 0.0, 0.0);
        for _ in 0..plans {
            let z = planner.plan(&policy, &mut score, &mut rng, |_| ());
            for i in 0..3 {
                let z = f64::from((z[i] - policy.mean[i]) / policy.std[i]);
                (sum, squares) = (sum + z, squares + z * z);
            }
        }
        let n = f64::from(3 * plans);
        (sum / n, squares / n - (sum / n).powi(2))
    }

    #[test]
    fn tied_scores_keep_the_policys_mean_and_variance() {
        let defaults = |c: &mut PlannerConfig| *c = PlannerConfig::default();
        let as_printed = |_: &mut PlannerConfig| ();
        // 12 000 numbers: one deviation of the mean is 0.009, of the variance 0.013.
        let untouched = |(mean, variance): (f64, f64)| mean.abs() < 0.04 && (variance - 1.0).abs() < 0.05;
        let constant = |s: &mut f32| *s = 0.3;
        let mut rng = Rng::stream(1, "scores");
        for planning in [Planning::Risk, Planning::Off] {
            let defaults = |c: &mut PlannerConfig| *c = PlannerConfig { planning, ..Default::default() };
            let (found, printed) = (moments(defaults, constant), moments(as_printed, constant));
            assert!(untouched(found) && untouched(printed), "{planning:?}: {found:?}, as printed {printed:?}");
        }
        // Different, but all below the tolerance.
        let tiny = moments(defaults, |s| *s = rng.uniform(-9.0, -5.0) as f32);
        assert!(untouched(tiny), "{tiny:?}");
        // A placebo: scores that say nothing about the skill. Refits to chance wander, and give back in the mean what they take from the
        // variance; what wanders beyond `near_policy` is too little to show.
        let placebo = moments(defaults, |s| *s = rng.uniform(1.0, 2.0) as f32);
        assert!(placebo.0.abs() < 0.06 && (placebo.1 - 1.0).abs() < 0.08, "{placebo:?}");
    }

    #[test]
    fn a_placebo_follows_no_slope_and_keeps_the_policys_mean_and_variance() {
        // The risk falls along every coordinate, steeply and far above the tolerance.
        let fall = |skills: &[f32], out: &mut [f32]| {
            out.iter_mut().zip(skills.chunks_exact(3)).for_each(|(s, z)| *s = 50.0 - 4.0 * z.iter().sum::<f32>());
        };
        for planning in [Planning::Risk, Planning::Naive] {
            let with = |placebo| {
                let change = |c: &mut PlannerConfig| *c = PlannerConfig { planning, placebo, ..Default::default() };
                moments_by(change, fall)
            };
            // 12 000 numbers, as above.
            let (risk, placebo) = (with(false), with(true));
            assert!(placebo.0.abs() < 0.06 && (placebo.1 - 1.0).abs() < 0.08, "{planning:?}: {placebo:?}");
            assert!(risk.0 > 0.5, "{planning:?}: what it is the control of does follow it: {risk:?}");
        }
    }

    #[test]
    fn a_placebo_plans_where_the_planner_would_and_nowhere_else() {
        // All within the tolerance: no round moves the Gaussian. Above it every round does.
        for (logit, moved) in [(-9.0, false), (3.0, true)] {
            let mut planner = planner(2, |c| (c.tolerance, c.placebo) = (0.02, true));
            let mut gaussians = Vec::new();
            let score = |skills: &[f32], out: &mut [f32]| {
                out.iter_mut().zip(skills.chunks_exact(2)).for_each(|(s, z)| *s = logit + 0.1 * z[0].tanh());
            };
            planner.plan(&start(2), score, &mut Rng::stream(0, "when"), |g| gaussians.push(g.clone()));
            assert_eq!(gaussians.windows(2).all(|w| w[0] != w[1]), moved, "{gaussians:?}");
            assert_eq!(planner.had_a_choice(), moved);
            planner.config.planning = Planning::Naive;
            planner.plan(&start(2), score, &mut Rng::stream(0, "when"), |_| ());
            assert_eq!(planner.had_a_choice(), moved, "naive planning");
        }
    }

    #[test]
    fn a_plan_ends_where_there_is_nothing_to_choose() {
        for (logit, rounds) in [(-9.0, 1), (3.0, 6)] {
            let mut planner = planner(2, |c| *c = PlannerConfig::default());
            let (mut scored, mut seen) = (0, 0);
            let score = |skills: &[f32], out: &mut [f32]| {
                scored += 1;
                out.iter_mut().zip(skills.chunks_exact(2)).for_each(|(s, z)| *s = logit + 0.1 * z[0].tanh());
            };
            planner.plan(&start(2), score, &mut Rng::stream(0, "rounds"), |_| seen += 1);
            assert_eq!((scored, seen), (rounds, 7), "rounds that were judged; Gaussians of all of them, for Figure 5");
        }
    }

    #[test]
    fn without_planning_nothing_but_the_box_touches_the_policy() {
        let mut planner = planner(1, |c| (c.planning, c.near_policy) = (Planning::Off, 0.1));
        let mut rng = Rng::stream(0, "off");
        let far = (0..1000).filter(|_| planner.plan(&start(1), |_, _| (), &mut rng, |_| ())[0].abs() > 1.0).count();
        // A third of a normal lies beyond one deviation.
        assert!((250..400).contains(&far), "{far}");
    }

    #[test]
    fn the_choice_without_chance_depends_on_the_state_alone() {
        let kinds = [Planning::Risk, Planning::Naive].into_iter().flat_map(|kind| [(kind, false), (kind, true)]);
        for (planning, placebo) in kinds.chain([(Planning::Off, false)]) {
            let mut planner = planner(4, |c| (c.planning, c.placebo) = (planning, placebo));
            let score = |skills: &[f32], out: &mut [f32]| {
                out.iter_mut().zip(skills.chunks_exact(4)).for_each(|(s, z)| *s = (z[0] - 1.0).powi(2) + z[2]);
            };
            let first = planner.plan_mean(&start(4), score);
            // Whatever was planned meanwhile.
            planner.plan(&start(4), |_, out| out.fill(0.0), &mut Rng::stream(3, "other"), |_| ());
            assert_eq!(first, planner.plan_mean(&start(4), score), "{planning:?} {placebo}");
            assert_eq!(first == [0.0; 4], planning == Planning::Off, "without planning it is the policy's mean");
        }
    }

    #[test]
    fn more_iterations_give_safer_skills_and_naive_planning_lies_between() {
        // A quadratic risk in ten dimensions, least at 1: the mean risk of the chosen skill over many plans.
        let mean_risk = |planning, iterations| {
            let mut planner = planner(10, |c| (c.planning, c.iterations) = (planning, iterations));
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
    fn skills_stay_inside_the_box_and_the_mean_near_the_policy_if_asked() {
        for (near_policy, furthest) in [(0.0, 2.0), (0.25, 0.5)] {
            let mut planner = planner(10, |c| c.near_policy = near_policy);
            planner.bound = vec![2.0; 10];
            let mut rng = Rng::stream(0, "box");
            let mut sum = 0.0;
            for _ in 0..20 {
                let mut means = Vec::new();
                // A risk that falls along one direction for ever.
                let fall = |skills: &[f32], scores: &mut [f32]| {
                    for (z, s) in skills.chunks_exact(10).zip(scores) {
                        *s = -z.iter().sum::<f32>();
                    }
                };
                let z = planner.plan(&start(10), fall, &mut rng, |g| means.extend_from_slice(&g.mean));
                assert!(z.iter().all(|x| x.abs() <= 2.0), "{z:?}");
                // Without a limit of its own the mean may leave the box; what is played may not.
                assert!(near_policy == 0.0 || means.iter().all(|x| x.abs() <= furthest), "{means:?}");
                sum += z.iter().sum::<f32>() / 200.0;
            }
            assert!(sum > 0.7 * furthest && sum <= furthest + 0.05, "it goes as far as it may: {sum}");
        }
    }

    #[test]
    fn risks_within_the_tolerance_leave_the_policy_its_choice() {
        // The logit falls along z; within the tolerance nothing pulls, above it the planner moves away.
        let mean = |tolerance, offset: f32, lost: bool| {
            let mut planner = planner(1, |c| c.tolerance = tolerance);
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

//! The offline stage (section 4.1): the skill model and then the risk predictor, from the demonstrations alone.

use sskp_blocks::demos::Demonstrations;
use sskp_blocks::judge::{Calibration, Judgement, auc, held_out};
use sskp_blocks::offline::{OfflineReport, StageSeen, updates};
use sskp_blocks::rng::Rng;
use sskp_blocks::{Error, Result};

use super::class_prior;
use super::foresight::Foresight;
use super::learner::{Sskp, build_policy};
use super::pairs::{self, Pairs};
use super::risk::RiskPredictor;
use super::skill_files::{self, FittedSkills};

impl Sskp {
    /// Learns both. The skill model may come out of a file.
    pub(crate) fn offline(&mut self, demos: &Demonstrations, seen: &mut StageSeen) -> Result<OfflineReport> {
        self.refuse(demos)?;
        let mut report = OfflineReport {
            updates: self.config.skill.steps,
            transitions: demos.steps(),
            violations: demos.violations(),
            ..OfflineReport::default()
        };
        let FittedSkills { model, held_out: fit, .. } =
            skill_files::obtain(&self.config.skill, demos, &self.files, seen)?;
        self.skills = model;
        report.note("skills", "reconstruction", fit.reconstruction);
        report.note("skills", "kl", fit.kl);
        report.note("skills", "prior_log_prob", fit.prior_log_prob);
        self.planner.bound = self.skill_box(demos);
        // The policy starts as the prior that has just been learnt.
        let mut rng = Rng::stream(self.seed, "policy init");
        self.policy = build_policy(&self.config, self.prior(), self.threads, &mut rng)?;
        if self.uses_risk() {
            let mut rng = Rng::stream(self.seed, "risk");
            let encoded = pairs::encode_episodes(demos, &mut self.skills, &self.config.risk);
            (self.positive, self.unlabelled) = self.pairs_of(demos, &encoded, |_| true);
            self.fit_risk(demos, &encoded, &mut rng, &mut report, seen)?;
        }
        Ok(report)
    }

    /// Demonstrations that cannot be learnt from, before any work.
    pub(crate) fn refuse(&self, demos: &Demonstrations) -> Result<()> {
        let (obs, action) = (self.state.len(), self.skills.action_dim());
        crate::same_robot(demos, obs, action)?;
        if self.uses_risk() && demos.violations() == 0 {
            let text = "the demonstrations hold no violation: there is nothing to learn risk from";
            return Err(Error::other(text));
        }
        self.config.skill.refuse(demos)?;
        let ahead = pairs::label_steps(&self.config.skill, &self.config.risk);
        if self.uses_risk() && demos.states_with_violation_ahead(ahead).all(|(_, positive)| positive) {
            let text = "every state of the demonstrations has a violation within the next";
            let relabel = if self.config.risk.relabel > 0 { "; a smaller risk.relabel looks less far" } else { "" };
            return Err(Error::other(format!("{text} {ahead} steps: nothing tells risky from safe{relabel}")));
        }
        self.files.refuse_named(&self.config.skill, obs, action)
    }

    /// Skills are kept inside ±2, SPiRL's range, or ±2.5 deviations of the demonstrations' encoded skills where those are
    /// wider: what the decoder has been trained on.
    fn skill_box(&mut self, demos: &Demonstrations) -> Vec<f32> {
        let (horizon, dim) = (self.config.skill.horizon, self.config.skill.dim);
        let starts: Vec<_> = demos.window_starts(horizon).collect();
        let stride = starts.len().div_ceil(4000).max(1);
        let (mut squares, mut n) = (vec![0.0f64; dim], 0.0);
        for (episode, t) in starts.into_iter().step_by(stride) {
            let head = self.skills.encode(demos.actions(episode, t, horizon), 1, horizon);
            squares.iter_mut().zip(&head[..dim]).for_each(|(s, z)| *s += f64::from(*z).powi(2));
            n += 1.0;
        }
        squares.iter().map(|s| (2.5 * (s / n).sqrt()).max(2.0) as f32).collect()
    }

    fn pairs_of(&self, demos: &Demonstrations, encoded: &[Vec<f32>], keep: impl Fn(usize) -> bool) -> (Pairs, Pairs) {
        pairs::demonstration_pairs(demos, encoded, &self.skills, &self.config.risk, keep)
    }

    /// λ (Eq. 2), then P_ζ by Eq. 4.
    fn fit_risk(
        &mut self,
        demos: &Demonstrations,
        encoded: &[Vec<f32>],
        rng: &mut Rng,
        report: &mut OfflineReport,
        seen: &mut StageSeen,
    ) -> Result<()> {
        let config = self.config.risk.clone();
        // A classifier that tells labelled from unlabelled pairs, on half the episodes; its scores on the other half.
        let halves = [0, 1].map(|half| self.pairs_of(demos, encoded, |episode| episode % 2 == half));
        let [learnt, held_out] = &halves;
        let enough = [learnt, held_out].iter().all(|(p, u)| !p.is_empty() && !u.is_empty());
        let mut estimates = [None; 2];
        if enough {
            let mut classifier = RiskPredictor::new(config.clone(), demos.obs_dim, self.config.skill.dim, rng);
            updates("class prior", config.steps.min(3000), seen, || {
                classifier.update_as_classifier(&learnt.0, &learnt.1, &self.skills, rng);
                Ok([])
            })?;
            let positive = classifier.scores(&held_out.0, &self.skills, rng);
            let unlabelled = classifier.scores(&held_out.1, &self.skills, rng);
            estimates =
                [class_prior::best_bin(&positive, &unlabelled), class_prior::elkan_noto(&positive, &unlabelled)];
        }
        let [least, greatest] = config.class_prior_bounds;
        self.risk.class_prior = match (config.class_prior > 0.0, estimates[0]) {
            (true, _) => config.class_prior,
            (false, Some(estimate)) => estimate.clamp(least, greatest),
            (false, None) => config.fallback_class_prior,
        };
        self.foresight = Foresight::new(self.risk.class_prior);
        let [best_bin, elkan_noto] = estimates.map(|estimate| estimate.unwrap_or(f64::NAN));
        let [loss, binds] = updates("risk", config.steps, seen, || {
            let terms = self.risk.update(&self.positive, &self.unlabelled, &self.skills, rng);
            Ok([terms.loss, f64::from(u8::from(terms.binds))])
        })?;
        report.updates += config.steps;
        let positive = self.risk.scores(&self.positive, &self.skills, rng);
        let unlabelled = self.risk.scores(&self.unlabelled, &self.skills, rng);
        let auc = auc(&positive, &unlabelled).unwrap_or(f64::NAN);
        let figures = [
            ("class_prior", self.risk.class_prior),
            ("class_prior_best_bin", best_bin),
            ("class_prior_elkan_noto", elkan_noto),
            ("loss", loss),
            ("binds", binds),
            ("auc_as_fitted", auc),
        ];
        figures.into_iter().for_each(|(name, value)| report.note("risk", name, value));
        if config.calibrate {
            report.held_out = self.calibrate(demos, encoded, seen)?;
        }
        Ok(())
    }

    /// Fits another predictor to nine tenths of the episodes, in the same way, and judges it on the others. The predictor that
    /// is used has learnt from all: sixty falls are few enough. None where there are too few episodes to hold any out.
    ///
    /// λ is that of the whole set. The stream is one of its own, so the run is the same with and without this.
    fn calibrate(&self, demos: &Demonstrations, encoded: &[Vec<f32>], seen: &mut StageSeen) -> Result<Judgement> {
        let config = self.config.risk.clone();
        let held = held_out(demos.trajectories(), 10);
        let [(positive, unlabelled), judged] =
            [false, true].map(|wanted| self.pairs_of(demos, encoded, |episode| held.contains(&episode) == wanted));
        if positive.is_empty() || unlabelled.is_empty() {
            return Ok(Judgement::default());
        }
        let mut rng = Rng::stream(self.seed, "risk calibration");
        let mut predictor = RiskPredictor::new(config.clone(), demos.obs_dim, self.config.skill.dim, &mut rng);
        predictor.class_prior = self.risk.class_prior;
        updates("calibration", config.steps, seen, || {
            predictor.update(&positive, &unlabelled, &self.skills, &mut rng);
            Ok([])
        })?;
        let [positive, unlabelled] =
            [judged.0, judged.1].map(|pairs| predictor.scores_of_all(&pairs, &self.skills, &mut rng));
        let calibration = Calibration::of(&positive, &unlabelled);
        Ok(Judgement { auc: auc(&positive, &unlabelled), calibration, ..Judgement::default() })
    }
}

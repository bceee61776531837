//! Fitting the skill model to demonstrations: the windows, the steps, and what is kept of a fit that was interrupted.

use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::demos::Demonstrations;
use sskp_blocks::judge::held_out;
use sskp_blocks::nets::standardiser::Standardiser;
use sskp_blocks::rng::{Rng, RngState};
use sskp_blocks::{Error, Result};

use super::config::SkillConfig;
use super::skill::{SkillLoss, SkillModel, Windows};

/// Skills over which the reward ahead of a window is measured: what a skill leads to shows in the next ones.
const SKILLS_AHEAD: usize = 10;

/// Minibatches of held-out windows that the fit is judged on.
const JUDGED: u32 = 8;

impl SkillConfig {
    /// Where the windows begin that skills are learnt from: (episode, t).
    fn windows(&self, demos: &Demonstrations) -> impl Iterator<Item = (usize, usize)> {
        let ahead = SKILLS_AHEAD * self.horizon;
        let useful = move |(episode, t): &(usize, usize)| demos.reward_ahead(*episode, *t, ahead) >= 0.0;
        demos.window_starts(self.horizon).filter(move |window| !self.skip_losses || useful(window))
    }

    /// Says why no skill can be learnt from a set.
    pub fn refuse(&self, demos: &Demonstrations) -> Result<()> {
        if self.windows(demos).next().is_some() {
            return Ok(());
        }
        let horizon = self.horizon;
        Err(Error::other(match demos.window_starts(horizon).next() {
            None => format!("no episode of the demonstrations has {horizon} steps, the length of a skill"),
            Some(_) => {
                "reward is lost after every skill of the demonstrations: set skill.skip_losses=false to learn from all"
                    .into()
            }
        }))
    }
}

/// Where windows begin, (episode, t): those that are learnt from and those that the fit is judged on.
struct Starts {
    learnt: Vec<(usize, usize)>,
    held_out: Vec<(usize, usize)>,
}

impl Starts {
    fn of(config: &SkillConfig, demos: &Demonstrations) -> Self {
        let one_in = if config.held_out > 0.0 { (1.0 / config.held_out).round().max(2.0) as usize } else { 0 };
        let held = held_out(demos.trajectories(), one_in);
        let (held_out, learnt): (Vec<_>, Vec<_>) =
            config.windows(demos).partition(|(episode, _)| held.contains(episode));
        // Where only held-out episodes are long enough, or none is held out, all are for both.
        match (held_out.is_empty(), learnt.is_empty()) {
            (true, _) => Self { held_out: learnt.clone(), learnt },
            (_, true) => Self { learnt: held_out.clone(), held_out },
            _ => Self { learnt, held_out },
        }
    }
}

/// A fit under way: all that must be kept to go on with it exactly.
pub struct SkillFit {
    /// The model.
    pub model: SkillModel,
    rng: Rng,
    /// Gradient steps done.
    done: u64,
}

impl SkillFit {
    /// A fresh model with the standardiser of these demonstrations.
    pub fn new(config: &SkillConfig, demos: &Demonstrations) -> Result<Self> {
        config.refuse(demos)?;
        let mut init = Rng::stream(config.seed, "skill model");
        let mut model = SkillModel::new(config.clone(), demos.obs_dim, demos.action_dim, &mut init);
        let states: Vec<f32> = demos.trajectories().iter().flat_map(|t| t.observations.iter().copied()).collect();
        model.standardiser = Standardiser::fit(demos.obs_dim, &states);
        Ok(Self { model, rng: Rng::stream(config.seed, "skill windows"), done: 0 })
    }

    /// Gradient steps done.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Makes the steps that are left; gives the losses on the held-out episodes. An error of `seen` stops it after the step it was
    /// shown, and the next call goes on as if nothing had happened.
    pub fn finish(
        &mut self,
        demos: &Demonstrations,
        mut seen: impl FnMut(u64, SkillLoss) -> Result<()>,
    ) -> Result<SkillLoss> {
        let Self { model, rng, done } = self;
        let config = model.config().clone();
        let starts = Starts::of(&config, demos);
        let mut windows = Windows::default();
        let mut noise = vec![0.0; config.batch * config.dim];
        while *done < config.steps {
            let loss = model.update(demos, &starts.learnt, rng, &mut windows, &mut noise);
            *done += 1;
            seen(*done, loss)?;
        }
        // Held-out figures: a fixed number of windows, skills sampled as in training.
        let mut total = SkillLoss::default();
        for _ in 0..JUDGED {
            model.draw(demos, &starts.held_out, config.batch, rng, &mut windows);
            rng.fill_normal(&mut noise);
            let loss = model.gradient(&windows, &noise);
            total.reconstruction += loss.reconstruction / f64::from(JUDGED);
            total.kl += loss.kl / f64::from(JUDGED);
            total.prior_log_prob += loss.prior_log_prob / f64::from(JUDGED);
        }
        model.clear_gradient();
        Ok(total)
    }

    /// Adds the fit to a file.
    pub fn save<'a>(&'a self, to: &mut Saver<'a>) {
        self.model.save(to);
        self.model.save_optimisers(to);
        to.json("skill fit.stream", &self.rng.save());
        to.json("skill fit.done", &self.done);
    }

    /// Reads it back.
    pub fn load(&mut self, from: &Loader) -> Result<()> {
        self.model.load(from)?;
        self.model.load_optimisers(from)?;
        self.rng = Rng::load(&from.json::<RngState>("skill fit.stream")?)?;
        self.done = from.json("skill fit.done")?;
        Ok(())
    }
}

impl SkillModel {
    /// One step on a minibatch of windows that begin at `starts`; `windows` and `noise[batch, dim]` are buffers.
    pub fn update(
        &mut self,
        demos: &Demonstrations,
        starts: &[(usize, usize)],
        rng: &mut Rng,
        windows: &mut Windows,
        noise: &mut [f32],
    ) -> SkillLoss {
        self.draw(demos, starts, self.config().batch, rng, windows);
        rng.fill_normal(noise);
        let loss = self.gradient(windows, noise);
        self.step();
        loss
    }

    /// Draws windows uniformly among `starts`.
    fn draw(&self, demos: &Demonstrations, starts: &[(usize, usize)], rows: usize, rng: &mut Rng, out: &mut Windows) {
        let (a, horizon) = (self.action_dim(), self.config().horizon);
        out.rows = rows;
        out.actions.resize(horizon * rows * a, 0.0);
        out.states.resize(horizon * rows * demos.obs_dim, 0.0);
        for row in 0..rows {
            let (episode, t) = starts[rng.below(starts.len())];
            let actions = demos.actions(episode, t, horizon);
            for k in 0..horizon {
                out.actions[(k * rows + row) * a..][..a].copy_from_slice(&actions[k * a..][..a]);
                let state = &mut out.states[(k * rows + row) * demos.obs_dim..][..demos.obs_dim];
                self.standardiser.apply(demos.state(episode, t + k), state);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sskp::decoder::DecoderKind;
    use sskp_blocks::demos::{Ending, Trajectory};

    /// Two gaits, told apart by the state: slow and fast waves with a random phase.
    fn gaits() -> Demonstrations {
        let mut rng = Rng::stream(5, "gaits");
        let mut demos = Demonstrations::new("toy", 2, 2);
        for episode in 0..60 {
            let fast = episode % 2 == 0;
            let steps = 30;
            let (speed, mut phase) = (if fast { 1.2 } else { 0.4 }, rng.uniform(0.0, std::f64::consts::TAU));
            let (mut observations, mut actions) = (Vec::new(), Vec::new());
            for _ in 0..steps {
                observations.extend([if fast { 1.0 } else { -1.0 }, phase.sin() as f32]);
                actions.extend([(0.8 * phase.sin()) as f32, (0.8 * phase.cos()) as f32]);
                phase += speed;
            }
            observations.extend([0.0, 0.0]);
            let (rewards, costs) = (vec![0.0; steps], vec![0.0; steps]);
            demos.push(Trajectory { observations, actions, rewards, costs, end: Ending::Truncated }).unwrap();
        }
        demos
    }

    #[test]
    fn it_learns_to_rebuild_windows_it_has_not_seen() {
        let demos = gaits();
        // SPiRL's decoder and β: with the state the decoder needs the skill for little.
        let (decoder, beta) = (DecoderKind::OpenLoop, 5e-4);
        let config = SkillConfig {
            decoder,
            beta,
            hidden: 32,
            prior_width: 32,
            prior_layers: 2,
            batch: 64,
            steps: 1500,
            ..Default::default()
        };
        let mut fit = SkillFit::new(&config, &demos).unwrap();
        let mut first = None;
        let held_out = fit.finish(&demos, |_, loss| {
            first = first.or(Some(loss));
            Ok(())
        });
        let held_out = held_out.unwrap();
        let first = first.unwrap();
        // Untrained, the error is the actions' own variance, 0.32; trained, a small part of it is left.
        assert!(first.reconstruction > 0.25, "{first:?}");
        assert!(held_out.reconstruction < 0.03, "{held_out:?}");
        assert!(held_out.prior_log_prob > first.prior_log_prob, "{first:?} {held_out:?}");
        assert!(held_out.kl > 1.0, "the skill says something: {held_out:?}");
    }

    #[test]
    fn demonstrations_without_a_whole_skill_are_refused() {
        let mut demos = Demonstrations::new("toy", 1, 1);
        let short = Trajectory {
            observations: vec![0.0; 5],
            actions: vec![0.0; 4],
            rewards: vec![0.0; 4],
            costs: vec![0.0; 4],
            end: Ending::Truncated,
        };
        demos.push(short).unwrap();
        let error = SkillFit::new(&SkillConfig::default(), &demos).err().unwrap().to_string();
        assert!(error.contains("no episode of the demonstrations has 10 steps"), "{error}");
    }

    #[test]
    fn windows_after_which_reward_is_lost_can_be_left_out() {
        // Two steps per skill, so 20 steps ahead: 30 good ones, then 30 bad ones.
        let (good, bad) = (vec![1.0f32; 30], vec![-2.0f32; 30]);
        let mut demos = Demonstrations::new("toy", 1, 1);
        demos
            .push(Trajectory {
                observations: vec![0.0; 61],
                actions: vec![0.0; 60],
                rewards: [good, bad].concat(),
                costs: vec![0.0; 60],
                end: Ending::Truncated,
            })
            .unwrap();
        let config = |skip_losses| SkillConfig { horizon: 2, skip_losses, ..Default::default() };
        assert_eq!(config(false).windows(&demos).count(), 59);
        // At t = 23 seven good steps meet thirteen bad ones: with g good ones, g − 2·(20 − g) ≥ 0 from g = 14 on.
        let kept: Vec<_> = config(true).windows(&demos).collect();
        assert_eq!(kept, (0..=16).map(|t| (0, t)).collect::<Vec<_>>());
    }
}

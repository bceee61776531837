//! `cargo xtask demo --robots`: every robot for a few episodes, as a table and as pages to look at.

use std::io::{IsTerminal as _, Write as _, stderr, stdout};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sskp_blocks::record::{EpisodeRow, Metrics, Recorder};
use sskp_blocks::registry::{EnvEntry, EnvOptions};
use sskp_blocks::rng::Rng;
use sskp_blocks::run::{Clock, Run};
use sskp_lab::registry::Registry;
use sskp_lab::replay_page;
use sskp_lab::rollout::{Recording, Stage};

use crate::gaits;

/// Play every robot with a scripted and a random controller, and write a page for each
#[derive(clap::Args)]
pub struct Args {
    /// Folder for the pages
    #[arg(long, default_value = "runs/demo", value_name = "FOLDER")]
    out: PathBuf,
    /// Seed of start states and random actions
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Episodes of each robot with each controller
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    episodes: u64,
}

/// What chooses the actions.
#[derive(Clone, Copy)]
enum Controller {
    /// A hand-made gait.
    Scripted(&'static gaits::Gait),
    /// Uniform in [-1, 1].
    Random,
}

impl Controller {
    fn name(self) -> &'static str {
        match self {
            Controller::Scripted(_) => "scripted",
            Controller::Random => "random",
        }
    }
}

/// One line of the table, and the episode worth looking at.
struct Played {
    clock: Clock,
    wall: Duration,
    longest: Recording,
}

impl Args {
    /// Plays and writes.
    pub fn run(self, registry: &Registry) -> Result<()> {
        let mut jobs = Vec::new();
        for robot in registry.envs() {
            jobs.extend(gaits::find(&robot.name).map(|gait| (robot, Controller::Scripted(gait))));
            jobs.push((robot, Controller::Random));
        }
        let most: u64 = jobs.iter().map(|(robot, _)| self.episodes * limit(registry, robot)).sum();
        std::fs::create_dir_all(&self.out)
            .with_context(|| format!("the folder {} cannot be made", self.out.display()))?;
        let bar = progress(most);
        let mut table = vec![line(
            ["robot", "controller", "episodes", "steps", "return", "violations", "steps/s"].map(String::from),
        )];
        let mut pages = Vec::new();
        for (i, (robot, controller)) in jobs.iter().enumerate() {
            bar.set_message(format!("{} {}", robot.name, controller.name()));
            let played = play(robot, limit(registry, robot), *controller, self.seed, self.episodes, &bar)?;
            let clock = played.clock;
            let cells = [
                robot.name.clone(),
                controller.name().to_string(),
                clock.episodes.to_string(),
                clock.steps.to_string(),
                format!("{:.1}", clock.reward / clock.episodes.max(1) as f64),
                clock.violations.to_string(),
                format!("{:.0}", clock.steps as f64 / played.wall.as_secs_f64()),
            ];
            if !stderr().is_terminal() {
                eprintln!("{} of {}: {} {}, {} steps", i + 1, jobs.len(), cells[0], cells[1], cells[3]);
            }
            table.push(line(cells));
            // The first job of each robot is the one to look at: its gait where it has one.
            if i == 0 || jobs[i - 1].0.name != robot.name {
                pages.push(self.page(robot, *controller, played.longest)?);
            }
        }
        bar.finish_and_clear();

        let mut out = stdout().lock();
        writeln!(
            out,
            "{}\n\nreturn is the mean of an episode's; steps/s with every frame recorded\n",
            table.join("\n")
        )?;
        writeln!(out, "open in a browser:")?;
        for page in pages {
            writeln!(out, "  {}", page.display())?;
        }
        Ok(())
    }

    fn page(&self, robot: &EnvEntry, controller: Controller, episode: Recording) -> Result<PathBuf> {
        let path = self.out.join(format!("{}.html", robot.name));
        let subtitle = format!("{} controller, seed {}", controller.name(), self.seed);
        replay_page::write_html(&episode.into_page(robot, subtitle), Path::new(&path))?;
        Ok(path)
    }
}

/// One line of the table: names to the left, numbers to the right.
fn line([robot, controller, episodes, steps, earned, violations, rate]: [String; 7]) -> String {
    format!("{robot:<8}  {controller:<10}  {episodes:>8}  {steps:>6}  {earned:>8}  {violations:>10}  {rate:>8}")
}

fn limit(registry: &Registry, robot: &EnvEntry) -> u64 {
    registry.time_limit(&robot.name).unwrap_or(1000) as u64
}

fn play(
    robot: &EnvEntry,
    limit: u64,
    controller: Controller,
    seed: u64,
    episodes: u64,
    bar: &ProgressBar,
) -> Result<Played> {
    let env = robot.make(EnvOptions::default())?;
    let (stage, tape) = Stage::new(env).recorded();
    let mut recorder = Progress { bar, done: bar.position() };
    let mut run = Run::new(Box::new(stage), seed, episodes * limit, &mut recorder);
    let mut random = Rng::stream(seed, "actions");
    let mut action = vec![0.0; run.spec().action_dim];
    let dt = run.spec().dt;
    let mut longest: Option<Recording> = None;
    let start = Instant::now();
    for _ in 0..episodes {
        if !run.next_episode()? {
            break;
        }
        while !run.over() {
            match controller {
                Controller::Scripted(gait) => gait.act(run.episode_length() as f64 * dt, run.env().obs(), &mut action),
                Controller::Random => random.fill_action(&mut action),
            }
            run.step(&action)?;
        }
        for episode in tape.take() {
            if longest.as_ref().is_none_or(|best| best.steps() < episode.steps()) {
                longest = Some(episode);
            }
        }
    }
    let (clock, wall) = (run.clock(), start.elapsed());
    // Episodes that fell early leave their part of the bar unused.
    bar.set_position(recorder.done + episodes * limit);
    Ok(Played { clock, wall, longest: longest.context("no episode was played")? })
}

/// Moves the bar, and keeps nothing else.
struct Progress<'a> {
    bar: &'a ProgressBar,
    /// Steps of the jobs before this one.
    done: u64,
}

impl Recorder for Progress<'_> {
    fn episode(&mut self, _: &EpisodeRow) -> sskp_blocks::Result<()> {
        Ok(())
    }
    fn metrics(&mut self, _: Clock, _: &Metrics) -> sskp_blocks::Result<()> {
        Ok(())
    }
    fn step(&mut self, at: Clock) {
        self.bar.set_position(self.done + at.steps);
    }
}

/// A bar on the terminal; nothing where there is none.
fn progress(length: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr_with_hz(15));
    let style = ProgressStyle::with_template("{msg:18} {wide_bar} {percent:>3}%").expect("a valid template");
    bar.with_style(style)
}

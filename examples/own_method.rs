//! Your own method: cross-entropy search over linear policies, beside the methods of this project. The program is the whole command
//! line with one more name, so grids, reports and exact resume come with it:
//!
//! `cargo run --release --example own_method -- train --algo cross-entropy --env toy -n 60000`

use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use sskp::blocks::Result;
use sskp::blocks::checkpoint::{Loader, Saver};
use sskp::blocks::env::Spec;
use sskp::blocks::record::Metrics;
use sskp::blocks::rng::{Rng, RngState};
use sskp::blocks::run::Run;
use sskp::lab::registry::Registry;
use sskp::methods::{Actor, Entry, Method, parse, settings};

/// The table `[cross-entropy]`. Unknown keys and wrong types are refused before this is read.
#[derive(Serialize, Deserialize)]
pub struct Config {
    /// Policies tried per generation.
    population: usize,
    /// Of which so many, the best, make the next one.
    elites: usize,
    /// Standard deviation of the weights at first, and at least.
    first_std: f32,
    least_std: f32,
    /// What a violation takes from the return.
    violation_cost: f64,
}

const DEFAULTS: Config = Config { population: 20, elites: 4, first_std: 1.0, least_std: 0.05, violation_cost: 10.0 };

/// a = clip(W · (s, 1)).
#[derive(Clone, Serialize, Deserialize)]
struct Linear {
    weights: Vec<f32>,
}

impl Actor for Linear {
    fn act(&mut self, state: &[f32], _explore: bool, action: &mut [f32]) {
        for (a, row) in action.iter_mut().zip(self.weights.chunks(state.len() + 1)) {
            let (bias, weights) = row.split_last().expect("a row has a bias");
            *a = (bias + weights.iter().zip(state).map(|(w, s)| w * s).sum::<f32>()).clamp(-1.0, 1.0);
        }
    }
}

/// All state of the method is in itself: whatever is saved in the middle of an episode goes on exactly there.
struct CrossEntropy {
    config: Config,
    /// The mean of the search: what it plays when it no longer learns.
    mean: Linear,
    search: Search,
    rng: Rng,
}

#[derive(Serialize, Deserialize)]
struct Search {
    std: Vec<f32>,
    /// The policy that is being tried, and what it has earned so far.
    candidate: Linear,
    earned: f64,
    /// Those of this generation that were tried.
    tried: Vec<(f64, Linear)>,
}

impl CrossEntropy {
    fn new(spec: &Spec, config: Config, seed: u64) -> Self {
        let mean = Linear { weights: vec![0.0; (spec.obs_dim + 1) * spec.action_dim] };
        let std = vec![config.first_std; mean.weights.len()];
        let search = Search { std, candidate: mean.clone(), earned: 0.0, tried: Vec::new() };
        let mut method = Self { config, mean, search, rng: Rng::stream(seed, "search") };
        method.draw();
        method
    }

    fn draw(&mut self) {
        let Search { std, candidate, earned, .. } = &mut self.search;
        *earned = 0.0;
        for ((w, mean), std) in candidate.weights.iter_mut().zip(&self.mean.weights).zip(std) {
            *w = mean + *std * self.rng.normal() as f32;
        }
    }

    /// The candidate's episode is over. After the last of a generation: mean and deviation of its elites, and the mean return.
    fn judge(&mut self) -> Option<f64> {
        let Search { std, candidate, earned, tried } = &mut self.search;
        tried.push((*earned, candidate.clone()));
        let mut mean_return = None;
        if tried.len() >= self.config.population {
            mean_return = Some(tried.iter().map(|(earned, _)| earned).sum::<f64>() / tried.len() as f64);
            tried.sort_by(|a, b| b.0.total_cmp(&a.0));
            tried.truncate(self.config.elites);
            let n = tried.len() as f32;
            for i in 0..std.len() {
                let mean = tried.iter().map(|(_, p)| p.weights[i]).sum::<f32>() / n;
                let variance = tried.iter().map(|(_, p)| (p.weights[i] - mean).powi(2)).sum::<f32>() / n;
                (self.mean.weights[i], std[i]) = (mean, variance.sqrt().max(self.config.least_std));
            }
            tried.clear();
        }
        self.draw();
        mean_return
    }
}

impl Method for CrossEntropy {
    fn train(&mut self, run: &mut Run) -> Result<()> {
        let mut action = vec![0.0; run.spec().action_dim];
        while run.next_episode()? {
            while !run.over() {
                self.search.candidate.act(run.state(), true, &mut action);
                let step = run.step(&action)?;
                self.search.earned += step.reward - self.config.violation_cost * step.cost();
                if run.over()
                    && let Some(mean_return) = self.judge()
                {
                    run.record(&Metrics(vec![("Search/MeanReturn", mean_return)]))?;
                }
                run.checkpoint(|to| self.save(to))?; // if one is due
            }
        }
        Ok(())
    }

    fn actor(&self) -> Box<dyn Actor> {
        Box::new(self.mean.clone())
    }

    fn save<'a>(&'a self, to: &mut Saver<'a>) {
        to.f32s("policy/mean", &self.mean.weights, self.mean.weights.len());
        to.json("search", &self.search);
        to.json("rng", &self.rng.save());
    }

    fn load(&mut self, from: &Loader) -> Result<()> {
        self.search = from.json("search")?;
        self.rng = Rng::load(&from.json::<RngState>("rng")?)?;
        self.load_policy(from)
    }

    fn load_policy(&mut self, from: &Loader) -> Result<()> {
        from.f32s_into("policy/mean", &mut self.mean.weights)
    }
}

/// What a registry needs: a name, its settings with their defaults, and how one is built from settings.
pub fn cross_entropy() -> Entry {
    Entry {
        title: "Cross-entropy",
        about: "cross-entropy search over linear policies",
        ..Entry::new(
            "cross-entropy",
            |_| settings(&DEFAULTS),
            |spec, text, setup| Ok(Box::new(CrossEntropy::new(spec, parse(setup.table, text)?, setup.seed))),
        )
    }
}

fn main() -> ExitCode {
    let mut registry = Registry::standard();
    registry.add_method(cross_entropy()).expect("no other method is called that");
    sskp::main(&registry)
}

//! `sskp collect`: plays a trained policy and keeps the episodes as a set of demonstrations.

use std::io::{Write, stdout};
use std::path::PathBuf;

use anyhow::Result;
use sskp_lab::data::collect::{Collected, Plan, collect};
use sskp_lab::data::{check_target, write_minari};
use sskp_lab::evaluate::load_policy;
use sskp_lab::registry::Registry;
use sskp_lab::wording::{plural, set_contents};

use crate::error::OrUsage;

/// Play a trained policy and keep its episodes as demonstrations
///
/// The set is a Minari dataset (float32 HDF5, compressed): a folder NAME under --out, which Python loads with
/// MINARI_DATASETS_PATH=OUT and minari.load_dataset("NAME"). The cost of step t is infos/cost[t + 1].
///
/// A good agent hardly falls. To have falls in a set, --falls K first plays disturbed episodes: from a random step of the
/// first half of the time limit on, a random push is added to the actions for ten steps, then another one, until K such
/// episodes ended in a violation or half of the set is full; those that did not fall are kept too. Then calm episodes fill
/// up --episodes or --steps. All are put in random order. The metadata count both kinds, and every episode's attributes
/// say how it was played.
#[derive(clap::Args)]
pub struct Args {
    /// Robot to play; it must be the one the policy was trained on
    #[arg(long = "env", visible_aliases = ["env-id", "task"], value_name = "ROBOT")]
    env: String,
    /// Run directory (its newest checkpoint) or checkpoint folder of the policy
    #[arg(long, value_name = "RUN")]
    policy: PathBuf,
    /// Stop after N episodes
    #[arg(long, value_name = "N")]
    episodes: Option<u64>,
    /// Stop after the episode in which N steps are reached; episodes are never cut
    #[arg(long, value_name = "N", value_parser = crate::options::whole)]
    steps: Option<u64>,
    /// Standard deviation of the Gaussian noise added to every action before it is clipped to [-1, 1]
    #[arg(long, value_name = "X", default_value_t = 0.0)]
    noise: f64,
    /// Play disturbed episodes until K of them ended in a violation
    #[arg(long, value_name = "K", default_value_t = 0)]
    falls: u64,
    /// Standard deviation of the pushes in disturbed episodes
    #[arg(long, value_name = "X", default_value_t = 0.5)]
    push: f64,
    /// Play the policy's mean actions instead of sampled ones
    #[arg(long)]
    deterministic: bool,
    /// Seed of start states, noise and order
    #[arg(long, default_value_t = 0, value_parser = crate::options::whole)]
    seed: u64,
    /// Folder of Minari sets to write into
    #[arg(long, value_name = "PATH")]
    out: PathBuf,
    /// Name of the set, like hopper/medium-v0 [default: ROBOT/demos-v0]
    #[arg(long, value_name = "ID")]
    name: Option<String>,
    /// Round observations to multiples of 2^-B (and actions to 1/256, before they are played) for a smaller file
    #[arg(long, value_name = "B")]
    bits: Option<u32>,
    /// Episodes without noise that measure the agent for the metadata; they are not part of the set
    #[arg(long, value_name = "N", default_value_t = 10)]
    agent_episodes: u64,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

impl Args {
    pub fn run(self, registry: &Registry) -> Result<()> {
        let plan = Plan {
            env: self.env.clone(),
            episodes: self.episodes,
            steps: self.steps,
            noise: self.noise,
            falls: self.falls,
            push: self.push,
            grow: false,
            seed: self.seed,
            deterministic: self.deterministic,
            bits: self.bits,
            agent_episodes: self.agent_episodes,
        };
        let name = self.name.unwrap_or_else(|| format!("{}/demos-v0", self.env));
        plan.validate().or_usage()?;
        check_target(&self.out, &name).or_usage()?;
        let mut trained = load_policy(registry, &self.policy, |refused| eprintln!("warning: {refused}")).or_usage()?;
        plan.check_policy(&trained).or_usage()?;
        let made = collect(&mut trained, &plan, &command_line(), self.quiet)?;
        let folder = write_minari(&self.out, &name, &made.demos, &made.played, &made.about)?;

        let mut stdout = stdout().lock();
        for line in remarks(&made, &plan) {
            writeln!(stdout, "{line}")?;
        }
        writeln!(stdout, "wrote {}", folder.display())?;
        Ok(())
    }
}

/// What came out, and what is missing from it.
fn remarks(made: &Collected, plan: &Plan) -> Vec<String> {
    let mut lines = vec![set_contents(&made.demos)];
    if made.falls < plan.falls {
        let (got, asked) = (made.falls, plural(plan.falls, "fall"));
        let more = "allow more episodes or steps, or a larger --push";
        lines.push(format!("only {got} of the {asked} asked for happened in half of the set; {more}"));
    }
    if made.demos.violations() == 0 {
        let ask = if plan.falls == 0 { "; ask for some with --falls K" } else { "" };
        lines.push(format!("no episode ended in a violation, and a set without any cannot teach risk{ask}"));
    }
    lines
}

/// What the user typed, with words quoted that a shell would split.
pub fn command_line() -> String {
    let quote = |word: String| {
        let plain = |c: char| c.is_alphanumeric() || "-_./=:,+@%".contains(c);
        if !word.is_empty() && word.chars().all(plain) { word } else { format!("'{}'", word.replace('\'', r"'\''")) }
    };
    std::iter::once("sskp".into()).chain(std::env::args().skip(1).map(quote)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use sskp_blocks::demos::Demonstrations;

    #[test]
    fn a_set_without_violations_is_said_to_teach_no_risk() {
        let all = sskp_blocks::toy::demonstrations(6);
        let made = |violating: bool| {
            let mut demos = Demonstrations::new("toy", 5, 2);
            for trajectory in all.trajectories().iter().filter(|t| t.violates() == violating) {
                demos.push(trajectory.clone()).unwrap();
            }
            Collected { demos, played: Vec::new(), about: Default::default(), falls: 0 }
        };
        let safe = remarks(&made(false), &Plan::default());
        assert!(safe.len() == 2 && safe[1].contains("cannot teach risk") && safe[1].contains("--falls K"), "{safe:?}");
        assert_eq!(remarks(&made(true), &Plan::default()).len(), 1);
        let asked = remarks(&made(false), &Plan { falls: 1, ..Plan::default() });
        assert!(asked.len() == 3 && asked[1].starts_with("only 0 of the 1 fall asked for"), "{asked:?}");
        assert!(!asked[2].contains("--falls"), "{asked:?}");
    }
}

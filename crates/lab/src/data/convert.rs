//! Sets of other people made into ours: another robot's name, other costs, another format.

use serde_json::{Map, Value};
use sskp_blocks::demos::{Demonstrations, Ending, Trajectory};
use sskp_blocks::env::Env;
use sskp_blocks::{Error, Result};

use super::{About, Set, fingerprint};

/// Makes another robot's name, other costs or another format out of a set: its demonstrations and what to say of them.
pub fn convert(set: Set, robot: &dyn Env, costs: CostFrom, command: &str) -> Result<(Demonstrations, About)> {
    let spec = robot.spec();
    if (set.obs_dim, set.action_dim) != (spec.obs_dim, spec.action_dim) {
        return Err(Error::other(format!(
            "{} has {} observations and {} actions; {} has {} and {}",
            spec.name,
            spec.obs_dim,
            spec.action_dim,
            set.file.display(),
            set.obs_dim,
            set.action_dim
        )));
    }
    let text = |key: &str| {
        let own = set.metadata.get(key).or_else(|| set.provenance()?.get(key));
        own.and_then(Value::as_str).unwrap_or_default().to_string()
    };
    let mut about = About {
        algorithm: text("algorithm_name"),
        description: text("description"),
        provenance: set.provenance().cloned().unwrap_or_default(),
    };
    let mut from = Map::new();
    from.insert("set".into(), set.id().into());
    from.insert("format".into(), set.format.name().into());
    from.insert("sha256".into(), fingerprint(&set.file)?.into());
    from.insert("command".into(), command.into());
    let rule = match costs {
        CostFrom::File => "the file's own",
        CostFrom::Robot => "the robot's constraint on the state each step led to; episodes are cut there",
        CostFrom::Terminal => "every termination is a violation",
    };
    from.insert("costs".into(), rule.into());
    about.provenance.insert("converted_from".into(), Value::Object(from));
    let mut demos = set.into_demonstrations()?;
    demos.env = spec.name.clone();
    Ok((recost(&demos, costs, robot)?, about))
}

/// Where a set without costs (or with somebody else's) gets them from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostFrom {
    /// The file's own.
    File,
    /// The robot's constraint, asked of the state each step led to.
    Robot,
    /// The terminal flag: an episode that terminated did so by a violation.
    Terminal,
}

/// Gives every step a cost by another rule. An episode is cut after its first violating step, where ours would end.
pub fn recost(demos: &Demonstrations, rule: CostFrom, robot: &dyn Env) -> Result<Demonstrations> {
    if rule == CostFrom::File {
        return Ok(demos.clone());
    }
    let constraint = match rule {
        CostFrom::Robot => {
            let (got, spec) = ((demos.obs_dim, demos.action_dim), robot.spec());
            if got != (spec.obs_dim, spec.action_dim) {
                return Err(Error::other(format!(
                    "{} has {} observations and {} actions; this set has {} and {}",
                    spec.name, spec.obs_dim, spec.action_dim, got.0, got.1
                )));
            }
            Some(robot.constraint().ok_or_else(|| {
                Error::other(format!("{} cannot tell from a state whether it is a violation", spec.name))
            })?)
        }
        _ => None,
    };
    let mut out = Demonstrations::new(demos.env.clone(), demos.obs_dim, demos.action_dim);
    for (i, trajectory) in demos.trajectories().iter().enumerate() {
        let steps = trajectory.steps();
        let violated = match constraint {
            Some(constraint) => (0..steps).find(|t| {
                let next: Vec<f64> = demos.state(i, t + 1).iter().map(|x| f64::from(*x)).collect();
                constraint.violates(&next)
            }),
            None => (!trajectory.end.bootstraps()).then_some(steps - 1),
        };
        let keep = violated.map_or(steps, |t| t + 1);
        let mut costs = vec![0.0; keep];
        if violated.is_some() {
            costs[keep - 1] = 1.0;
        }
        out.push(Trajectory {
            observations: trajectory.observations[..(keep + 1) * demos.obs_dim].to_vec(),
            actions: trajectory.actions[..keep * demos.action_dim].to_vec(),
            rewards: trajectory.rewards[..keep].to_vec(),
            costs,
            end: if violated.is_some() { Ending::Violation } else { trajectory.end },
        })?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_by_the_terminal_flag_and_by_the_robot() {
        // The toy violates when |y| > 1; y is the first number.
        let mut demos = Demonstrations::new("toy", 5, 2);
        let state = |y: f32| [y, 0.0, 0.0, 0.0, 1.0];
        demos
            .push(Trajectory {
                observations: [state(0.0), state(0.9), state(1.1), state(1.2)].concat(),
                actions: vec![0.0; 6],
                rewards: vec![1.0, 2.0, 3.0],
                costs: vec![0.0; 3],
                end: Ending::Terminated,
            })
            .unwrap();
        let toy = sskp_blocks::toy::Toy::default();
        let by_robot = recost(&demos, CostFrom::Robot, &toy).unwrap();
        let cut = &by_robot.trajectories()[0];
        assert_eq!((cut.steps(), &cut.costs[..], cut.end), (2, &[0.0, 1.0][..], Ending::Violation));
        let by_flag = recost(&demos, CostFrom::Terminal, &toy).unwrap();
        assert_eq!(by_flag.trajectories()[0].costs, [0.0, 0.0, 1.0]);
    }
}

//! What `sskp data check` looks for: the mistakes that sets of demonstrations are known to have, which no reader would
//! notice and every learner would learn from. A run looks for them too, before it begins: those that would make what it learns
//! wrong are refused, the others are warnings.

use std::fmt;

use sskp_blocks::Result;
use sskp_blocks::env::{Constraint, Env};
use sskp_blocks::registry::EnvOptions;

use crate::registry::Registry;
use crate::wording::plural;

use super::{Episode, Format, Set, Stats};

/// One kind of mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What it is.
    pub kind: &'static str,
    /// How often.
    pub count: usize,
    /// Where first: episode, field, and what was there.
    pub first: String,
}

/// What was found.
pub struct SetReport {
    /// What the set holds.
    pub stats: Stats,
    /// Mistakes; a good set has none.
    pub problems: Vec<Problem>,
    /// What is worth knowing without being wrong.
    pub notes: Vec<String>,
}

impl Problem {
    /// Whether what is learnt from the set would be wrong. Otherwise it is worth a warning.
    pub fn spoils(&self) -> bool {
        !kind::LESSER.contains(&self.kind)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} × {}; first {}", self.count, self.kind, self.first)
    }
}

impl SetReport {
    /// Whether nothing is wrong.
    pub fn fine(&self) -> bool {
        self.problems.is_empty()
    }
    /// The problem of this kind.
    pub fn problem(&self, kind: &str) -> Option<&Problem> {
        self.problems.iter().find(|p| p.kind == kind)
    }
    /// The first mistake that a run refuses the set for.
    pub fn spoilt(&self) -> Option<&Problem> {
        self.problems.iter().find(|p| p.spoils())
    }
    fn add(&mut self, kind: &'static str, place: impl Into<String>) {
        match self.problems.iter_mut().find(|p| p.kind == kind) {
            Some(problem) => problem.count += 1,
            None => self.problems.push(Problem { kind, count: 1, first: place.into() }),
        }
    }
}

/// The kinds of [`Problem`].
pub mod kind {
    /// Arrays of an episode do not fit each other.
    pub const LENGTHS: &str = "wrong lengths";
    /// NaN or infinity.
    pub const NOT_FINITE: &str = "numbers that are not finite";
    /// The robot clips there, so the action stored is not the one played.
    pub const ACTION_RANGE: &str = "actions outside [-1, 1]";
    /// The file has no costs.
    pub const NO_COSTS: &str = "no costs";
    /// The cost sits one step before the step that ended the episode.
    pub const COST_EARLY: &str = "cost one step too early";
    /// The reset has a cost.
    pub const COST_AT_RESET: &str = "cost at the reset";
    /// The robot's constraint fits the costs better when they are moved by one step.
    pub const COST_SHIFTED: &str = "costs shifted by one step against the robot's constraint";
    /// The robot's constraint and the costs do not agree.
    pub const COST_FOREIGN: &str = "costs that are not the robot's constraint";
    /// A cost is negative.
    pub const COST_NEGATIVE: &str = "negative costs";
    /// Terminal flag without cost.
    pub const TERMINATED_WITHOUT_COST: &str = "terminated without a cost";
    /// Cost without terminal flag.
    pub const COST_WITHOUT_TERMINATION: &str = "cost without termination";
    /// A violation marked as a time limit.
    pub const VIOLATION_AS_TIMEOUT: &str = "violation marked as truncated";
    /// Both flags.
    pub const BOTH_FLAGS: &str = "terminated and truncated at once";
    /// Neither flag at the end.
    pub const NO_FLAG: &str = "episodes that end with neither flag";
    /// A flag before the end.
    pub const FLAG_INSIDE: &str = "flags in the middle of an episode";
    /// Truncated although steps were left.
    pub const TRUNCATED_EARLY: &str = "truncated before the time limit";
    /// Longer than the robot allows.
    pub const TOO_LONG: &str = "longer than the time limit";
    /// Another robot's numbers.
    pub const DIMENSIONS: &str = "dimensions that are not the robot's";

    /// Those that a set can have and be learnt from all the same: another setting than ours, a recording that was cut, or costs that
    /// are not there, which methods that need them refuse by themselves. Whatever is not named here makes learning wrong.
    pub const LESSER: [&str; 9] = [
        ACTION_RANGE,
        NO_COSTS,
        COST_FOREIGN,
        TERMINATED_WITHOUT_COST,
        COST_WITHOUT_TERMINATION,
        BOTH_FLAGS,
        NO_FLAG,
        TRUNCATED_EARLY,
        TOO_LONG,
    ];
}

/// Checks a set by itself, and against the robot it is of: the one named, else the one it names itself, else the one that its path
/// names.
pub fn check(registry: &Registry, set: &Set, named: Option<&str>) -> Result<SetReport> {
    let make = |name: &str| registry.make_env(name, EnvOptions::default());
    if let Some(name) = named {
        return Ok(check_against(set, Some(&*make(name)?)));
    }
    if !set.env.is_empty() {
        let robot = make(&set.env).ok();
        let mut report = check_against(set, robot.as_deref());
        if robot.is_none() {
            let text =
                format!("the set is of {}, which is not known here; --env says what to check it against", set.env);
            report.notes.push(text);
        }
        return Ok(report);
    }
    let robot = named_by_path(registry, set);
    let mut report = check_against(set, robot.as_deref());
    report.notes.push(match &robot {
        Some(robot) => format!("checked as a set of {}, which its path names; --env says otherwise", robot.spec().name),
        None => "the file does not say which robot it is of; give it with --env to check more".into(),
    });
    Ok(report)
}

/// The environment whose name is the nearest in the path of a set, if its sizes are the set's too: folders may be called anything.
fn named_by_path(registry: &Registry, set: &Set) -> Option<Box<dyn Env>> {
    let path = set.file.canonicalize().unwrap_or_else(|_| set.file.clone());
    let parts = path.components().rev().map(|part| part.as_os_str().to_string_lossy().to_lowercase());
    let fits = |part: &str, name: &str| part == name || part.split(|c: char| !c.is_alphanumeric()).any(|p| p == name);
    parts.take(NEAR).find_map(|part| {
        let entries = registry.envs().iter().filter(|entry| fits(&part, &entry.name.to_lowercase()));
        entries.filter_map(|entry| entry.make(EnvOptions::default()).ok()).find(|robot| {
            let spec = robot.spec();
            (set.obs_dim, set.action_dim) == (spec.obs_dim, spec.action_dim)
        })
    })
}

/// Parts of a path that may name a robot: `hopper/mine-v0/data/main_data.hdf5`, and a folder above.
const NEAR: usize = 5;

/// Checks a set by itself, and against a robot.
pub fn check_against(set: &Set, robot: Option<&dyn Env>) -> SetReport {
    let mut report = SetReport { stats: Stats::of(set), problems: Vec::new(), notes: Vec::new() };
    for (kind, place) in &set.misfits {
        report.add(kind, place.clone());
    }
    let mut matching = None;
    if let Some(robot) = robot {
        let spec = robot.spec();
        if (set.obs_dim, set.action_dim) == (spec.obs_dim, spec.action_dim) {
            matching = Some(robot);
        } else {
            let place = format!(
                "{} has {} observations and {} actions, the set {} and {}",
                spec.name, spec.obs_dim, spec.action_dim, set.obs_dim, set.action_dim
            );
            report.add(kind::DIMENSIONS, place);
        }
    }
    if !report.stats.has_costs {
        let place = format!("there is no {}; `data convert --cost-from` can make them", set.format.cost_field());
        report.add(kind::NO_COSTS, place);
    }
    let limit = robot.and_then(|r| r.spec().time_limit);
    for (i, episode) in set.episodes.iter().enumerate() {
        numbers(episode, &mut report);
        if let Some(defect) = set.defect(episode) {
            report.add(kind::LENGTHS, format!("{}: {defect}", episode.label));
            continue;
        }
        if episode.steps() == 0 {
            report.add(kind::LENGTHS, format!("{}: rewards: there is no step", episode.label));
            continue;
        }
        flags(episode, set, limit, i + 1 == set.episodes.len(), &mut report);
    }
    if let Some(robot) = matching.and_then(|robot| robot.constraint()) {
        constraint(set, robot, &mut report);
    }
    report
}

fn numbers(episode: &Episode, report: &mut SetReport) {
    let lists = [
        ("observations", &episode.observations.data, episode.observations.cols),
        ("actions", &episode.actions.data, episode.actions.cols),
        ("rewards", &episode.rewards, 1),
    ];
    let costs = episode.costs.iter().map(|c| ("costs", c, 1));
    for (field, numbers, cols) in lists.into_iter().chain(costs) {
        for (i, x) in numbers.iter().enumerate().filter(|(_, x)| !x.is_finite()) {
            let place = format!("{}: {field}: {x} in row {}, column {}", episode.label, i / cols, i % cols);
            report.add(kind::NOT_FINITE, place);
        }
    }
    let cols = episode.actions.cols;
    for (i, x) in episode.actions.data.iter().enumerate().filter(|(_, x)| x.abs() > 1.0 + 1e-6) {
        report.add(
            kind::ACTION_RANGE,
            format!("{}: actions: {x} in row {}, column {}", episode.label, i / cols, i % cols),
        );
    }
}

fn flags(episode: &Episode, set: &Set, limit: Option<usize>, last_of_set: bool, report: &mut SetReport) {
    let (steps, label) = (episode.steps(), &episode.label);
    let end = steps - 1;
    for (field, list) in [("terminations", &episode.terminations), ("truncations", &episode.truncations)] {
        for t in (0..end).filter(|t| list[*t]) {
            report.add(kind::FLAG_INSIDE, format!("{label}: {field}: set at step {t} of {steps}"));
        }
    }
    let (terminated, truncated) = (episode.terminations[end], episode.truncations[end]);
    match (terminated, truncated) {
        (true, true) => report.add(kind::BOTH_FLAGS, format!("{label}: step {end}")),
        (false, false) if last_of_set => {
            report.notes.push(format!("{label}: the last episode ends with neither flag; the recording was cut there"));
        }
        (false, false) => report.add(kind::NO_FLAG, format!("{label}: step {end}")),
        _ => {}
    }
    if let Some(limit) = limit {
        if truncated && !terminated && steps < limit {
            report.add(
                kind::TRUNCATED_EARLY,
                format!("{label}: truncations: set after {steps} of {}", plural(limit as u64, "step")),
            );
        }
        if steps > limit {
            report.add(kind::TOO_LONG, format!("{label}: {}, the limit is {limit}", plural(steps as u64, "step")));
        }
    }

    let Some(costs) = episode.step_costs(set.format) else { return };
    let field = set.format.cost_field();
    // In the file, Minari's cost of step t is in row t + 1.
    let row = |t: usize| t + usize::from(set.format == Format::Minari);
    if set.format == Format::Minari && episode.costs.as_ref().is_some_and(|c| c[0] > 0.0) {
        report.add(kind::COST_AT_RESET, format!("{label}: {field}: row 0, which is the reset, costs something"));
    }
    if let Some(t) = costs.iter().position(|c| *c < 0.0) {
        report.add(kind::COST_NEGATIVE, format!("{label}: {field}: {} in row {}", costs[t], row(t)));
    }
    let early = terminated && costs[end] <= 0.0 && end > 0 && costs[end - 1] > 0.0;
    if early {
        let place = format!("{label}: {field}: the cost of the terminating step {end} is in row {}", row(end) - 1);
        report.add(kind::COST_EARLY, place);
    }
    for t in (0..end).filter(|t| costs[*t] > 0.0) {
        if !(early && t == end - 1) {
            let place = format!("{label}: {field}: cost in row {}, and the episode goes on", row(t));
            report.add(kind::COST_WITHOUT_TERMINATION, place);
        }
    }
    if terminated && costs[end] <= 0.0 && !early {
        report.add(kind::TERMINATED_WITHOUT_COST, format!("{label}: terminations: set at step {end}, {field} is 0"));
    }
    if costs[end] > 0.0 && !terminated {
        let kind = if truncated { kind::VIOLATION_AS_TIMEOUT } else { kind::COST_WITHOUT_TERMINATION };
        report.add(kind, format!("{label}: {field}: cost in row {}, no termination there", row(end)));
    }
}

/// Asks the robot's own constraint of every state, and whether the costs say the same, at their step or one beside it.
fn constraint(set: &Set, robot: &dyn Constraint, report: &mut SetReport) {
    let [mut here, mut early, mut late, mut violating] = [0_usize; 4];
    // Costs that would fit: a shift that fits because there is hardly any cost is none.
    let [mut early_fits, mut late_fits] = [0_usize; 2];
    let mut first = None;
    let mut state = vec![0.0; set.obs_dim];
    for episode in &set.episodes {
        let Some(costs) = episode.step_costs(set.format) else { continue };
        if set.defect(episode).is_some() {
            continue;
        }
        let mut violated = |t: usize| {
            for (s, x) in state.iter_mut().zip(episode.observations.row(t)) {
                *s = f64::from(*x);
            }
            robot.violates(&state)
        };
        let rule: Vec<bool> = (0..=episode.steps()).map(&mut violated).collect();
        for (t, cost) in costs.iter().enumerate() {
            let costly = *cost > 0.0;
            violating += usize::from(costly || rule[t + 1]);
            let (before, after) = (rule[t], rule.get(t + 2).copied().unwrap_or(false));
            late += usize::from(costly != before);
            early += usize::from(costly != after);
            late_fits += usize::from(costly && before);
            early_fits += usize::from(costly && after);
            if costly != rule[t + 1] {
                here += 1;
                let says =
                    if costly { "costs something, the state it led to is allowed" } else { "is free, but violates" };
                first.get_or_insert_with(|| format!("{}: step {t} {says}", episode.label));
            }
        }
    }
    let Some(first) = first else { return };
    // A state that is barely over the bound may be stored as one that is barely not.
    if here <= 2.max(violating / 20) {
        report
            .notes
            .push(format!("violations too close to the bound to be seen again: {here} of {violating}; first {first}"));
    } else if let Some((_, _, way)) = [(early, early_fits, "after"), (late, late_fits, "before")]
        .into_iter()
        .filter(|(wrong, fits, _)| wrong * 2 < here && *fits > 0)
        .min()
    {
        report.add(kind::COST_SHIFTED, format!("{first}; they fit when taken one step {way} their place"));
    } else {
        report.add(kind::COST_FOREIGN, format!("{here} steps disagree: {first}"));
    }
}

impl fmt::Display for SetReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.stats.table())?;
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        if self.fine() {
            return write!(f, "nothing wrong was found");
        }
        let total: usize = self.problems.iter().map(|p| p.count).sum();
        write!(f, "{} found:", plural(total as u64, "problem"))?;
        for problem in &self.problems {
            write!(f, "\n  {problem}")?;
        }
        match self.spoilt() {
            Some(problem) => write!(f, "\nruns refuse this set: what they learnt from {} would be wrong", problem.kind),
            None => write!(f, "\nruns take this set, with a warning for each kind"),
        }
    }
}

//! DSRL's and D4RL's layout: one dataset per field, all episodes one after the other.

use std::borrow::Cow;
use std::fs;
use std::ops::Range;
use std::path::Path;

use serde_json::Value;
use sskp_blocks::demos::{Demonstrations, Ending};
use sskp_blocks::files::write_whole;
use sskp_blocks::{Error, Result};

use super::hdf5::{Array, Attr, Field, Node, Tree, serialise};
use super::{About, Episode, Format, Set};

/// D4RL files without `timeouts` leave it to the reader to know that its robots stop after so many steps.
const D4RL_LIMIT: usize = 1000;

/// Reads a flat file into `set`.
pub(super) fn read(root: &Node, set: &mut Set) -> Result<()> {
    if !root.has("observations")? || !root.has("actions")? {
        let text = format!(
            "{}: neither Minari (no group episode_0) nor DSRL or D4RL (no datasets observations and actions)",
            set.file.display()
        );
        return Err(Error::other(text));
    }
    let with_costs = root.has("costs")?;
    set.format = if with_costs { Format::Dsrl } else { Format::D4rl };
    if let Some(text) = root.text("sskp")
        && let Ok(Value::Object(provenance)) = super::json::parse(&text)
    {
        set.metadata.insert("sskp".into(), Value::Object(provenance));
    }

    let needed: &[&str] = match with_costs {
        true => &["next_observations", "rewards", "terminals", "timeouts"],
        false => &["rewards", "terminals"],
    };
    for field in needed {
        if !root.has(field)? {
            return Err(root.error(field, format!("is missing from this {} file", set.format.name())));
        }
    }
    let observations = root.numbers("observations")?;
    let actions = root.numbers("actions")?;
    let next = if root.has("next_observations")? { Some(root.numbers("next_observations")?) } else { None };
    let rewards = root.list("rewards")?;
    let costs = if with_costs { Some(root.list("costs")?) } else { None };
    let terminals = root.flags("terminals")?;
    let timeouts = if root.has("timeouts")? { Some(root.flags("timeouts")?) } else { None };

    let rows = observations.rows;
    let lengths = [
        ("next_observations", next.as_ref().map(|n| n.rows)),
        ("actions", Some(actions.rows)),
        ("rewards", Some(rewards.len())),
        ("costs", costs.as_ref().map(Vec::len)),
        ("terminals", Some(terminals.len())),
        ("timeouts", timeouts.as_ref().map(Vec::len)),
    ];
    for (field, length) in lengths {
        if let Some(length) = length
            && length != rows
        {
            return Err(root.error(field, format!("has {length} rows, observations have {rows}")));
        }
    }
    if let Some(next) = &next
        && next.cols != observations.cols
    {
        return Err(root.error("next_observations", format!("{} numbers a row, not {}", next.cols, observations.cols)));
    }

    let ended = |row: usize, start: usize| {
        terminals[row]
            || match &timeouts {
                Some(timeouts) => timeouts[row],
                None => row + 1 - start == D4RL_LIMIT,
            }
    };
    let mut start = 0;
    for row in 0..rows {
        if ended(row, start) || row + 1 == rows {
            let mut range = start..row + 1;
            start = row + 1;
            let timeout = !terminals[row] && ended(row, range.start);
            if next.is_none() && !terminals[row] {
                // The state after the last step is not in the file, and a value function would look at it: drop that
                // step, as D4RL's own reader does.
                range.end -= 1;
                if range.is_empty() {
                    continue;
                }
            }
            let slice = |array: &Array, range: &Range<usize>| Array {
                rows: range.len(),
                cols: array.cols,
                data: array.data[range.start * array.cols..range.end * array.cols].to_vec(),
            };
            let mut states = slice(&observations, &range);
            match (&next, terminals[row]) {
                (Some(next), _) => states.data.extend_from_slice(next.row(range.end - 1)),
                // A terminal state that is not in the file is never looked past; the last known one stands for it.
                (None, true) => states.data.extend_from_slice(observations.row(range.end - 1)),
                (None, false) => states.data.extend_from_slice(observations.row(range.end)),
            }
            states.rows += 1;
            if let Some(next) = &next {
                for t in range.start..range.end - 1 {
                    if next.row(t) != observations.row(t + 1) {
                        let place = format!("row {t} is not the observation of row {}", t + 1);
                        set.misfits.push(("next_observations that are not the next ones", place));
                    }
                }
            }
            let mut truncations = vec![false; range.len()];
            truncations[range.len() - 1] = timeout || timeouts.as_ref().is_some_and(|t| t[row]);
            set.episodes.push(Episode {
                label: format!("rows {}..{}", range.start, range.end),
                observations: states,
                actions: slice(&actions, &range),
                rewards: rewards[range.clone()].to_vec(),
                costs: costs.as_ref().map(|c| c[range.clone()].to_vec()),
                terminations: terminals[range.clone()].to_vec(),
                truncations,
            });
        }
    }
    Ok(())
}

/// Writes the file; see [`super::write_dsrl`].
pub(super) fn write(file: &Path, demos: &Demonstrations, about: &About) -> Result<()> {
    if demos.trajectories().is_empty() {
        return Err(Error::other("there is no episode to write"));
    }
    if file.exists() {
        return Err(Error::other(format!("{} already exists; nothing was overwritten", file.display())));
    }
    let all = |f: &dyn Fn(&sskp_blocks::demos::Trajectory) -> Vec<f32>| -> Cow<'static, [f32]> {
        Cow::Owned(demos.trajectories().iter().flat_map(f).collect())
    };
    let width = demos.obs_dim;
    let last = |ends: fn(Ending) -> bool| {
        Field::Flags(
            demos
                .trajectories()
                .iter()
                .flat_map(|t| (0..t.steps()).map(move |i| i + 1 == t.steps() && ends(t.end)))
                .collect(),
        )
    };
    let observations = all(&|t| t.observations[..t.steps() * width].to_vec());
    let next = all(&|t| t.observations[width..].to_vec());
    let mut provenance = about.provenance.clone();
    provenance.insert("env".into(), demos.env.clone().into());
    provenance.insert("algorithm_name".into(), about.algorithm.clone().into());
    provenance.insert("description".into(), about.description.clone().into());
    let tree = Tree {
        attrs: vec![("sskp", Attr::Text(Value::Object(provenance).to_string()))],
        fields: vec![
            ("observations", Field::Numbers(observations, width)),
            ("next_observations", Field::Numbers(next, width)),
            ("actions", Field::Numbers(all(&|t| t.actions.clone()), demos.action_dim)),
            ("rewards", Field::Numbers(all(&|t| t.rewards.clone()), 0)),
            ("costs", Field::Numbers(all(&|t| t.costs.clone()), 0)),
            ("terminals", last(|end| !end.bootstraps())),
            ("timeouts", last(Ending::bootstraps)),
        ],
        ..Tree::default()
    };
    let bytes = serialise(tree)?;
    if let Some(parent) = file.parent().filter(|p| !p.as_os_str().is_empty()) {
        fs::create_dir_all(parent).map_err(|e| Error::io(parent, e))?;
    }
    write_whole(file, &bytes)
}

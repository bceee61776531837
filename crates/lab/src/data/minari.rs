//! Minari's layout: `<root>/<id>/data/{main_data.hdf5, metadata.json}`, one group per episode.
//!
//! The cost of step t is `infos/cost[t + 1]`: Minari's infos begin with that of the reset.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use sskp_blocks::demos::{Demonstrations, Ending, Trajectory};
use sskp_blocks::files::PendingFolder;
use sskp_blocks::{Error, Result};

use super::hdf5::{Attr, Field, Node, Reader, Tree, serialise};
use super::{About, Episode, Played, Set, json};

/// Minari's name of the file.
pub(super) const DATA: &str = "main_data.hdf5";
const METADATA: &str = "metadata.json";
const NAMESPACE: &str = "namespace_metadata.json";
/// The release whose layout this is; Minari reads sets of the releases it knows.
const VERSION: &str = "0.5.4";

/// The metadata of the set an HDF5 file belongs to; empty when there is none.
pub(super) fn metadata_beside(file: &Path) -> Result<Map<String, Value>> {
    let path = file.with_file_name(METADATA);
    if !path.exists() {
        return Ok(Map::new());
    }
    let text = fs::read(&path).map_err(|e| Error::io(&path, e))?;
    let wrong = |why: String| Error::other(format!("{}: {why}", path.display()));
    let text = String::from_utf8(text).map_err(|_| wrong("is no text".into()))?;
    match json::parse(&text).map_err(&wrong)? {
        Value::Object(map) => Ok(map),
        _ => Err(wrong("is no JSON object".into())),
    }
}

fn number(name: &str) -> Option<usize> {
    name.strip_prefix("episode_")?.parse().ok()
}

/// The groups of the episodes in order, if this is a Minari file.
pub(super) fn episodes(reader: &Reader) -> Result<Option<Vec<Node<'_>>>> {
    let mut episodes: Vec<_> = reader.root().groups()?.into_iter().filter(|g| number(&g.name).is_some()).collect();
    episodes.sort_by_key(|g| number(&g.name));
    Ok((!episodes.is_empty()).then_some(episodes))
}

/// Reads the episodes into `set`.
pub(super) fn read(groups: Vec<Node>, set: &mut Set) -> Result<()> {
    for (i, group) in groups.iter().enumerate() {
        if number(&group.name) != Some(i) {
            set.misfits.push(("episodes that are missing", format!("episode_{i}")));
            break;
        }
    }
    for group in groups {
        for field in ["observations", "actions", "rewards", "terminations", "truncations"] {
            if !group.has(field)? {
                return Err(group.error(field, "is missing"));
            }
        }
        let costs = if group.has("infos/cost")? { Some(group.list("infos/cost")?) } else { None };
        let episode = Episode {
            observations: group.numbers("observations")?,
            actions: group.numbers("actions")?,
            rewards: group.list("rewards")?,
            costs,
            terminations: group.flags("terminations")?,
            truncations: group.flags("truncations")?,
            label: group.name.clone(),
        };
        if let Some(steps) = group.number("total_steps")
            && steps != episode.steps() as f64
        {
            let place = format!("{}: {steps} by its attribute, {} by its rewards", group.name, episode.steps());
            set.misfits.push(("attribute total_steps", place));
        }
        set.episodes.push(episode);
    }
    let steps: usize = set.episodes.iter().map(Episode::steps).sum();
    for (key, got) in [("total_episodes", set.episodes.len()), ("total_steps", steps)] {
        if let Some(said) = set.metadata.get(key).and_then(Value::as_f64)
            && said != got as f64
        {
            set.misfits.push(("metadata.json", format!("{key} is {said}, the file holds {got}")));
        }
    }
    Ok(())
}

/// The folder of the set `id` under `root`. Refused when the id is none, or when something is there already.
pub(super) fn target(root: &Path, id: &str) -> Result<PathBuf> {
    let word = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    let (namespace, name) = id.rsplit_once('/').unwrap_or(("xx", id));
    let versioned = name.rsplit_once("-v").is_some_and(|(name, version)| {
        !name.is_empty() && !version.is_empty() && version.chars().all(|c| c.is_ascii_digit())
    });
    if !id.split('/').all(word) || namespace.len() < 2 || !versioned {
        return Err(Error::other(format!(
            "\"{id}\" is no name of a Minari set: write it like hopper/medium-v0, with a version at the end"
        )));
    }
    let folder = root.join(id);
    if folder.exists() {
        return Err(Error::other(format!("{} already exists; nothing was overwritten", folder.display())));
    }
    Ok(folder)
}

fn flags(trajectory: &Trajectory, last: bool) -> Field<'static> {
    let mut flags = vec![false; trajectory.steps()];
    *flags.last_mut().expect("an episode has a step") = last;
    Field::Flags(flags)
}

fn episode<'a>(i: usize, trajectory: &'a Trajectory, demos: &Demonstrations, played: Option<&Played>) -> Tree<'a> {
    let steps = trajectory.steps() as f64;
    let rewards = || trajectory.rewards.iter().map(|r| f64::from(*r));
    let mean = trajectory.total_reward() / steps;
    let variance = rewards().map(|r| (r - mean).powi(2)).sum::<f64>() / steps;
    let mut attrs = vec![
        ("id", Attr::Int(i as i64)),
        ("total_steps", Attr::Int(trajectory.steps() as i64)),
        ("rewards_sum", Attr::Float(trajectory.total_reward())),
        ("rewards_mean", Attr::Float(mean)),
        ("rewards_std", Attr::Float(variance.sqrt())),
        ("rewards_max", Attr::Float(rewards().fold(f64::NEG_INFINITY, f64::max))),
        ("rewards_min", Attr::Float(rewards().fold(f64::INFINITY, f64::min))),
    ];
    if let Some(played) = played {
        attrs.push(("noise", Attr::Float(played.noise)));
        if let Some(from) = played.pushed_from {
            attrs.push(("push", Attr::Float(played.push)));
            attrs.push(("pushed_from", Attr::Int(from as i64)));
        }
    }
    let terminated = !trajectory.end.bootstraps();
    // Minari knows no recording that just stops; its own collector calls that truncated.
    let truncated = matches!(trajectory.end, Ending::Truncated | Ending::Cut);
    let costs: Vec<f32> = std::iter::once(0.0).chain(trajectory.costs.iter().copied()).collect();
    let infos =
        Tree { name: "infos".into(), fields: vec![("cost", Field::Numbers(Cow::Owned(costs), 0))], ..Tree::default() };
    Tree {
        name: format!("episode_{i}"),
        attrs,
        fields: vec![
            ("observations", Field::Numbers(Cow::Borrowed(&trajectory.observations), demos.obs_dim)),
            ("actions", Field::Numbers(Cow::Borrowed(&trajectory.actions), demos.action_dim)),
            ("rewards", Field::Numbers(Cow::Borrowed(&trajectory.rewards), 0)),
            ("terminations", flags(trajectory, terminated)),
            ("truncations", flags(trajectory, truncated)),
        ],
        groups: vec![infos],
    }
}

/// A Box space as Gymnasium writes it: JSON in a string, with bare infinities.
fn space(dim: usize, low: &str, high: &str) -> String {
    let list = |bound: &str| vec![bound; dim].join(", ");
    format!(
        r#"{{"type": "Box", "dtype": "float32", "shape": [{dim}], "low": [{}], "high": [{}]}}"#,
        list(low),
        list(high)
    )
}

/// Writes the set; see [`super::write_minari`].
pub(super) fn write(
    root: &Path,
    id: &str,
    demos: &Demonstrations,
    played: &[Played],
    about: &About,
) -> Result<PathBuf> {
    if demos.trajectories().is_empty() {
        return Err(Error::other("there is no episode to write"));
    }
    let folder = target(root, id)?;
    let groups = demos.trajectories().iter().enumerate().map(|(i, t)| episode(i, t, demos, played.get(i))).collect();
    let bytes = serialise(Tree { groups, ..Tree::default() })?;
    let mut provenance = about.provenance.clone();
    provenance.insert("env".into(), demos.env.clone().into());
    let metadata = json!({
        "total_episodes": demos.trajectories().len(),
        "total_steps": demos.steps(),
        "data_format": "hdf5",
        "observation_space": space(demos.obs_dim, "-Infinity", "Infinity"),
        "action_space": space(demos.action_dim, "-1.0", "1.0"),
        "dataset_id": id,
        // In MB. Minari documents it as optional, but its own `list` fails without it.
        "dataset_size": (bytes.len() as f64 / 1e5).round() / 10.0,
        "minari_version": VERSION,
        "algorithm_name": about.algorithm,
        "author": ["sskp"],
        "description": about.description,
        "code_permalink": env!("CARGO_PKG_REPOSITORY"),
        "sskp": provenance,
    });
    let metadata = serde_json::to_string_pretty(&metadata).expect("plain data") + "\n";

    let parent = folder.parent().expect("an id has a last part");
    fs::create_dir_all(parent).map_err(|e| Error::io(parent, e))?;
    let name = folder.file_name().expect("an id has a last part").to_string_lossy();
    // Minari skips hidden folders, so nobody loads a set that is half there.
    let pending = PendingFolder::create(&folder, &format!(".{name}.partial-{}", std::process::id()))?;
    pending.write(Path::new("data").join(DATA), &bytes)?;
    pending.write(Path::new("data").join(METADATA), metadata.as_bytes())?;
    pending.commit()?;
    // Every folder of the namespace is one for Minari only with this file in it.
    let parts: Vec<&str> = id.split('/').collect();
    let mut namespace = root.to_path_buf();
    for part in &parts[..parts.len() - 1] {
        namespace.push(part);
        let file = namespace.join(NAMESPACE);
        if !file.exists() {
            fs::write(&file, "{}\n").map_err(|e| Error::io(&file, e))?;
        }
    }
    Ok(folder)
}

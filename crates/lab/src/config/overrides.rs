//! What a user changes of the defaults: files, then single settings, each over those before it.

use std::path::Path;

use sskp_blocks::{Error, Result};
use toml::{Table, Value};

use super::nearest;

/// Changes in layers, the later the stronger. A layer has tables by name, keys dotted; under `[robot.NAME]` it may have further ones
/// for one robot alone, which are stronger than those for all.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    layers: Vec<Table>,
}

impl Overrides {
    /// Single settings, as [`Overrides::set`] takes them.
    pub fn of(settings: &[&str]) -> Result<Self> {
        let mut all = Self::default();
        settings.iter().try_for_each(|text| all.set(text))?;
        Ok(all)
    }

    /// Adds a TOML file's tables.
    pub fn file(&mut self, path: &Path) -> Result<()> {
        self.layers.push(read_toml(path)?);
        Ok(())
    }

    /// Adds tables.
    pub fn table(&mut self, table: Table) {
        self.layers.push(table);
    }

    /// Adds one `a.b=value`. A value that is no TOML is a string, so that `run.env=hopper` needs no quotes.
    pub fn set(&mut self, text: &str) -> Result<()> {
        let (key, value) = text
            .split_once('=')
            .ok_or_else(|| Error::other(format!("--set {text}: write it as key=value, for example sac.batch=128")))?;
        let value = match toml::from_str::<Table>(&format!("x = {value}")) {
            Ok(table) => table["x"].clone(),
            Err(_) => Value::String(value.trim().into()),
        };
        let mut parts = key.trim().split('.').rev();
        let last = parts.next().expect("split gives one part at least");
        let mut tree = Table::from_iter([(last.to_string(), value)]);
        for part in parts {
            tree = Table::from_iter([(part.to_string(), Value::Table(tree))]);
        }
        self.layers.push(tree);
        Ok(())
    }

    /// Puts the changes that concern `robot`, one of `robots`, over `base`, in which every valid key stands with its default.
    pub(super) fn apply(&self, base: &mut Table, robot: &str, robots: &[&str]) -> Result<()> {
        for layer in &self.layers {
            let mut layer = layer.clone();
            let own = match layer.remove("robot") {
                None => None,
                Some(Value::Table(mut all)) => {
                    if let Some(name) = all.keys().find(|name| !robots.contains(&name.as_str())) {
                        let near = nearest(name, robots.iter().copied());
                        let hint = near.map_or(String::new(), |near| format!("; did you mean robot.{near}?"));
                        return Err(Error::other(format!("there is no robot called {name} (robot.{name}){hint}")));
                    }
                    all.remove(robot)
                }
                Some(_) => return Err(Error::other("robot must be a table, like [robot.hopper.sac]")),
            };
            overlay(base, &layer, "")?;
            match own {
                None => {}
                Some(Value::Table(own)) => overlay(base, &own, "")?,
                Some(_) => {
                    return Err(Error::other(format!("robot.{robot} must be a table, like [robot.{robot}.sac]")));
                }
            }
        }
        Ok(())
    }
}

/// Reads a TOML file; what is wrong with it is named by its line.
pub fn read_toml<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let text = std::fs::read_to_string(path).map_err(|e| Error::io(path, e))?;
    parse_toml(&path.display().to_string(), &text)
}

fn parse_toml<T: serde::de::DeserializeOwned>(name: &str, text: &str) -> Result<T> {
    toml::from_str(text).map_err(|e| {
        let line = 1 + e.span().map_or(0, |s| text[..s.start.min(text.len())].matches('\n').count());
        Error::other(format!("{name}, line {line}: {}", e.message()))
    })
}

/// Puts `changes` over `base`, in which every valid key stands with its default.
fn overlay(base: &mut Table, changes: &Table, path: &str) -> Result<()> {
    for (key, value) in changes {
        let full = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let valid: Vec<String> = base.keys().cloned().collect();
        let Some(old) = base.get_mut(key) else {
            return Err(Error::other(unknown_key(&full, key, &valid, path)));
        };
        match (old, value) {
            (Value::Table(old), Value::Table(new)) => overlay(old, new, &full)?,
            (old @ Value::Float(_), Value::Integer(new)) => *old = Value::Float(*new as f64),
            (old, new) if old.same_type(new) => *old = new.clone(),
            (old, new) => {
                return Err(Error::other(format!(
                    "{full} must be {}, not {} ({new})",
                    article(old.type_str()),
                    article(new.type_str())
                )));
            }
        }
    }
    Ok(())
}

fn article(kind: &str) -> String {
    let article = if kind.starts_with(['a', 'i', 'o']) { "an" } else { "a" };
    format!("{article} {kind}")
}

fn unknown_key(full: &str, key: &str, valid: &[String], path: &str) -> String {
    let hint = match nearest(key, valid.iter().map(String::as_str)) {
        Some(name) => {
            let dot = if path.is_empty() { "" } else { "." };
            format!("; did you mean {path}{dot}{name}?")
        }
        _ => format!("; the keys here are {}", valid.join(", ")),
    };
    format!("there is no setting called {full}{hint}")
}

//! The environments and methods that can be asked for by name, as a value: whoever has an environment or a method of their own adds
//! it to the standard ones and hands the whole to [`crate::train`], [`crate::sweep`] or the command line.

use sskp_blocks::env::Env;
use sskp_blocks::registry::{EnvEntry, EnvOptions};
use sskp_blocks::{Error, Result};
use sskp_methods::Entry as MethodEntry;

use crate::config::nearest;

/// Environments and methods by name.
///
/// ```
/// use sskp_blocks::{registry::EnvEntry, toy::Toy};
/// use sskp_lab::registry::Registry;
///
/// let mut registry = Registry::standard();
/// registry.add_env(EnvEntry::new("bridge", |_| Ok(Box::new(Toy::default()))))?;
/// assert!(registry.env("bridge").is_ok());
/// assert!(registry.env("brigde").unwrap_err().to_string().contains("did you mean bridge?"));
/// # Ok::<(), sskp_blocks::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Registry {
    envs: Vec<EnvEntry>,
    methods: Vec<MethodEntry>,
}

impl Default for Registry {
    fn default() -> Self {
        Self::standard()
    }
}

impl Registry {
    /// The robots and methods of this project.
    pub fn standard() -> Self {
        Self { envs: sskp_robots::robots(), methods: sskp_methods::METHODS.to_vec() }
    }

    /// Adds an environment. A name that is taken is refused.
    pub fn add_env(&mut self, entry: EnvEntry) -> Result<()> {
        if self.envs.iter().any(|e| e.name == entry.name) {
            return Err(Error::other(format!("there is an environment called {} already", entry.name)));
        }
        self.envs.push(entry);
        Ok(())
    }

    /// Adds a method. A name that is taken is refused.
    pub fn add_method(&mut self, entry: MethodEntry) -> Result<()> {
        if self.methods.iter().any(|m| m.name == entry.name) {
            return Err(Error::other(format!("there is a method called {} already", entry.name)));
        }
        self.methods.push(entry);
        Ok(())
    }

    /// All environments.
    pub fn envs(&self) -> &[EnvEntry] {
        &self.envs
    }

    /// All methods.
    pub fn methods(&self) -> &[MethodEntry] {
        &self.methods
    }

    /// The environment called `name`.
    pub fn env(&self, name: &str) -> Result<&EnvEntry> {
        let names: Vec<&str> = self.envs.iter().map(|e| e.name.as_str()).collect();
        self.envs.iter().find(|e| e.name == name).ok_or_else(|| missing("robot", "robots", name, &names))
    }

    /// The method called `name`.
    pub fn method(&self, name: &str) -> Result<&MethodEntry> {
        let names: Vec<&str> = self.methods.iter().map(|m| m.name).collect();
        self.methods.iter().find(|m| m.name == name).ok_or_else(|| missing("method", "methods", name, &names))
    }

    /// Builds the environment called `name`.
    pub fn make_env(&self, name: &str, options: EnvOptions) -> Result<Box<dyn Env>> {
        self.env(name)?.make(options)
    }

    /// Steps after which the environment called `name` truncates an episode; none where it has no limit, or is not known here.
    pub fn time_limit(&self, name: &str) -> Option<usize> {
        self.make_env(name, EnvOptions::default()).ok()?.spec().time_limit
    }
}

fn missing(one: &str, many: &str, name: &str, names: &[&str]) -> Error {
    let all = names.join(", ");
    Error::other(match nearest(name, names.iter().copied()) {
        Some(near) => format!("there is no {one} called \"{name}\"; did you mean {near}? The {many} are {all}"),
        None => format!("there is no {one} called \"{name}\"; the {many} are {all}"),
    })
}

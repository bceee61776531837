//! One environment of a registry: its name, how one is built, and what people must know of it. The registry itself, with the
//! methods beside, is `sskp_lab::registry::Registry`.

use std::fmt;
use std::sync::Arc;

use crate::Result;
use crate::env::Env;

/// One entry of an action or an observation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Name of the joint, or of the quantity.
    pub name: String,
    /// What it is, with its unit.
    pub what: String,
}

impl Column {
    /// A column.
    pub fn new(name: impl Into<String>, what: impl Into<String>) -> Self {
        Self { name: name.into(), what: what.into() }
    }
}

/// Everything a user of an environment must know, in words: what the documentation shows and `sskp robots` prints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contract {
    /// One sentence.
    pub about: String,
    /// Actions by index, each in `[-1, 1]`.
    pub action: Vec<Column>,
    /// Observations by index.
    pub observation: Vec<Column>,
    /// The reward's formula.
    pub reward: String,
    /// Where episodes start.
    pub start: String,
    /// What ends an episode with cost 1.
    pub violation: String,
}

/// Switches that change an environment away from what the paper used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EnvOptions {
    /// Charge contact forces in Ant's and Humanoid's reward.
    ///
    /// Off: in the original runs MuJoCo ≥ 2.0 never filled `cfrc_ext`, so both terms were exactly 0 there, and the
    /// rewards of the paper are without them.
    pub contact_costs: bool,
}

type Make = dyn Fn(EnvOptions) -> Result<Box<dyn Env>> + Send + Sync;

/// One environment that can be asked for by name.
///
/// ```
/// use sskp_blocks::registry::EnvEntry;
/// use sskp_blocks::toy::Toy;
///
/// let mut entry = EnvEntry::new("my-toy", |_| Ok(Box::new(Toy::default())));
/// entry.contract.about = "a cart on a bridge".into();
/// assert_eq!(entry.make(Default::default())?.spec().obs_dim, 5);
/// # Ok::<(), sskp_blocks::Error>(())
/// ```
#[derive(Clone)]
pub struct EnvEntry {
    /// What `--env` takes.
    pub name: String,
    /// What people must know of it.
    pub contract: Contract,
    /// The model it simulates, as text, whose hash goes into manifests; none where there is no such file.
    pub model: Option<Arc<str>>,
    make: Arc<Make>,
}

impl EnvEntry {
    /// An environment by name, and how one is built.
    pub fn new(
        name: impl Into<String>,
        make: impl Fn(EnvOptions) -> Result<Box<dyn Env>> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), contract: Contract::default(), model: None, make: Arc::new(make) }
    }

    /// Builds one.
    pub fn make(&self, options: EnvOptions) -> Result<Box<dyn Env>> {
        (self.make)(options)
    }
}

impl fmt::Debug for EnvEntry {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("EnvEntry").field("name", &self.name).finish_non_exhaustive()
    }
}

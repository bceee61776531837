//! A robot's contract as tables: what the documentation shows, `sskp robots` prints and the tests compare with MuJoCo.

/// One entry of an action or an observation.
pub struct Column {
    /// Name of the joint, or of the quantity.
    pub name: &'static str,
    /// What it is, with its unit.
    pub what: &'static str,
}

/// Everything a user of a robot must know.
pub struct Contract {
    /// One sentence.
    pub about: &'static str,
    /// Actions by index, each in `[-1, 1]`.
    pub action: &'static [Column],
    /// Observations by index.
    pub observation: &'static [Column],
    /// The reward's formula.
    pub reward: &'static str,
    /// Where episodes start.
    pub start: &'static str,
    /// What ends an episode with cost 1.
    pub violation: &'static str,
    /// Steps after which an episode is truncated.
    pub time_limit: usize,
}

/// Switches that change a robot away from what the paper used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Charge contact forces in Ant's and Humanoid's reward.
    ///
    /// Off: in the original runs MuJoCo ≥ 2.0 never filled `cfrc_ext`, so both terms were exactly 0 there, and the
    /// rewards of the paper are without them.
    pub contact_costs: bool,
}

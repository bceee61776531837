//! The paper: *Skill-based Safe Reinforcement Learning with Risk Planning* (Zhang and Guo 2025).
//!
//! | section | file |
//! |---|---|
//! | 4.1 skill model | [`skill`] |
//! | 4.2.1 risk planning, Algorithm 1, Eq. 5–6 | [`planner`] |

pub mod planner;
pub mod skill;

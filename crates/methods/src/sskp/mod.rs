//! The paper: *Skill-based Safe Reinforcement Learning with Risk Planning* (Zhang and Guo 2025).
//!
//! | section | file |
//! |---|---|
//! | 4.1 skill model | [`skill`], [`decoder`], [`skill_fit`]; as a file, [`skill_files`] |
//! | 4.1.1 skill risk predictor, Eq. 1–4 | [`risk`], [`pu_loss`], [`class_prior`]; its pairs and Eq. 7, [`pairs`]; λ online and what predictions were worth, `foresight.rs`; judged by [`sskp_blocks::judge`] |
//! | 4.2.1 risk planning, Algorithm 1, Eq. 5–6 | [`planner`] |
//! | 4.2.2 online safe policy learning, Algorithm 2 | `online.rs`; the policy's update is [`sskp_blocks::soft_actor_critic`] |
//! | 5.4 what planning does to the predicted risk, Figure 5 | [`risk_by_iteration`] |
//!
//! Settings, learner, offline stage and actor are where every method has them: [`config`], `learner.rs`, `offline.rs`, `online.rs`,
//! `actor.rs`.

mod actor;
mod check;
pub mod class_prior;
pub mod config;
pub mod decoder;
mod foresight;
mod learner;
mod offline;
mod online;
pub mod pairs;
pub mod planner;
pub mod pu_loss;
pub mod risk;
pub mod risk_by_iteration;
pub mod skill;
pub mod skill_files;
pub mod skill_fit;

pub use config::{PlannerConfig, PolicyConfig, RiskConfig, SkillConfig, SskpConfig};
pub(crate) use config::{settings_of_skills, updates_per_step};
pub use learner::Sskp;

//! The paper: *Skill-based Safe Reinforcement Learning with Risk Planning* (Zhang and Guo 2025). Its parts, not yet joined
//! into a method:
//!
//! | section | file |
//! |---|---|
//! | 4.1 skill model | [`skill`] |
//! | 4.1.1 skill risk predictor, Eq. 1–4 | [`risk`], [`class_prior`] |
//! | 4.2.1 risk planning, Algorithm 1, Eq. 5–6 | [`planner`] |
//! | 4.2.2 the policy's update, held to the prior | [`blocks::soft_actor_critic`] |

pub mod class_prior;
pub mod planner;
pub mod risk;
pub mod skill;

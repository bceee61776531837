//! Recovery RL, model-free (Thananjeyan et al. 2021): a task policy learns by SAC; where the risk of its action is above a
//! threshold, a recovery policy that minimises risk acts instead.
//!
//! - risk critic (`risk_critic.rs`): Q_risk(s, a) = E[c + (1 − c)·γ_safe·Q_risk(s', a')], a' ~ the task policy: the discounted chance
//!   of a violation; two networks with a sigmoid, of which the greater counts;
//! - recovery policy (`recovery_policy.rs`): a = clip(tanh(m(s)) + σ·noise), minimises the mean of Q_risk(s, a);
//! - acting (`actor.rs`): a_task ~ the task policy; if Q_risk(s, a_task) > ε_safe, the recovery policy's action is played;
//! - action relabelling (`online.rs`): the task policy's replay holds a_task all the same, the risk critic's memory what was played;
//! - demonstrations (`offline.rs`): risk critic and recovery policy are learnt from them before the first step.
//!
//! Every departure from the authors' code, with its reason: `docs/methods/recovery-rl.md`.

mod actor;
mod config;
mod learner;
mod offline;
mod online;
mod recovery_policy;
mod risk_critic;

pub use config::{RecoveryConfig, RecoveryRlConfig, RiskCriticConfig};
pub use learner::RecoveryRl;

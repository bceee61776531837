//! Recovery RL, model-free (Thananjeyan et al. 2021): a task policy learns by SAC; where the risk of its action is above a
//! threshold, a recovery policy that minimises risk acts instead.
//!
//! - risk critic (`risk_critic.rs`), the discounted chance of a violation: two networks with a sigmoid, of which the greater counts;
//! - recovery policy (`recovery_policy.rs`), which minimises the risk of its actions:
//!
//!   ```math
//!   \begin{aligned}
//!   y &= c + (1 - c)\, \gamma_{safe} \max_i \bar Q_i(s', a'), & a' &\sim \pi_{task}(\cdot \mid s') \\
//!   L_{Q_i} &= E\left[ (Q_i(s, a) - y)^2 \right] \\
//!   L_{rec} &= E\left[ \max_i Q_i(s, a) \right], & a &= \mathrm{clip}(\tanh m(s) + \sigma \epsilon, -1, 1)
//!   \end{aligned}
//!   ```
//!
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

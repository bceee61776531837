//! CPQ, constraints penalised Q-learning (Xu, Zhan and Zhu 2022), learnt on demonstrations and continued online.
//!
//! For a minibatch of transitions (s, a, r, c, s'), a' ~ π(·|s'), in this order:
//!
//! 1. an autoencoder of the data's actions ([`vae`]), whose latent divergence marks actions unlike them;
//! 2. reward critics, with the penalised Bellman operator: what leads to more cost than l is worth nothing,
//!
//!    ```math
//!    y = r + \gamma (1 - c)\, 1[\bar Q_c(s', a') \le l]\; \bar Q(s', a');
//!    ```
//!
//! 3. cost critics, pushed up to l_c on actions out of distribution, where the data cannot speak, as hard as α says, which grows
//!    while Q_c is below l_c there:
//!
//!    ```math
//!    y_c = c + \gamma (1 - c)\, \bar Q_c(s', a'), \qquad
//!    L_c = E\left[(Q_c(s, a) - y_c)^2\right]
//!        - \alpha\, E_{\tilde a \sim \pi(\cdot \mid s)}\left[1[\tilde a \text{ out of distribution}]\, \min(Q_c(s, \tilde a), l_c)\right];
//!    ```
//!
//! 4. actor, which goes down Q_c where that is above l (⟨|Q|⟩, the mean size of Q, puts both parts in one unit):
//!
//!    ```math
//!    L_\pi = -E_{a \sim \pi(\cdot \mid s)}\left[1[Q_c(s, a) \le l]\, Q(s, a) - 1[Q_c(s, a) > l]\, \langle |Q| \rangle\, Q_c(s, a)\right].
//!    ```
//!
//! Here l is what a constant cost per step is worth that adds up to the cost limit in an episode of T steps:
//!
//! ```math
//! l = \mathrm{limit} \cdot \frac{1 - \gamma^T}{(1 - \gamma)\, T}, \qquad l_c = 1.5\, l.
//! ```
//!
//! Every departure from the public implementation (OSRL), with its reason, and the
//! switches that undo them: `docs/methods/cpq.md`.

mod config;
mod critics;
mod learner;
mod networks;
mod offline;
mod online;
mod out_of_distribution;
mod policy;
#[cfg(test)]
mod tests;
pub mod vae;

pub use config::{CostConfig, CpqConfig};
pub use learner::Cpq;
pub use networks::Losses;

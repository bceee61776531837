//! The actor's loss.
//!
//! ```text
//! L = mean of α·D(s) − Q(s, a),  a ~ π(·|s) reparameterised;  Q the smaller of both critics, or one drawn at random
//! ```

use super::{Part, SoftActorCritic, Worker, rows};
use crate::replay::Batch;
use crate::twin::{Pick, join};

impl SoftActorCritic {
    /// The actor's gradient on a part of the minibatch. A row climbs the critic that `pick` names for it.
    pub(super) fn actor_part(&self, w: &mut Worker, part: Part, batch: &Batch, pick: Pick) {
        let (obs, action, n) = (self.obs, self.action, part.rows);
        let state = rows(&batch.state, part, obs);
        let noise = rows(&self.noise[1], part, action);
        w.d_head.resize(n * 2 * action, 0.0);
        w.d_action.resize(n * action, 0.0);

        self.regulariser.choose(&self.actor.net, state, noise, &mut w.chosen);
        join(&mut w.input, state, obs, &w.chosen.choice, action);
        w.critics.forward_picked(self.critics.nets(), pick, &w.input, n);
        let (alpha, scale) = (self.alpha(), 1.0 / part.of as f32);
        let (penalty, mut loss) = (&w.chosen.penalty, 0.0);
        let slope = |row: usize, q: f32| {
            loss += f64::from(alpha * penalty[row] - q);
            -scale
        };
        w.critics.action_gradient(self.critics.nets(), n, pick, obs, slope, &mut w.d_action);
        w.sums.actor_loss = loss;
        w.sums.penalty = penalty.iter().map(|d| f64::from(*d)).sum();

        self.regulariser.backward(&w.chosen, noise, &mut w.d_action, alpha * scale, &mut w.d_head);
        w.actor_grad.fill(0.0);
        let grad = Some(&mut w.actor_grad[..]);
        self.actor.net.backward(state, n, &mut w.chosen.tape, &w.d_head, grad, None);
    }
}

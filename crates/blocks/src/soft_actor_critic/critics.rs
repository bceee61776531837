//! The critics' loss: the squared error to the soft value of what follows.
//!
//! ```text
//! y = r + γ·(min_i Q̄_i(s', a') − α·D(s')),  a' ~ π(·|s');  at an end, what ViolationValue says
//! L = mean of (Q_i(s, a) − y)²,  i = 1, 2
//! ```

use super::{Part, SoftActorCritic, ViolationValue, Worker, rows};
use crate::replay::Batch;
use crate::twin::{Pick, join};

impl SoftActorCritic {
    /// The gradients of both critics on a part of the minibatch.
    pub(super) fn critic_part(&self, w: &mut Worker, part: Part, batch: &Batch, violation: ViolationValue) {
        let (obs, action, n) = (self.obs, self.action, part.rows);
        let next_state = rows(&batch.next_state, part, obs);
        self.regulariser.choose(&self.actor.net, next_state, rows(&self.noise[0], part, action), &mut w.chosen);
        join(&mut w.input, next_state, obs, &w.chosen.choice, action);
        let [q1, q2] = w.critics.forward(self.critics.targets(), &w.input, n);
        let (gamma, alpha) = (self.config.gamma as f32, self.alpha());
        let [reward, goes_on, violated] =
            [&batch.reward, &batch.goes_on, &batch.violation].map(|column| rows(column, part, 1));
        w.target.clear();
        w.target.extend((0..n).map(|i| {
            let soft = Pick::Least.of(q1[i], q2[i]) - alpha * w.chosen.penalty[i];
            violation.target(reward[i], violated[i] > 0.0, goes_on[i] > 0.0, gamma * soft)
        }));

        let [grad1, grad2] = &mut w.critic_grads;
        grad1.fill(0.0);
        grad2.fill(0.0);
        let input = rows(&batch.state_action, part, obs + action);
        let (target, scale, mut q_sum) = (&w.target, 1.0 / part.of as f32, 0.0);
        w.sums.critic_loss = w.critics.add_gradient(self.critics.nets(), [grad1, grad2], input, n, |i, q| {
            let error = q - target[i];
            q_sum += 0.5 * f64::from(q);
            (0.5 * f64::from(error * error), 2.0 * scale * error)
        });
        w.sums.q = q_sum;
    }
}

//! The toy's contract; the toy itself is `sskp_blocks::toy`.

use crate::{Column, Contract};

const fn c(name: &'static str, what: &'static str) -> Column {
    Column { name, what }
}

pub(crate) static CONTRACT: Contract = Contract {
    about: "a cart on a narrow bridge in a crosswind; pure Rust, learnt in seconds, for tests",
    action: &[c("throttle", "forward force"), c("steer", "sideways force")],
    observation: &[
        c("y", "distance from the middle of the bridge (m)"),
        c("y velocity", "m/s"),
        c("x velocity", "m/s"),
        c("sin x", "sine of the forward position: the wind"),
        c("cos x", "cosine of the forward position"),
    ],
    reward: "0.1 vx - 0.01 |a|^2",
    start: "x uniform in [0, 2 pi), y in +-0.2, vx in [0, 0.1), vy in +-0.1",
    violation: "|y| > 1",
    time_limit: 200,
};

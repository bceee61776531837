//! The toy's contract; the toy itself is `sskp_blocks::toy`.

use sskp_blocks::registry::{Column, Contract};

fn c(name: &str, what: &str) -> Column {
    Column::new(name, what)
}

pub(crate) fn contract() -> Contract {
    Contract {
        about: "a cart on a narrow bridge in a crosswind; pure Rust, learnt in seconds, for tests".into(),
        action: vec![c("throttle", "forward force"), c("steer", "sideways force")],
        observation: vec![
            c("y", "distance from the middle of the bridge (m)"),
            c("y velocity", "m/s"),
            c("x velocity", "m/s"),
            c("sin x", "sine of the forward position: the wind"),
            c("cos x", "cosine of the forward position"),
        ],
        reward: "0.1 vx - 0.01 |a|^2".into(),
        start: "x uniform in [0, 2 pi), y in +-0.2, vx in [0, 0.1), vy in +-0.1".into(),
        violation: "|y| > 1".into(),
    }
}

//! What a learnt risk is worth, told by episodes that it has not learnt from: every method that begins with demonstrations is judged
//! here, so that their figures can be compared.
//!
//! ```
//! use sskp_blocks::judge::{Judgement, auc, held_out};
//! use sskp_blocks::toy::demonstrations;
//!
//! let demos = demonstrations(40);
//! let held = held_out(demos.trajectories(), 10);
//! // A risk that knows nothing but how far the toy is off the middle of the bridge.
//! let judged = Judgement::of(&demos, &held, 0.5, |state, _action| state[0].abs());
//! assert!(judged.auc.unwrap() > 0.5);
//! assert_eq!(auc(&[2.0, 3.0], &[1.0, 2.0]), Some(0.875));
//! ```

mod auc;
mod calibration;
mod held_out;
mod reliability;

pub use auc::auc;
pub use calibration::{BINS, Bin, Calibration};
pub use held_out::{AHEAD, Judgement, held_out};
pub use reliability::{FORESIGHT, RISK_BINS, Reliability, RiskBin, wilson};

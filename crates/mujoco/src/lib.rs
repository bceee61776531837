//! The part of MuJoCo that robots need: load a model, step it, look at it. Nothing more.
//!
//! MuJoCo's library is opened when the first model is loaded ([`Model::from_xml`], [`Model::from_file`]), and looked for in
//! the folder that `SSKP_MUJOCO_DIR` names, beside the program (or in the folder that [`look_in`] names), and where it was when the program was built. So a
//! program that uses this crate needs no linker arguments, and one that loads no model needs no MuJoCo.
//!
//! ```
//! use std::sync::Arc;
//! use sskp_mujoco::{Data, Model};
//!
//! let pendulum = r#"<mujoco><worldbody><body><joint name="hinge" axis="0 1 0"/>
//!     <geom type="capsule" fromto="0 0 0 0 0 -1" size="0.05"/></body></worldbody></mujoco>"#;
//! let mut data = Data::new(Arc::new(Model::from_xml(pendulum)?))?;
//! data.qpos_mut()[0] = 0.1;
//! for _ in 0..100 {
//!     data.step();
//! }
//! assert!(data.qpos()[0] < 0.1 && data.qvel()[0] < 0.0);
//! # Ok::<(), sskp_mujoco::Error>(())
//! ```

mod data;
mod ffi;
mod library;
mod model;

pub use data::{Data, Warning};
pub use library::{look_in, path as library};
pub use model::{Model, Object, Shape};

/// The version of MuJoCo. A library of another one is refused.
pub const VERSION: &str = env!("SSKP_MUJOCO_VERSION");

/// Why a model cannot be had, in one sentence.
#[derive(Clone, Debug)]
pub struct Error(String);

impl std::fmt::Display for Error {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// What this crate's fallible functions return.
pub type Result<T> = std::result::Result<T, Error>;

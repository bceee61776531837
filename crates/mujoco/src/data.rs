//! A simulation: what changes from step to step.

use std::ffi::c_int;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use crate::{Error, Model, Result, ffi};

/// The state of one simulation of a model.
pub struct Data {
    model: Arc<Model>,
    pointer: NonNull<ffi::MjData>,
}

// SAFETY: MuJoCo keeps a simulation's state in `mjData` alone.
unsafe impl Send for Data {}
// SAFETY: what takes `&self` only reads.
unsafe impl Sync for Data {}

/// What MuJoCo warns of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warning {
    /// A (nearly) singular inertia matrix.
    BadInertia,
    /// More contacts than there is room for.
    ContactsFull,
    /// More constraints than there is room for.
    ConstraintsFull,
    /// A position that is no number, or huge.
    BadPosition,
    /// A velocity that is no number, or huge.
    BadVelocity,
    /// An acceleration that is no number, or huge.
    BadAcceleration,
    /// A control that is no number, or huge.
    BadControl,
}

impl Warning {
    /// In MuJoCo's order.
    const ALL: [Warning; 7] = [
        Warning::BadInertia,
        Warning::ContactsFull,
        Warning::ConstraintsFull,
        Warning::BadPosition,
        Warning::BadVelocity,
        Warning::BadAcceleration,
        Warning::BadControl,
    ];
}

impl Data {
    /// A simulation in the model's start state.
    pub fn new(model: Arc<Model>) -> Result<Data> {
        // SAFETY: a loaded model.
        let pointer = unsafe { ffi::sskp_mj_make_data(model.pointer()) };
        match NonNull::new(pointer) {
            Some(pointer) => Ok(Data { model, pointer }),
            None => Err(Error("MuJoCo has no memory for another simulation".into())),
        }
    }

    /// What is simulated.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// Puts everything back to the start state and clears the warnings.
    pub fn reset(&mut self) {
        self.run(ffi::sskp_mj_reset);
    }

    /// Computes everything that follows from positions, velocities and controls, without moving.
    pub fn forward(&mut self) {
        self.run(ffi::sskp_mj_forward);
    }

    /// One step in time.
    pub fn step(&mut self) {
        self.run(ffi::sskp_mj_step);
    }

    /// Computes where bodies and geoms are.
    pub fn kinematics(&mut self) {
        self.run(ffi::sskp_mj_kinematics);
    }

    /// Computes [`Data::cfrc_ext`].
    pub fn rne_post_constraint(&mut self) {
        self.run(ffi::sskp_mj_rne_post_constraint);
    }

    /// Positions.
    pub fn qpos(&self) -> &[f64] {
        self.array(ffi::sskp_mj_qpos, self.model.nq())
    }

    /// Positions, to be set.
    pub fn qpos_mut(&mut self) -> &mut [f64] {
        self.array_mut(ffi::sskp_mj_qpos, self.model.nq())
    }

    /// Velocities.
    pub fn qvel(&self) -> &[f64] {
        self.array(ffi::sskp_mj_qvel, self.model.nv())
    }

    /// Velocities, to be set.
    pub fn qvel_mut(&mut self) -> &mut [f64] {
        self.array_mut(ffi::sskp_mj_qvel, self.model.nv())
    }

    /// Controls, to be set.
    pub fn ctrl_mut(&mut self) -> &mut [f64] {
        self.array_mut(ffi::sskp_mj_ctrl, self.model.nu())
    }

    /// Where the frames of the bodies are.
    pub fn xpos(&self) -> &[[f64; 3]] {
        self.array(ffi::sskp_mj_xpos, self.model.bodies())
    }

    /// Where the centres of mass of the bodies are.
    pub fn xipos(&self) -> &[[f64; 3]] {
        self.array(ffi::sskp_mj_xipos, self.model.bodies())
    }

    /// Where the geoms are.
    pub fn geom_xpos(&self) -> &[[f64; 3]] {
        self.array(ffi::sskp_mj_geom_xpos, self.model.geoms())
    }

    /// How the geoms are turned: rotation matrices, row by row.
    pub fn geom_xmat(&self) -> &[[f64; 9]] {
        self.array(ffi::sskp_mj_geom_xmat, self.model.geoms())
    }

    /// Torques and forces from outside on the bodies.
    pub fn cfrc_ext(&self) -> &[[f64; 6]] {
        self.array(ffi::sskp_mj_cfrc_ext, self.model.bodies())
    }

    /// Pairs of geoms that touch.
    pub fn contacts(&self) -> impl Iterator<Item = [usize; 2]> {
        // SAFETY: a live simulation.
        let count = unsafe { ffi::sskp_mj_ncon(self.pointer.as_ptr()) };
        (0..count).map(|i| {
            let mut geoms: [c_int; 2] = [0; 2];
            // SAFETY: `i` is below the number of contacts, which cannot change while `self` is borrowed.
            unsafe { ffi::sskp_mj_contact(self.pointer.as_ptr(), i, geoms.as_mut_ptr()) };
            // A contact of something else than two geoms has -1 here, which no geom's number is.
            geoms.map(|geom| geom as usize)
        })
    }

    /// The first kind of warning, in MuJoCo's order, that was raised since the last reset.
    pub fn warning(&self) -> Option<Warning> {
        // SAFETY: a live simulation, and a kind that there is (`shim.c` holds their number to that of `ALL`).
        let raised = |kind: usize| unsafe { ffi::sskp_mj_warnings(self.pointer.as_ptr(), kind as c_int) > 0 };
        (0..Warning::ALL.len()).find(|kind| raised(*kind)).map(|kind| Warning::ALL[kind])
    }

    /// Everything that the next steps depend on (MuJoCo's integration state): time, positions, velocities, the solver's
    /// warm start.
    pub fn state(&self) -> Vec<f64> {
        let mut state = vec![0.0; self.model.state_size()];
        self.state_into(&mut state);
        state
    }

    /// [`Data::state`], into memory that is there already.
    ///
    /// # Panics
    /// If `state` has another length than [`Model::state_size`].
    pub fn state_into(&self, state: &mut [f64]) {
        assert_eq!(state.len(), self.model.state_size(), "numbers in a state");
        // SAFETY: MuJoCo writes as many numbers as it said.
        unsafe { ffi::sskp_mj_get_state(self.model.pointer(), self.pointer.as_ptr(), state.as_mut_ptr()) };
    }

    /// Sets what [`Data::state`] returned.
    ///
    /// # Panics
    /// If `state` has another length than [`Model::state_size`].
    pub fn set_state(&mut self, state: &[f64]) {
        assert_eq!(state.len(), self.model.state_size(), "numbers in a state");
        // SAFETY: MuJoCo reads as many numbers as it said.
        unsafe { ffi::sskp_mj_set_state(self.model.pointer(), self.pointer.as_ptr(), state.as_ptr()) };
    }

    fn run(&mut self, function: unsafe extern "C" fn(*const ffi::MjModel, *mut ffi::MjData)) {
        // SAFETY: a simulation and its own model, both live.
        unsafe { function(self.model.pointer(), self.pointer.as_ptr()) }
    }

    /// `count` numbers, or rows of numbers, of one of the arrays of doubles that [`Data`] and its model hold the size of.
    fn array<T>(&self, array: Array, count: usize) -> &[T] {
        // SAFETY: MuJoCo allocates these arrays with the simulation, in the sizes that the model says, and neither moves
        // nor frees them before its end; `T` is `f64` or an array of it. An array without entries may be null, which a
        // slice must not be.
        if count == 0 { &[] } else { unsafe { slice::from_raw_parts(array(self.pointer.as_ptr()).cast(), count) } }
    }

    fn array_mut<T>(&mut self, array: Array, count: usize) -> &mut [T] {
        // SAFETY: as in `array`, and `self` is borrowed mutably.
        if count == 0 {
            &mut []
        } else {
            unsafe { slice::from_raw_parts_mut(array(self.pointer.as_ptr()).cast(), count) }
        }
    }
}

/// A getter of `shim.c`.
type Array = unsafe extern "C" fn(*const ffi::MjData) -> *mut f64;

impl Drop for Data {
    fn drop(&mut self) {
        // SAFETY: nobody else has the pointer.
        unsafe { ffi::sskp_mj_delete_data(self.pointer.as_ptr()) }
    }
}

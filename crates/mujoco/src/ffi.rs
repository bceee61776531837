//! `shim.c`, as Rust sees it.

use std::ffi::{c_char, c_int};

/// `mjModel`, behind a pointer only.
#[repr(C)]
pub struct MjModel {
    _opaque: [u8; 0],
}

/// `mjData`, behind a pointer only.
#[repr(C)]
pub struct MjData {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    pub fn sskp_mj_open(path: *const c_char) -> *const c_char;
    pub fn sskp_mj_load(
        name: *const c_char,
        xml: *const c_char,
        length: c_int,
        error: *mut c_char,
        size: c_int,
    ) -> *mut MjModel;
    pub fn sskp_mj_delete_model(m: *mut MjModel);
    pub fn sskp_mj_name2id(m: *const MjModel, kind: c_int, name: *const c_char) -> c_int;
    pub fn sskp_mj_id2name(m: *const MjModel, kind: c_int, id: c_int) -> *const c_char;
    pub fn sskp_mj_timestep(m: *const MjModel) -> f64;
    pub fn sskp_mj_state_size(m: *const MjModel) -> c_int;
    pub fn sskp_mj_nq(m: *const MjModel) -> i64;
    pub fn sskp_mj_nv(m: *const MjModel) -> i64;
    pub fn sskp_mj_nu(m: *const MjModel) -> i64;
    pub fn sskp_mj_nbody(m: *const MjModel) -> i64;
    pub fn sskp_mj_njnt(m: *const MjModel) -> i64;
    pub fn sskp_mj_ngeom(m: *const MjModel) -> i64;
    pub fn sskp_mj_nactuator(m: *const MjModel) -> i64;
    pub fn sskp_mj_body_mass(m: *const MjModel) -> *const f64;
    pub fn sskp_mj_geom_type(m: *const MjModel) -> *const c_int;
    pub fn sskp_mj_geom_size(m: *const MjModel) -> *const f64;
    pub fn sskp_mj_geom_rgba(m: *const MjModel) -> *const f32;
    pub fn sskp_mj_actuator_trnid(m: *const MjModel) -> *const c_int;

    pub fn sskp_mj_make_data(m: *const MjModel) -> *mut MjData;
    pub fn sskp_mj_delete_data(d: *mut MjData);
    pub fn sskp_mj_reset(m: *const MjModel, d: *mut MjData);
    pub fn sskp_mj_forward(m: *const MjModel, d: *mut MjData);
    pub fn sskp_mj_step(m: *const MjModel, d: *mut MjData);
    pub fn sskp_mj_kinematics(m: *const MjModel, d: *mut MjData);
    pub fn sskp_mj_rne_post_constraint(m: *const MjModel, d: *mut MjData);
    pub fn sskp_mj_get_state(m: *const MjModel, d: *const MjData, state: *mut f64);
    pub fn sskp_mj_set_state(m: *const MjModel, d: *mut MjData, state: *const f64);
    pub fn sskp_mj_qpos(d: *const MjData) -> *mut f64;
    pub fn sskp_mj_qvel(d: *const MjData) -> *mut f64;
    pub fn sskp_mj_ctrl(d: *const MjData) -> *mut f64;
    pub fn sskp_mj_xpos(d: *const MjData) -> *mut f64;
    pub fn sskp_mj_xipos(d: *const MjData) -> *mut f64;
    pub fn sskp_mj_geom_xpos(d: *const MjData) -> *mut f64;
    pub fn sskp_mj_geom_xmat(d: *const MjData) -> *mut f64;
    pub fn sskp_mj_cfrc_ext(d: *const MjData) -> *mut f64;
    pub fn sskp_mj_warnings(d: *const MjData, kind: c_int) -> c_int;
    pub fn sskp_mj_ncon(d: *const MjData) -> c_int;
    pub fn sskp_mj_contact(d: *const MjData, i: c_int, geoms: *mut c_int);
}

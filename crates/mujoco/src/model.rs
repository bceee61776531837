//! A robot's description, compiled by MuJoCo: it does not change while it is simulated.

use std::ffi::{CStr, CString, c_char, c_int};
use std::path::Path;
use std::ptr::{self, NonNull};
use std::slice;

use crate::{Error, Result, ffi, library};

/// A model. Share it between simulations in an `Arc`.
pub struct Model {
    pointer: NonNull<ffi::MjModel>,
}

// SAFETY: nothing changes a model after it was loaded.
unsafe impl Send for Model {}
// SAFETY: as above.
unsafe impl Sync for Model {}

/// What can have a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Object {
    /// A body.
    Body = 1,
    /// A joint.
    Joint = 3,
    /// A geom: a shape that collides or is drawn.
    Geom = 5,
}

/// The shape of a geom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// An endless plane.
    Plane,
    /// A sphere.
    Sphere,
    /// A cylinder with round ends.
    Capsule,
    /// An ellipsoid.
    Ellipsoid,
    /// A cylinder.
    Cylinder,
    /// A box.
    Box,
    /// A height field, a mesh or a distance field.
    Other,
}

impl Model {
    /// Compiles a description (MJCF or URDF). MuJoCo's own words on what is wrong with it come back as the error.
    pub fn from_xml(xml: &str) -> Result<Model> {
        let length = c_int::try_from(xml.len()).map_err(|_| Error("the description is longer than 2 GB".into()))?;
        load(c"model.xml", xml.as_ptr().cast(), length)
    }

    /// Compiles a file; what it includes is looked for beside it.
    pub fn from_file(path: &Path) -> Result<Model> {
        let name = CString::new(path.as_os_str().as_encoded_bytes())
            .map_err(|_| Error(format!("{} is no path: it has a zero byte", path.display())))?;
        load(&name, ptr::null(), 0)
    }

    pub(crate) fn pointer(&self) -> *const ffi::MjModel {
        self.pointer.as_ptr()
    }

    /// Number of coordinates of a position.
    pub fn nq(&self) -> usize {
        self.size(ffi::sskp_mj_nq)
    }

    /// Number of degrees of freedom: coordinates of a velocity.
    pub fn nv(&self) -> usize {
        self.size(ffi::sskp_mj_nv)
    }

    /// Number of controls.
    pub fn nu(&self) -> usize {
        self.size(ffi::sskp_mj_nu)
    }

    /// Number of bodies, the world among them.
    pub fn bodies(&self) -> usize {
        self.size(ffi::sskp_mj_nbody)
    }

    /// Number of joints.
    pub fn joints(&self) -> usize {
        self.size(ffi::sskp_mj_njnt)
    }

    /// Number of geoms.
    pub fn geoms(&self) -> usize {
        self.size(ffi::sskp_mj_ngeom)
    }

    /// Seconds of one step.
    pub fn timestep(&self) -> f64 {
        // SAFETY: a loaded model.
        unsafe { ffi::sskp_mj_timestep(self.pointer()) }
    }

    /// Length of [`Data::state`](crate::Data::state).
    pub fn state_size(&self) -> usize {
        // SAFETY: a loaded model.
        unsafe { ffi::sskp_mj_state_size(self.pointer()) as usize }
    }

    /// Masses of the bodies.
    pub fn body_mass(&self) -> &[f64] {
        self.array(ffi::sskp_mj_body_mass, self.bodies())
    }

    /// Shapes of the geoms.
    pub fn geom_shapes(&self) -> impl Iterator<Item = Shape> {
        self.array::<c_int, c_int>(ffi::sskp_mj_geom_type, self.geoms()).iter().map(|kind| match kind {
            0 => Shape::Plane,
            2 => Shape::Sphere,
            3 => Shape::Capsule,
            4 => Shape::Ellipsoid,
            5 => Shape::Cylinder,
            6 => Shape::Box,
            _ => Shape::Other,
        })
    }

    /// Sizes of the geoms; what they mean depends on the shape.
    pub fn geom_size(&self) -> &[[f64; 3]] {
        self.array(ffi::sskp_mj_geom_size, self.geoms())
    }

    /// Colours of the geoms.
    pub fn geom_rgba(&self) -> &[[f32; 4]] {
        self.array(ffi::sskp_mj_geom_rgba, self.geoms())
    }

    /// What each actuator drives: of one that drives a joint, the first number is the joint's.
    pub fn actuator_target(&self) -> &[[i32; 2]] {
        self.array(ffi::sskp_mj_actuator_trnid, self.size(ffi::sskp_mj_nactuator))
    }

    /// The number of the object called `name`.
    pub fn id(&self, kind: Object, name: &str) -> Option<usize> {
        let name = CString::new(name).ok()?;
        // SAFETY: a loaded model and a text that ends with zero.
        let id = unsafe { ffi::sskp_mj_name2id(self.pointer(), kind as c_int, name.as_ptr()) };
        usize::try_from(id).ok()
    }

    /// The name of object number `id`, if it has one.
    pub fn name(&self, kind: Object, id: usize) -> Option<&str> {
        let id = c_int::try_from(id).ok()?;
        // SAFETY: MuJoCo returns null for a number out of range, else a text that lives as long as the model.
        unsafe {
            let name = ffi::sskp_mj_id2name(self.pointer(), kind as c_int, id);
            (!name.is_null()).then(|| CStr::from_ptr(name).to_str().ok()).flatten()
        }
    }

    fn size(&self, size: unsafe extern "C" fn(*const ffi::MjModel) -> i64) -> usize {
        // SAFETY: a loaded model.
        unsafe { size(self.pointer()) as usize }
    }

    /// `count` numbers of type `N`, or rows of them as type `T`.
    fn array<N, T>(&self, array: unsafe extern "C" fn(*const ffi::MjModel) -> *const N, count: usize) -> &[T] {
        // SAFETY: MuJoCo allocates these arrays with the model, in the sizes that it says; `T` is `N` or an array of it.
        // An array without entries may be null, which a slice must not be.
        unsafe {
            let start: *const T = array(self.pointer()).cast();
            if count == 0 { &[] } else { slice::from_raw_parts(start, count) }
        }
    }
}

fn load(name: &CStr, xml: *const c_char, length: c_int) -> Result<Model> {
    library::open()?;
    let mut error = [0; 1024];
    // SAFETY: the texts live through the call, `xml` is null or has `length` bytes, and MuJoCo writes at most
    // `error.len()` bytes, the last one zero.
    let (model, problem) = unsafe {
        let model = ffi::sskp_mj_load(name.as_ptr(), xml, length, error.as_mut_ptr(), error.len() as c_int);
        (model, CStr::from_ptr(error.as_ptr()).to_string_lossy())
    };
    match NonNull::new(model) {
        Some(pointer) => Ok(Model { pointer }),
        None => Err(Error(problem.split_whitespace().collect::<Vec<_>>().join(" "))),
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: nobody else has the pointer: simulations hold the model itself.
        unsafe { ffi::sskp_mj_delete_model(self.pointer.as_ptr()) }
    }
}

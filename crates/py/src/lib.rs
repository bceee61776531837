//! The compiled part of the Python package `sskp`. What users see is written in Python (`crates/py/python/sskp`); here is what must be
//! fast or must be the same as in the command line: robots, vectors of them, runs, policies, demonstrations, rows.
//!
//! Nothing here calls Python while it works. A run has a thread of its own and asks for what it needs of Python, a step of somebody
//! else's environment or an action, by `exchange.rs`; whoever waits for the run answers.

mod arrays;
mod data;
mod exchange;
mod picture;
mod policy;
mod robot;
mod sweep;
mod vector;
mod work;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, TryLockError};

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use sskp::blocks::Error;
use sskp::lab::registry::Registry;

/// As in the program: learners allocate from several threads at once.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// One of our errors as Python's: the system's as an `OSError`, the others as a `ValueError`, since they speak of what was given.
fn raised(error: Error) -> PyErr {
    match error {
        Error::Io { .. } => PyOSError::new_err(error.to_string()),
        Error::NotFinite { .. } => PyRuntimeError::new_err(error.to_string()),
        _ => PyValueError::new_err(error.to_string()),
    }
}

/// The robots and methods of this project.
fn registry() -> Registry {
    Registry::standard()
}

/// Refuses what was made before this process was forked: its threads are not here.
fn same_process(made_in: u32, what: &str) -> PyResult<()> {
    match std::process::id() == made_in {
        true => Ok(()),
        false => Err(PyRuntimeError::new_err(format!(
            "{what} belongs to process {made_in}, whose threads a fork does not have: make a new one in this process"
        ))),
    }
}

/// What a lock guards, if nobody else uses it now. Never waits: who uses it may wait for Python's lock, which the caller has.
fn now<'a, T>(lock: &'a Mutex<T>, what: &str) -> PyResult<MutexGuard<'a, T>> {
    match lock.try_lock() {
        Ok(guard) => Ok(guard),
        Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => {
            Err(PyRuntimeError::new_err(format!("{what} is being used by another thread: give each one of its own")))
        }
    }
}

/// Says where the package lies: MuJoCo's library is looked for there, and the module's hash goes into manifests.
#[pyfunction]
fn installed(module: PathBuf) {
    if let Some(folder) = module.parent() {
        sskp::robots::look_for_mujoco_in(folder.to_path_buf());
    }
    sskp::lab::manifest::made_by(module);
}

/// The compiled part of the package `sskp`.
#[pymodule]
fn _sskp(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("VERSION", env!("CARGO_PKG_VERSION"))?;
    module.add("MUJOCO_VERSION", sskp::robots::MUJOCO_VERSION)?;
    module.add_class::<robot::Robot>()?;
    module.add_class::<vector::Robots>()?;
    module.add_class::<work::Work>()?;
    module.add_class::<policy::Policy>()?;
    for function in [
        wrap_pyfunction!(installed, module)?,
        wrap_pyfunction!(robot::contracts, module)?,
        wrap_pyfunction!(arrays::within_box, module)?,
        wrap_pyfunction!(work::methods, module)?,
        wrap_pyfunction!(sweep::open_grid, module)?,
        wrap_pyfunction!(sweep::run_cell, module)?,
        wrap_pyfunction!(sweep::holder, module)?,
        wrap_pyfunction!(data::write_set, module)?,
        wrap_pyfunction!(data::find_set, module)?,
        wrap_pyfunction!(data::demos_folder, module)?,
        wrap_pyfunction!(data::set_info, module)?,
        wrap_pyfunction!(data::read_runs, module)?,
        wrap_pyfunction!(data::seed_statistics, module)?,
    ] {
        module.add_function(function)?;
    }
    Ok(())
}

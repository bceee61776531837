//! One robot for `gymnasium.Env`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use numpy::{PyArray1, PyArray3, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use sskp::blocks::env::{End, Env};
use sskp::blocks::registry::EnvOptions;
use sskp::blocks::rng::Rng;
use sskp::lab::rollout::Recording;

use crate::picture::Camera;
use crate::{arrays, raised, registry};

/// What every robot's documentation needs: name, sizes, limit, seconds, and the tables of its contract.
#[pyfunction]
#[allow(clippy::type_complexity)]
pub fn contracts() -> PyResult<Vec<(String, Vec<String>, Vec<[String; 2]>, Vec<[String; 2]>)>> {
    let columns = |list: &[sskp::blocks::registry::Column]| -> Vec<[String; 2]> {
        list.iter().map(|c| [c.name.clone(), c.what.clone()]).collect()
    };
    let registry = registry();
    let all = registry.envs().iter().map(|entry| {
        let c = &entry.contract;
        let words = [&c.about, &c.reward, &c.start, &c.violation].map(String::clone);
        (entry.name.clone(), words.to_vec(), columns(&c.action), columns(&c.observation))
    });
    Ok(all.collect())
}

/// A robot that is stepped from Python.
#[pyclass(module = "sskp._sskp")]
pub struct Robot {
    inner: Mutex<Inner>,
    name: String,
    sizes: [usize; 2],
    time_limit: Option<usize>,
    dt: f64,
}

/// Observation, reward, violated, terminated, truncated.
type Stepped<'py> = (Bound<'py, PyArray1<f64>>, f64, bool, bool, bool);

struct Inner {
    env: Option<Box<dyn Env>>,
    rng: Rng,
    action: Vec<f32>,
    /// Whether an episode is being played.
    playing: bool,
    recording: Option<Recording>,
}

impl Robot {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn env(&mut self) -> PyResult<&mut Box<dyn Env>> {
        self.env.as_mut().ok_or_else(|| PyRuntimeError::new_err("this environment is closed: make a new one"))
    }
}

#[pymethods]
impl Robot {
    #[new]
    #[pyo3(signature = (name, contact_costs=false))]
    fn new(name: &str, contact_costs: bool) -> PyResult<Self> {
        let env = registry().make_env(name, EnvOptions { contact_costs }).map_err(raised)?;
        let spec = env.spec().clone();
        let inner = Inner {
            env: Some(env),
            rng: Rng::stream(0, "env"),
            action: vec![0.0; spec.action_dim],
            playing: false,
            recording: None,
        };
        let (sizes, name) = ([spec.obs_dim, spec.action_dim], spec.name);
        Ok(Self { inner: Mutex::new(inner), name, sizes, time_limit: spec.time_limit, dt: spec.dt })
    }

    #[getter]
    fn name(&self) -> &str {
        &self.name
    }
    #[getter]
    fn obs_dim(&self) -> usize {
        self.sizes[0]
    }
    #[getter]
    fn action_dim(&self) -> usize {
        self.sizes[1]
    }
    #[getter]
    fn time_limit(&self) -> Option<usize> {
        self.time_limit
    }
    #[getter]
    fn dt(&self) -> f64 {
        self.dt
    }

    /// Starts an episode; with a seed, the stream of starts begins anew, as `sskp rollout --seed` has it.
    #[pyo3(signature = (seed=None))]
    fn reset<'py>(&self, py: Python<'py>, seed: Option<u64>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let mut inner = self.lock();
        let inner = &mut *inner;
        if let Some(seed) = seed {
            inner.rng = Rng::stream(seed, "env");
        }
        let env =
            inner.env.as_mut().ok_or_else(|| PyRuntimeError::new_err("this environment is closed: make a new one"))?;
        env.reset(&mut inner.rng).map_err(raised)?;
        inner.playing = true;
        Ok(PyArray1::from_slice(py, env.obs()))
    }

    /// Plays an action: observation, reward, violated, terminated, truncated.
    fn step<'py>(&self, py: Python<'py>, action: PyReadonlyArray1<'py, f32>) -> PyResult<Stepped<'py>> {
        let mut inner = self.lock();
        let Inner { env, action: mine, playing, recording, .. } = &mut *inner;
        let env = env.as_mut().ok_or_else(|| PyRuntimeError::new_err("this environment is closed: make a new one"))?;
        if !*playing {
            return Err(PyRuntimeError::new_err("no episode is being played: call reset() first"));
        }
        arrays::copy("action", action.as_array(), &self.sizes[1..], |x| x, mine)?;
        let step = env.step(mine).map_err(raised)?;
        if let Some(recording) = recording {
            recording.push(&mut **env, &step);
        }
        *playing = step.end.is_none();
        let truncated = step.end == Some(End::Truncated);
        let terminated = step.end.is_some() && !truncated;
        Ok((PyArray1::from_slice(py, env.obs()), step.reward, step.violated(), terminated, truncated))
    }

    /// Everything needed to go on from here.
    fn save(&self) -> PyResult<Vec<f64>> {
        let mut inner = self.lock();
        let snapshot = inner.env()?.snapshot().ok_or_else(|| PyRuntimeError::new_err("it keeps no snapshots"))?;
        Ok(snapshot.save())
    }

    /// Back to a saved state; gives the observation there.
    fn restore<'py>(&self, py: Python<'py>, state: Vec<f64>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let mut inner = self.lock();
        let env = inner.env()?;
        let snapshot = env.snapshot().ok_or_else(|| PyRuntimeError::new_err("it keeps no snapshots"))?;
        snapshot.restore(&state).map_err(raised)?;
        let obs = PyArray1::from_slice(py, env.obs());
        inner.playing = true;
        Ok(obs)
    }

    /// A picture of it, `[height, width, 3]`.
    fn picture<'py>(&self, py: Python<'py>, width: usize, height: usize) -> PyResult<Bound<'py, PyArray3<u8>>> {
        let mut inner = self.lock();
        let scene = inner.env()?.scene().ok_or_else(|| PyRuntimeError::new_err("there is nothing to draw"))?;
        let geoms = scene.geoms();
        let mut poses = Vec::new();
        scene.poses(&mut poses);
        // Let go of before Python's lock is: whoever has that may want this.
        drop(inner);
        let pixels = py.detach(|| Camera::following(&geoms, &poses).draw(&geoms, &poses, width, height));
        PyArray1::from_vec(py, pixels).reshape([height, width, 3])
    }

    /// Begins to keep the episode for a replay page.
    fn record(&self) -> PyResult<()> {
        let mut inner = self.lock();
        let recording = Recording::begin(&mut **inner.env()?);
        inner.recording = Some(recording);
        Ok(())
    }

    /// Writes what was kept as a replay page.
    fn write_page(&self, file: std::path::PathBuf, title: &str) -> PyResult<()> {
        let mut inner = self.lock();
        let recording = inner.recording.take();
        let recording =
            recording.ok_or_else(|| PyRuntimeError::new_err("nothing was recorded: call record() first"))?;
        let registry = registry();
        let page = recording.into_page(registry.env(&self.name).map_err(raised)?, title);
        sskp::lab::replay_page::write_html(&page, &file).map_err(raised)
    }

    /// Lets go of it; every later call but this is refused.
    fn close(&self) {
        self.lock().env = None;
    }
}

//! Trained policies.

use std::path::PathBuf;
use std::sync::Mutex;

use numpy::{PyArray2, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use sskp::lab::absent::Absent;
use sskp::lab::evaluate::{Trained, load_policy, newest_run};
use sskp::methods::Actor;

use crate::{arrays, now, raised};

/// A policy out of a run: one player for every row of observations, each with the skill it is playing.
#[pyclass(module = "sskp._sskp")]
pub struct Policy {
    inner: Mutex<Inner>,
    sizes: [usize; 2],
    about: String,
    run: PathBuf,
}

struct Inner {
    trained: Trained,
    players: Vec<Box<dyn Actor>>,
    state: Vec<f32>,
}

#[pymethods]
impl Policy {
    #[new]
    fn new(path: PathBuf) -> PyResult<Self> {
        let (path, _) = newest_run(&path).map_err(raised)?;
        let trained = load_policy(&crate::registry(), &path, |_| ()).map_err(raised)?;
        let spec = trained.make_env().map_err(raised)?.spec().clone();
        let run = trained.run().to_path_buf();
        let absent = Absent::read(&run).map_err(raised)?;
        let about = serde_json::json!({
            "algo": trained.config.run.algo,
            "env": trained.config.run.env,
            "seed": trained.config.run.seed,
            "steps": trained.steps,
            "checkpoint": trained.checkpoint,
            "action_low": absent.as_ref().map(|a| &a.action_low),
            "action_high": absent.as_ref().map(|a| &a.action_high),
            "observation": absent.as_ref().map(|a| &a.observation),
            "settings": trained.config.method,
        });
        let inner = Inner { trained, players: Vec::new(), state: Vec::new() };
        Ok(Self { inner: Mutex::new(inner), sizes: [spec.obs_dim, spec.action_dim], about: about.to_string(), run })
    }

    #[getter]
    fn obs_dim(&self) -> usize {
        self.sizes[0]
    }
    #[getter]
    fn action_dim(&self) -> usize {
        self.sizes[1]
    }
    /// What is known of it, as JSON.
    #[getter]
    fn about(&self) -> &str {
        &self.about
    }
    #[getter]
    fn run(&self) -> PathBuf {
        self.run.clone()
    }

    /// Actions for rows of observations, in `[-1, 1]`, and the risk predicted for what is being played in each row.
    #[allow(clippy::type_complexity)]
    fn act<'py>(
        &self,
        py: Python<'py>,
        obs: PyReadonlyArray2<'py, f64>,
        explore: bool,
    ) -> PyResult<(Bound<'py, PyArray2<f32>>, Vec<Option<f32>>)> {
        let (rows, [obs_dim, action_dim]) = (obs.shape()[0], self.sizes);
        let mut inner = now(&self.inner, "this policy")?;
        let Inner { trained, players, state } = &mut *inner;
        state.resize(rows * obs_dim, 0.0);
        arrays::copy("observation", obs.as_array(), &[rows, obs_dim], |x| x as f32, state)?;
        while players.len() < rows {
            players.push(trained.another_actor());
        }
        let actions = PyArray2::<f32>::zeros(py, [rows, action_dim], false);
        // SAFETY: nobody else knows the new array yet.
        let out = unsafe { actions.as_slice_mut() }.expect("a new array has no gaps");
        let risks = py.detach(|| {
            let rows = state.chunks_exact(obs_dim).zip(out.chunks_exact_mut(action_dim)).zip(&mut *players);
            let act = |((state, action), player): ((&[f32], &mut [f32]), &mut Box<dyn Actor>)| {
                player.act(state, explore, action);
                player.risk()
            };
            rows.map(act).collect::<Vec<_>>()
        });
        Ok((actions, risks))
    }

    /// Episodes begin: in all rows, or in one.
    #[pyo3(signature = (row=None))]
    fn reset(&self, row: Option<usize>) -> PyResult<()> {
        let mut inner = now(&self.inner, "this policy")?;
        match row {
            None => inner.players.iter_mut().for_each(|player| player.begin()),
            Some(row) => inner.players.iter_mut().skip(row).take(1).for_each(|player| player.begin()),
        }
        Ok(())
    }

    /// Writes its networks as ONNX, and how they are put together.
    fn export_onnx(&self, folder: PathBuf) -> PyResult<()> {
        let inner = now(&self.inner, "this policy")?;
        sskp::lab::export::onnx(&inner.trained, &folder).map_err(raised)
    }
}

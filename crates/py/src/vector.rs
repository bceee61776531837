//! Many robots for `gymnasium.vector.VectorEnv`: stepped by a team of threads without Python's lock, written straight into the arrays
//! that Python gets.

use std::sync::{Mutex, PoisonError};

use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use sskp::blocks::Result;
use sskp::blocks::env::{End, Env};
use sskp::blocks::registry::EnvOptions;
use sskp::blocks::rng::Rng;
use sskp::blocks::team::{Shares, Team};

use crate::{now, raised, registry, same_process};

/// Robots of one kind.
#[pyclass(module = "sskp._sskp")]
pub struct Robots {
    inner: Mutex<Option<Inner>>,
    sizes: [usize; 2],
    count: usize,
    process: u32,
    /// Whether an episode that ends begins anew in the same step, and not in the next one.
    same_step: bool,
}

struct Inner {
    team: Team,
    robots: Vec<One>,
    actions: Vec<f32>,
}

struct One {
    env: Box<dyn Env>,
    rng: Rng,
    /// Whether no episode is being played: the next step begins one.
    over: bool,
    failure: Option<sskp::blocks::Error>,
}

impl One {
    fn begin(&mut self, obs: &mut [f64]) -> Result<()> {
        self.env.reset(&mut self.rng)?;
        obs.copy_from_slice(self.env.obs());
        self.over = false;
        Ok(())
    }
}

type Array1<'py, T> = Bound<'py, PyArray1<T>>;
type Array2<'py> = Bound<'py, PyArray2<f64>>;
type Flags<'py> = Array1<'py, bool>;
/// Observations, rewards, violated, terminated, truncated; then, where episodes begin in the same step, those they ended with.
type Stepped<'py> = (Array2<'py>, Array1<'py, f64>, Flags<'py>, Flags<'py>, Flags<'py>, Option<Array2<'py>>);

fn closed() -> PyErr {
    PyRuntimeError::new_err("this vector environment is closed: make a new one")
}

#[pymethods]
impl Robots {
    #[new]
    #[pyo3(signature = (name, count, threads, same_step=false, contact_costs=false))]
    fn new(name: &str, count: usize, threads: usize, same_step: bool, contact_costs: bool) -> PyResult<Self> {
        if !(1..=1 << 20).contains(&count) {
            return Err(PyValueError::new_err(format!("num_envs must be between 1 and 1048576, not {count}")));
        }
        if !(1..=1024).contains(&threads) {
            return Err(PyValueError::new_err(format!("threads must be between 1 and 1024, not {threads}")));
        }
        let registry = registry();
        let make = |seed: u64| -> Result<One> {
            let env = registry.make_env(name, EnvOptions { contact_costs })?;
            Ok(One { env, rng: Rng::stream(seed, "env"), over: true, failure: None })
        };
        let robots = (0..count as u64).map(make).collect::<Result<Vec<_>>>().map_err(raised)?;
        let spec = robots[0].env.spec();
        let sizes = [spec.obs_dim, spec.action_dim];
        let inner = Inner { team: Team::new(threads.min(count)), actions: vec![0.0; count * sizes[1]], robots };
        Ok(Self { inner: Mutex::new(Some(inner)), sizes, count, process: std::process::id(), same_step })
    }

    #[getter]
    fn obs_dim(&self) -> usize {
        self.sizes[0]
    }
    #[getter]
    fn action_dim(&self) -> usize {
        self.sizes[1]
    }

    /// Starts an episode in all, or in those that `mask` names; the others keep what they have, and their rows are what they were.
    #[pyo3(signature = (seeds=None, mask=None))]
    fn reset<'py>(
        &self,
        py: Python<'py>,
        seeds: Option<Vec<Option<u64>>>,
        mask: Option<Vec<bool>>,
    ) -> PyResult<Array2<'py>> {
        same_process(self.process, "this vector environment")?;
        let n = self.count;
        let lengths = [seeds.as_ref().map_or(n, Vec::len), mask.as_ref().map_or(n, Vec::len)];
        if let Some(got) = lengths.into_iter().find(|length| *length != n) {
            return Err(PyValueError::new_err(format!("there are {n} environments, but {got} seeds or masks")));
        }
        let mut inner = now(&self.inner, "this vector environment")?;
        let robots = &mut inner.as_mut().ok_or_else(closed)?.robots;
        let obs = PyArray2::<f64>::zeros(py, [n, self.sizes[0]], false);
        // SAFETY: nobody else knows the new array yet.
        let rows = unsafe { obs.as_slice_mut() }.expect("a new array has no gaps");
        for (i, (one, row)) in robots.iter_mut().zip(rows.chunks_exact_mut(self.sizes[0])).enumerate() {
            if mask.as_ref().is_some_and(|mask| !mask[i]) {
                row.copy_from_slice(one.env.obs());
                continue;
            }
            if let Some(seed) = seeds.as_ref().and_then(|seeds| seeds[i]) {
                one.rng = Rng::stream(seed, "env");
            }
            one.begin(row).map_err(raised)?;
        }
        Ok(obs)
    }

    /// Plays an action in each.
    fn step<'py>(&self, py: Python<'py>, actions: PyReadonlyArray2<'py, f32>) -> PyResult<Stepped<'py>> {
        same_process(self.process, "this vector environment")?;
        let (n, [obs_dim, action_dim]) = (self.count, self.sizes);
        if actions.shape() != [n, action_dim] {
            let shape = actions.shape();
            return Err(PyValueError::new_err(format!(
                "actions: {shape:?} numbers where [{n}, {action_dim}] are needed"
            )));
        }
        let mut guard = now(&self.inner, "this vector environment")?;
        let inner = guard.as_mut().ok_or_else(closed)?;
        for (to, from) in inner.actions.iter_mut().zip(actions.as_array()) {
            *to = *from;
        }
        if let Some(i) = inner.actions.iter().position(|a| !a.is_finite()) {
            let (row, column) = (i / action_dim, i % action_dim);
            return Err(PyValueError::new_err(format!("actions: number {column} of environment {row} is no number")));
        }
        let obs = PyArray2::<f64>::zeros(py, [n, obs_dim], false);
        let last = self.same_step.then(|| PyArray2::<f64>::zeros(py, [n, obs_dim], false));
        let reward = PyArray1::<f64>::zeros(py, n, false);
        let [violated, terminated, truncated] = [(); 3].map(|()| PyArray1::<bool>::zeros(py, n, false));
        {
            // SAFETY: nobody else knows these new arrays yet.
            let (obs, reward, violated, terminated, truncated, last) = unsafe {
                (
                    Shares::new(obs.as_slice_mut().expect("new")),
                    Shares::new(reward.as_slice_mut().expect("new")),
                    Shares::new(violated.as_slice_mut().expect("new")),
                    Shares::new(terminated.as_slice_mut().expect("new")),
                    Shares::new(truncated.as_slice_mut().expect("new")),
                    last.as_ref().map(|last| Shares::new(last.as_slice_mut().expect("new"))),
                )
            };
            let Inner { team, robots, actions } = inner;
            let (robots, actions, team) = (Shares::new(robots), &*actions, &*team);
            py.detach(|| {
                team.run(&|member| {
                    for i in team.share(member, n) {
                        // SAFETY: every row belongs to one member.
                        let (one, row) =
                            unsafe { (&mut robots.part(i..i + 1)[0], obs.part(i * obs_dim..(i + 1) * obs_dim)) };
                        if one.over {
                            if let Err(error) = one.begin(row) {
                                one.failure = Some(error);
                            }
                            continue;
                        }
                        match one.env.step(&actions[i * action_dim..][..action_dim]) {
                            Err(error) => one.failure = Some(error),
                            Ok(step) => {
                                row.copy_from_slice(one.env.obs());
                                // SAFETY: as above.
                                unsafe {
                                    reward.part(i..i + 1)[0] = step.reward;
                                    violated.part(i..i + 1)[0] = step.violated();
                                    let limit = step.end == Some(End::Truncated);
                                    truncated.part(i..i + 1)[0] = limit;
                                    terminated.part(i..i + 1)[0] = step.end.is_some() && !limit;
                                }
                                one.over = step.end.is_some();
                                if let (Some(last), true) = (&last, one.over) {
                                    // SAFETY: as above.
                                    let last = unsafe { last.part(i * obs_dim..(i + 1) * obs_dim) };
                                    last.copy_from_slice(row);
                                    if let Err(error) = one.begin(row) {
                                        one.failure = Some(error);
                                    }
                                }
                            }
                        }
                    }
                });
            });
        }
        if let Some(error) = inner.robots.iter_mut().find_map(|one| one.failure.take()) {
            return Err(raised(error));
        }
        Ok((obs, reward, violated, terminated, truncated, last))
    }

    /// Lets go of them; every later call but this is refused.
    fn close(&self) -> PyResult<()> {
        if std::process::id() == self.process {
            *now(&self.inner, "this vector environment")? = None;
        }
        Ok(())
    }
}

impl Drop for Robots {
    fn drop(&mut self) {
        // A fork has no threads to wait for.
        if std::process::id() != self.process {
            std::mem::forget(self.inner.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}

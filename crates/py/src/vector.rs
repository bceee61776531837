//! Many robots for `gymnasium.vector.VectorEnv`: stepped by a team of threads without Python's lock, written straight into the arrays
//! that Python gets.

use std::sync::{Mutex, PoisonError};

use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use sskp::blocks::Result;
use sskp::blocks::env::{End, Env};
use sskp::blocks::registry::EnvOptions;
use sskp::blocks::rng::Rng;
use sskp::blocks::team::{Shares, Team};

use crate::{arrays, now, raised, registry, same_process};

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

impl Inner {
    /// Calls `work` once for every robot, in the team. Whoever is free takes the next few: a step near the ground takes several times
    /// as long as one in the air, and equal shares would have all wait for the unluckiest.
    fn each(&mut self, work: impl Fn(usize, &mut One, &[f32]) + Sync) {
        let Inner { team, robots, actions } = self;
        let (n, width) = (robots.len(), actions.len() / robots.len());
        // Few enough that nobody waits long for the last ones, and enough that taking them costs nothing, however small the robot.
        let chunk = (n / (8 * team.size())).clamp(1, 16);
        let robots = Shares::new(robots);
        team.each(n, chunk, &|i| {
            // SAFETY: the team gives every robot away once.
            work(i, unsafe { &mut robots.part(i..i + 1)[0] }, &actions[i * width..][..width]);
        });
    }

    /// What went wrong in the first robot in which something did.
    fn failure(&mut self) -> PyResult<()> {
        self.robots.iter_mut().find_map(|one| one.failure.take()).map_or(Ok(()), |error| Err(raised(error)))
    }
}

struct One {
    env: Box<dyn Env>,
    rng: Rng,
    /// Whether no episode is being played: the next step begins one.
    over: bool,
    failure: Option<sskp::blocks::Error>,
}

impl One {
    fn begin(&mut self, obs: &mut [f64]) {
        self.failure = self.env.reset(&mut self.rng).err();
        self.over = self.failure.is_some();
        obs.copy_from_slice(self.env.obs());
    }
}

type Array1<'py, T> = Bound<'py, PyArray1<T>>;
type Array2<'py> = Bound<'py, PyArray2<f64>>;
type Flags<'py> = Array1<'py, bool>;
/// Observations, rewards, costs, terminated, truncated; then, where episodes begin in the same step, those they ended with.
type Stepped<'py> = (Array2<'py>, Array1<'py, f64>, Array1<'py, f64>, Flags<'py>, Flags<'py>, Option<Array2<'py>>);

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
        let mut guard = now(&self.inner, "this vector environment")?;
        let inner = guard.as_mut().ok_or_else(closed)?;
        let width = self.sizes[0];
        let obs = PyArray2::<f64>::zeros(py, [n, width], false);
        // SAFETY: nobody else knows the new array yet.
        let rows = Shares::new(unsafe { obs.as_slice_mut() }.expect("a new array has no gaps"));
        py.detach(|| {
            inner.each(|i, one, _| {
                // SAFETY: this is called once for every row.
                let row = unsafe { rows.part(i * width..(i + 1) * width) };
                if mask.as_ref().is_some_and(|mask| !mask[i]) {
                    return row.copy_from_slice(one.env.obs());
                }
                if let Some(seed) = seeds.as_ref().and_then(|seeds| seeds[i]) {
                    one.rng = Rng::stream(seed, "env");
                }
                one.begin(row);
            });
        });
        inner.failure()?;
        Ok(obs)
    }

    /// Plays an action in each.
    fn step<'py>(&self, py: Python<'py>, actions: PyReadonlyArray2<'py, f32>) -> PyResult<Stepped<'py>> {
        same_process(self.process, "this vector environment")?;
        let (n, [obs_dim, action_dim]) = (self.count, self.sizes);
        let mut guard = now(&self.inner, "this vector environment")?;
        let inner = guard.as_mut().ok_or_else(closed)?;
        arrays::copy("actions", actions.as_array(), &[n, action_dim], |x| x, &mut inner.actions)?;
        let obs = PyArray2::<f64>::zeros(py, [n, obs_dim], false);
        let last = self.same_step.then(|| PyArray2::<f64>::zeros(py, [n, obs_dim], false));
        let [reward, cost] = [(); 2].map(|()| PyArray1::<f64>::zeros(py, n, false));
        let [terminated, truncated] = [(); 2].map(|()| PyArray1::<bool>::zeros(py, n, false));
        // SAFETY: nobody else knows these new arrays yet.
        let (rows, rewards, costs, terminations, truncations, lasts) = unsafe {
            (
                Shares::new(obs.as_slice_mut().expect("new")),
                Shares::new(reward.as_slice_mut().expect("new")),
                Shares::new(cost.as_slice_mut().expect("new")),
                Shares::new(terminated.as_slice_mut().expect("new")),
                Shares::new(truncated.as_slice_mut().expect("new")),
                last.as_ref().map(|last| Shares::new(last.as_slice_mut().expect("new"))),
            )
        };
        py.detach(|| {
            inner.each(|i, one, action| {
                let columns = i * obs_dim..(i + 1) * obs_dim;
                // SAFETY: this is called once for every row.
                let row = unsafe { rows.part(columns.clone()) };
                if one.over {
                    return one.begin(row);
                }
                let step = match one.env.step(action) {
                    Ok(step) => step,
                    Err(error) => return one.failure = Some(error),
                };
                row.copy_from_slice(one.env.obs());
                let limit = step.end == Some(End::Truncated);
                one.over = step.end.is_some();
                // SAFETY: as above.
                unsafe {
                    rewards.part(i..i + 1)[0] = step.reward;
                    costs.part(i..i + 1)[0] = f64::from(u8::from(step.violated()));
                    truncations.part(i..i + 1)[0] = limit;
                    terminations.part(i..i + 1)[0] = one.over && !limit;
                    if let (Some(lasts), true) = (&lasts, one.over) {
                        lasts.part(columns).copy_from_slice(row);
                        one.begin(row);
                    }
                }
            });
        });
        inner.failure()?;
        Ok((obs, reward, cost, terminated, truncated, last))
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

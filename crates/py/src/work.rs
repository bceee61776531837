//! Work on a thread of its own, a run or a collection, and the side of it that Python sees.

use std::any::Any;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use numpy::{PyArray1, PyReadonlyArray1, PyUntypedArrayMethods};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use sskp::blocks::env::End;
use sskp::blocks::registry::EnvEntry;
use sskp::blocks::{Error, Result};
use sskp::lab::absent::Absent;
use sskp::lab::config::{Config, Overrides, RunConfig};
use sskp::lab::data::collect::{Plan, collect_from};
use sskp::lab::data::{check_target, write_minari};
use sskp::lab::registry::Registry;
use sskp::lab::run_dir::RunDir;
use sskp::lab::run_dir::claim::STALE;
use sskp::lab::sweep::run_claimed;
use sskp::lab::train::{self, Listener, Session, Summary};

use crate::exchange::{Link, Next, Remote, RemoteActor, Reply, Request};
use crate::{raised, same_process, sweep};

/// As much as a program's first thread has: the same run needs the same.
const STACK: usize = 8 << 20;

/// The methods: name, one sentence, and whether it begins with demonstrations.
#[pyfunction]
pub fn methods() -> Vec<(String, String, bool)> {
    let registry = crate::registry();
    registry.methods().iter().map(|m| (m.name.into(), m.about.into(), m.demos)).collect()
}

/// A run or a collection that goes on beside Python.
#[pyclass(module = "sskp._sskp")]
pub struct Work {
    link: Arc<Link>,
    thread: Mutex<Option<JoinHandle<()>>>,
    process: u32,
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| s.to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it panicked".into())
}

impl Work {
    pub(crate) fn start(
        link: Arc<Link>,
        work: impl FnOnce(&Arc<Link>) -> Result<String> + Send + 'static,
    ) -> PyResult<Self> {
        let theirs = Arc::clone(&link);
        let body = move || {
            // Nobody looks at what it had in its hands when it panicked.
            let work = std::panic::AssertUnwindSafe(|| work(&theirs));
            let done = std::panic::catch_unwind(work)
                .unwrap_or_else(|panic| Err(Error::other(format!("a mistake in sskp: {}", text_of(&*panic)))));
            theirs.finish(done);
        };
        let thread = std::thread::Builder::new().name("sskp run".into()).stack_size(STACK).spawn(body);
        let thread = thread.map_err(|e| PyRuntimeError::new_err(format!("no thread could be started: {e}")))?;
        Ok(Self { link, thread: Mutex::new(Some(thread)), process: std::process::id() })
    }

    fn here(&self) -> PyResult<()> {
        same_process(self.process, "this run")
    }

    /// Refuses an answer that nobody waits for.
    fn expected(&self) -> PyResult<()> {
        self.here()?;
        match self.link.asked() {
            true => Ok(()),
            false => Err(PyRuntimeError::new_err("nothing was asked for")),
        }
    }
}

/// The registry with somebody else's environment in it.
fn registry_with(absent: Option<&Absent>, link: &Arc<Link>) -> Result<Registry> {
    let mut registry = crate::registry();
    if let Some(absent) = absent {
        let (spec, link) = (absent.spec(), Arc::clone(link));
        let make = move |_| -> Result<_> { Ok(Box::new(Remote::new(spec.clone(), Arc::clone(&link))) as _) };
        registry.add_env(EnvEntry::new(absent.name.clone(), make))?;
    }
    Ok(registry)
}

pub(crate) fn session(registry: Registry, link: &Arc<Link>, absent: Option<Absent>, quiet: bool) -> Session {
    let listener = Arc::clone(link);
    Session {
        registry,
        stop: Arc::clone(&link.stop),
        quiet,
        cache: sskp::lab::places::model_cache(),
        listener: Some(Listener::new(move |news| listener.hear(news))),
        absent,
        claim: None,
    }
}

fn outcome(summary: &Summary, path: &std::path::Path) -> String {
    serde_json::json!({ "path": path, "summary": summary }).to_string()
}

/// A path that means the same when the program goes into another folder meanwhile.
fn lasting(path: &std::path::Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|e| Error::io(path, e))
}

fn read_absent(text: Option<String>) -> PyResult<Option<Absent>> {
    let read = |text: String| serde_json::from_str(&text).map_err(|e| PyValueError::new_err(e.to_string()));
    text.map(read).transpose()
}

fn sizes(absent: Option<&Absent>) -> [usize; 2] {
    absent.map_or([0; 2], |absent| [absent.obs_dim, absent.action_dim])
}

#[pymethods]
impl Work {
    /// Starts a run; with `claimed`, goes on with it where it is, if nobody else does.
    #[staticmethod]
    #[pyo3(signature = (algo, env, absent, seed, total_steps, threads, demos, skills, config, log_dir, episodes, claimed=false))]
    fn train(
        algo: String,
        env: String,
        absent: Option<String>,
        seed: u64,
        total_steps: u64,
        threads: usize,
        demos: Option<String>,
        skills: Option<String>,
        config: String,
        log_dir: Option<PathBuf>,
        episodes: bool,
        claimed: bool,
    ) -> PyResult<Self> {
        let absent = read_absent(absent)?;
        let [obs, action] = sizes(absent.as_ref());
        let changes: toml::Table = serde_json::from_str(&config)
            .map_err(|e| PyValueError::new_err(format!("config: {e}; it must be a dict of settings")))?;
        Self::start(Link::new(obs, action, episodes), move |link| {
            let registry = registry_with(absent.as_ref(), link)?;
            let mut run = RunConfig::new(&algo, &env, seed, total_steps);
            run.threads = threads;
            let mut overrides = Overrides::default();
            overrides.table(changes);
            let mut config = Config::resolve(&registry, run, &overrides)?;
            if let Some(demos) = demos {
                (config.run.demos, config.run.demos_sha256) = (demos, String::new());
            }
            if let Some(skills) = skills {
                (config.run.skills, config.run.skills_sha256) = (skills, String::new());
            }
            train::check(&registry, &config)?;
            let path = log_dir.unwrap_or_else(|| config.default_folder());
            let session = session(registry, link, absent, true);
            if claimed {
                let path = lasting(&path)?;
                let config = train::prepare(&config, session.clone())?.config;
                let ended = run_claimed(&config, &path, session, STALE, sweep::refused(link))?;
                return Ok(sweep::outcome(ended, &path));
            }
            RunDir::refuse_existing(&path)?;
            let summary = train::prepare(&config, session)?.train(&lasting(&path)?)?;
            Ok(outcome(&summary, &path))
        })
    }

    /// Goes on with a run.
    #[staticmethod]
    fn resume(path: PathBuf, total_steps: Option<u64>, absent: Option<String>, episodes: bool) -> PyResult<Self> {
        let absent = read_absent(absent)?;
        let [obs, action] = sizes(absent.as_ref());
        Self::start(Link::new(obs, action, episodes), move |link| {
            let registry = registry_with(absent.as_ref(), link)?;
            let session = session(registry, link, absent, true);
            let summary = train::resume(&lasting(&path)?, total_steps, session, sweep::refused(link))?;
            Ok(outcome(&summary, &path))
        })
    }

    /// Plays a policy of Python's, in a robot of ours or an environment of Python's, and writes what came out as a Minari set.
    #[staticmethod]
    #[pyo3(signature = (env, absent, sizes, episodes, noise, falls, push, grow, seed, root, id, who))]
    fn collect(
        env: String,
        absent: Option<String>,
        sizes: [usize; 2],
        episodes: u64,
        noise: f64,
        falls: u64,
        push: f64,
        grow: bool,
        seed: u64,
        root: PathBuf,
        id: String,
        who: String,
    ) -> PyResult<Self> {
        let absent = read_absent(absent)?;
        Self::start(Link::new(sizes[0], sizes[1], false), move |link| {
            let registry = registry_with(absent.as_ref(), link)?;
            let plan = Plan {
                env: env.clone(),
                episodes: Some(episodes),
                noise,
                falls,
                push,
                grow,
                seed,
                agent_episodes: 0,
                ..Plan::default()
            };
            plan.validate()?;
            check_target(&root, &id)?;
            let robot = registry.make_env(&env, Default::default())?;
            let mut actor = RemoteActor::new(Arc::clone(link));
            let made = collect_from(robot, &mut actor, &plan, &who, "sskp.collect", &link.stop, true)?;
            let folder = write_minari(&root, &id, &made.demos, &made.played, &made.about)?;
            let counts = serde_json::json!({
                "path": folder,
                "episodes": made.demos.trajectories().len(),
                "steps": made.demos.steps(),
                "violations": made.demos.violations(),
                "falls": made.falls,
            });
            Ok(counts.to_string())
        })
    }

    /// What it wants, waiting for it for so long: `("reset", seed)`, `("step", action)`, `("act", (observation, begins))`,
    /// `("episode", row)`, `("done", text)`, or none. What went wrong in it is raised.
    fn next<'py>(&self, py: Python<'py>, seconds: f64) -> PyResult<Option<(&'static str, Bound<'py, PyAny>)>> {
        self.here()?;
        let timeout = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::from_millis(100));
        let next = py.detach(|| self.link.next(timeout));
        Ok(match next {
            Next::Nothing => None,
            Next::Request(Request::Reset(seed)) => Some(("reset", seed.into_pyobject(py)?.into_any())),
            Next::Request(Request::Step) => {
                let action = self.link.look(|_, action| PyArray1::from_slice(py, action));
                Some(("step", action.into_any()))
            }
            Next::Request(Request::Act(begins)) => {
                let obs = self.link.look(|obs, _| PyArray1::from_slice(py, obs));
                Some(("act", (obs, begins).into_pyobject(py)?.into_any()))
            }
            Next::Request(Request::Episode(row)) => {
                let row =
                    (row.episode, row.steps, row.length, row.total_reward, row.violation, row.cumulative_violations);
                Some(("episode", row.into_pyobject(py)?.into_any()))
            }
            Next::Done(done) => {
                let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some(thread) = thread {
                    // It has nothing left to do; what it panicked with was caught.
                    let _ = py.detach(|| thread.join());
                }
                Some(("done", done.map_err(raised)?.into_pyobject(py)?.into_any()))
            }
        })
    }

    /// Answers a reset: the observation it began with.
    fn began(&self, obs: PyReadonlyArray1<f64>) -> PyResult<()> {
        self.expected()?;
        self.fits(obs.len(), |obs, _| obs, "observation")?;
        self.link.answer(Reply::Done, |to, _| to.iter_mut().zip(obs.as_array()).for_each(|(to, from)| *to = *from));
        Ok(())
    }

    /// Answers a step.
    fn stepped(&self, obs: PyReadonlyArray1<f64>, reward: f64, end: Option<&str>) -> PyResult<()> {
        self.expected()?;
        self.fits(obs.len(), |obs, _| obs, "observation")?;
        let end = match end {
            None => None,
            Some("violation") => Some(End::Violation),
            Some("terminated") => Some(End::Terminated),
            Some("truncated") => Some(End::Truncated),
            Some(other) => return Err(PyValueError::new_err(format!("an episode does not end by {other}"))),
        };
        let reply = Reply::Stepped(reward, end);
        self.link.answer(reply, |to, _| to.iter_mut().zip(obs.as_array()).for_each(|(to, from)| *to = *from));
        Ok(())
    }

    /// Answers an observation with an action.
    fn acted(&self, action: PyReadonlyArray1<f32>) -> PyResult<()> {
        self.expected()?;
        self.fits(action.len(), |_, action| action, "action")?;
        self.link.answer(Reply::Done, |_, to| to.iter_mut().zip(action.as_array()).for_each(|(to, from)| *to = *from));
        Ok(())
    }

    /// Answers an episode.
    fn heard(&self) -> PyResult<()> {
        self.expected()?;
        self.link.answer(Reply::Done, |_, _| ());
        Ok(())
    }

    /// What was asked for cannot be had: the run saves what it has and leaves.
    fn fail(&self) -> PyResult<()> {
        self.expected()?;
        self.link.answer(Reply::Failed, |_, _| ());
        Ok(())
    }

    /// Asks it to save itself and to leave.
    fn stop(&self) {
        self.link.stop.store(true, Ordering::Relaxed);
    }

    /// Nobody answers any more: it saves itself and leaves. Waits for that.
    fn desert(&self, py: Python) {
        if std::process::id() != self.process {
            return;
        }
        self.link.desert();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = py.detach(|| thread.join());
        }
    }

    /// How far it is: the stage of pre-training, lines to be shown, and steps, episodes, violations and last return.
    #[allow(clippy::type_complexity)]
    fn progress(&self) -> (Option<(&'static str, u64, u64)>, Vec<String>, Option<(u64, u64, u64, f64)>) {
        let progress = self.link.progress();
        (progress.stage, progress.lines, progress.episode)
    }
}

impl Work {
    fn fits(&self, got: usize, of: impl Fn(usize, usize) -> usize, what: &str) -> PyResult<()> {
        let needed = self.link.look(|obs, action| of(obs.len(), action.len()));
        match got == needed {
            true => Ok(()),
            false => Err(PyValueError::new_err(format!("{what}: it has {got} numbers where {needed} are needed"))),
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // Forgotten, not closed: the run saves itself and leaves, but nobody waits for it.
        if std::process::id() == self.process {
            self.link.desert();
        }
    }
}

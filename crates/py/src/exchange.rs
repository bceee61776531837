//! How a run on its own thread gets what only Python has: it asks, waits, and goes on with the answer.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sskp::blocks::env::{End, Env, Spec, Step};
use sskp::blocks::record::EpisodeRow;
use sskp::blocks::rng::Rng;
use sskp::blocks::{Error, Result};
use sskp::lab::train::{News, Stop};
use sskp::methods::Actor;

/// What a run asks for. Observations and actions lie in [`Link`]'s buffers.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// An episode, from this seed.
    Reset(u64),
    /// A step with the action that lies there.
    Step,
    /// An action for the observation that lies there; whether an episode has just begun.
    Act(bool),
    /// Nothing, but an episode has ended.
    Episode(EpisodeRow),
}

/// What came back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reply {
    /// It began, or was heard; an observation or an action lies there where one was asked for.
    Done,
    /// It was stepped: the reward, and how the episode ended.
    Stepped(f64, Option<End>),
    /// It could not be had. The run is to save what it has and to leave.
    Failed,
}

/// How far a run is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// The stage of pre-training: name, done, total.
    pub stage: Option<(&'static str, u64, u64)>,
    /// Lines to be shown.
    pub lines: Vec<String>,
    /// Steps, episodes and violations, and the return of the last episode.
    pub episode: Option<(u64, u64, u64, f64)>,
}

/// What both sides share.
#[derive(Default)]
pub struct Link {
    state: Mutex<State>,
    changed: Condvar,
    /// Asks the run to stop.
    pub stop: Stop,
}

#[derive(Default)]
struct State {
    request: Option<Request>,
    reply: Option<Reply>,
    obs: Vec<f64>,
    action: Vec<f32>,
    progress: Progress,
    /// What the run came to: a text of JSON, or what went wrong.
    done: Option<std::result::Result<String, Error>>,
    /// Nobody answers any more.
    deserted: bool,
    waits_for_episodes: bool,
}

/// What the side that answers sees.
pub enum Next {
    /// A request; it stands until it is answered.
    Request(Request),
    /// The run is over.
    Done(std::result::Result<String, Error>),
    /// Nothing happened in the time given.
    Nothing,
}

impl Link {
    /// One for observations and actions of these sizes; with `episodes`, the run waits at every episode's end.
    pub fn new(obs: usize, action: usize, episodes: bool) -> Arc<Self> {
        let state =
            State { obs: vec![0.0; obs], action: vec![0.0; action], waits_for_episodes: episodes, ..State::default() };
        Arc::new(Self { state: Mutex::new(state), ..Self::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks and waits. `before` writes what goes with the request, `after` reads what came with the reply.
    fn ask<T>(&self, request: Request, before: impl FnOnce(&mut State), after: impl FnOnce(Reply, &State) -> T) -> T {
        let mut state = self.lock();
        before(&mut state);
        (state.request, state.reply) = (Some(request), None);
        self.changed.notify_all();
        while state.reply.is_none() && !state.deserted {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let reply = state.reply.take().unwrap_or(Reply::Failed);
        if reply == Reply::Failed {
            self.stop.store(true, Ordering::Relaxed);
        }
        state.request = None;
        after(reply, &state)
    }

    /// What the run wants, waiting for it.
    pub fn next(&self, timeout: Duration) -> Next {
        let state = self.lock();
        let idle = |s: &mut State| s.request.as_ref().is_none_or(|_| s.reply.is_some()) && s.done.is_none();
        let (mut state, _) =
            self.changed.wait_timeout_while(state, timeout, idle).unwrap_or_else(PoisonError::into_inner);
        match (&state.request, &state.reply) {
            (Some(request), None) => Next::Request(request.clone()),
            _ => match state.done.take() {
                Some(done) => Next::Done(done),
                None => Next::Nothing,
            },
        }
    }

    /// Looks at what goes with a request.
    pub fn look<T>(&self, look: impl FnOnce(&[f64], &[f32]) -> T) -> T {
        let state = self.lock();
        look(&state.obs, &state.action)
    }

    /// Answers; `write` lays observation and action down.
    pub fn answer(&self, reply: Reply, write: impl FnOnce(&mut [f64], &mut [f32])) {
        let mut state = self.lock();
        let State { obs, action, .. } = &mut *state;
        write(obs, action);
        state.reply = Some(reply);
        self.changed.notify_all();
    }

    /// Whether something is asked for.
    pub fn asked(&self) -> bool {
        let state = self.lock();
        state.request.is_some() && state.reply.is_none()
    }

    /// Every request from here on fails, so that the run leaves.
    pub fn desert(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.lock().deserted = true;
        self.changed.notify_all();
    }

    /// The run is over.
    pub fn finish(&self, with: std::result::Result<String, Error>) {
        self.lock().done = Some(with);
        self.changed.notify_all();
    }

    /// How far it is; lines are given once.
    pub fn progress(&self) -> Progress {
        let mut state = self.lock();
        let lines = std::mem::take(&mut state.progress.lines);
        Progress { lines, ..state.progress.clone() }
    }

    /// Hears what the run says.
    pub fn hear(&self, news: News) {
        match news {
            News::Stage { name, done, total } => self.lock().progress.stage = Some((name, done, total)),
            News::Line(line) => self.lock().progress.lines.push(line.into()),
            News::Episode(row) => {
                let waits = {
                    let mut state = self.lock();
                    state.progress.stage = None;
                    state.progress.episode =
                        Some((row.steps, row.episode, row.cumulative_violations, row.total_reward));
                    state.waits_for_episodes
                };
                if waits {
                    self.ask(Request::Episode(row.clone()), |_| (), |_, _| ());
                }
            }
        }
    }
}

/// An environment that somebody else steps.
pub struct Remote {
    spec: Spec,
    link: Arc<Link>,
    obs: Vec<f64>,
}

impl Remote {
    pub fn new(spec: Spec, link: Arc<Link>) -> Self {
        Self { obs: vec![0.0; spec.obs_dim], spec, link }
    }
}

impl Env for Remote {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn reset(&mut self, rng: &mut Rng) -> Result<()> {
        // NumPy's old generators take no more than 32 bits.
        let seed = rng.below(1 << 31) as u64;
        let obs = &mut self.obs;
        let began = self.link.ask(
            Request::Reset(seed),
            |_| (),
            |reply, state| {
                obs.copy_from_slice(&state.obs);
                reply == Reply::Done
            },
        );
        let why = || Error::other(format!("{} could not begin an episode", self.spec.name));
        if began { Ok(()) } else { Err(why()) }
    }

    fn step(&mut self, action: &[f32]) -> Result<Step> {
        let obs = &mut self.obs;
        let reply = self.link.ask(
            Request::Step,
            |state| state.action.copy_from_slice(action),
            |reply, state| {
                if matches!(reply, Reply::Stepped(..)) {
                    obs.copy_from_slice(&state.obs);
                }
                reply
            },
        );
        Ok(match reply {
            Reply::Stepped(reward, end) => Step::new(reward, end),
            // It broke in the middle of an episode, which ends here as a time limit would end it: what was learnt until now can be
            // saved, and nothing is learnt from what did not happen but that one step without reward.
            _ => Step::new(0.0, Some(End::Truncated)),
        })
    }

    fn obs(&self) -> &[f64] {
        &self.obs
    }
}

/// A policy that somebody else is.
pub struct RemoteActor {
    link: Arc<Link>,
    begins: bool,
}

impl RemoteActor {
    pub fn new(link: Arc<Link>) -> Self {
        Self { link, begins: true }
    }
}

impl Actor for RemoteActor {
    fn begin(&mut self) {
        self.begins = true;
    }

    fn act(&mut self, state: &[f32], _explore: bool, action: &mut [f32]) {
        let begins = std::mem::take(&mut self.begins);
        self.link.ask(
            Request::Act(begins),
            |link| link.obs.iter_mut().zip(state).for_each(|(to, from)| *to = f64::from(*from)),
            |reply, link| match reply {
                Reply::Done => action.copy_from_slice(&link.action),
                // The step that follows asks again, and fails as well.
                _ => action.fill(0.0),
            },
        );
    }
}

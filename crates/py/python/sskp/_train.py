"""Runs from Python: started, gone on with, looked at meanwhile."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import sys
import threading
import time
import weakref
from dataclasses import dataclass
from typing import Any, Callable

from . import _sskp
from ._registration import robot_of

# Work that nobody has finished: at the end of the program it saves itself.
_UNDER_WAY: "weakref.WeakSet[Any]" = weakref.WeakSet()


@atexit.register
def _save_what_is_under_way() -> None:
    for work in list(_UNDER_WAY):
        work.desert()


class Tracked:
    """Work with a name for `atexit`: what is compiled cannot be referred to weakly."""

    def __init__(self, work: _sskp.Work):
        self.work = work
        _UNDER_WAY.add(self)

    def desert(self) -> None:
        """Saves and leaves, waiting for it."""
        self.work.desert()
        _UNDER_WAY.discard(self)


def methods() -> dict[str, str]:
    """The methods, each with a sentence about it."""
    return {name: about for name, about, _ in _sskp.methods()}


def begins_with_demonstrations(algo: str) -> bool:
    """Whether a method needs demonstrations; false of one that does not exist, which is refused elsewhere."""
    return any(name == algo and demos for name, _, demos in _sskp.methods())


def whole(name: str, value: Any, least: int = 0) -> int:
    """A whole number, or what is wrong with it."""
    number = value
    if isinstance(value, float) and value.is_integer():
        number = int(value)
    try:
        number = number.__index__()
    except AttributeError:
        raise TypeError(f"{name} must be a whole number, not {value!r}") from None
    if not least <= number < 2**64:
        raise ValueError(f"{name} must be a whole number from {least} to 2**64 - 1, not {value!r}")
    return number


def settings(config: dict | None) -> str:
    """Settings as our own form has them; `{"sac.batch": 64}` is the same as `{"sac": {"batch": 64}}`."""
    tree: dict = {}

    def put(at: dict, key: str, value: Any) -> None:
        if not isinstance(key, str):
            raise TypeError(f"config: {key!r} is no name of a setting")
        first, _, rest = key.partition(".")
        if rest:
            put(at.setdefault(first, {}), rest, value)
        elif isinstance(value, dict):
            for inner, what in value.items():
                put(at.setdefault(first, {}), inner, what)
        else:
            at[first] = value

    if config is not None and not isinstance(config, dict):
        raise TypeError(f"config must be a dict of settings, not a {type(config).__name__}")
    for key, value in (config or {}).items():
        put(tree, key, value)
    try:
        return json.dumps(tree, allow_nan=False, default=lambda value: value.item())
    except (TypeError, ValueError, AttributeError) as error:
        raise TypeError(f"config: {error}") from None


class Display:
    """One line that says how far a run is, in a terminal or a notebook; elsewhere a line now and then."""

    def __init__(self, on: bool, total: int | None):
        in_notebook = "ipykernel" in sys.modules
        self.on, self.total, self.alive = on, total, in_notebook or getattr(sys.stderr, "isatty", lambda: False)()
        self._every, self._next, self._width, self._began = (0.25 if self.alive else 30.0), 0.0, 0, time.monotonic()
        self._first: tuple[float, int] | None = None

    def look(self, work: _sskp.Work, done: bool = False) -> None:
        """Shows what there is to show, if it is time."""
        now = time.monotonic()
        if now < self._next and not done:
            return
        self._next = now + self._every
        stage, lines, episode = work.progress()
        if not self.on:
            return
        for line in lines:
            self._write(line, stays=True)
        if done:
            return self._write("")
        if stage is not None and episode is None:
            self._write(f"{stage[0]} {stage[1]}/{stage[2]}")
        elif episode is not None:
            steps, episodes, violations, last = episode
            left = ""
            if self._first is None:
                self._first = (now, steps)
            elif steps > self._first[1] and self.total:
                seconds = (self.total - steps) * (now - self._first[0]) / (steps - self._first[1])
                left = f", {seconds / 60:.0f} min left" if seconds > 90 else f", {seconds:.0f} s left"
            share = f"{100 * steps / self.total:3.0f}% {'█' * int(20 * steps / self.total):<20} " if self.total else ""
            self._write(f"{share}{steps} steps, {episodes} episodes, {violations} violations, return {last:.1f}{left}")

    def _write(self, text: str, stays: bool = False) -> None:
        if self.alive:
            sys.stderr.write("\r" + text.ljust(self._width) + ("\n" if stays else "\r" if not text else ""))
            self._width = 0 if stays else len(text)
        elif text:
            sys.stderr.write(text + "\n")
        sys.stderr.flush()


@contextlib.contextmanager
def signals(stop: Callable[[], None]):
    """Meanwhile Ctrl-C and SIGTERM ask the run to save itself and leave; afterwards they do what they always do."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def note(number: int, _frame: Any) -> None:
        came.append(number)
        stop()

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
    if came:
        signal.raise_signal(came[0])


def drive(work: _sskp.Work, answers: dict[str, Callable[[Any], None]], display: Display) -> dict:
    """Answers what the work asks for until it is done. What an answer raises comes back, when the work has saved itself."""
    tracked, failure = Tracked(work), None
    try:
        with signals(work.stop):
            while True:
                try:
                    item = work.next(0.1)
                except (ValueError, OSError, RuntimeError):
                    if failure is not None:
                        raise failure  # noqa: B904 - what the run says of it is what follows from it
                    raise
                display.look(work)
                if item is None:
                    continue
                kind, what = item
                if kind == "done":
                    break
                try:
                    answers[kind](what)
                except BaseException as error:  # noqa: BLE001 - also SystemExit: the run is saved first
                    failure = failure or error
                    work.fail()
    finally:
        display.look(work, done=True)
        tracked.desert()
    outcome = json.loads(what)
    if failure is not None:
        if "path" in outcome and hasattr(failure, "add_note"):
            failure.add_note(f"the run was saved: go on with sskp.resume({outcome['path']!r}, …)")
        raise failure
    return outcome


ROW = ("episode", "steps", "length", "return", "violation", "cumulative_violations")


def answers_of(work: _sskp.Work, env: Any, callback: Callable[[dict], Any] | None) -> dict[str, Callable[[Any], None]]:
    """What a run on somebody else's environment is answered with."""

    def heard(row: tuple) -> None:
        if callback is not None and callback(dict(zip(ROW, row))) is False:
            work.stop()
        work.heard()

    return {
        "reset": lambda seed: work.began(env.reset(seed)),
        "step": lambda action: work.stepped(*env.step(action)),
        "episode": heard,
    }


@dataclass(frozen=True)
class Run:
    """A run: where it is, and what it came to."""

    path: str
    summary: dict

    @property
    def finished(self) -> bool:
        """Whether all steps were taken."""
        return self.summary["finished"]

    @property
    def steps(self) -> int:
        """Environment steps taken."""
        return self.summary["steps"]

    @property
    def violations(self) -> int:
        """Episodes that ended in a violation, #V."""
        return self.summary["violations"]

    @property
    def reward_per_step(self) -> float:
        """PtR."""
        return self.summary["ptr"]

    def policy(self):
        """What was learnt: `sskp.load(run.path)`."""
        from ._policy import load

        return load(self.path)

    def frames(self, engine: str = "pandas"):
        """Its rows: `sskp.read_runs(run.path)`."""
        from ._frames import read_runs

        return read_runs(self.path, engine=engine)


def _foreign(env: Any, violation: Any, name: str | None):
    from ._foreign import Foreign, environment

    return Foreign(environment(env), violation, name)


def train(
    algo: str,
    env: Any,
    *,
    demos: Any = None,
    total_steps: int = 1_000_000,
    seed: int = 0,
    log_dir: str | os.PathLike | None = None,
    config: dict | None = None,
    callback: Callable[[dict], Any] | None = None,
    violation: Callable[[Any, dict], bool] | None = None,
    name: str | None = None,
    threads: int = 1,
    skills: str | os.PathLike | None = None,
    progress: bool = True,
) -> Run:
    """Trains a method and gives the run. All that `sskp train` writes is written, and on our robots it is the same bytes.

    `env` is a robot's name ("hopper"), any Gymnasium environment, its id, or a function that makes one: boxes as observations (dicts and
    tuples of them are joined) and as actions (rescaled from their own limits). An episode ends in a violation where `info["cost"]` is
    above 0, or where `violation(observation, info)` is true; other terminations and time limits are told apart.

    `demos` are a path, the name of a shipped or a Minari set, a Minari data set, or what `sskp.collect` gave. `config` has settings by
    name, {"sskp-plus.skill.horizon": 10}. `callback` hears of every episode as a dict; where it returns False, the run is saved and over.

    Ctrl-C saves the run before it interrupts; `sskp.resume(path)` goes on. What the environment raises comes back when the run was saved.
    """
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be a function, not a {type(callback).__name__}")
    outcome = _begin(
        algo, env, demos, total_steps, seed, log_dir, config, callback, violation, name, threads, skills, progress, False
    )
    return Run(outcome["path"], outcome["summary"])


def run_claimed(
    *,
    algo: str,
    env: Any,
    demos: Any,
    total_steps: int,
    seed: int,
    log_dir: Any,
    config: dict,
    callback: Callable[[dict], Any],
    violation: Any,
    name: str | None,
    threads: int,
    skills: Any,
) -> dict:
    """As `train`, but in a folder where the run may have begun: it goes on from where it is, unless another process has it."""
    return _begin(algo, env, demos, total_steps, seed, log_dir, config, callback, violation, name, threads, skills, False, True)


def _begin(
    algo, env, demos, total_steps, seed, log_dir, config, callback, violation, name, threads, skills, progress, claimed
) -> dict:
    from ._demos import resolve

    robot, foreign = robot_of(env) if isinstance(env, str) else None, None
    if robot is not None and violation is not None:
        raise ValueError(f"{robot} has a constraint of its own: leave out violation")
    steps, seed, threads = whole("total_steps", total_steps, 1), whole("seed", seed), whole("threads", threads, 1)
    changes = settings(config)
    if robot is None:
        foreign = _foreign(env, violation, name)
        if demos is None and begins_with_demonstrations(algo):
            raise ValueError(f"{algo} begins with demonstrations: give demos, for example those that sskp.collect makes")
        foreign.check(seed)
    work = _sskp.Work.train(
        algo,
        robot or foreign.name,
        None if foreign is None else json.dumps(foreign.absent()),
        seed,
        steps,
        threads,
        resolve(demos, foreign),
        None if skills is None else os.fspath(skills),
        changes,
        None if log_dir is None else os.fspath(log_dir),
        callback is not None,
        claimed,
    )
    return drive(work, answers_of(work, foreign, callback), Display(progress, steps))


def resume(
    run: Any,
    env: Any = None,
    *,
    total_steps: int | None = None,
    callback: Callable[[dict], Any] | None = None,
    violation: Callable[[Any, dict], bool] | None = None,
    progress: bool = True,
) -> Run:
    """Goes on with a run that was stopped, given as its path or as itself; one on an environment of your own needs that again.

    On our robots the final bytes are those of a run that was never stopped. An environment of your own goes on at an episode's beginning.
    """
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be a function, not a {type(callback).__name__}")
    path = os.fspath(run.path if isinstance(run, Run) else run)
    kept = None
    if os.path.exists(file := os.path.join(path, "env.json")):
        with open(file) as text:
            kept = json.load(text)
    foreign = None
    if kept is not None:
        if env is None:
            raise ValueError(f"{path} is a run on {kept['name']}: give the environment again, sskp.resume(path, env)")
        foreign = _foreign(env, violation, kept["name"])
        for key in ("obs_dim", "action_dim", "action_low", "action_high"):
            if foreign.absent()[key] != kept[key]:
                raise ValueError(f"the environment's {key} is {foreign.absent()[key]}; that of the run was {kept[key]}")
        foreign.check(0)
    steps = None if total_steps is None else whole("total_steps", total_steps, 1)
    work = _sskp.Work.resume(path, steps, None if kept is None else json.dumps(kept), callback is not None)
    outcome = drive(work, answers_of(work, foreign, callback), Display(progress, steps))
    return Run(outcome["path"], outcome["summary"])

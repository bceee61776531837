"""Studies of settings with Optuna: a trial is a run, which reports how far it is, is pruned, and goes on where it was interrupted.

    import optuna, sskp

    objective = sskp.optuna.objective("sac", "toy", lambda trial: {"sac.batch": trial.suggest_int("batch", 16, 256)}, log_dir="runs/study")
    study = optuna.create_study(storage="sqlite:///study.db", study_name="batch", load_if_exists=True, direction="maximize")
    sskp.optuna.resume(study)
    study.optimize(objective, n_trials=20)

`docs/cluster.md` has a whole program. Optuna itself is imported when it is needed.
"""

from __future__ import annotations

import json
import os
import pathlib
from dataclasses import dataclass
from typing import Any, Callable, Sequence

from . import _sskp
from ._train import Run, run_claimed, whole

__all__ = ["Objective", "Progress", "objective", "resume"]

# Attributes of a trial: its run's folder, the trial whose run it goes on with, how it stood meanwhile, and what was wrong.
RUN, AFTER, SO_FAR, ERROR = "sskp run", "sskp goes on with trial", "sskp so far", "sskp error"
# Reports of a run, where nothing else is said.
REPORTS = 20
# Values by name, and the direction in which each is better.
NAMED = {"reward_per_step": "maximize", "violations": "minimize"}


def _optuna():
    try:
        import optuna
    except ImportError:
        raise ImportError("optuna is not installed: pip install optuna") from None
    return optuna


@dataclass
class Progress:
    """How far a run is; a `sskp.Run` has the same numbers at its end."""

    steps: int = 0
    """Environment steps taken."""
    reward: float = 0.0
    """Their sum of rewards."""
    violations: int = 0
    """Episodes that ended in a violation, #V."""
    episodes: int = 0
    """Episodes."""

    @property
    def reward_per_step(self) -> float:
        """PtR."""
        return self.reward / max(self.steps, 1)

    def add(self, row: dict) -> bool:
        """Counts an episode, unless it was counted: what follows a checkpoint is played again, the same. Whether it was new."""
        if row["steps"] <= self.steps:
            return False
        self.steps, self.reward, self.episodes = row["steps"], self.reward + row["return"], row["episode"]
        self.violations = row["cumulative_violations"]
        return True


def _so_far(path: str) -> list[dict]:
    """Rows of a run that was begun before."""
    if not os.path.exists(os.path.join(path, "episodes.csv")):
        return []
    run = json.loads(_sskp.read_runs([path])[0])
    keys = ("episode", "steps", "return", "cumulative_violations")
    return [dict(zip(keys, row)) for row in zip(*(run[key] for key in keys))]


def _write(path: str, told: dict) -> None:
    """`trial.json` in a run's folder, whole or not at all."""
    folder = pathlib.Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    new = folder / f".trial.json-{os.getpid()}"
    new.write_text(json.dumps(told, indent=2) + "\n")
    new.replace(folder / "trial.json")


class Objective:
    """What a study optimises: called with a trial, it trains and gives the values. Made by `objective`."""

    def __init__(self, arguments: dict, settings: Callable, values: tuple, report_every: int, log_dir: pathlib.Path):
        self.arguments, self.settings, self.values = arguments, settings, values
        self.report_every, self.log_dir = report_every, log_dir

    def __call__(self, trial: Any) -> "float | tuple[float, ...]":
        optuna = _optuna()
        self._judge(trial.study)
        alone = len(self.values) == 1
        changes = self.settings(trial)
        path = trial.user_attrs.get(RUN) or str(self.log_dir / f"trial-{trial.number:04}")
        self._refuse_others(trial.study.study_name, path)
        trial.set_user_attr(RUN, path)
        told = {"study": trial.study.study_name, "trial": trial.number, "params": trial.params}
        _write(path, {**told, "state": "running"})
        progress, so_far, pruned_at = Progress(), [], None

        def heard(row: dict, now: bool = True) -> bool:
            nonlocal pruned_at
            before = progress.steps // self.report_every
            if not progress.add(row) or (step := progress.steps // self.report_every * self.report_every) == before * self.report_every:
                return True
            so_far.append([progress.steps, progress.reward_per_step, progress.violations])
            if alone:
                trial.report(self._value(self.values[0], progress), step)
            if now:
                trial.set_user_attr(SO_FAR, so_far)
                # At the end there is nothing left to save.
                if alone and progress.steps < self.arguments["total_steps"] and trial.should_prune():
                    pruned_at = progress.steps
            return pruned_at is None

        for row in _so_far(path):
            heard(row, now=False)
        try:
            ended = run_claimed(config=changes, log_dir=path, callback=heard, **self.arguments)
        except (ValueError, OSError, RuntimeError, TypeError) as error:
            trial.set_user_attr(ERROR, str(error))
            _write(path, {**told, "state": "failed", "error": str(error)})
            raise
        if ended["ended"] == "elsewhere":
            # Its own trial tells what it comes to.
            trial.set_user_attr(ERROR, ended["why"])
            raise RuntimeError(ended["why"])
        trial.set_user_attr(SO_FAR, so_far)
        if pruned_at is not None and ended["ended"] == "stopped":
            _write(path, {**told, "state": "pruned", "at_step": pruned_at})
            raise optuna.TrialPruned(f"{path} was pruned at step {pruned_at}")
        run = Run(path, ended["summary"])
        if not run.finished:
            raise RuntimeError(f"{path} was stopped at step {run.steps}; sskp.optuna.resume(study) has it go on")
        values = tuple(self._value(value, run) for value in self.values)
        _write(path, {**told, "state": "complete", "values": values})
        return values[0] if alone else values

    @staticmethod
    def _value(value: "str | Callable", run: Any) -> float:
        return float(getattr(run, value) if isinstance(value, str) else value(run))

    def _judge(self, study: Any) -> None:
        """Refuses a study that asks for something else."""
        directions = [direction.name.lower() for direction in study.directions]
        if len(directions) != len(self.values):
            raise ValueError(f"the study has {len(directions)} directions and the objective {len(self.values)} values")
        for value, direction in zip(self.values, directions):
            if isinstance(value, str) and direction != NAMED[value]:
                raise ValueError(f"the study has a direction that makes no sense: {direction} {value}")

    def _refuse_others(self, study: str, path: str) -> None:
        """Refuses a folder that another study uses: trials have the same numbers there."""
        try:
            whose = json.loads(pathlib.Path(path, "trial.json").read_text())["study"]
        except FileNotFoundError:
            return
        if whose != study:
            raise ValueError(f"{path} is a run of the study {whose!r}: name another log_dir than {self.log_dir}")


def objective(
    algo: str,
    env: Any,
    settings: Callable[[Any], dict],
    *,
    value: "str | Callable[[Any], float] | Sequence[str | Callable[[Any], float]]" = "reward_per_step",
    total_steps: int = 100_000,
    seed: int = 0,
    log_dir: "str | os.PathLike" = "runs/study",
    report_every: int | None = None,
    demos: Any = None,
    skills: "str | os.PathLike | None" = None,
    threads: int = 1,
    violation: Callable[[Any, dict], bool] | None = None,
    name: str | None = None,
) -> Objective:
    """An objective for `study.optimize`: every trial is a run of `algo` on `env` in a folder of its own under `log_dir`.

    `settings(trial)` asks the trial for what it should try and gives settings by name, as `config` of `sskp.train`; the other arguments
    are those of `sskp.train`. `value` is "reward_per_step" (PtR), "violations" (#V), a function of a run that has both and `steps`, or
    several of these: a study with as many directions.

    Every `report_every` steps (a twentieth of the run) the trial is told the value so far, and may be pruned: then the run is stopped with
    a checkpoint, and `trial.json` in its folder says so. Optuna prunes no study with several directions: there every run is played to its
    end. PtR and violations on the way are the trial's attribute "sskp so far" in both: [steps, PtR, #V] of every report.
    """
    _optuna()
    if not callable(settings):
        raise TypeError(f"settings must be a function of a trial, not a {type(settings).__name__}")
    values = (value,) if isinstance(value, str) or callable(value) else tuple(value)
    for one in values:
        if not (callable(one) or one in NAMED):
            raise ValueError(f"value must be {' or '.join(map(repr, NAMED))} or a function of a run, not {one!r}")
    if not values:
        raise ValueError("value names nothing")
    steps = whole("total_steps", total_steps, 1)
    every = max(steps // REPORTS, 1) if report_every is None else whole("report_every", report_every, 1)
    arguments = {
        "algo": algo,
        "env": env,
        "total_steps": steps,
        "seed": whole("seed", seed),
        "demos": demos,
        "skills": skills,
        "threads": threads,
        "violation": violation,
        "name": name,
    }
    return Objective(arguments, settings, values, every, pathlib.Path(os.path.abspath(os.fspath(log_dir))))


def resume(study: Any) -> int:
    """Queues the trials of a study again that were interrupted, by Ctrl-C, a signal, kill -9 or a power cut, and says how many.

    `study.optimize` begins with them. Each is a new trial with the same parameters, whose run goes on at its checkpoint: its rows are those
    of a run that was never interrupted. Trials whose run a living process has are left alone, and so are those that failed by themselves.
    """
    state = _optuna().trial.TrialState
    trials = study.get_trials(deepcopy=False)
    followed = {trial.user_attrs.get(AFTER) for trial in trials}
    queued = 0
    for trial in trials:
        path = trial.user_attrs.get(RUN)
        over = trial.state not in (state.RUNNING, state.FAIL) or ERROR in trial.user_attrs
        if path is None or over or trial.number in followed or _sskp.holder(path) is not None:
            continue
        if trial.state == state.RUNNING:
            try:
                study.tell(trial.number, state=state.FAIL)
            except ValueError:
                continue  # another process was faster, and queues it
        study.enqueue_trial(trial.params, user_attrs={RUN: path, AFTER: trial.number})
        queued += 1
    return queued

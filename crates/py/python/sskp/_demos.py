"""Demonstrations: out of Minari, or played by any policy in any environment."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from typing import Any, Callable

import numpy as np

from . import _sskp
from ._registration import robot_of


@dataclass(frozen=True)
class Demonstrations:
    """A set that was collected: a folder that Minari, `sskp.train` and `sskp data` read."""

    path: str
    episodes: int
    steps: int
    violations: int
    falls: int

    def __fspath__(self) -> str:
        return self.path


def resolve(demos: Any, foreign: Any) -> str | None:
    """The path or name of a set that a run reads, made out of what was given."""
    if demos is None:
        return None
    if isinstance(demos, (str, os.PathLike)):
        name = os.fspath(demos)
        try:
            path = os.fspath(_sskp.find_set(name))
        except ValueError as missing:
            return _converted(_from_minari(name, missing), foreign)
        if foreign is None:
            return name
        made_for = (json.loads(_sskp.set_info(path)).get("provenance") or {}).get("env")
        if made_for == foreign.name:
            return path
        return _converted(_from_minari_folder(path), foreign)
    if hasattr(demos, "iterate_episodes"):
        return _converted(demos, foreign)
    raise TypeError(f"demos: it is a {type(demos).__name__}; give a path, a name, or a Minari data set")


def _minari():
    try:
        import minari
    except ImportError:
        raise ImportError("Minari is not installed: pip install minari h5py") from None
    return minari


def _from_minari(name: str, missing: Exception):
    try:
        minari = _minari()
    except ImportError:
        raise missing from None
    try:
        return minari.load_dataset(name, download=True)
    except Exception as error:  # noqa: BLE001 - whatever it is, both places are named
        raise ValueError(f"{missing}; and Minari has none of that name ({error})") from None


def _from_minari_folder(path: str):
    minari = _minari()
    from pathlib import Path

    folder = Path(path)
    return minari.MinariDataset(folder if folder.name == "data" else folder / "data")


def _converted(dataset: Any, foreign: Any) -> str:
    """A Minari data set as a set of ours: actions within [-1, 1], costs by step, episodes cut at their first violation."""
    episodes = []
    for number, episode in enumerate(dataset.iterate_episodes()):
        try:
            episodes.append(_episode(episode, foreign))
        except (TypeError, ValueError, KeyError) as error:
            raise ValueError(f"episode {number} of {dataset.spec.dataset_id}: {error}") from None
    name = "minari" if foreign is None else foreign.name
    identity = f"{name}/minari-{{hash}}-v0"
    about = f"Made out of the Minari data set {dataset.spec.dataset_id}."
    env = "" if foreign is None else foreign.name
    return os.fspath(_sskp.write_set(_sskp.demos_folder(), identity, env, episodes, "minari", about))


def _row(tree: Any, t: int) -> Any:
    if isinstance(tree, dict):
        return {key: _row(value, t) for key, value in tree.items()}
    if isinstance(tree, tuple):
        return tuple(_row(value, t) for value in tree)
    return tree[t]


def _episode(episode: Any, foreign: Any) -> tuple:
    steps = len(episode.rewards)
    infos = episode.infos or {}
    if foreign is None:
        observations = np.asarray(episode.observations, np.float32).reshape(steps + 1, -1)
        actions = np.asarray(episode.actions, np.float32).reshape(steps, -1)
    else:
        observations = np.stack([foreign.flat(_row(episode.observations, t)) for t in range(steps + 1)]).astype(np.float32)
        actions = np.stack([foreign.our_action(episode.actions[t]) for t in range(steps)])
    costs = np.zeros(steps, np.float32)
    if foreign is not None and foreign.violation is not None:
        for t in range(steps):
            info = {key: value[t + 1] for key, value in infos.items() if hasattr(value, "__len__") and len(value) == steps + 1}
            costs[t] = bool(foreign.violation(_row(episode.observations, t + 1), info))
    elif "cost" in infos:
        # Minari's infos begin with that of the reset.
        costs[:] = np.asarray(infos["cost"], np.float32).ravel()[-steps:] > 0
    end = "terminated" if episode.terminations[-1] else "truncated" if episode.truncations[-1] else "cut"
    if costs.any():
        steps, end = int(np.flatnonzero(costs)[0]) + 1, "violation"
    rewards = np.asarray(episode.rewards, np.float32)
    parts = observations[: steps + 1], actions[:steps], rewards[:steps], costs[:steps]
    return (*(np.ascontiguousarray(part) for part in parts), end)


def collect(
    env: Any,
    policy: Callable[[Any], Any],
    episodes: int,
    *,
    noise: float = 0.0,
    falls: int = 0,
    push: float = 0.5,
    grow: bool = True,
    seed: int = 0,
    out: str | os.PathLike | None = None,
    name: str | None = None,
    violation: Callable[[Any, dict], bool] | None = None,
    progress: bool = True,
) -> Demonstrations:
    """Plays a policy and keeps what happened as a Minari set.

    `env` is what `sskp.train` takes; `policy` is any function of an observation, or a policy of `sskp.load`. `noise` is the deviation of
    what is added to every action (in units of half the action's range). With `falls`, up to half of the episodes are disturbed until so
    many of them ended in a violation: from a random step on, random pushes of ten steps each are added to the actions. `push` is their
    deviation; with `grow` it grows by half whenever two disturbed episodes in a row stayed upright.

    The set is written to `out`/`name`, by default into the user's cache.
    """
    from ._train import Display, answers_of, drive, whole

    if not callable(policy):
        raise TypeError(f"policy must be a function of an observation, not a {type(policy).__name__}")
    robot = robot_of(env) if isinstance(env, str) else None
    foreign = None
    if robot is None:
        from ._foreign import Foreign, environment

        foreign = Foreign(environment(env), violation)
        foreign.check(whole("seed", seed))
    title = robot or foreign.name
    if robot is None:
        sizes = [foreign.obs_dim, foreign.action_dim]
    else:
        probe = _sskp.Robot(robot)
        sizes = [probe.obs_dim, probe.action_dim]
    begin = getattr(policy, "reset", None)
    who = getattr(policy, "__name__", type(policy).__name__)
    work = _sskp.Work.collect(
        title,
        None if foreign is None else json.dumps(foreign.absent()),
        sizes,
        whole("episodes", episodes, 1),
        float(noise),
        whole("falls", falls),
        float(push),
        bool(grow),
        whole("seed", seed),
        _sskp.demos_folder() if out is None else os.fspath(out),
        name or f"{title}/collected-{time.time_ns()}-v0",
        f"a policy of Python's ({who})",
    )

    def act(what: tuple) -> None:
        observation, begins = what
        if begins and callable(begin) and not isinstance(policy, type):
            begin()
        if foreign is not None:
            return work.acted(foreign.our_action(policy(foreign.raw)))
        action = np.asarray(policy(observation), np.float32).ravel()
        if action.size != sizes[1] or not np.isfinite(action).all():
            raise ValueError(f"action: the policy gave {action} where {sizes[1]} finite numbers are needed")
        work.acted(action)

    made = drive(work, {**answers_of(work, foreign, None), "act": act}, Display(progress, None))
    return Demonstrations(made["path"], made["episodes"], made["steps"], made["violations"], made["falls"])

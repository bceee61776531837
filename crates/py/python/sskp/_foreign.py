"""Somebody else's Gymnasium environment as our runs see one: a flat observation, an action within [-1, 1], and how an episode ends."""

from __future__ import annotations

import re
from typing import Any, Callable

import gymnasium
import numpy as np
from gymnasium import spaces

from ._scale import part_of, to_ours, to_own


def _leaves(space: spaces.Space, path: tuple = ()) -> list[tuple[tuple, spaces.Box]]:
    """The boxes of a space of observations, and the keys that lead to them."""
    name = _name(path)
    if isinstance(space, spaces.Box):
        if space.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise TypeError(f"{name}: its numbers are {space.dtype}; only float32 and float64 can be learnt from")
        return [(path, space)]
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        parts = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        found = [(key, leaf) for key, part in parts for leaf in _leaves(part, (*path, key))]
        if odd := [key for key, _ in found if not isinstance(key, (str, int))]:
            raise TypeError(f"{name}: the key {odd[0]!r} is neither text nor a number")
        return [leaf for _, leaf in found]
    raise TypeError(f"{name}: it is a {type(space).__name__}; only boxes, and dicts and tuples of them, can be learnt from")


def _name(path: tuple) -> str:
    """What a part of an observation is called."""
    return "observation" + "".join(f"[{key!r}]" for key in path)


def _number(name: str, value: Any) -> float:
    """A finite number, or what is wrong with it."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: it is a {type(value).__name__}, not a number") from None
    if not np.isfinite(number):
        raise ValueError(f"{name}: it is {number}")
    return number


def _short(name: str) -> str:
    """A name that can be part of a folder's."""
    return re.sub(r"[^A-Za-z0-9_.]+", "-", name).strip("-.") or "environment"


class Foreign:
    """An environment with what our runs need to know of it."""

    def __init__(self, env: gymnasium.Env, violation: Callable[[Any, dict], bool] | None = None, name: str | None = None):
        if violation is not None and not callable(violation):
            raise TypeError("violation must be a function of the observation and the info")
        self.env, self.violation = env, violation
        action = env.action_space
        if not isinstance(action, spaces.Box):
            raise TypeError(f"action_space: it is a {type(action).__name__}; only boxes can be acted in")
        if not np.issubdtype(action.dtype, np.floating):
            raise TypeError(f"action_space: its numbers are {action.dtype}; only floating ones can be acted with")
        self.low, self.high = (np.asarray(side, np.float64).ravel() for side in (action.low, action.high))
        if not (np.isfinite(self.low).all() and np.isfinite(self.high).all() and (self.low < self.high).all()):
            raise ValueError("action_space: every number must have a finite lower and upper limit; rescale it with a wrapper")
        self._shape, self._dtype = action.shape, action.dtype
        self._leaves = _leaves(env.observation_space)
        sizes = [int(np.prod(box.shape)) for _, box in self._leaves]
        self.obs_dim, self.action_dim = sum(sizes), len(self.low)
        if self.obs_dim == 0 or self.action_dim == 0:
            raise ValueError("observation_space and action_space must have at least one number each")
        spec = env.spec
        self.name = _short(name or (spec.id if spec is not None else type(env.unwrapped).__name__))
        self.time_limit = None if spec is None or spec.max_episode_steps is None else int(spec.max_episode_steps)
        self.dt = float(getattr(env.unwrapped, "dt", 0.0) or 1 / env.metadata.get("render_fps", 20) or 0.05)
        self.raw: Any = None

    def absent(self) -> dict:
        """What is kept of it beside a run."""
        return {
            "name": self.name,
            "obs_dim": self.obs_dim,
            "action_dim": self.action_dim,
            "time_limit": self.time_limit,
            "dt": self.dt,
            "action_low": self.low.tolist(),
            "action_high": self.high.tolist(),
            "observation": [{"at": list(path), "shape": list(box.shape)} for path, box in self._leaves if path],
        }

    def flat(self, observation: Any) -> np.ndarray:
        """An observation in one row; what does not fit its space is named."""
        self.raw = observation
        rows = []
        for path, box in self._leaves:
            name, array = _name(path), np.asarray(part_of(observation, path))
            if array.shape != box.shape:
                raise ValueError(f"{name}: its shape is {array.shape}, its space says {box.shape}")
            if not np.issubdtype(array.dtype, np.floating):
                raise TypeError(f"{name}: its numbers are {array.dtype}, its space says {box.dtype}")
            rows.append(array.ravel().astype(np.float64))
        row = rows[0] if len(rows) == 1 else np.concatenate(rows)
        if not np.isfinite(row).all():
            at = int(np.flatnonzero(~np.isfinite(row))[0])
            for path, box in self._leaves:
                if at < (size := int(np.prod(box.shape))):
                    raise ValueError(f"{_name(path)}: number {at} is {row[np.flatnonzero(~np.isfinite(row))[0]]}")
                at -= size
        return row

    def own_action(self, action: np.ndarray) -> np.ndarray:
        """An action within [-1, 1] as the environment takes it."""
        return to_own(action, self.low, self.high).astype(self._dtype).reshape(self._shape)

    def our_action(self, action: Any) -> np.ndarray:
        """The other way round."""
        array = np.asarray(action, np.float64).ravel()
        if array.shape != self.low.shape:
            raise ValueError(f"action: it has {array.size} numbers where {self.action_dim} are needed")
        if not np.isfinite(array).all():
            raise ValueError(f"action: number {int(np.flatnonzero(~np.isfinite(array))[0])} is not finite")
        return to_ours(array, self.low, self.high)

    def reset(self, seed: int) -> np.ndarray:
        """Begins an episode."""
        answer = self.env.reset(seed=seed)
        if not (isinstance(answer, tuple) and len(answer) == 2):
            raise TypeError(f"reset() must give an observation and an info, not {type(answer).__name__}")
        return self.flat(answer[0])

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, str | None]:
        """Plays an action: observation, reward, and how the episode ended. A violation ends it, whatever the environment says."""
        answer = self.env.step(self.own_action(action))
        if not (isinstance(answer, tuple) and len(answer) == 5):
            raise TypeError("step() must give observation, reward, terminated, truncated and info")
        observation, reward, terminated, truncated, info = answer
        number = _number("reward", reward)
        for name, flag in (("terminated", terminated), ("truncated", truncated)):
            if not isinstance(flag, (bool, np.bool_)):
                raise TypeError(f"{name}: it is a {type(flag).__name__}, not a bool")
        if not isinstance(info, dict):
            raise TypeError(f"info: it is a {type(info).__name__}, not a dict")
        row = self.flat(observation)
        if self.violates(observation, info):
            return row, number, "violation"
        return row, number, "terminated" if terminated else "truncated" if truncated else None

    def violates(self, observation: Any, info: dict) -> bool:
        """Whether a step violated the constraint."""
        if self.violation is not None:
            return bool(self.violation(observation, info))
        return _number('info["cost"]', info.get("cost", 0.0)) > 0.0

    def check(self, seed: int) -> None:
        """Plays three steps and refuses what could not be learnt from, before anything is written."""
        self.reset(seed % 2**31)
        for _ in range(3):
            if self.step(np.zeros(self.action_dim, np.float32))[2] is not None:
                break


def environment(env: Any) -> gymnasium.Env:
    """A Gymnasium environment out of an environment, its id, or a function that makes one."""
    if isinstance(env, gymnasium.vector.VectorEnv):
        raise TypeError("env: a run plays one environment; give the single one instead of a vector")
    if isinstance(env, str):
        return gymnasium.make(env)
    if not isinstance(env, gymnasium.Env) and callable(env):
        env = env()
    if not isinstance(env, gymnasium.Env):
        raise TypeError(f"env: it is a {type(env).__name__}; give a robot's name, a Gymnasium environment, its id, or a function that makes one")
    return env

"""Trained policies."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from . import _sskp
from ._scale import joined, to_own


class Policy:
    """A policy out of a run. It needs neither the robot nor a GPU.

    Skills last several steps, so a policy remembers what it is playing: `reset()` where an episode begins, and give the rows of a batch in
    the same order every time.
    """

    def __init__(self, path: str | os.PathLike):
        self._policy = _sskp.Policy(os.fspath(path))
        self.about: dict = json.loads(self._policy.about)
        self.path = os.fspath(self._policy.run)
        self.obs_dim, self.action_dim = self._policy.obs_dim, self._policy.action_dim
        self._low = self._high = None
        if self.about["action_low"] is not None:
            self._low, self._high = np.asarray(self.about["action_low"]), np.asarray(self.about["action_high"])
        self._parts = self.about["observation"] or []
        self._risk: Any = None

    def act(self, observation: Any, *, explore: bool = False) -> np.ndarray:
        """The action for an observation, or a row of actions for a row of observations, as the environment takes them; dicts and tuples as
        the environment gives them. With `explore`, a draw as in training; else the policy's best guess."""
        if self._parts and isinstance(observation, (dict, tuple)):
            observation = joined(observation, self._parts)
        elif isinstance(observation, dict):
            raise TypeError("observation: it is a dict, and this policy learnt from one row of numbers")
        rows = np.asarray(observation)
        if not (np.issubdtype(rows.dtype, np.floating) or np.issubdtype(rows.dtype, np.integer)):
            raise TypeError(f"observation: its numbers are {rows.dtype}")
        if rows.ndim not in (1, 2):
            raise ValueError(f"observation: it has {rows.ndim} dimensions; one observation has 1, a batch 2")
        single = rows.ndim == 1
        actions, risks = self._policy.act(np.ascontiguousarray(np.atleast_2d(rows), np.float64), bool(explore))
        if self._low is not None:
            actions = to_own(actions, self._low, self._high).astype(np.float32)
        if any(risk is not None for risk in risks):
            self._risk = risks[0] if single else np.asarray(risks, np.float64)
        else:
            self._risk = None
        return actions[0] if single else actions

    __call__ = act

    @property
    def risk(self) -> Any:
        """The probability of a violation predicted for the skill being played, one or a row of them; none of a method that predicts none."""
        return self._risk

    def reset(self, row: int | None = None) -> None:
        """An episode begins: everywhere, or in one row of a batch."""
        self._policy.reset(row)
        self._risk = None

    def export_onnx(self, folder: str | os.PathLike) -> None:
        """Writes its networks as ONNX into a new folder, with `policy.json`, which says how they are put together."""
        self._policy.export_onnx(os.fspath(folder))

    def __repr__(self) -> str:
        return f"<sskp policy: {self.about['algo']} on {self.about['env']} after {self.about['steps']} steps>"


def load(path: Any) -> Policy:
    """The policy of a run, of the newest run in a folder of runs, or of one checkpoint."""
    return Policy(getattr(path, "path", path))


def export_onnx(path: Any, folder: str | os.PathLike) -> None:
    """`sskp export PATH --onnx FOLDER`."""
    load(path).export_onnx(folder)

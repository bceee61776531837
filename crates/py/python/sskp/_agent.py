"""The loop the other way round: for robots that call, and cannot be called."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from . import _sskp
from ._scale import to_own
from ._train import Display, Run, Tracked, begins_with_demonstrations, settings, whole


class Agent:
    """A learner that is told what happened and says what to do. The same learner, files and checkpoints as those of `sskp.train`.

        agent = sskp.Agent("sskp-plus", obs_dim=11, action_dim=3, demos="…", log_dir="runs/robot")
        action = agent.begin(observation)
        while action is not None:
            …                                              # the robot moves
            action = agent.step(observation, reward, cost, terminated, truncated)
        agent.close()                                      # saves it; so does the end of the program

    `step` gives none where the episode is over: a cost above 0 is a violation and ends it, too. Learning happens inside of `step` and
    `begin`: most methods learn at an episode's end, when a robot has time. `Agent.resume(path)` goes on with an earlier one.
    """

    def __init__(
        self,
        algo: str,
        obs_dim: int,
        action_dim: int,
        *,
        demos: Any = None,
        total_steps: int = 2**53,
        seed: int = 0,
        log_dir: str | os.PathLike | None = None,
        config: dict | None = None,
        action_low: Any = -1.0,
        action_high: Any = 1.0,
        time_limit: int | None = None,
        name: str = "robot",
        threads: int = 1,
        progress: bool = True,
    ):
        obs, action = whole("obs_dim", obs_dim, 1), whole("action_dim", action_dim, 1)
        low, high = (np.broadcast_to(np.asarray(side, np.float64), (action,)) for side in (action_low, action_high))
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
            raise ValueError("action_low must be below action_high, and both finite")
        if demos is None and begins_with_demonstrations(algo):
            raise ValueError(f"{algo} begins with demonstrations: give demos")
        from ._demos import resolve

        absent = {
            "name": name,
            "obs_dim": obs,
            "action_dim": action,
            "time_limit": time_limit,
            "dt": 0.05,
            "action_low": low.tolist(),
            "action_high": high.tolist(),
        }
        folder = None if log_dir is None else os.fspath(log_dir)
        given = (algo, name, json.dumps(absent), whole("seed", seed), whole("total_steps", total_steps, 1), whole("threads", threads, 1))
        self._start(_sskp.Work.train(*given, resolve(demos, None), None, settings(config), folder, False), absent, progress)

    @classmethod
    def resume(cls, path: str | os.PathLike, *, total_steps: int | None = None, progress: bool = True) -> "Agent":
        """Goes on with an agent's run, at an episode's beginning."""
        path = os.fspath(path)
        try:
            with open(os.path.join(path, "env.json")) as text:
                absent = json.load(text)
        except FileNotFoundError:
            raise ValueError(f"{path} is no run of an agent: it has no env.json") from None
        agent = cls.__new__(cls)
        agent._start(_sskp.Work.resume(path, total_steps, json.dumps(absent), False), absent, progress)
        return agent

    def _start(self, work: _sskp.Work, absent: dict, progress: bool) -> None:
        self._work, self._tracked = work, Tracked(work)
        self._obs_dim = absent["obs_dim"]
        self._low, self._high = np.asarray(absent["action_low"]), np.asarray(absent["action_high"])
        self._display, self._outcome, self._wants = Display(progress, None), None, None
        # Learning from demonstrations comes first.
        self._wait()

    def _wait(self) -> Any:
        """What the learner wants next; none when it is done."""
        self._wants = None
        while True:
            item = self._work.next(0.1)
            if item is None:
                self._display.look(self._work)
                continue
            kind, what = item
            if kind == "done":
                self._outcome = json.loads(what)
                self._display.look(self._work, done=True)
                self._tracked.desert()
                return None
            self._wants = kind
            return what

    def _row(self, observation: Any) -> np.ndarray:
        row = np.asarray(observation)
        if not np.issubdtype(row.dtype, np.number):
            raise TypeError(f"observation: its numbers are {row.dtype}")
        row = np.ascontiguousarray(row, np.float64).ravel()
        if row.size != self._obs_dim:
            raise ValueError(f"observation: it has {row.size} numbers where {self._obs_dim} are needed")
        if not np.isfinite(row).all():
            raise ValueError(f"observation: number {int(np.flatnonzero(~np.isfinite(row))[0])} is not finite")
        return row

    def _action(self) -> np.ndarray | None:
        action = self._wait()
        if self._wants != "step":
            return None
        return to_own(action, self._low, self._high).astype(np.float32)

    def _need(self, wanted: str, what: str) -> None:
        if self.done:
            raise RuntimeError("this agent is closed, or has taken all its steps: go on with sskp.Agent.resume")
        if self._wants != wanted:
            raise RuntimeError(what)

    @property
    def done(self) -> bool:
        """Whether it was closed, or all steps were taken."""
        return self._outcome is not None or self._work is None

    @property
    def run(self) -> Run | None:
        """The run, once it is over."""
        return None if self._outcome is None else Run(self._outcome["path"], self._outcome["summary"])

    def begin(self, observation: Any) -> np.ndarray | None:
        """An episode begins with this observation; gives the first action."""
        self._need("reset", "the episode is not over: call step, with truncated=True where it was broken off")
        self._work.began(self._row(observation))
        return self._action()

    def step(self, observation: Any, reward: float, cost: float = 0.0, terminated: bool = False, truncated: bool = False) -> np.ndarray | None:
        """What the last action led to; gives the next one, or none where the episode is over."""
        self._need("step", "no episode is being played: call begin first")
        row, numbers = self._row(observation), {"reward": float(reward), "cost": float(cost)}
        for name, number in numbers.items():
            if not np.isfinite(number):
                raise ValueError(f"{name}: it is {number}")
        end = "violation" if numbers["cost"] > 0 else "terminated" if terminated else "truncated" if truncated else None
        self._work.stepped(row, numbers["reward"], end)
        return self._action()

    def close(self) -> Run | None:
        """Saves it and leaves; an episode that is being played ends here."""
        if not self.done:
            self._work.stop()
            while not self.done and self._wants is not None:
                self._work.fail()
                try:
                    self._wait()
                except ValueError:
                    break
            self._tracked.desert()
            if self._outcome is None:
                self._work = None
        return self.run

    def __enter__(self) -> "Agent":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

"""Many robots at once, stepped by threads of Rust."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from . import _sskp
from ._envs import spaces
from ._registration import ROBOTS, robot_of

MODES = {"next-step": AutoresetMode.NEXT_STEP, "same-step": AutoresetMode.SAME_STEP}


class RobotVectorEnv(VectorEnv):
    """Robots of one kind as a `gymnasium.vector.VectorEnv`. `step` lets go of Python's lock, and the threads write straight into the
    arrays it gives; `infos["cost"]` is 1 for those that violated their constraint.

    With `autoreset="next-step"`, Gymnasium's own way, the step after an end ignores the action and begins an episode. With
    `"same-step"` the observation is that of the new episode, and the last of the old one is in `infos["final_obs"]`.
    """

    robot = ""

    def __init__(
        self,
        robot: str | None = None,
        num_envs: int = 1,
        *,
        threads: int | None = None,
        autoreset: str = "next-step",
        contact_costs: bool = False,
        spec: Any = None,
    ):
        if spec is not None:
            self.spec = spec
        if autoreset not in MODES:
            raise ValueError(f"autoreset must be 'next-step' or 'same-step', not {autoreset!r}")
        self.num_envs, self.render_mode = num_envs, None
        threads = min(num_envs, len(os.sched_getaffinity(0))) if threads is None else threads
        self.robot = robot or self.robot
        self._robots = _sskp.Robots(self.robot, num_envs, threads, autoreset == "same-step", contact_costs)
        self.metadata = {"autoreset_mode": MODES[autoreset]}
        sizes = self._robots.obs_dim, self._robots.action_dim
        self.single_observation_space, self.single_action_space = spaces(*sizes)
        self.observation_space, self.action_space = spaces(*sizes, num_envs)
        self._seeded = False
        self._all = np.ones(num_envs, bool)

    def reset(self, *, seed=None, options: dict | None = None):
        """Begins an episode in all, or in those that `options={"reset_mask": …}` names. `seed=n` gives environment i the seed n + i."""
        mask = (options or {}).get("reset_mask")
        if seed is None and not self._seeded:
            seed = int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> np.uint64(2))
        if isinstance(seed, (int, np.integer)):
            if seed < 0:
                raise ValueError(f"seed must be at least 0, not {seed}")
            seed = [int(seed) + i for i in range(self.num_envs)]
        self._seeded = True
        observations = self._robots.reset(seed, None if mask is None else [bool(m) for m in mask])
        return observations, {"cost": np.zeros(self.num_envs), "_cost": self._all.copy()}

    def step(self, actions):
        """Plays a row of actions in each."""
        observations, rewards, cost, terminated, truncated, final = self._robots.step(np.asarray(actions, np.float32))
        infos = {"cost": cost, "_cost": self._all.copy()}
        if final is not None and (done := terminated | truncated).any():
            last = np.empty(self.num_envs, object)
            for i in np.flatnonzero(done):
                last[i] = final[i]
            infos |= {"final_obs": last, "_final_obs": done}
        return observations, rewards, terminated, truncated, infos

    def close_extras(self, **kwargs: Any) -> None:
        """Lets go of the robots and their threads."""
        self._robots.close()


def make_vec(robot: str, num_envs: int = 1, *, threads: int | None = None, autoreset: str = "next-step", contact_costs: bool = False):
    """`num_envs` robots, stepped by `threads` threads (as many as there are cores, if nobody says)."""
    return RobotVectorEnv(robot_of(robot) or robot, num_envs, threads=threads, autoreset=autoreset, contact_costs=contact_costs)


for _robot, _title in ROBOTS.items():
    # What `gymnasium.make_vec` makes.
    _name = f"{_title}Vector"
    globals()[_name] = type(_name, (RobotVectorEnv,), {"robot": _robot, "__doc__": RobotVectorEnv.__doc__, "__module__": __name__})

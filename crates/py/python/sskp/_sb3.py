"""Our vector environment as stable-baselines3 wants one."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._vector import RobotVectorEnv


def to_sb3(vector: RobotVectorEnv):
    """A `stable_baselines3` `VecEnv` on robots of `sskp.make_vec(…, autoreset="same-step")`, without copying observations."""
    from gymnasium.vector import AutoresetMode
    from stable_baselines3.common.vec_env import VecEnv

    if vector.metadata["autoreset_mode"] is not AutoresetMode.SAME_STEP:
        raise ValueError('stable-baselines3 begins episodes in the same step: make_vec(…, autoreset="same-step")')

    class Robots(VecEnv):
        def __init__(self):
            super().__init__(vector.num_envs, vector.single_observation_space, vector.single_action_space)
            self._returns, self._lengths = np.zeros(vector.num_envs), np.zeros(vector.num_envs, int)

        def reset(self):
            seeds = self._seeds if any(seed is not None for seed in self._seeds) else None
            observations, _ = vector.reset(seed=seeds)
            self._reset_seeds()
            self._returns[:], self._lengths[:] = 0, 0
            return observations

        def step_async(self, actions):
            self._actions = actions

        def step_wait(self):
            observations, rewards, terminated, truncated, infos = vector.step(self._actions)
            done = terminated | truncated
            self._returns += rewards
            self._lengths += 1
            each: list[dict[str, Any]] = [{"cost": cost} for cost in infos["cost"]]
            for i in np.flatnonzero(done):
                each[i] |= {"terminal_observation": infos["final_obs"][i], "TimeLimit.truncated": bool(truncated[i])}
                each[i]["episode"] = {"r": self._returns[i], "l": int(self._lengths[i]), "t": 0.0}
                self._returns[i], self._lengths[i] = 0, 0
            return observations, rewards, done, each

        def close(self):
            vector.close()

        def get_attr(self, attr_name, indices=None):
            return [getattr(vector, attr_name)] * len(list(self._get_indices(indices)))

        def set_attr(self, attr_name, value, indices=None):
            raise NotImplementedError("robots of one vector are alike")

        def env_method(self, method_name, *args, indices=None, **kwargs):
            raise NotImplementedError("robots of a vector have no methods of their own")

        def env_is_wrapped(self, wrapper_class, indices=None):
            return [False] * len(list(self._get_indices(indices)))

    return Robots()

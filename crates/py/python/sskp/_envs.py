"""Our robots as Gymnasium environments."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from . import _sskp
from ._registration import ROBOTS

CONTRACTS = {name: (words, action, observation) for name, words, action, observation in _sskp.contracts()}


class ActionBox(gymnasium.spaces.Box):
    """A box of actions within [-1, 1]: Gymnasium's, drawing the same numbers, without looking every time for sides that are open."""

    def __init__(self, *shape: int, seed: Any = None):
        super().__init__(-1.0, 1.0, shape, np.float32, seed)

    def __reduce__(self):
        return (ActionBox, self.shape)

    def sample(self, mask: Any = None, probability: Any = None):
        """Draws an action, each number on its own."""
        if mask is not None or probability is not None:
            return super().sample(mask, probability)
        if len(self.shape) == 1:
            return _sskp.within_box(self.np_random.random(self.shape[0]))
        return self.np_random.uniform(-1.0, 1.0, self.shape).astype(np.float32)


def spaces(obs_dim: int, action_dim: int, *rows: int):
    """Spaces of observations and actions, of one robot or of rows of them."""
    shape = (*rows, obs_dim)
    return gymnasium.spaces.Box(-np.inf, np.inf, shape, np.float64), ActionBox(*rows, action_dim)


def docstring(robot: str) -> str:
    """A robot's contract."""
    (about, reward, start, violation), action, observation = CONTRACTS[robot]
    rows = lambda columns: [f"    {i:3}  {name}: {what}" for i, (name, what) in enumerate(columns)]  # noqa: E731
    return "\n".join(
        [
            f"{ROBOTS[robot]}: {about}.",
            "",
            f"Reward: {reward}",
            f"Start: {start}",
            f"Violation: {violation}",
            "",
            'A violation ends the episode (`terminated`) with `info["cost"]` 1; all other steps cost 0. 1000 steps (the toy: 100) are a',
            "truncation. There is no bonus for being alive. `reset(seed=n)` starts as `sskp rollout --seed n` does.",
            "",
            "Actions, each within [-1, 1]; what lies outside is clipped:",
            *rows(action),
            "",
            "Observations, float64:",
            *rows(observation),
            "",
            "`render_mode`: `rgb_array` draws a plain picture; `save_replay(FILE)` writes a page with the whole episode, which needs",
            '`record=True`. `contact_costs=True` charges contact forces to Ant and Humanoid, which the paper did not.',
        ]
    )


class RobotEnv(gymnasium.Env):
    """One of our robots. Made by `gymnasium.make("sskp/Hopper-v0")` and its like, or `sskp.RobotEnv("hopper")`."""

    robot = ""
    metadata = {"render_modes": ["rgb_array"], "render_fps": 50}

    def __init__(
        self,
        robot: str | None = None,
        *,
        render_mode: str | None = None,
        contact_costs: bool = False,
        record: bool = False,
        width: int = 480,
        height: int = 480,
    ):
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode must be None or 'rgb_array', not {render_mode!r}; save_replay writes a page to look at")
        if not (1 <= width <= 4096 and 1 <= height <= 4096):
            raise ValueError(f"width and height must be between 1 and 4096, not {width} and {height}")
        self._robot = _sskp.Robot(robot or self.robot, contact_costs)
        self.robot = self._robot.name
        self.render_mode, self._record, self._size = render_mode, record, (width, height)
        self.metadata = {**self.metadata, "render_fps": round(1 / self._robot.dt)}
        self.observation_space, self.action_space = spaces(self._robot.obs_dim, self._robot.action_dim)
        self._seeded = False

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        """Begins an episode. `options={"state": …}` begins in a state that `save()` gave."""
        super().reset(seed=seed)
        if seed is None and not self._seeded:
            seed = int(self.np_random.integers(2**63))
        self._seeded = True
        observation = self._robot.reset(seed)
        if options and options.get("state") is not None:
            observation = self._robot.restore(list(options["state"]))
        if self._record:
            self._robot.record()
        return observation, {"cost": 0.0}

    def step(self, action):
        """Plays an action; `info["cost"]` is 1 where it violated the constraint."""
        observation, reward, violated, terminated, truncated = self._robot.step(np.asarray(action, np.float32))
        return observation, reward, terminated, truncated, {"cost": 1.0 if violated else 0.0}

    def save(self) -> list[float]:
        """Everything needed to go on from here bit for bit, for `reset(options={"state": …})`."""
        return self._robot.save()

    def render(self):
        """A picture, where `render_mode` asks for one."""
        return self._robot.picture(*self._size) if self.render_mode == "rgb_array" else None

    def save_replay(self, file: str, title: str = "an episode from Python") -> None:
        """Writes the episode so far as a page that needs neither server nor network."""
        self._robot.write_page(file, title)

    def close(self) -> None:
        """Lets go of the robot."""
        self._robot.close()


def robots() -> list[str]:
    """The names of our robots."""
    return list(CONTRACTS)


for _robot, _title in ROBOTS.items():
    globals()[_title] = type(_title, (RobotEnv,), {"robot": _robot, "__doc__": docstring(_robot), "__module__": __name__})

__all__ = ["RobotEnv", "robots", *ROBOTS.values()]

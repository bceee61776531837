"""Small settings and small environments."""

import functools
import os
import pathlib
import subprocess

import gymnasium
import numpy as np

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

ROOT = pathlib.Path(__file__).resolve().parents[3]
SSKP = os.environ.get("SSKP_PROGRAM", str(ROOT / "target/release/sskp"))


# What makes a method quick, wherever it has a setting of that name: narrow networks that learn from early on.
_QUICK = {
    **dict.fromkeys(("width", "batch", "hidden", "prior_width", "samples"), 32),
    **dict.fromkeys(("random_steps", "log_every", "first_updates", "first_transitions"), 100),
    **dict.fromkeys(("refit_updates", "rollouts", "steps", "offline_updates"), 20),
    **dict.fromkeys(("warm_up", "elites", "warm_up_steps"), 8),
    "updates_per_step": 1.0,
    "relabel": 0,
    "skip_losses": False,
    "calibrate": False,
}


@functools.cache
def small(algo):
    """Settings that make a method quick."""

    def shrink(table):
        inner = {key: shrink(value) if isinstance(value, dict) else _QUICK.get(key, value) for key, value in table.items()}
        return {key: value for key, value in inner.items() if isinstance(value, dict) or key in _QUICK}

    tables = tomllib.loads(command_line("train", "--algo", algo, "--env", "toy", "--show-config").stdout)
    tables.pop("run")
    return shrink(tables)


def command_line(*words, check=True):
    """Runs the program."""
    return subprocess.run([SSKP, *map(str, words)], check=check, capture_output=True, text=True)


def sets(config, path=""):
    """Settings as `--set` takes them."""
    words = []
    for key, value in config.items():
        full = f"{path}.{key}" if path else key
        if isinstance(value, dict):
            words += sets(value, full)
        else:
            words += ["--set", f"{full}={str(value).lower() if isinstance(value, bool) else value}"]
    return words


class Rail(gymnasium.Env):
    """A bead on a rail, pushed left and right; beyond 1 it falls off. Observations and actions are of the shapes given."""

    def __init__(self, kind="box", steps=40):
        box = lambda n: gymnasium.spaces.Box(-np.inf, np.inf, (n,), np.float32)  # noqa: E731
        self.kind, self.steps = kind, steps
        self.observation_space = {
            "box": box(2),
            "dict": gymnasium.spaces.Dict({"place": box(1), "speed": box(1)}),
            "tuple": gymnasium.spaces.Tuple((box(1), gymnasium.spaces.Box(-np.inf, np.inf, (1, 1), np.float64))),
        }[kind]
        self.action_space = gymnasium.spaces.Box(-3.0, 5.0, (1,), np.float32)
        self.seen = []

    def _obs(self):
        place, speed = np.float32(self.x), np.float32(self.v)
        if self.kind == "dict":
            return {"place": np.array([place]), "speed": np.array([speed])}
        if self.kind == "tuple":
            return np.array([place]), np.array([[float(speed)]])
        return np.array([place, speed])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.v, self.t = self.np_random.uniform(-0.1, 0.1), 0.0, 0
        return self._obs(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.seen.append(float(action[0]))
        self.v = 0.9 * self.v + 0.03 * (float(action[0]) - 1.0)
        self.x += self.v
        self.t += 1
        fell = abs(self.x) > 1
        return self._obs(), self.x, fell, self.t >= self.steps, {"cost": float(fell)}


SAC, PLUS = small("sac"), small("sskp-plus")

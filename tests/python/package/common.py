"""Small settings and small environments."""

import os
import pathlib
import subprocess

import gymnasium
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
SSKP = os.environ.get("SSKP_PROGRAM", str(ROOT / "target/release/sskp"))

SAC = {"sac": {"random_steps": 100, "batch": 32, "log_every": 100, "learner.width": 32}}
_SKILLS = {
    "log_every": 200,
    "skill": {"steps": 60, "hidden": 32, "prior_width": 32, "batch": 32, "skip_losses": False},
    "risk": {"steps": 60, "width": 32, "batch": 32, "calibrate": False, "relabel": 0},
    "policy": {"batch": 32, "warm_up": 8, "learner": {"width": 32}},
}
PLUS = {"sskp-plus": {**_SKILLS, "adapt": {"offline_updates": 20, "width": 32, "batch": 32, "warm_up_steps": 8}}}
SKILLS = {"sskp": _SKILLS}
SMALL = {
    "sac": SAC,
    "ssac": {"ssac": SAC["sac"]},
    "smbpo": {"smbpo": {"random_steps": 100, "batch": 32, "learner.width": 32, "updates_per_step": 1}},
    "sskp-plus": PLUS,
    "sskp-plus-wo-rp": PLUS,
    **{name: SKILLS for name in ("sskp", "sskp-np", "sskp-wo-rp", "spirl")},
    "recovery-rl": {"recovery-rl": {"batch": 32, "learner.width": 32, "offline_updates": 50}},
    "cpq": {"cpq": {"batch": 32, "offline_updates": 50}},
}


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

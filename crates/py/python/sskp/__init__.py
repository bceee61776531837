"""Safe reinforcement learning for robots that must not fall.

    import gymnasium, sskp

    env = gymnasium.make("sskp/Hopper-v0")               # info["cost"] is 1 on the step that violates the constraint
    run = sskp.train("sskp-plus", "hopper", total_steps=100_000, log_dir="runs/hopper")
    policy = sskp.load(run.path)
    action = policy.act(env.reset(seed=0)[0])

Robots, methods and runs are those of the command line, compiled; `train` takes any other Gymnasium environment, too.
`docs/python.md` has whole programs.
"""

from importlib import import_module as _import_module

from . import _registration, _sskp

_sskp.installed(_sskp.__file__)
_registration.prepare()

__version__ = _sskp.VERSION

# What is public, by the module that has it: each is imported when it is first used, so that `import sskp` costs nothing.
_MODULES = {
    "RobotEnv": "_envs",
    "robots": "_envs",
    "RobotVectorEnv": "_vector",
    "make_vec": "_vector",
    "to_sb3": "_sb3",
    "methods": "_train",
    "train": "_train",
    "resume": "_train",
    "Run": "_train",
    "Agent": "_agent",
    "collect": "_demos",
    "Demonstrations": "_demos",
    "load": "_policy",
    "export_onnx": "_policy",
    "Policy": "_policy",
    "read_runs": "_frames",
    "Frames": "_frames",
}

__all__ = ["__version__", *_MODULES]

# Modules that are named after what they work with: not in `__all__`, where they would hide it from `from sskp import *`.
_TOOLS = ("optuna", "ray")


def __getattr__(name):
    if name in _TOOLS:
        return _import_module(f".{name}", __name__)
    if name not in _MODULES:
        raise AttributeError(f"module 'sskp' has no attribute {name!r}")
    value = getattr(_import_module(f".{_MODULES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted([*__all__, *_TOOLS])

"""Makes our robots known to Gymnasium: at once if it is there, else as soon as it is imported. Importing it takes longer than all that
`import sskp` does."""

import sys
from importlib.util import find_spec

ROBOTS = {"ant": "Ant", "cheetah": "Cheetah", "hopper": "Hopper", "humanoid": "Humanoid", "toy": "Toy"}


def env_id(robot: str) -> str:
    """What `gymnasium.make` takes for a robot."""
    return f"sskp/{ROBOTS[robot]}-v0"


def robot_of(name: str) -> "str | None":
    """The robot that a name means, ours or Gymnasium's for it; none if it is somebody else's environment."""
    if name in ROBOTS:
        return name
    return next((robot for robot in ROBOTS if env_id(robot) == name), None)


def register(registration) -> None:
    """Registers every robot with Gymnasium's module for that."""
    for robot, title in ROBOTS.items():
        if env_id(robot) not in registration.registry:
            registration.register(
                env_id(robot),
                entry_point=f"sskp._envs:{title}",
                vector_entry_point=f"sskp._vector:{title}Vector",
                # The robots check what they are given and the order of calls themselves, and their tests run `check_env`.
                order_enforce=False,
                disable_env_checker=True,
            )


class _WhenImported:
    """Looks on while modules are imported, until Gymnasium's registration was."""

    def find_spec(self, name, path=None, target=None):
        if name != REGISTRATION:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                register(module)

            spec.loader.exec_module = exec_module
        return spec


REGISTRATION = "gymnasium.envs.registration"


def prepare() -> None:
    """Registers our robots, now or when it is time."""
    if REGISTRATION in sys.modules:
        register(sys.modules[REGISTRATION])
    else:
        sys.meta_path.insert(0, _WhenImported())

"""Makes our robots known to Gymnasium, which calls this when it is imported itself."""

ROBOTS = {"ant": "Ant", "cheetah": "Cheetah", "hopper": "Hopper", "humanoid": "Humanoid", "toy": "Toy"}


def env_id(robot: str) -> str:
    """What `gymnasium.make` takes for a robot."""
    return f"sskp/{ROBOTS[robot]}-v0"


def robot_of(name: str) -> "str | None":
    """The robot that a name means, ours or Gymnasium's for it; none if it is somebody else's environment."""
    if name in ROBOTS:
        return name
    return next((robot for robot in ROBOTS if env_id(robot) == name), None)


def register() -> None:
    """Registers every robot."""
    from gymnasium.envs.registration import register, registry

    for robot, title in ROBOTS.items():
        if env_id(robot) not in registry:
            register(
                env_id(robot),
                entry_point=f"sskp._envs:{title}",
                vector_entry_point=f"sskp._vector:{title}Vector",
            )

"""Control steps per second of one Gymnasium environment under random actions, resets included.

Prints one line of JSON. `cargo xtask bench envs` runs this in a virtual environment of its own; by hand:

    python envs_gymnasium.py --env hopper --seconds 2
"""

import argparse
import json
import os
import platform
import time

# Before NumPy is imported: one process must mean one thread.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import gymnasium
import mujoco
import numpy

# The settings under which each environment has the observation and reward of ours, so that both sides do the same
# work. What stays different: ours also ends an episode of the cheetah when its head touches the floor.
ENVIRONMENTS = {
    "ant": (
        "Ant-v5",
        dict(healthy_reward=0, contact_cost_weight=0, include_cfrc_ext_in_observation=False),
    ),
    "cheetah": ("HalfCheetah-v5", dict()),
    "hopper": ("Hopper-v5", dict(healthy_reward=0)),
    "humanoid": (
        "Humanoid-v5",
        dict(
            healthy_reward=0,
            contact_cost_weight=0,
            include_cinert_in_observation=False,
            include_cvel_in_observation=False,
            include_qfrc_actuator_in_observation=False,
            include_cfrc_ext_in_observation=False,
        ),
    ),
}

BLOCK = 250
"""Steps between two looks at the clock."""


def sampled(env, generator):
    """A block of random actions as Gymnasium's users draw them: one by one, by the environment's action space."""
    return (env.action_space.sample() for _ in range(BLOCK))


def drawn_ahead(env, generator):
    """A block of random actions in one call of NumPy. Sampling an action space is slow (for the cheetah it takes as
    long as the step itself), so this shows what the environment alone can do."""
    low, high = env.action_space.low, env.action_space.high
    return generator.uniform(low, high, size=(BLOCK, low.size)).astype(low.dtype)


ACTIONS = {"sample": sampled, "block": drawn_ahead}


def run(env, draw, generator, seconds):
    """Steps `env` for at least `seconds`; returns the steps made and the seconds taken."""
    steps = 0
    start = time.perf_counter()
    while True:
        for action in draw(env, generator):
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        steps += BLOCK
        elapsed = time.perf_counter() - start
        if elapsed >= seconds:
            return steps, elapsed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", required=True, choices=sorted(ENVIRONMENTS))
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--actions", choices=sorted(ACTIONS), default="sample")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    name, settings = ENVIRONMENTS[arguments.env]
    # The checker tests only the first step; it is off so that nothing but the environment is measured.
    env = gymnasium.make(name, disable_env_checker=True, **settings)
    env.reset(seed=arguments.seed)
    env.action_space.seed(arguments.seed)
    generator = numpy.random.default_rng(arguments.seed)
    draw = ACTIONS[arguments.actions]
    run(env, draw, generator, min(0.2, arguments.seconds))  # caches and processor clock warm up
    steps, seconds = run(env, draw, generator, arguments.seconds)
    print(
        json.dumps(
            {
                "env": arguments.env,
                "actions": arguments.actions,
                "steps": steps,
                "seconds": seconds,
                "steps_per_second": steps / seconds,
                "gymnasium": gymnasium.__version__,
                "mujoco": mujoco.__version__,
                "numpy": numpy.__version__,
                "python": platform.python_version(),
            }
        )
    )


if __name__ == "__main__":
    main()

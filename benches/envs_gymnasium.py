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
"""Steps between two looks at the clock. Actions are drawn a block at a time, which costs Gymnasium's side almost
nothing; `action_space.sample()` at every step would slow it down by a part that is not the environment's."""


def run(env, generator, seconds):
    """Steps `env` for at least `seconds`; returns the steps made and the seconds taken."""
    low, high = env.action_space.low, env.action_space.high
    steps = 0
    start = time.perf_counter()
    while True:
        actions = generator.uniform(low, high, size=(BLOCK, low.size)).astype(low.dtype)
        for action in actions:
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
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    name, settings = ENVIRONMENTS[arguments.env]
    # The checker tests only the first step; it is off so that nothing but the environment is measured.
    env = gymnasium.make(name, disable_env_checker=True, **settings)
    env.reset(seed=arguments.seed)
    generator = numpy.random.default_rng(arguments.seed)
    run(env, generator, min(0.2, arguments.seconds))  # caches and processor clock warm up
    steps, seconds = run(env, generator, arguments.seconds)
    print(
        json.dumps(
            {
                "env": arguments.env,
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

"""Environment steps per second of another library's SAC: one environment step and one update per step.

Prints one line of JSON. `cargo xtask bench update` runs this in a virtual environment of its own; by hand:

    python update_python.py --library sb3 --threads 1 --seconds 10
"""

import argparse
import json
import os
import platform
import time
import warnings
from importlib.metadata import version

LIBRARIES = {"sb3": ("stable-baselines3", "torch"), "sbx": ("sbx-rl", "jax")}

RANDOM_STEPS = 1000
"""Random steps that fill the replay before the first update, as on our side."""

WARM_STEPS = 50
"""Steps with an update before the clock starts: JAX compiles at the first, and caches warm up."""


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True, choices=sorted(LIBRARIES))
    parser.add_argument("--env", default="hopper", choices=["hopper"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def limit_threads(arguments):
    """Must come before NumPy, PyTorch and JAX are imported: they read these when they start."""
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(arguments.threads)
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    os.environ["JAX_PLATFORMS"] = "cpu"
    if arguments.library == "sbx":
        # XLA takes as many threads as it may use cores, and has no other setting that bounds them all. The first core
        # serves most interrupts, so the last ones are taken.
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[-arguments.threads :])


def main():
    arguments = parse()
    limit_threads(arguments)
    warnings.filterwarnings("ignore")

    import gymnasium
    from stable_baselines3.common.callbacks import BaseCallback

    if arguments.library == "sb3":
        import torch
        from stable_baselines3 import SAC

        torch.set_num_threads(arguments.threads)
    else:
        from sbx import SAC

    class Stopwatch(BaseCallback):
        """Called between a step and its update, so from one call to a later one there are as many updates as steps."""

        def __init__(self):
            super().__init__()
            self.begin = None
            self.steps = 0
            self.seconds = 0.0

        def _on_step(self):
            if self.num_timesteps <= RANDOM_STEPS + WARM_STEPS:
                return True
            now = time.perf_counter()
            if self.begin is None:
                self.begin = (self.num_timesteps, now)
            self.steps = self.num_timesteps - self.begin[0]
            self.seconds = now - self.begin[1]
            return self.seconds < arguments.seconds

    # Our observation and reward; the checker tests only the first step.
    env = gymnasium.make("Hopper-v5", healthy_reward=0, disable_env_checker=True)
    settings = dict(device="cpu") if arguments.library == "sb3" else dict()
    model = SAC(
        "MlpPolicy",
        env,
        learning_rate=3e-4,
        buffer_size=1_000_000,
        learning_starts=RANDOM_STEPS,
        batch_size=256,
        train_freq=1,
        gradient_steps=1,
        policy_kwargs=dict(net_arch=[256, 256]),
        seed=arguments.seed,
        **settings,
    )
    stopwatch = Stopwatch()
    model.learn(total_timesteps=10**9, callback=stopwatch, log_interval=10**9)
    packages = LIBRARIES[arguments.library] + ("gymnasium", "mujoco", "numpy")
    print(
        json.dumps(
            {
                "env": arguments.env,
                "library": arguments.library,
                "threads": arguments.threads,
                "steps": stopwatch.steps,
                "seconds": stopwatch.seconds,
                "steps_per_second": stopwatch.steps / stopwatch.seconds,
                "versions": ", ".join(f"{name} {version(name)}" for name in packages)
                + f", python {platform.python_version()}",
            }
        )
    )


if __name__ == "__main__":
    main()

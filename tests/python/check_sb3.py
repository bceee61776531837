"""stable-baselines3 trains on our robots: SAC on a single one, PPO on a vector."""

import sys

import gymnasium
import numpy as np
import sskp
import torch
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecMonitor

torch.set_num_threads(1)


def returns(model, episodes=20):
    return evaluate_policy(model, gymnasium.make("sskp/Toy-v0"), n_eval_episodes=episodes, warn=False)[0]


def learns(name, model, steps):
    before = returns(model)
    model.learn(steps)
    after = returns(model)
    print(f"{name}: {before:.2f} -> {after:.2f}")
    assert after > before + 1, f"{name} learns on ours"


def small():
    """A dict each: stable-baselines3 writes into it."""
    return {"seed": 0, "policy_kwargs": {"net_arch": [32, 32]}}


learns("SAC", SAC("MlpPolicy", gymnasium.make("sskp/Toy-v0"), learning_starts=200, batch_size=64, **small()), 2500)
robots = sskp.to_sb3(sskp.make_vec("toy", 8, threads=2, autoreset="same-step"))
learns("PPO", PPO("MlpPolicy", VecMonitor(robots), n_steps=64, batch_size=128, **small()), 30_000)

hopper = sskp.to_sb3(sskp.make_vec("hopper", 4, threads=2, autoreset="same-step"))
PPO("MlpPolicy", hopper, seed=0, n_steps=32, batch_size=64).learn(512)
SAC("MlpPolicy", gymnasium.make("sskp/Hopper-v0"), learning_starts=50, **small()).learn(120)
try:
    sskp.to_sb3(sskp.make_vec("toy", 2))
except ValueError as error:
    assert "same-step" in str(error)
else:
    sys.exit("a vector that begins episodes in the next step must be refused")
print("stable-baselines3 trains on ours", np.__version__)

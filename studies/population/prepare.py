"""Writes what train.py needs of the four robots: skill models, padded to the largest robot, and the medium sets.

    for r in ant cheetah hopper humanoid; do sskp skills --demos $r/medium-v0 --out skills-$r.safetensors; done
    python prepare.py ../../data skills-%s.safetensors data.npz        (needs numpy, h5py, safetensors)
"""
import glob
import json
import sys

import h5py
import numpy as np
from safetensors import safe_open

OBS, ACTION, SKILL, WIDTH = 45, 17, 10, 128
EPSILON = 1e-6


def layers(model, net, count):
    at = lambda i, kind: model.get_tensor(f"policy/skill.{net}.{i}.{kind}")
    return [(at(i, "weight"), at(i, "bias")) for i in range(count)]


def flat(parts):
    return np.concatenate([x.ravel() for part in parts for x in part]).astype(np.float32)


def main(data, skills, to):
    out = {}
    for robot in ["ant", "cheetah", "hopper", "humanoid"]:
        model = safe_open(skills % robot, "np")
        values = json.loads(model.metadata()["sskp"])["values"]
        mean = model.get_tensor("policy/skill.standardiser.mean")
        squares = model.get_tensor("policy/skill.standardiser.squares")
        std = np.sqrt(squares / values["policy/skill.standardiser.count"])
        scale = np.where(std < EPSILON, 1.0, 1.0 / (std + EPSILON))
        obs = len(mean)
        sets = h5py.File(glob.glob(f"{data}/{robot}/medium-v0/**/*.hdf5", recursive=True)[0])
        action = sets["episode_0"]["actions"].shape[1]
        decoder = layers(model, "decoder", 3)
        prior = layers(model, "prior", 4)
        first = np.zeros((OBS + SKILL, WIDTH), np.float32)
        first[:obs], first[OBS:] = decoder[0][0][:obs], decoder[0][0][obs:]
        last, bias = np.zeros((WIDTH, ACTION), np.float32), np.zeros(ACTION, np.float32)
        last[:, :action], bias[:action] = decoder[2]
        out[f"{robot}_decoder"] = flat([(first, decoder[0][1]), decoder[1], (last, bias)])
        first = np.zeros((OBS, WIDTH), np.float32)
        first[:obs] = prior[0][0]
        out[f"{robot}_prior"] = flat([(first, prior[0][1])] + prior[1:])
        pad = lambda x: np.pad(x, (0, OBS - obs)).astype(np.float32)
        out[f"{robot}_shift"], out[f"{robot}_scale"] = pad(mean), pad(scale)
        states, actions, rewards, ends = [], [], [], []
        for name in sorted(sets.keys(), key=lambda k: int(k.split("_")[1])):
            episode = sets[name]
            states.append(((episode["observations"][:] - mean) * scale).clip(-10, 10).astype(np.float16))
            actions.append(episode["actions"][:].astype(np.float16))
            rewards.append(episode["rewards"][:].astype(np.float32))
            ends.append((len(rewards[-1]), int(episode["infos"]["cost"][-1] > 0)))
        for key, value in [("states", states), ("actions", actions), ("rewards", rewards)]:
            out[f"{robot}_{key}"] = np.concatenate(value)
        out[f"{robot}_ends"] = np.array(ends, np.int32)
    np.savez_compressed(to, **out)


main(*sys.argv[1:])

"""Demonstrations: collected from any policy in any environment, and out of Minari."""

import json
import os
import pathlib

import gymnasium
import minari
import numpy as np
import pytest
import sskp
from common import PLUS, Rail, command_line, small
from minari.data_collector import EpisodeBuffer


def to_the_middle(obs):
    """Holds a bead right of the middle, never near an end."""
    return np.clip(np.array([1.0 + 20 * (0.3 - obs[0]) - 30 * obs[1]]), -3, 5)


def test_pushes_make_the_wanted_number_of_violations_in_any_environment():
    calm = sskp.collect(Rail, to_the_middle, 20, noise=0.05, out="sets", name="rail/calm-v0", progress=False)
    assert calm.violations == 0 and calm.episodes == 20 and calm.steps == 800
    fallen = sskp.collect(Rail, to_the_middle, 60, noise=0.05, falls=9, out="sets", name="rail/fallen-v0", progress=False)
    assert fallen.falls == 9 and fallen.violations >= 9 and fallen.episodes == 60
    # A push that is far too weak grows until it is not; without growing it never fells anything.
    grown = sskp.collect(Rail, to_the_middle, 60, falls=5, push=0.02, out="sets", name="rail/grown-v0", progress=False)
    weak = sskp.collect(Rail, to_the_middle, 60, falls=5, push=0.02, grow=False, out="sets", name="rail/weak-v0", progress=False)
    assert grown.falls >= 1 and weak.falls == 0
    os.environ["MINARI_DATASETS_PATH"] = os.path.abspath("sets")
    there = minari.load_dataset("rail/fallen-v0")
    costs = [episode.infos["cost"] for episode in there.iterate_episodes()]
    assert there.total_episodes == 60 and sum(cost[-1] > 0 for cost in costs) == fallen.violations
    assert all((cost[:-1] == 0).all() for cost in costs)
    assert "no mistake" in (checked := command_line("data", "check", fallen.path).stdout) or checked
    # And it is learnt from.
    run = sskp.train("sskp-plus", Rail, demos=fallen, total_steps=300, log_dir="run", config=PLUS, progress=False)
    assert run.finished and json.loads(pathlib.Path("run/offline.json").read_text())["violations"] == fallen.violations
    with pytest.raises(ValueError, match="violation"):
        sskp.train("sskp-plus", Rail, demos=calm, total_steps=300, log_dir="no", config=PLUS, progress=False)


def test_our_robots_and_policies_demonstrate_too():
    run = sskp.train("sac", "toy", total_steps=300, log_dir="run", config=small("sac"), progress=False)
    set_ = sskp.collect("toy", sskp.load(run), 12, falls=3, out="sets", name="toy/mine-v0", progress=False)
    assert set_.falls == 3 and pathlib.Path("sets/toy/mine-v0/data/main_data.hdf5").exists()
    set_ = sskp.collect("sskp/Hopper-v0", lambda obs: np.zeros(3), 3, out="sets", name="hopper/mine-v0", progress=False)
    assert set_.violations == 3
    again = sskp.train("sskp", "toy", demos="sets/toy/mine-v0", total_steps=200, log_dir="again", config=small("sskp"), progress=False)
    assert again.finished


def make_minari(name, policy=to_the_middle, kind="box"):
    env, buffers = Rail(kind), []
    for seed in range(12):
        observation, over = env.reset(seed=seed)[0], False
        wild = np.random.default_rng(seed)
        observations, actions, rewards, ends = [observation], [], [], []
        while not over:
            flat = observation if kind == "box" else np.concatenate([observation["place"], observation["speed"]])
            push = policy(flat) if seed % 2 else wild.uniform(-3, 5, 1)
            observation, reward, *end, _ = env.step(push.astype(np.float32))
            over = any(end)
            observations.append(observation), actions.append(push.astype(np.float32)), rewards.append(reward), ends.append(end)
        if kind == "dict":
            observations = {key: np.array([row[key] for row in observations]) for key in observations[0]}
        terminated, truncated = zip(*ends)
        buffers.append(EpisodeBuffer(None, seed, None, observations, actions, rewards, list(terminated), list(truncated)))
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    return minari.create_dataset_from_buffers(name, buffers, algorithm_name="test", **spaces)


@pytest.mark.parametrize("kind", ["box", "dict"])
def test_minari_sets_are_read_as_objects_and_by_name(kind, folder):
    os.environ["MINARI_DATASETS_PATH"] = str(folder / "minari")
    dataset = make_minari("rail/pushed-v0", kind=kind)
    place = lambda obs: obs["place"][0] if kind == "dict" else obs[0]  # noqa: E731
    violation = lambda obs, info: abs(place(obs)) > 0.8  # noqa: E731
    one = sskp.train("cpq", Rail(kind), violation=violation, demos=dataset, total_steps=200, log_dir="one", config=small("cpq"), progress=False)
    two = sskp.train("cpq", Rail(kind), violation=violation, demos="rail/pushed-v0", total_steps=200, log_dir="two", config=small("cpq"), progress=False)
    texts = [pathlib.Path(run.path, "episodes.csv").read_text() for run in (one, two)]
    assert texts[0] == texts[1] and json.loads(pathlib.Path("one/offline.json").read_text())["violations"] > 2
    # A set of ours has actions within [-1, 1] and ends where it violates.
    kept = minari.MinariDataset(pathlib.Path(one.frames().summaries.path[0]) and next(pathlib.Path(os.environ["SSKP_CACHE"]).glob("demos/Rail/*/data")))
    actions = np.concatenate([episode.actions for episode in kept.iterate_episodes()])
    assert -1 <= actions.min() < -0.9 and 0.9 < actions.max() <= 1
    assert all(len(episode.rewards) == 1 + int(np.argmax(episode.infos["cost"][1:])) for episode in kept.iterate_episodes() if episode.infos["cost"].any())


def test_what_is_no_set_is_refused():
    with pytest.raises(ValueError, match="no demonstrations nobody/has-this-v0.*Minari has none"):
        sskp.train("cpq", "toy", demos="nobody/has-this-v0", log_dir="run", progress=False)
    with pytest.raises(TypeError, match="demos: it is a int"):
        sskp.train("cpq", "toy", demos=7, log_dir="run", progress=False)
    with pytest.raises(ValueError, match="begins with demonstrations"):
        sskp.train("cpq", Rail(), log_dir="run", progress=False)
    assert not pathlib.Path("run").exists() and isinstance(Rail(), gymnasium.Env)

"""Trained policies: loaded, exported, and played by the reference runner."""

import hashlib
import importlib.util
import json
import pathlib
import re
import shutil
import struct

import gymnasium
import numpy as np
import onnx
import pytest
import sskp
from common import ROOT, Rail, command_line, small

spec = importlib.util.spec_from_file_location("run_policy", ROOT / "examples/run_policy.py")
run_policy = importlib.util.module_from_spec(spec)
spec.loader.exec_module(run_policy)


def test_the_reference_runner_is_short():
    assert len((ROOT / "examples/run_policy.py").read_text().splitlines()) <= 150


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A small run of every method, on the toy; the open-loop decoder besides."""
    folder = tmp_path_factory.mktemp("runs")
    made = {}
    for algo in sskp.methods():
        made[algo] = sskp.train(algo, "toy", total_steps=600, log_dir=folder / algo, config=small(algo), progress=False)
    blind = {**small("sskp"), "sskp.skill.decoder": "open-loop"}
    made["sskp, open-loop"] = sskp.train("sskp", "toy", total_steps=600, log_dir=folder / "open", config=blind, progress=False)
    # One whose recovery policy acts as often as the task policy does.
    threshold = {**small("recovery-rl"), "recovery-rl.risk.threshold": 0.4}
    made["recovery-rl, early"] = sskp.train("recovery-rl", "toy", total_steps=600, log_dir=folder / "early", config=threshold, progress=False)
    return made


def names():
    return [*sskp.methods(), "sskp, open-loop", "recovery-rl, early"]


@pytest.mark.parametrize("name", names())
def test_the_exported_policy_gives_the_same_actions_over_whole_episodes(runs, name, folder):
    run = runs[name]
    policy = sskp.load(run)
    policy.export_onnx("exported")
    command_line("export", run.path, "--onnx", "by-program")
    written = sorted(path.name for path in (folder / "exported").iterdir())
    for file in written:
        assert (folder / "exported" / file).read_bytes() == (folder / "by-program" / file).read_bytes()
    for file in (folder / "exported").glob("*.onnx"):
        model = onnx.load(file)
        onnx.checker.check_model(model, full_check=True)
        about = json.loads((folder / "exported/policy.json").read_text())["networks"][file.stem]
        assert about["outputs"] == [output.name for output in model.graph.output]
        assert set(about["inputs"]) <= {value.name for value in model.graph.input}
    exported = run_policy.Exported("exported")
    env = gymnasium.make("sskp/Toy-v0")
    worst, decisions, risks = 0.0, 0, []
    for seed in range(4):
        observation, over = env.reset(seed=seed)[0], False
        policy.reset(), exported.reset()
        while not over:
            action, other = policy.act(observation), exported.act(observation)
            worst, decisions = max(worst, float(np.abs(action - other).max())), decisions + 1
            if policy.risk is not None:
                risks.append(abs(policy.risk - exported.risk))
            observation, _, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
    assert worst < 1e-5 and decisions > 40, (worst, decisions)
    plans = name.startswith("sskp") and not name.endswith("wo-rp")
    assert (len(risks) > 0) == plans and max(risks, default=0) < 1e-4


def test_a_robot_of_the_paper_is_exported_too(folder):
    planner = {"sskp-plus.planner": {"samples": 512, "elites": 64}}
    run = sskp.train("sskp-plus", "hopper", total_steps=300, log_dir="run", config={**small("sskp-plus"), **planner}, progress=False)
    policy = sskp.load("run")
    policy.export_onnx("exported")
    exported = run_policy.Exported("exported")
    env = gymnasium.make("sskp/Hopper-v0")
    for seed in range(3):
        observation, over = env.reset(seed=seed)[0], False
        policy.reset(), exported.reset()
        while not over:
            action = policy.act(observation)
            assert np.abs(action - exported.act(observation)).max() < 1e-5
            observation, _, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
    assert run.finished


def test_rows_of_a_batch_play_what_they_would_play_alone(runs):
    env = gymnasium.make("sskp/Toy-v0")
    for name in ("sac", "sskp-plus", "recovery-rl"):
        states = [[env.reset(seed=seed)[0]] + [env.step(0.1 * env.action_space.sample())[0] for _ in range(14)] for seed in range(3)]
        batch = sskp.load(runs[name])
        together = np.stack([batch.act(np.stack([row[t] for row in states])) for t in range(15)])
        for i, row in enumerate(states):
            alone = sskp.load(runs[name])
            assert (together[:, i] == np.stack([alone.act(state) for state in row])).all()
        if name == "sskp-plus":
            assert batch.risk.shape == (3,) and ((0 <= batch.risk) & (batch.risk <= 1)).all()
            first = batch.act(np.stack([row[0] for row in states]))
            batch.reset()
            assert (batch.act(np.stack([row[0] for row in states])) == together[0]).all() and first.shape == (3, 2)
            batch.reset()
            assert not (batch.act(states[0][0], explore=True) == together[0][0]).all()


def test_a_policy_of_somebody_elses_environment_acts_in_its_limits(folder):
    run = sskp.train("sac", Rail("dict"), total_steps=300, log_dir="run", config=small("sac"), progress=False)
    policy = sskp.load(run)
    sskp.export_onnx(run, "exported")
    exported = run_policy.Exported("exported")
    for x in np.linspace(-3, 3, 20):
        action = policy.act([x, 0.5])
        assert -3 <= action <= 5 and np.abs(action - exported.act([x, 0.5])).max() < 1e-5
    assert "no part of this program" in command_line("eval", "run", check=False).stderr


def test_tensors_have_their_names_and_shapes(runs, folder):
    checkpoint = sorted(pathlib.Path(runs["sskp-plus"].path, "checkpoints").iterdir())[-1]
    raw = (checkpoint / "policy.safetensors").read_bytes()
    header = json.loads(raw[8 : 8 + struct.unpack("<Q", raw[:8])[0]])
    shapes = {name: entry["shape"] for name, entry in header.items() if name != "__metadata__"}
    assert shapes["actor.0.weight"] == [5, 32] and shapes["actor.0.bias"] == [32]
    assert shapes["skill.decoder.0.weight"] == [5 + 10, 32] and shapes["skill.decoder.2.bias"] == [2]
    assert shapes["risk.2.weight"] == [32, 1] and shapes["skill.encoder.hidden.weight"] == [32, 128]
    # They are what acts: the first layer, by hand.
    read = lambda name: np.frombuffer(  # noqa: E731
        raw, np.float32, offset=8 + struct.unpack("<Q", raw[:8])[0] + header[name]["data_offsets"][0], count=int(np.prod(shapes[name]))
    ).reshape(shapes[name])
    sac = sorted(pathlib.Path(runs["sac"].path, "checkpoints").iterdir())[-1]
    raw = (sac / "policy.safetensors").read_bytes()
    header = json.loads(raw[8 : 8 + struct.unpack("<Q", raw[:8])[0]])
    shapes = {name: entry["shape"] for name, entry in header.items() if name != "__metadata__"}
    x = np.array([0.1, -0.2, 0.3, 0.0, 0.5], np.float32)
    for layer in range(3):
        x = x @ read(f"actor.{layer}.weight") + read(f"actor.{layer}.bias")
        x = np.maximum(x, 0) if layer < 2 else np.tanh(x[:2])
    assert np.abs(x - sskp.load(runs["sac"]).act([0.1, -0.2, 0.3, 0.0, 0.5])).max() < 1e-6


def written_flat(checkpoint):
    """Rewrites a checkpoint as it was before layers had names: one column of numbers for each network or cell."""
    file = checkpoint / "policy.safetensors"
    raw = file.read_bytes()
    start = 8 + struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:start])
    networks, flat, data = {}, {}, b""
    for name, tensor in header.items():
        if name != "__metadata__":
            layer = re.fullmatch(r"(.+)\.(\d+)\.(weight|bias)", name) or re.fullmatch(r"(.+)()\.(input\.weight|hidden\.weight|bias)", name)
            base, number, part = layer.groups() if layer else (name, "", "")
            # In the order of a network's parameters: layer by layer, weights first; of a cell, inputs, hidden, biases.
            order = (int(number or 0), ("input.weight", "hidden.weight", "weight", "bias", "").index(part))
            networks.setdefault((base, bool(layer)), []).append((order, raw[start:][slice(*tensor["data_offsets"])], tensor))
    for (base, layered), parts in networks.items():
        joined = b"".join(numbers for _, numbers, _ in sorted(parts, key=lambda part: part[0]))
        shape = [len(joined) // 4, 1] if layered else parts[0][2]["shape"]
        flat[base] = {"dtype": parts[0][2]["dtype"], "shape": shape, "data_offsets": [len(data), len(data) + len(joined)]}
        data += joined
    text = json.dumps(flat).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + data)
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    manifest["files"]["policy.safetensors"] = hashlib.sha256(file.read_bytes()).hexdigest()
    (checkpoint / "manifest.json").write_text(json.dumps(manifest))
    return len(header) - len(flat)


@pytest.mark.parametrize("name", ["sac", "recovery-rl", "sskp-plus", "sskp, open-loop"])
def test_policies_from_before_layers_had_names_are_read(runs, name, folder):
    shutil.copytree(runs[name].path, folder / "old")
    checkpoint = sorted((folder / "old/checkpoints").iterdir())[-1]
    assert written_flat(checkpoint) > 3, "its tensors are fewer now"
    states = np.random.default_rng(0).normal(0, 0.3, (20, 5))
    new, old = sskp.load(runs[name]), sskp.load(folder / "old")
    assert all((new.act(state) == old.act(state)).all() for state in states)
    assert sskp.resume(folder / "old", total_steps=650, progress=False).steps == 650

"""Loads sets of demonstrations with Minari's own package and compares them with what sskp says about them.

    python check_minari.py SET INFO.json [SET INFO.json ...]

SET is the folder of a Minari set, or an HDF5 file in DSRL's layout (read with h5py); INFO.json is what
`sskp data info SET --json` printed. Needs minari 0.5.4, h5py and pillow, without which Minari cannot read HDF5.
Exit code 1, with every difference on a line, when something differs.
"""

import json
import os
import sys
from pathlib import Path

import h5py
import numpy as np


def differences(wanted, got):
    """Names of the numbers that differ."""
    for name, value in got.items():
        expected = wanted[name]
        same = abs(value - expected) <= 1e-4 * max(1.0, abs(expected)) if isinstance(value, float) else value == expected
        if not same:
            yield f"{name} is {value} here and {expected} in sskp"


def summary(returns, lengths, costs, observations, actions):
    """The numbers of `sskp data info --json`, computed again."""
    return {
        "episodes": len(returns),
        "steps": int(sum(lengths)),
        "violations": sum(bool((c > 0).any()) for c in costs),
        "violating_steps": int(sum((c > 0).sum() for c in costs)),
        "total_cost": float(sum(c.sum() for c in costs)),
        "obs_dim": int(observations),
        "action_dim": int(actions),
    }


def spread_differences(info, returns, lengths):
    """Distribution of returns and lengths, computed again by numpy."""
    for name, values in [("returns", returns), ("lengths", lengths)]:
        quartiles = np.percentile(values, [0, 25, 50, 75, 100])
        got = dict(zip(["min", "low", "median", "high", "max"], map(float, quartiles)), mean=float(np.mean(values)))
        for difference in differences(info[name], got):
            yield f"{name}: {difference}"


def check_minari(folder, info):
    """Differences of a Minari set."""
    set_id = json.loads((folder / "data" / "metadata.json").read_text())["dataset_id"]
    root = folder.resolve()
    for _ in Path(set_id).parts:
        root = root.parent
    os.environ["MINARI_DATASETS_PATH"] = str(root)
    import minari

    if set_id not in minari.list_local_datasets():
        yield "minari does not list it"
    dataset = minari.load_dataset(set_id)
    returns, lengths, costs = [], [], []
    for episode in dataset.iterate_episodes():
        steps = len(episode.rewards)
        cost = episode.infos["cost"]
        if not (episode.observations.shape[0] == steps + 1 == cost.shape[0]):
            yield f"episode {episode.id}: wrong lengths"
        if episode.terminations.dtype != np.bool_ or episode.truncations.dtype != np.bool_:
            yield f"episode {episode.id}: flags are no bools"
        for name, array, space in [
            ("observations", episode.observations, dataset.observation_space),
            ("actions", episode.actions, dataset.action_space),
        ]:
            if not all(space.contains(row) for row in array):
                yield f"episode {episode.id}: {name} are not all in their space"
        # The cost of step t is cost[t + 1]; ours end an episode with it.
        cost = cost[1:]
        if not np.array_equal(cost > 0, episode.terminations):
            yield f"episode {episode.id}: costs and terminations differ"
        if bool(episode.terminations[-1]) == bool(episode.truncations[-1]):
            yield f"episode {episode.id}: ends with both flags or neither"
        returns.append(float(episode.rewards.astype(np.float64).sum()))
        lengths.append(steps)
        costs.append(cost)
    said = [m["rewards_sum"] for m in dataset.storage.get_episode_metadata(dataset.episode_indices)]
    if not np.allclose(said, returns, rtol=1e-6, atol=1e-6):
        yield "the attributes rewards_sum are not the sums of the rewards"
    got = summary(returns, lengths, costs, dataset.observation_space.shape[0], dataset.action_space.shape[0])
    got["steps"] = int(dataset.total_steps) if dataset.total_steps == got["steps"] else -1
    yield from differences(info, got)
    yield from spread_differences(info, returns, lengths)


def check_dsrl(file, info):
    """Differences of a flat file."""
    with h5py.File(file) as data:
        arrays = {name: data[name][:] for name in data}
    ends = np.flatnonzero(arrays["terminals"].astype(bool) | arrays["timeouts"].astype(bool)) + 1
    parts = [slice(a, b) for a, b in zip(np.concatenate([[0], ends[:-1]]), ends)]
    if ends[-1] != len(arrays["rewards"]):
        yield "the last episode has no end"
    for name in ["observations", "next_observations", "actions", "rewards", "costs"]:
        if arrays[name].dtype != np.float32:
            yield f"{name} are {arrays[name].dtype}, not float32"
    inside = np.ones(len(arrays["rewards"]), bool)
    inside[ends - 1] = False
    if not np.array_equal(arrays["next_observations"][:-1][inside[:-1]], arrays["observations"][1:][inside[:-1]]):
        yield "next_observations are not the next observations"
    returns = [float(arrays["rewards"][p].astype(np.float64).sum()) for p in parts]
    lengths = [p.stop - p.start for p in parts]
    costs = [arrays["costs"][p] for p in parts]
    got = summary(returns, lengths, costs, arrays["observations"].shape[1], arrays["actions"].shape[1])
    yield from differences(info, got)
    yield from spread_differences(info, returns, lengths)


def main(arguments):
    if not arguments or len(arguments) % 2:
        sys.exit(__doc__)
    failed = False
    for path, info in zip(map(Path, arguments[::2]), arguments[1::2]):
        info = json.loads(Path(info).read_text())
        found = list((check_minari if path.is_dir() else check_dsrl)(path, info))
        for difference in found:
            print(f"{path}: {difference}")
        failed |= bool(found)
        if not found:
            print(f"{path}: {info['episodes']} episodes, {info['steps']} steps, cost {info['total_cost']:.0f}: the same")
    sys.exit(failed)


if __name__ == "__main__":
    main(sys.argv[1:])

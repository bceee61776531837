"""Reads run directories as their users' tools do, and compares what they see with the run's own rows.

    python check_run.py SSKP RUN [RUN ...]

SSKP is the binary that wrote the runs. Three readers:
- TensorBoard's own package, on tb/;
- OmniSafe's plotter, on progress.csv and config.json. OmniSafe itself would bring PyTorch and a simulator, so the few things that
  its omnisafe/utils/plotter.py reads are read here in the same way: as version 0.5.0 does, and with the older name of
  steps_per_epoch;
- whoever hashes the files that manifest.json names.

Needs tensorboard 2.21.0 and pandas. Exit code 1, with every difference on a line, when something differs.
"""

import hashlib
import json
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from tensorboard.backend.event_processing import event_accumulator

# Episodes that Metrics/EpRet averages over.
RECENT = 20


def check_tensorboard(run, progress):
    """Every cell is a point: at its step, with its value, and there is none besides."""
    files = sorted((run / "tb").iterdir())
    if len(files) != 1:
        yield f"tb holds {len(files)} files"
    events = event_accumulator.EventAccumulator(str(run / "tb"), size_guidance={event_accumulator.SCALARS: 0})
    events.Reload()
    columns = [name for name in progress.columns if name != "TotalEnvSteps"]
    if sorted(events.Tags()["scalars"]) != sorted(columns):
        yield f"the scalars are {sorted(events.Tags()['scalars'])}, and the columns {sorted(columns)}"
        return
    for name in columns:
        points = events.Scalars(name)
        rows = progress[progress[name].notna()]
        if [point.step for point in points] != rows["TotalEnvSteps"].tolist():
            yield f"{name}: the steps differ"
        # TensorBoard keeps single precision.
        elif not np.array_equal(np.float32([point.value for point in points]), rows[name].to_numpy(np.float32)):
            yield f"{name}: the values differ"
        elif [point.wall_time for point in points] != rows["Time/Total"].tolist():
            yield f"{name}: the times differ"


def omnisafe_curves(folder, epoch_key):
    """What OmniSafe's plotter makes of all runs below a folder: their names, steps, rewards and costs."""
    for root, _, files in os.walk(folder):
        if "progress.csv" not in files:
            continue
        config = json.loads(Path(root, "config.json").read_text(encoding="utf-8"))
        # Without this key the plotter reads nothing else of the file.
        name, steps_per_epoch = None, None
        if "exp_name" in config:
            name, steps_per_epoch = config["algo"], config["algo_cfgs"][epoch_key]
        data = pd.read_csv(Path(root, "progress.csv"))
        reward = "Metrics/TestEpRet" if "Metrics/TestEpRet" in data else "Metrics/EpRet"
        cost = "Metrics/TestEpCost" if "Metrics/TestEpCost" in data else "Metrics/EpCost"
        steps = data["Train/Epoch"] * steps_per_epoch
        np.max(np.asarray(steps, dtype=np.int32))
        yield name, steps, data[reward], data[cost]


def check_omnisafe(run, progress):
    """Its curves are those of episodes.csv, over environment steps."""
    episodes = pd.read_csv(run / "episodes.csv")
    recent = [episodes[episodes["steps"] <= step].tail(RECENT) for step in progress["TotalEnvSteps"]]
    algo = json.loads((run / "config.json").read_text())["run"]["algo"]
    for epoch_key in ["steps_per_epoch", "update_cycle"]:
        curves = list(omnisafe_curves(run, epoch_key))
        if len(curves) != 1:
            yield f"{len(curves)} runs are found"
            return
        name, steps, rewards, costs = curves[0]
        if name != algo:
            yield f"its name is {name}, and the method {algo}"
        if not np.allclose(steps, progress["TotalEnvSteps"], rtol=1e-12):
            yield f"{epoch_key}: the plotter's steps are not environment steps"
        if not np.allclose(rewards, [rows["return"].mean() for rows in recent], rtol=1e-9):
            yield "Metrics/EpRet is not the mean of the last returns"
        if not np.allclose(costs, [rows["violation"].mean() for rows in recent], rtol=1e-9):
            yield "Metrics/EpCost is not the share of violations"


def check_manifest(run, binary):
    """Hashes are those of the files."""
    sha256 = lambda path: hashlib.sha256(Path(path).read_bytes()).hexdigest()
    manifest = json.loads((run / "manifest.json").read_text())
    if manifest["config_sha256"] != sha256(run / "config.toml"):
        yield "manifest.json has another hash of config.toml"
    if [(part["steps"], part["binary_sha256"]) for part in manifest["parts"]] != [(0, sha256(binary))]:
        yield "manifest.json names other binaries"


def main(binary, *runs):
    failed = False
    for run in map(Path, runs):
        # By itself, pandas reads numbers quickly, and wrong in the last bit.
        progress = pd.read_csv(run / "progress.csv", float_precision="round_trip")
        found = [
            *(f"TensorBoard: {text}" for text in check_tensorboard(run, progress)),
            *(f"OmniSafe: {text}" for text in check_omnisafe(run, progress)),
            *check_manifest(run, binary),
        ]
        for difference in found:
            print(f"{run}: {difference}")
        failed |= bool(found)
        if not found:
            print(f"{run}: {len(progress)} rows of {len(progress.columns)} columns: the same")
    sys.exit(failed)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])

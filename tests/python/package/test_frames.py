"""Rows as frames, with the report's statistics."""

import json
import pathlib

import pytest
import sskp
from common import SAC, command_line


@pytest.mark.parametrize("engine", ["pandas", "polars"])
def test_frames_have_the_rows_and_the_reports_numbers(engine):
    for seed in range(3):
        sskp.train("sac", "toy", seed=seed, total_steps=500, log_dir=f"runs/{seed}", config=SAC, progress=False)
    frames = sskp.read_runs("runs", engine=engine)
    assert type(frames.episodes).__module__.startswith(engine)
    for seed in range(3):
        summary = json.loads(pathlib.Path(f"runs/{seed}/summary.json").read_text())
        of_seed = [row for row in rows(frames.summaries) if row["seed"] == seed][0]
        assert of_seed["violations"] == summary["violations"] and of_seed["ptr"] == pytest.approx(summary["ptr"])
        lines = pathlib.Path(f"runs/{seed}/episodes.csv").read_text().splitlines()[1:]
        mine = [row for row in rows(frames.episodes) if row["seed"] == seed]
        assert len(mine) == len(lines) == of_seed["episodes"]
        assert str(float(lines[-1].split(",")[3])) == str(mine[-1]["return"])
    assert any(row["Loss/Loss_pi"] is not None for row in rows(frames.progress))
    command_line("report", "runs", "--out", "report.html")
    table = json.loads(pathlib.Path("report.json").read_text())
    group = find(table, "ptr")
    mine = frames.statistics("ptr")[0]
    for key in ("mean", "std", "iqm"):
        assert mine[key] == pytest.approx(group["ptr"][key])
    assert list(mine["interval"]) == pytest.approx(group["ptr"]["interval"])


def rows(frame):
    return frame.to_dict("records") if hasattr(frame, "to_records") else frame.to_dicts()


def find(tree, key):
    """The first object in a tree that has such a key with statistics."""
    if isinstance(tree, dict):
        if isinstance(tree.get(key), dict):
            return tree
        tree = list(tree.values())
    if isinstance(tree, list):
        return next((found for part in tree if (found := find(part, key))), None)
    return None


def test_what_holds_no_run_is_refused():
    with pytest.raises(ValueError):
        sskp.read_runs()
    with pytest.raises((ValueError, OSError), match="nowhere"):
        sskp.read_runs("nowhere")
    with pytest.raises(ValueError, match="engine"):
        sskp.train("sac", "toy", total_steps=200, log_dir="run", config=SAC, progress=False).frames("excel")

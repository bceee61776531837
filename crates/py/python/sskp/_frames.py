"""Rows of runs as frames."""

from __future__ import annotations

import csv
import json
import os
from dataclasses import dataclass
from typing import Any

from . import _sskp

KEYS = ("path", "algo", "env", "seed")


def _frame(engine: str, columns: dict[str, list]):
    if engine == "pandas":
        try:
            import pandas
        except ImportError:
            raise ImportError("pandas is not installed: pip install pandas, or read_runs(…, engine='polars')") from None
        return pandas.DataFrame(columns)
    if engine == "polars":
        try:
            import polars
        except ImportError:
            raise ImportError("polars is not installed: pip install polars") from None
        return polars.DataFrame(columns, strict=False)
    raise ValueError(f"engine must be 'pandas' or 'polars', not {engine!r}")


@dataclass(frozen=True)
class Frames:
    """Rows of some runs: `episodes` (one per episode), `progress` (averages and losses now and then) and `summaries` (one per run)."""

    episodes: Any
    progress: Any
    summaries: Any

    def statistics(self, column: str = "ptr") -> list[dict]:
        """What several seeds say together of a column of `summaries`, by robot and method, as `sskp report` has it: mean, deviation,
        interquartile mean and its 95 % interval."""
        groups: dict[tuple[str, str], list[float]] = {}
        for env, algo, value in zip(self.summaries["env"], self.summaries["algo"], self.summaries[column]):
            if value is not None and value == value:
                groups.setdefault((env, algo), []).append(float(value))
        rows = []
        for (env, algo), values in sorted(groups.items()):
            runs, mean, std, iqm, interval = _sskp.seed_statistics(values)
            rows.append({"env": env, "algo": algo, "runs": runs, "mean": mean, "std": std, "iqm": iqm, "interval": interval})
        return rows


def _progress(path: str) -> tuple[list[str], list[list[str]]]:
    file = os.path.join(path, "progress.csv")
    if not os.path.isfile(file):
        return [], []
    with open(file, newline="") as text:
        lines = [line for line in text if line.endswith("\n")]
    rows = list(csv.reader(lines))
    return (rows[0], rows[1:]) if rows else ([], [])


def read_runs(*paths: str | os.PathLike, engine: str = "pandas") -> Frames:
    """Reads runs, folders of runs, or committed rows."""
    if not paths:
        raise ValueError("give the path of a run, or of a folder of runs")
    runs = [json.loads(text) for text in _sskp.read_runs([os.fspath(path) for path in paths])]
    columns = ("episode", "steps", "length", "return", "violation", "cumulative_violations")
    episodes: dict[str, list] = {key: [] for key in (*KEYS, *columns)}
    summaries: dict[str, list] = {key: [] for key in KEYS}
    names: list[str] = []
    rows: list[dict] = []
    for run in runs:
        count = len(run["episode"])
        for key in KEYS:
            episodes[key] += [run[key]] * count
            summaries[key].append(run[key])
        for column in columns:
            episodes[column] += run[column]
        for key, value in run["stats"].items():
            summaries.setdefault(key, []).append(value)
        for key in ("wall_seconds", "finished"):
            summaries.setdefault(key, []).append((run["summary"] or {}).get(key))
        header, lines = _progress(run["path"])
        names += [name for name in header if name not in names]
        for line in lines:
            values = {name: float(value) if value else None for name, value in zip(header, line)}
            rows.append({**{key: run[key] for key in KEYS}, **values})
    progress = {key: [row.get(key) for row in rows] for key in (*KEYS, *names)}
    return Frames(_frame(engine, episodes), _frame(engine, progress), _frame(engine, summaries))

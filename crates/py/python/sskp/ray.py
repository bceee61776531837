"""Grids on Ray, on one machine or on a cluster: every cell is a task, which goes on elsewhere where its node is lost.

    import sskp

    sskp.ray.sweep("grid.toml", address="auto", callback=print)

`docs/cluster.md` says what a cluster needs. Ray itself is imported when it is needed.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
import warnings
from dataclasses import dataclass, field
from typing import Any, Callable

from . import _sskp
from ._train import Display, Run, drive, whole

__all__ = ["Cell", "sweep"]

# Seconds after which a cell that another process has is asked for again: the first time, and at most.
_SOON, _LATE = 1.0, 30.0
# Seconds that running cells have to write their checkpoints when a sweep is left.
_TO_SAVE = 120.0


@dataclass(frozen=True)
class Cell:
    """A cell of a grid that has ended: finished, or failed with an error."""

    index: int
    """Its number in the grid."""
    name: str
    """ "sac on hopper, seed 1"."""
    path: str
    """Folder of its run."""
    summary: dict | None = field(default=None, repr=False)
    """What `summary.json` holds."""
    error: str | None = None
    """What it failed with."""
    node: str | None = None
    """Where it ended; none where it was finished before."""

    @property
    def run(self) -> Run:
        """Its run: `run.policy()`, `run.frames()`."""
        if self.summary is None:
            raise RuntimeError(f"{self.name} has no run: {self.error}")
        return Run(self.path, self.summary)


def _ray():
    try:
        import ray
    except ImportError:
        raise ImportError("ray is not installed: pip install ray, on all machines of the cluster") from None
    return ray


def _unseen(grid: str, out: str) -> str | None:
    """What this machine cannot see, if there is something."""
    for path in (grid, os.path.join(out, "cells.txt")):
        if not os.access(path, os.R_OK):
            shared = "grid and runs must lie on a file system that all nodes share"
            return f"the node {socket.gethostname()} cannot see {path}; {shared}"
    return None


def _run(grid: str, out: str, index: int, folder: str, variables: dict[str, str]) -> dict:
    """One cell, in a worker of Ray's. Cancelling it is a Ctrl-C there, which the run answers with a checkpoint."""
    import ray

    node = ray.get_runtime_context().get_node_id()
    where = f"{socket.gethostname()} (Ray node {node[:8]})"
    if why := _unseen(grid, out):
        return {"ended": "failed", "why": why, "node": where}
    # Names of demonstrations and of files in the grid mean what they meant where the sweep was started.
    if os.path.isdir(folder):
        os.chdir(folder)
    os.environ.update(variables, SSKP_JOB=f"Ray node {node[:8]}")
    try:
        return {**drive(_sskp.run_cell(grid, out, index), {}, Display(False, None)), "node": where}
    except (ValueError, OSError, RuntimeError) as error:
        return {"ended": "failed", "why": str(error), "node": where}


def _why(error: Exception) -> str:
    """One line of what Ray says of a task that it gave up."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if "No module named 'sskp'" in str(error):
        return "a node has no package sskp: install its wheel on all nodes, or name it in the runtime_env of ray.init"
    return f"Ray gave it up: {type(error).__name__}: {lines[0] if lines else 'it did not say why'}"


class _Sweep:
    """Cells that wait and cells that Ray has."""

    def __init__(self, ray: Any, grid: dict, retries: int):
        self.ray, self.grid, self.task, self.retries = ray, grid, ray.remote(_run), retries
        self.variables = {key: value for key, value in os.environ.items() if key in ("SSKP_DATA", "SSKP_CACHE")}
        self.running: dict[Any, int] = {}
        self.waiting: dict[int, float] = {}
        self.pauses: dict[int, float] = {}

    def submit(self, index: int) -> None:
        """Hands a cell to Ray."""
        cell = self.grid["cells"][index]
        task = self.task.options(num_cpus=cell["threads"], max_retries=self.retries, name=cell["name"])
        arguments = (self.grid["grid"], self.grid["out"], index, os.getcwd(), self.variables)
        self.running[task.remote(*arguments)] = index

    def ended(self) -> list[tuple[int, dict]]:
        """Cells that have ended since, after at most a second."""
        for index in [index for index, when in self.waiting.items() if when <= time.monotonic()]:
            del self.waiting[index]
            self.submit(index)
        if not self.running:
            time.sleep(0.1)
            return []
        ended = []
        for ref in self.ray.wait(list(self.running), num_returns=1, timeout=1.0)[0]:
            index = self.running.pop(ref)
            try:
                what = self.ray.get(ref)
            except self.ray.exceptions.RayError as error:
                what = {"ended": "failed", "why": _why(error)}
            if what["ended"] in ("stopped", "elsewhere"):
                # To be continued: by whoever has it now, or by the next task.
                pause = self.pauses[index] = min(2 * self.pauses.get(index, _SOON / 2), _LATE)
                self.waiting[index] = time.monotonic() + pause
            else:
                ended.append((index, what))
        return ended

    def leave(self) -> None:
        """Lets all that runs write its checkpoint."""
        for ref in self.running:
            self.ray.cancel(ref)
        if self.running:
            self.ray.wait(list(self.running), num_returns=len(self.running), timeout=_TO_SAVE)
        self.running.clear()


def sweep(
    grid: str | os.PathLike,
    *,
    out: str | os.PathLike | None = None,
    address: str | None = None,
    callback: Callable[[Cell], Any] | None = None,
    max_retries: int = 100,
    progress: bool = True,
) -> list[Cell]:
    """Runs what is left of a grid (`docs/experiments.md`) on Ray, and gives its cells in the order of the grid.

    `address` is a cluster's ("auto", "10.0.0.1:6379", "ray://…"). Without one it is the Ray that this program has initialised, that of
    `RAY_ADDRESS`, or one that is started here and ended with the sweep. A cell asks for as many CPUs as its run has threads.

    `callback` hears of every cell as it ends, as a `Cell`; where it returns False, the others are saved and left. A cell whose worker or
    node is lost goes on at its checkpoint on another, up to `max_retries` times; one that was stopped goes on without being counted.
    When all have ended and some have failed, a RuntimeError says so. Ctrl-C lets all cells write their checkpoints; the same call goes on.

    Grid and runs must lie on a file system that all nodes share.
    """
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be a function, not a {type(callback).__name__}")
    retries = whole("max_retries", max_retries)
    ray = _ray()
    opened = json.loads(_sskp.open_grid(os.fspath(grid), None if out is None else os.fspath(out)))
    for text in opened["warnings"]:
        warnings.warn(text, stacklevel=2)
    cells = opened["cells"]
    ended: dict[int, Cell] = {}
    for index, cell in enumerate(cells):
        if not cell["open"]:
            with open(os.path.join(cell["path"], "summary.json")) as text:
                ended[index] = Cell(index, cell["name"], cell["path"], json.load(text))
    left = [index for index in range(len(cells)) if index not in ended]
    if not left:
        return list(ended.values())
    ours = not ray.is_initialized()
    if ours:
        _look_for(address or os.environ.get("RAY_ADDRESS", ""))
        ray.init(address=address, include_dashboard=False)
    try:
        _warn_of_threads(ray, max((cells[index]["threads"], cells[index]["name"]) for index in left))
        work = _Sweep(ray, opened, retries)
        try:
            for index in left:
                work.submit(index)
            while work.running or work.waiting:
                for index, what in work.ended():
                    cell = cells[index]
                    ended[index] = Cell(
                        index, cell["name"], cell["path"], what.get("summary"), what.get("why"), what.get("node")
                    )
                    if progress:
                        _show(ended[index], len(ended), len(cells))
                    if callback is not None and callback(ended[index]) is False:
                        return [ended[index] for index in sorted(ended)]
        finally:
            work.leave()
    finally:
        if ours:
            ray.shutdown()
    failed = [cell for _, cell in sorted(ended.items()) if cell.error is not None]
    if failed:
        among = f"{failed[0].name} failed: {failed[0].error}"
        raise RuntimeError(among if len(failed) == 1 else f"{len(failed)} cells failed; {among}")
    return [ended[index] for index in sorted(ended)]


def _look_for(address: str) -> None:
    """Refuses an address where nobody answers: Ray itself would wait for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdigit()):
        return  # "auto", "local", nothing: Ray knows at once
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise ConnectionError(f"there is no Ray at {address}: {error}") from None


def _warn_of_threads(ray: Any, largest: tuple[int, str]) -> None:
    """Ray waits without a word for a node that is large enough; one may come, where a cluster grows."""
    threads, name = largest
    most = max((node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]), default=0)
    if threads > most:
        text = f"{name} has {threads} threads, and no node of this Ray has more than {most:.0f} CPUs: it waits for one that has"
        warnings.warn(text, stacklevel=3)


def _show(cell: Cell, ended: int, all_of_them: int) -> None:
    if cell.error is not None:
        said = f"failed: {cell.error}"
    else:
        run = cell.run
        said = f"{run.reward_per_step:.2f} per step, {run.violations} violations, on {cell.node}"
    print(f"{ended} of {all_of_them}: {cell.name}: {said}", file=sys.stderr, flush=True)

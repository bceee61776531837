"""Grids on a real Ray: three nodes of its own cluster utility on this machine, one killed, workers killed and stopped."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import pytest
import ray
import ray.cluster_utils
from conftest import grid, sskp

import sskp as package

CELLS = 12


@pytest.fixture
def cluster():
    """Three nodes with a CPU each, and nothing left of them: no process, no folder."""
    # Sockets lie in it, and their names must be short.
    home = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    node = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 80 << 20}
    nodes = ray.cluster_utils.Cluster()
    try:
        nodes.add_node(temp_dir=home, **node)
        for _ in range(2):
            nodes.add_node(**node)
        nodes.wait_for_nodes(60)
        yield nodes
    finally:
        ray.shutdown()
        nodes.shutdown()
        left = [int(pid.name) for pid in pathlib.Path("/proc").iterdir() if pid.name.isdigit() and named(pid, home)]
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(home, ignore_errors=True)


def named(process, word):
    """Whether a process was started with a word."""
    try:
        return word in (process / "cmdline").read_text()
    except OSError:
        return False


def claims(path):
    """Who has claimed a run so far, the last one last."""
    files = [file for file in pathlib.Path(path, ".claims").glob("*") if file.name.isdigit()]
    return [json.loads(file.read_text() or "{}") for file in sorted(files, key=lambda file: int(file.name))]


class Disturber(threading.Thread):
    """Kills a worker, stops another and then kills a node, each when its cell has a checkpoint and is not done."""

    def __init__(self, cluster, runs):
        super().__init__(daemon=True)
        self.cluster, self.runs, self.disturbed, self.status, self.trouble = cluster, runs, {}, "", None

    def cell(self, job=None):
        """A cell that is under way, on a node if that is named, and the process that has it."""
        while True:
            for path in self.runs.glob("toy/*/seed-*"):
                done = (path / "summary.json").exists() or not any(path.glob("checkpoints/*/manifest.json"))
                if done or path in self.disturbed:
                    continue
                holder = claims(path)[-1]
                if holder.get("job") and holder["job"] == (job or holder["job"]):
                    return path, holder
            time.sleep(0.02)

    def run(self):
        try:
            for number in (signal.SIGKILL, signal.SIGTERM):
                path, holder = self.cell()
                os.kill(holder["pid"], number)
                self.disturbed[path] = number.name
            node = self.cluster.worker_nodes.copy().pop()
            path, holder = self.cell(f"Ray node {node.node_id[:8]}")
            self.status = sskp("sweep", "grid.toml", "--status")[1]
            self.cluster.remove_node(node, allow_graceful=False)
            self.disturbed[path] = holder["job"]
        except Exception as error:  # noqa: BLE001 - told by the test
            self.trouble = error


def test_a_node_and_workers_are_lost_and_the_rows_are_those_of_an_undisturbed_sweep(cluster, folder):
    file = grid(folder, seeds=CELLS // 2)
    assert sskp("sweep", file, "--out", "whole", "--jobs", 2, "--quiet")[0] == 0
    disturber = Disturber(cluster, folder / "runs")
    disturber.start()
    heard = []
    cells = package.ray.sweep(file, address=cluster.address, callback=heard.append)
    disturber.join(10)
    assert disturber.trouble is None and len(disturber.disturbed) == 3, (disturber.trouble, disturber.disturbed)
    assert not ray.is_initialized() and len(cluster.worker_nodes) == 1
    assert [cell.index for cell in cells] == list(range(CELLS)) and sorted(heard, key=lambda cell: cell.index) == cells
    for cell in cells:
        path = pathlib.Path(cell.path)
        rows = (path / "episodes.csv").read_bytes()
        assert rows == (folder / "whole" / path.relative_to(folder / "runs") / "episodes.csv").read_bytes(), cell.name
        assert cell.run.finished and cell.run.steps == 15000 and "Ray node" in cell.node
    for path, how in disturber.disturbed.items():
        assert len(claims(path)) >= 2, f"{path} went on after {how}"
    # The one of the lost node went on on another, and meanwhile everybody could see where it was.
    lost, job = list(disturber.disturbed.items())[-1]
    assert claims(lost)[-1]["job"] != job
    assert f"({job})" in disturber.status and "running" in disturber.status, disturber.status
    assert "12 of 12 finished" in sskp("sweep", file, "--status")[1]
    # A second time there is nothing to do, and no Ray is needed for it.
    assert package.ray.sweep(file) == [package.ray.Cell(c.index, c.name, c.path, c.summary) for c in cells]


def test_what_fails_says_so_and_what_was_left_goes_on(cluster, folder):
    file = grid(folder, seeds=2, steps=3000)
    blocked = folder / "runs/toy/sac/seed-0/episodes.csv"
    blocked.mkdir(parents=True)
    ray.init(address=cluster.address)
    # Left after the first one: the others are saved.
    left = package.ray.sweep(file, callback=lambda cell: False, progress=False)
    assert len(left) == 1 and ray.is_initialized()
    assert "running" not in sskp("sweep", file, "--status")[1]
    with pytest.raises(RuntimeError, match=r"sac on toy, seed 0 failed: .*episodes\.csv"):
        package.ray.sweep(file, progress=False)
    status = sskp("sweep", file, "--status")[1]
    assert "3 of 4 finished, 1 failed" in status, status
    blocked.rmdir()
    assert all(cell.error is None for cell in package.ray.sweep(file, progress=False))


def test_what_cannot_work_is_one_sentence(folder):
    file = grid(folder, seeds=1, steps=300)
    with pytest.raises(TypeError, match="callback must be a function, not a int"):
        package.ray.sweep(file, callback=3)
    with pytest.raises(ValueError, match="max_retries must be a whole number"):
        package.ray.sweep(file, max_retries=-2)
    with pytest.raises((ValueError, OSError), match="nowhere.toml"):
        package.ray.sweep("nowhere.toml")
    with pytest.raises(ConnectionError, match="there is no Ray at 127.0.0.1:1"):
        package.ray.sweep(file, address="127.0.0.1:1")
    # Two grids in one folder.
    other = folder / "other.toml"
    other.write_text(file.read_text().replace("[0]", "[1]"))
    with pytest.raises(ValueError, match='holds another grid: cell 0 was "sac on toy, seed 0"'):
        package.ray.sweep(other, out="runs")
    # A node that cannot see what the others can.
    told = package.ray._unseen(str(file), str(folder / "elsewhere"))
    assert "cannot see" in told and "elsewhere/cells.txt" in told and told.endswith("a file system that all nodes share")
    assert package.ray._unseen(str(file), str(folder / "runs")) is None


def test_without_ray_a_sentence_says_so_and_neither_module_hides_its_namesake(folder):
    code = (
        "import sskp.ray, sskp.optuna, ray, optuna\n"
        "assert ray.__version__ and optuna.__version__ and sskp.ray.sweep is not ray and ray is not sskp.ray\n"
        "from sskp import *\n"
        "assert ray is not sskp.ray and optuna is not sskp.optuna\n"
        "import sys\n"
        "sys.modules['ray'] = sys.modules['optuna'] = None\n"
        "for wanted, call in [('ray', lambda: sskp.ray.sweep('g')), ('optuna', lambda: sskp.optuna.objective('sac', 'toy', dict))]:\n"
        "    try:\n"
        "        call()\n"
        "    except ImportError as error:\n"
        "        assert f'{wanted} is not installed: pip install {wanted}' in str(error), error\n"
        "    else:\n"
        "        raise SystemExit('it was found')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    lazily = "import sys, sskp, sskp.ray, sskp.optuna; assert not {'ray', 'optuna', 'gymnasium'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", lazily], timeout=60).returncode == 0

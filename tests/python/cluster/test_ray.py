"""Grids on a real Ray: three nodes of its own cluster utility on this machine, one killed, workers killed and stopped."""

import contextlib
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
from dataclasses import dataclass

import pytest
import ray
import ray.cluster_utils
from conftest import LIMIT, end_all, grid, process, sskp, until

import sskp as package

CELLS, STEPS = 12, 15000


@pytest.fixture
def cluster():
    """Three nodes with a CPU each, and nothing left of them: no process, no folder."""
    homes, nodes = [], None
    try:
        # Once more where it does not come up: Ray chooses a port first and takes it later, and somebody else may have been faster.
        for tries_left in (1, 0):
            # Sockets lie in it, and their names must be short.
            homes.append(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
            nodes = ray.cluster_utils.Cluster()
            try:
                three_nodes(nodes, homes[-1])
                break
            except Exception:
                if not tries_left:
                    raise
                nodes.shutdown()
                end_all()
        yield nodes
    finally:
        try:
            ray.shutdown()
            nodes.shutdown()
        finally:
            end_all()
            for home in homes:
                shutil.rmtree(home, ignore_errors=True)


def three_nodes(nodes, home):
    node = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 80 << 20}
    nodes.add_node(temp_dir=home, **node)
    for _ in range(2):
        nodes.add_node(**node)
    nodes.wait_for_nodes(60)


def claims(path):
    """Who has claimed a run so far, the last one last."""
    files = [file for file in pathlib.Path(path, ".claims").glob("*") if file.name.isdigit()]
    return [json.loads(file.read_text() or "{}") for file in sorted(files, key=lambda file: int(file.name))]


@dataclass(frozen=True)
class Caught:
    """A cell in its middle: under way, with a checkpoint, and at least a half of its steps left."""

    path: pathlib.Path
    number: int
    """Of its newest claim."""
    holder: dict
    """Whose that is."""
    begun: int
    """When the run was begun; one that goes on was not begun again."""

    @property
    def job(self):
        return self.holder["job"]

    def ended(self):
        """What its holder said when it gave it back, if it did."""
        try:
            return (self.path / f".claims/{self.number}-ended").read_text().strip()
        except FileNotFoundError:
            return None

    def there(self):
        """Whether its holder's process is there: numbers of processes are used again."""
        now = process(self.holder["pid"])
        return now is not None and now[0] not in "ZX" and now[1] == self.holder["born"]

    def signal(self, number):
        """Sends its holder a signal, if it is there."""
        if self.there():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.holder["pid"], number)

    def still(self):
        """Whether none of the holder's threads runs any more."""
        if not self.there():
            return True
        try:
            tasks = os.listdir(f"/proc/{self.holder['pid']}/task")
        except FileNotFoundError:
            return True
        threads = [process(f"{self.holder['pid']}/task/{task}") for task in tasks]
        return all(thread is None or thread[0] in "TZX" for thread in threads)


def middle(path):
    """The cell in a folder, if it is in its middle now."""
    steps = [int(manifest.parent.name[5:]) for manifest in path.glob("checkpoints/step-*/manifest.json")]
    if not steps or max(steps) > STEPS // 2 or (path / "summary.json").exists():
        return None
    history = claims(path)
    if not history or not history[-1].get("job"):
        return None
    cell = Caught(path, len(history), history[-1], (path / "cell.toml").stat().st_mtime_ns)
    return cell if cell.there() and cell.ended() is None else None


class Disturber(threading.Thread):
    """Kills a worker, stops another and then kills a node with all that runs on it, each in the middle of a cell.

    A cell takes less than a second, so whether it is still under way when a signal comes is a race. Its process is suspended before
    anything else, which it does not notice; only then is it looked at, and let go where it was not in the middle of the cell any more.
    """

    def __init__(self, cluster, file, runs):
        super().__init__(daemon=True)
        self.cluster, self.file, self.runs, self.status, self.trouble = cluster, file, runs, "", None
        self.over, self.hits, self.missed, self.held = threading.Event(), [], [], None

    def catch(self, jobs=None):
        """A cell in its middle whose process is suspended; on one of some nodes, where they are named."""
        while not self.over.is_set():
            known = {cell.path for cell in self.hits + self.missed}
            for path in sorted(self.runs.glob("toy/*/seed-*")):
                cell = None if path in known else middle(path)
                if cell is None or jobs is not None and cell.job not in jobs:
                    continue
                self.held = cell
                cell.signal(signal.SIGSTOP)
                until(cell.still, "end to the threads of a process that was suspended")
                now = middle(path)
                if now is not None and (now.number, now.holder) == (cell.number, cell.holder):
                    return cell
                self.let_go()
            time.sleep(0.01)
        raise LookupError(f"the sweep was over before the next cell was caught in its middle, after {self.hits} and {self.missed}")

    def let_go(self):
        if self.held is not None:
            self.held.signal(signal.SIGCONT)
        self.held = None

    def disturb(self):
        killed = self.catch()
        killed.signal(signal.SIGKILL)
        self.hits.append(killed)
        # It hears of the signal when it looks next, and goes on until then: perhaps to its end. So it is one after the other until
        # one was stopped.
        while True:
            stopped = self.catch()
            stopped.signal(signal.SIGTERM)
            self.let_go()
            until(lambda: stopped.ended() or not stopped.there(), "end of a cell that was stopped")
            if stopped.ended() == "stopped":
                break
            self.missed.append(stopped)
        self.hits.append(stopped)
        nodes = {f"Ray node {node.node_id[:8]}": node for node in self.cluster.worker_nodes}
        lost = self.catch(nodes)
        self.status = sskp("sweep", self.file, "--status")[1]
        self.cluster.remove_node(nodes[lost.job], allow_graceful=False)
        # What runs on a machine goes with it; here it would be a moment behind, or stay suspended.
        lost.signal(signal.SIGKILL)
        self.hits.append(lost)

    def run(self):
        try:
            self.disturb()
        except BaseException as error:  # noqa: BLE001 - told by the test
            self.trouble = error
        finally:
            self.let_go()


def test_a_node_and_workers_are_lost_and_the_rows_are_those_of_an_undisturbed_sweep(cluster, folder):
    file = grid(folder, seeds=CELLS // 2, steps=STEPS)
    assert sskp("sweep", file, "--out", "whole", "--jobs", 2, "--quiet")[0] == 0
    disturber = Disturber(cluster, file, folder / "runs")
    disturber.start()
    heard = []
    try:
        cells = package.ray.sweep(file, address=cluster.address, callback=heard.append)
    finally:
        disturber.over.set()
        disturber.join(LIMIT)
    assert disturber.trouble is None, repr(disturber.trouble)
    assert not ray.is_initialized() and len(cluster.worker_nodes) == 1
    assert [cell.index for cell in cells] == list(range(CELLS)) and sorted(heard, key=lambda cell: cell.index) == cells
    for cell in cells:
        path = pathlib.Path(cell.path)
        rows = (path / "episodes.csv").read_bytes()
        assert rows == (folder / "whole" / path.relative_to(folder / "runs") / "episodes.csv").read_bytes(), cell.name
        assert cell.run.finished and cell.run.steps == STEPS and "Ray node" in cell.node
    killed, stopped, lost = disturber.hits
    assert [killed.ended(), stopped.ended(), lost.ended()] == [None, "stopped", None], "all of them were in their middle"
    for hit in disturber.hits:
        assert len(claims(hit.path)) > hit.number, f"nobody went on with {hit}"
        assert (hit.path / "cell.toml").stat().st_mtime_ns == hit.begun, f"{hit} was begun again"
    # The one of the lost node went on on another, and meanwhile everybody could see where it was.
    assert all(holder["job"] != lost.job for holder in claims(lost.path)[lost.number :])
    assert f"({lost.job})" in disturber.status and "running" in disturber.status, disturber.status
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
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    lazily = "import sys, sskp, sskp.ray, sskp.optuna; assert not {'ray', 'optuna', 'gymnasium'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", lazily], timeout=LIMIT).returncode == 0

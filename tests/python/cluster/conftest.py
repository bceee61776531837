"""What the tests of `sskp.ray` and `sskp.optuna` share: folders and caches of their own, a grid, and an end to all waiting and to all
processes."""

import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
SSKP = os.environ.get("SSKP_PROGRAM", str(ROOT / "target/release/sskp"))
# Seconds after which a test is broken off: Ray waits for ever for what does not come. The longest one takes 10 s on a machine that has nothing
# else to do, and minutes on one that has.
LIMIT = 480
# Of `prctl`: processes whose parent has ended become children of this one, not of the machine's first.
ADOPT = 36


def process(pid):
    """State of a process, when it began and its parent; none where there is no such process."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name before them, in brackets, may contain anything.
    fields = text[text.rindex(")") + 2 :].split()
    return fields[0], int(fields[19]), int(fields[1])


def descendants():
    """All processes that come from this one and have not ended."""
    known = {int(entry.name): process(entry.name) for entry in pathlib.Path("/proc").iterdir() if entry.name.isdigit()}
    found = {os.getpid()}
    while more := {pid for pid, known_as in known.items() if known_as and known_as[2] in found} - found:
        found |= more
    return [pid for pid in found - {os.getpid()} if known[pid][0] not in "ZX"]


def end_all():
    """Ends whatever was started and is still there. Ray's workers rename themselves and outlive those who started them, so they are found
    by descent."""
    end = time.monotonic() + 20
    while left := descendants():
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        assert time.monotonic() < end, f"the processes {left} cannot be ended"
        time.sleep(0.02)


@pytest.fixture(scope="session", autouse=True)
def adopted():
    assert ctypes.CDLL(None).prctl(ADOPT, 1, 0, 0, 0) == 0


@pytest.fixture(scope="session", autouse=True)
def caches(tmp_path_factory):
    """Nothing is read from or left in the user's own folders: Ray keeps a token in one, and addresses in `/tmp/ray`, which its cluster
    utility expects to be there."""
    # Not pytest's: sockets lie in it, and their names must be short.
    home = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    os.mkdir(os.path.join(home, "ray"))
    os.environ["RAY_TMPDIR"] = home
    os.environ["HOME"] = str(tmp_path_factory.mktemp("home"))
    os.environ["SSKP_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    os.environ["SSKP_DATA"] = str(ROOT / "data")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # The tests start their own, and what else fills this machine's memory is no reason to kill their workers.
    os.environ.pop("RAY_ADDRESS", None)
    os.environ["RAY_memory_monitor_refresh_ms"] = "0"
    # Ray's workers are nice by 15: beside others that take all they get, seconds become minutes.
    os.environ["RAY_worker_niceness"] = "0"
    yield
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def nothing_left():
    """Also where a test fails: its processes would disturb all that follow."""
    yield
    end_all()


@pytest.fixture(autouse=True)
def bounded():
    def too_long(*_):
        raise TimeoutError(f"a test took longer than {LIMIT} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(LIMIT)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def until(there, what):
    """Waits for something that comes, however slow the machine is."""
    end = time.monotonic() + LIMIT
    while not (found := there()):
        assert time.monotonic() < end, f"there was no {what}"
        time.sleep(0.01)
    return found


def sskp(*words):
    """Runs the program: what it ended with, and what it said."""
    done = subprocess.run([SSKP, *map(str, words)], capture_output=True, text=True, timeout=LIMIT)
    return done.returncode, done.stdout + done.stderr


QUICK = "random_steps = 500\nbatch = 32\nlearner.width = 32\n"


def grid(folder, seeds=6, steps=15000, out="runs"):
    """A grid of two methods on the toy; a cell takes some seconds."""
    file = folder / "grid.toml"
    file.write_text(
        f'out = "{out}"\nsteps = {steps}\nseeds = {list(range(seeds))}\n[set.run]\ncheckpoint_every = 500\n'
        f'[set.sac]\n{QUICK}[set.ssac]\n{QUICK}[[cells]]\nrobots = ["toy"]\nmethods = ["sac", "ssac"]\n'
    )
    return file

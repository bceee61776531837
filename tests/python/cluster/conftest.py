"""What the tests of `sskp.ray` and `sskp.optuna` share: folders and caches of their own, a grid, and an end to all waiting."""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
SSKP = os.environ.get("SSKP_PROGRAM", str(ROOT / "target/release/sskp"))
# Seconds after which a test is broken off: Ray waits for ever for what does not come.
LIMIT = 240


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
    yield
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def bounded():
    def too_long(*_):
        raise TimeoutError(f"a test took longer than {LIMIT} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(LIMIT)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


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

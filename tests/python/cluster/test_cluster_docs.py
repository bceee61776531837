"""The programs of docs/cluster.md, as they stand there."""

import re
import shutil
import subprocess
import sys
import tempfile

import pytest
from conftest import LIMIT, ROOT, end_all

PROGRAMS = re.findall(r"```python\n(.*?)```", (ROOT / "docs/cluster.md").read_text(), re.DOTALL)


@pytest.fixture
def sessions(monkeypatch):
    """Where a Ray that a program starts keeps its files."""
    home = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    monkeypatch.setenv("RAY_TMPDIR", home)
    yield
    end_all()
    shutil.rmtree(home, ignore_errors=True)


@pytest.mark.parametrize(("number", "said"), [(0, "sac on toy, seed 0: "), (1, "best: ")])
def test_a_program_of_the_documentation_runs(number, said, folder, sessions):
    assert len(PROGRAMS) == 2
    (folder / "program.py").write_text(PROGRAMS[number])
    done = subprocess.run([sys.executable, "program.py"], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0 and said in done.stdout, done.stdout + done.stderr

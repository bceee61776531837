"""The programs of docs/python.md, as they stand there."""

import re
import subprocess
import sys

import pytest
from common import ROOT

PROGRAMS = re.findall(r"```python\n(.*?)```", (ROOT / "docs/python.md").read_text(), re.DOTALL)


def test_there_are_three():
    assert len(PROGRAMS) == 3


@pytest.mark.parametrize("number", range(3))
def test_a_program_of_the_documentation_runs(number, folder):
    (folder / "program.py").write_text(PROGRAMS[number])
    done = subprocess.run([sys.executable, "program.py"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "violation" in done.stdout, done.stderr

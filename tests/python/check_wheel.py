"""Holds an installed wheel to what it promises, where there are its dependencies and nothing else."""

import importlib.metadata
import pathlib
import subprocess
import sys
import tempfile
import time
import zipfile

wheel = zipfile.ZipFile(sys.argv[1])
names = wheel.namelist()
for needed in ("sskp/__init__.py", "sskp/__init__.pyi", "sskp/_sskp.pyi", "sskp/py.typed"):
    assert needed in names, needed
assert any(name.startswith("sskp/libmujoco.so") for name in names), "it brings MuJoCo's library"
needs = sorted(need.split(">")[0] for need in importlib.metadata.requires("sskp") if "extra" not in need)
assert needs == ["gymnasium", "numpy"], needs
there = {dist.metadata["Name"].lower() for dist in importlib.metadata.distributions()}
theirs = {"cloudpickle", "typing_extensions", "typing-extensions", "farama-notifications", "pip", "setuptools"}
assert there - theirs == {"sskp", "numpy", "gymnasium"}, there

code = "import time; t = time.perf_counter(); import sskp; print(time.perf_counter() - t)"
seconds = min(float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout) for _ in range(3))
assert seconds < 0.3, f"importing takes {seconds} s"

import gymnasium  # noqa: E402
import sskp  # noqa: E402

assert pathlib.Path(sskp.__file__).parent.parent.name == "site-packages"
env = gymnasium.make("sskp/Humanoid-v0")
env.reset(seed=0)
env.step(env.action_space.sample())
began = time.perf_counter()
with tempfile.TemporaryDirectory() as folder:
    config = {"sac": {"random_steps": 50, "batch": 16, "learner.width": 16}}
    run = sskp.train("sac", "toy", total_steps=300, log_dir=f"{folder}/run", config=config, progress=False)
    assert run.finished and sskp.load(run).act([0.0] * 5).shape == (2,)
print(f"the wheel is fine: imported in {1000 * seconds:.0f} ms, trained in {time.perf_counter() - began:.2f} s")

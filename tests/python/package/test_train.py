"""Runs from Python, on our robots and on other people's environments."""

import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import textwrap

import gymnasium
import numpy as np
import pytest
import sskp
from common import PLUS, ROOT, SAC, Rail, command_line, sets, small


def same_bytes(one, other):
    """All rows and weights of two runs; times and manifests differ."""
    one, other = pathlib.Path(one), pathlib.Path(other)
    for run in (one, other):
        for older in sorted((run / "checkpoints").iterdir())[:-1]:
            shutil.rmtree(older)
    names = sorted(str(file.relative_to(one)) for file in one.rglob("*") if file.is_file())
    assert names == sorted(str(file.relative_to(other)) for file in other.rglob("*") if file.is_file())
    compared = [name for name in names if name.endswith((".safetensors", "episodes.csv", "config.toml", "config.json", "offline.json"))]
    assert len(compared) >= 7
    for name in compared:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    without_times = lambda text: re.sub(r"(?m)^((?:[^,\n]*,){7})[^,\n]*,[^,\n]*", r"\1", text)  # noqa: E731
    progress = [without_times((run / "progress.csv").read_text()) for run in (one, other)]
    assert progress[0] == progress[1] and progress[0].count("\n") > 2


@pytest.mark.parametrize(("algo", "robot", "steps"), [("sac", "hopper", 700), ("sskp-plus", "toy", 1500)])
def test_a_run_from_python_is_the_command_lines_byte_for_byte(algo, robot, steps):
    run = sskp.train(algo, robot, total_steps=steps, seed=3, log_dir="python", config=small(algo), progress=False)
    command_line("train", "--algo", algo, "--env", robot, "-n", steps, "--seed", 3, "--log-dir", "program", "--quiet", *sets(small(algo)))
    same_bytes("python", "program")
    assert run.finished and run.steps == steps and run.path == "python"
    assert run.summary["violations"] == json.loads(pathlib.Path("program/summary.json").read_text())["violations"]
    part = json.loads(pathlib.Path("python/manifest.json").read_text())["parts"][0]
    assert part["binary_sha256"] and part["mujoco"] == json.loads(pathlib.Path("program/manifest.json").read_text())["parts"][0]["mujoco"]


def test_a_run_that_was_stopped_goes_on_to_the_same_bytes():
    seen = []
    stopped = sskp.train(
        "sac", "toy", total_steps=1200, log_dir="a", config=SAC, progress=False, callback=lambda row: seen.append(row) or len(seen) < 7
    )
    assert not stopped.finished and len(seen) == 7 and seen[-1]["episode"] == 7 and seen[-1]["steps"] == stopped.steps
    assert sskp.resume(stopped, progress=False).finished
    sskp.train("sac", "toy", total_steps=1200, log_dir="b", config=SAC, progress=False)
    same_bytes("a", "b")
    assert sskp.resume("b", total_steps=1300, progress=False).steps == 1300


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_the_run(folder, number):
    program = f"""
    import signal, sys
    # A program that a shell has put into the background begins with this signal ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.path.insert(0, {str(ROOT / "tests/python/package")!r})
    import sskp
    from common import SAC
    sskp.train("sac", "toy", total_steps=10_000_000, log_dir="run", config=SAC, progress=False, callback=lambda row: print("episode", flush=True))
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(20):
        assert process.stdout.readline() == "episode\n"
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == (-number if number == signal.SIGTERM else -signal.SIGINT), errors
    assert ("KeyboardInterrupt" in errors) == (number == signal.SIGINT)
    steps = json.loads((folder / "run/summary.json").read_text())["steps"]
    assert steps > 0 and list((folder / "run/checkpoints").iterdir())
    assert sskp.resume("run", total_steps=steps + 50, progress=False).finished


@pytest.mark.parametrize("kind", ["box", "dict", "tuple"])
def test_any_gymnasium_environment_is_learnt_from(kind):
    env = Rail(kind)
    run = sskp.train("sac", env, total_steps=1500, log_dir="run", config=SAC, progress=False)
    assert run.finished and run.steps == 1500
    # Actions came in the environment's own limits, and reached both ends.
    assert min(env.seen) < -2.5 and max(env.seen) > 4.5 and -3 <= min(env.seen) and max(env.seen) <= 5
    rows = run.frames().episodes
    limit = rows[(rows.length == env.steps) & ~rows.violation]
    assert len(limit) > 0 and rows.violation.sum() == run.violations > 0 and (rows[rows.violation].length < env.steps).all()
    policy = run.policy()
    action = policy.act(np.array([0.1, 0.0]))
    assert env.action_space.contains(action)
    # Observations as the environment gives them, one or a batch, are what they are in a row.
    one, _ = env.reset(seed=0)
    row = gymnasium.spaces.flatten(env.observation_space, one)
    assert (policy.act(one) == policy.act(row)).all()
    batch = gymnasium.vector.utils.concatenate(env.observation_space, [one] * 3, gymnasium.vector.utils.create_empty_array(env.observation_space, 3))
    assert policy.act(batch).shape == (3, 1) and (policy.act(batch)[2] == policy.act(one)).all()
    if kind == "dict":
        with pytest.raises(TypeError, match="no part .'speed'"):
            policy.act({"place": np.zeros(1)})
        with pytest.raises(ValueError, match="'place'.*shape"):
            policy.act({"place": np.zeros(2), "speed": np.zeros(1)})


def test_it_learns_on_somebody_elses_environment():
    """Reward is the place on the rail: a policy that learnt stays far right without falling, where random ones earn nothing."""
    run = sskp.train("sac", lambda: Rail(steps=60), total_steps=6000, log_dir="run", progress=False, config={"sac": {
        "random_steps": 500, "batch": 64, "learner.width": 32, "learner.rate": 1e-3,
    }})
    rows = run.frames().episodes
    assert rows["return"].tail(10).mean() > rows["return"].head(10).mean() + 10, rows


def test_terminations_without_violation_are_told_apart(folder):
    class Goal(Rail):
        def step(self, action):
            obs, reward, fell, late, info = super().step(action)
            return obs, reward, fell or self.x > 0.3, late, {"cost": float(self.x < -0.3)}

    rows = sskp.train("sac", Goal(), total_steps=800, log_dir="run", config=SAC, progress=False).frames().episodes
    reached = rows[(~rows.violation) & (rows.length < 40)]
    assert len(reached) > 3 and rows.violation.sum() > 3
    judged = sskp.train(
        "sac", Rail(), violation=lambda obs, info: obs[0] < -0.3, total_steps=800, log_dir="judged", config=SAC, progress=False
    )
    assert judged.violations > 3


def test_the_same_seed_gives_the_same_run_on_somebody_elses_environment_and_goes_on():
    whole = sskp.train("sac", Rail(), total_steps=900, log_dir="whole", config=SAC, progress=False)
    part = sskp.train("sac", Rail(), total_steps=900, log_dir="part", config=SAC, progress=False, callback=lambda row: row["episode"] < 8)
    assert not part.finished and pathlib.Path("part/env.json").exists()
    assert sskp.resume(part, Rail(), progress=False).finished
    rows = [pathlib.Path(run.path, "episodes.csv").read_text() for run in (whole, part)]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("where", ["step", "reset", "callback"])
def test_what_the_environment_raises_comes_back_when_the_run_was_saved(where):
    class Broken(Rail):
        episodes = 0

        def reset(self, **given):
            Broken.episodes += 1
            if where == "reset" and self.episodes > 15:
                raise KeyError("no battery")
            return super().reset(**given)

        def step(self, action):
            if where == "step" and self.episodes > 15 and self.t == 3:
                self.no_such_thing()
            return super().step(action)

    def callback(row):
        if where == "callback" and row["episode"] == 12:
            raise SystemExit(7)

    kind = {"step": AttributeError, "reset": KeyError, "callback": SystemExit}[where]
    with pytest.raises(kind) as raised:
        sskp.train("sac", Broken(), total_steps=5000, log_dir="run", config=SAC, progress=False, callback=callback)
    if where != "callback":
        assert any(entry.name == where and "test_train" in str(entry.path) for entry in raised.traceback), "the traceback is the environment's"
    summary = json.loads(pathlib.Path("run/summary.json").read_text())
    assert summary["steps"] > 100 and not summary["finished"]
    if hasattr(BaseException, "add_note"):
        assert "sskp.resume('run'" in raised.value.__notes__[0]
    run = sskp.resume("run", Rail(), total_steps=summary["steps"] + 100, progress=False)
    assert run.steps == summary["steps"] + 100


def test_the_loop_the_other_way_round_is_the_same_run():
    """An agent that is told what an environment does makes the rows that training on it makes."""
    run = sskp.train("sac", Rail(), total_steps=900, log_dir="called", config=SAC, progress=False, name="robot")
    seeds = []

    class Noting(Rail):
        def reset(self, *, seed=None, options=None):
            seeds.append(seed)
            return super().reset(seed=seed)

    sskp.train("sac", Noting(), total_steps=900, log_dir="noted", config=SAC, progress=False, name="robot")
    env = Rail()
    agent = sskp.Agent("sac", 2, 1, total_steps=900, log_dir="caller", config=SAC, action_low=-3, action_high=5, progress=False)
    for seed in seeds[1:]:  # the first was the look before training
        action = agent.begin(env.reset(seed=seed)[0])
        while action is not None:
            obs, reward, terminated, truncated, info = env.step(action)
            action = agent.step(obs, reward, info["cost"], terminated, truncated)
    assert agent.done and agent.run.finished and agent.run.violations == run.violations
    assert pathlib.Path("called/episodes.csv").read_text() == pathlib.Path("caller/episodes.csv").read_text()


def test_an_agent_that_is_closed_goes_on(folder):
    env = Rail()
    with sskp.Agent("sac", 2, 1, log_dir="run", config=SAC, action_low=-3, action_high=5, progress=False) as agent:
        for episode in range(4):
            action = agent.begin(env.reset(seed=episode)[0])
            while action is not None and not (episode == 3 and env.t == 5):
                obs, reward, terminated, truncated, info = env.step(action)
                action = agent.step(obs, reward, info["cost"], terminated, truncated)
    assert agent.done and not agent.run.finished and agent.run.summary["episodes"] == 4
    again = sskp.Agent.resume("run", progress=False)
    assert again.begin(env.reset(seed=9)[0]) is not None
    assert again.step(*env.step(np.zeros(1, np.float32))[:2]) is not None
    again.close()
    assert sskp.load("run").act(np.zeros(2)).shape == (1,)


def test_an_agent_begins_with_demonstrations():
    demos = sskp.collect(Rail, lambda obs: np.array([1.0 + 20 * (0.5 - obs[0])]), 30, noise=0.1, falls=8, out="sets", name="rail/first-v0", progress=False)
    env = Rail()
    agent = sskp.Agent("sskp-plus", 2, 1, demos=demos.path, name="Rail", log_dir="run", config=PLUS, action_low=-3, action_high=5, progress=False)
    for seed in range(3):
        action = agent.begin(env.reset(seed=seed)[0])
        while action is not None:
            obs, reward, terminated, truncated, info = env.step(action)
            action = agent.step(obs, reward, info["cost"], terminated, truncated)
    assert agent.close().summary["episodes"] == 3 and pathlib.Path("run/offline.json").exists()


def test_a_finished_program_leaves_a_saved_run(folder):
    """The interpreter exits in the middle of a run: what was learnt is there."""
    program = f"""
    import sys
    sys.path.insert(0, {str(ROOT / "tests/python/package")!r})
    import sskp
    from common import SAC, Rail
    env = Rail()
    agent = sskp.Agent("sac", 2, 1, log_dir="run", config=SAC, progress=False, action_low=-3, action_high=5)
    for seed in range(5):
        action = agent.begin(env.reset(seed=seed)[0])
        while action is not None and not (seed == 4 and env.t == 7):
            obs, reward, terminated, truncated, info = env.step(action)
            action = agent.step(obs, reward, info["cost"], terminated, truncated)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=60)
    assert json.loads((folder / "run/summary.json").read_text())["episodes"] == 5
    sskp.Agent.resume("run", progress=False).close()


def test_progress_is_shown_where_somebody_looks(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    sskp.train("sac", "toy", total_steps=20_000, log_dir="run", config={"sac": {**SAC["sac"], "updates_per_step": 0.1}})
    shown = capsys.readouterr().err
    assert "steps" in shown and "violations" in shown and "\r" in shown
    sskp.train("sac", "toy", total_steps=300, log_dir="quiet", config=SAC, progress=False)
    assert capsys.readouterr().err == ""


def test_a_gymnasium_id_is_enough():
    run = sskp.train("sac", "Pendulum-v1", total_steps=250, log_dir="run", config=SAC, progress=False)
    about = json.loads(pathlib.Path("run/env.json").read_text())
    assert about["name"] == "Pendulum-v1" and about["action_high"] == [2.0] and about["time_limit"] == 200 and run.steps == 250
    assert gymnasium.make("Pendulum-v1").action_space.contains(sskp.load(run).act(np.zeros(3)))

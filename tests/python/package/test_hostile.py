"""Calls that nobody should make: an exception each, the interpreter stays, nothing is lost."""

import gc
import multiprocessing
import os
import pathlib
import pickle
import subprocess
import sys
import textwrap
import threading

import gymnasium
import numpy as np
import pytest
import sskp
from common import ROOT, SAC, Rail
from sskp import _sskp


def hopper():
    env = sskp.RobotEnv("hopper")
    env.reset(seed=0)
    return env


def closed(thing):
    thing.close()
    return thing


def vector(**given):
    made = sskp.make_vec("hopper", 3, threads=2, **given)
    made.reset(seed=0)
    return made


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return sskp.train("sac", "toy", total_steps=300, log_dir=tmp_path_factory.mktemp("run") / "run", config=SAC, progress=False)


def train(env="toy", algo="sac", **given):
    return sskp.train(algo, env, **{"total_steps": 300, "log_dir": "run", "config": SAC, "progress": False, **given})


class Lying(Rail):
    """Gives something wrong in a field."""

    def __init__(self, field, value):
        super().__init__()
        self.field, self.value = field, value

    def reset(self, **given):
        obs, info = super().reset(**given)
        return (self.value if self.field == "reset" else obs), info

    def step(self, action):
        answer = dict(zip(("observation", "reward", "terminated", "truncated", "info"), super().step(action)))
        answer[self.field] = self.value
        return tuple(answer[key] for key in ("observation", "reward", "terminated", "truncated", "info"))


def agent():
    made = sskp.Agent("sac", 2, 1, log_dir="agent", config=SAC, progress=False)
    made.begin([0.0, 0.0])
    return made


HOSTILE = {
    "an action of another length": (lambda run: hopper().step(np.zeros(4)), ValueError, "4 numbers where 3"),
    "an action with another shape": (lambda run: hopper().step(np.zeros((3, 1))), TypeError, ""),
    "an action of NaN": (lambda run: hopper().step([0.0, np.nan, 0.0]), ValueError, "number 1 is not finite"),
    "an action of text": (lambda run: hopper().step("left"), ValueError, ""),
    "a step before the first reset": (lambda run: sskp.RobotEnv("hopper").step(np.zeros(3)), RuntimeError, "reset"),
    "a step of a closed environment": (lambda run: closed(hopper()).step(np.zeros(3)), RuntimeError, "closed"),
    "a reset of a closed environment": (lambda run: closed(hopper()).reset(), RuntimeError, "closed"),
    "a picture of a closed environment": (lambda run: closed(sskp.RobotEnv("ant", render_mode="rgb_array")).render(), RuntimeError, "closed"),
    "a picture too large for any memory": (lambda run: sskp.RobotEnv("ant", render_mode="rgb_array", width=10**9), ValueError, "4096"),
    "a state of another robot": (lambda run: hopper().reset(options={"state": [0.0] * 7}), ValueError, "numbers"),
    "a robot that is none": (lambda run: sskp.make_vec("hoper", 2), ValueError, "did you mean hopper"),
    "a vector of no robots": (lambda run: sskp.make_vec("hopper", 0), ValueError, "num_envs"),
    "a vector of minus one": (lambda run: sskp.make_vec("hopper", -1), (OverflowError, ValueError), ""),
    "a vector without threads": (lambda run: sskp.make_vec("hopper", 2, threads=0), ValueError, "threads"),
    "actions of too few rows": (lambda run: vector().step(np.zeros((2, 3))), ValueError, "[3, 3] are needed"),
    "actions of NaN in a row": (lambda run: vector().step(np.full((3, 3), np.nan)), ValueError, "number 0 of row 0"),
    "a step of a closed vector": (lambda run: closed(vector()).step(np.zeros((3, 3))), (RuntimeError, gymnasium.error.Error), "closed"),
    "seeds for more environments than there are": (lambda run: vector().reset(seed=[1, 2, 3, 4]), ValueError, "4 seeds"),
    "a pickled robot": (lambda run: pickle.dumps(hopper()), TypeError, "pickle"),
    "a method that is none": (lambda run: train(algo="scs"), ValueError, "the methods are sac"),
    "a setting that is none": (lambda run: train(config={"sac.btach": 3}), ValueError, "did you mean sac.batch"),
    "a setting that is no number": (lambda run: train(config={"sac.batch": object()}), TypeError, "config"),
    "a setting of NaN": (lambda run: train(config={"sac.learner.rate": float("nan")}), TypeError, "config"),
    "a seed below zero": (lambda run: train(seed=-1), ValueError, "seed"),
    "half a step": (lambda run: train(total_steps=0.5), TypeError, "total_steps"),
    "a callback that cannot be called": (lambda run: train(callback=7), TypeError, "callback"),
    "an environment that is none": (lambda run: train(env=object()), TypeError, "env"),
    "an environment that Gymnasium does not know": (lambda run: train(env="Nowhere-v3"), gymnasium.error.Error, ""),
    "a vector where one environment is needed": (lambda run: train(env=vector()), TypeError, "vector"),
    "discrete actions": (lambda run: train(env="CartPole-v1"), TypeError, "action_space"),
    "an observation of NaN": (lambda run: train(env=Lying("observation", np.array([0.0, np.nan], np.float32))), ValueError, "observation: number 1"),
    "an observation of another shape": (lambda run: train(env=Lying("observation", np.zeros(3, np.float32))), ValueError, "observation"),
    "an observation of integers": (lambda run: train(env=Lying("observation", np.zeros(2, int))), TypeError, "observation"),
    "an observation of nothing at the start": (lambda run: train(env=Lying("reset", None)), (TypeError, ValueError), "observation"),
    "a reward of infinity": (lambda run: train(env=Lying("reward", np.inf)), ValueError, "reward"),
    "a reward of text": (lambda run: train(env=Lying("reward", "much")), TypeError, "reward"),
    "an end that is a number": (lambda run: train(env=Lying("terminated", 1)), TypeError, "terminated"),
    "an info that is a list": (lambda run: train(env=Lying("info", [])), TypeError, "info"),
    "a cost of NaN": (lambda run: train(env=Lying("info", {"cost": np.nan})), ValueError, "cost"),
    "a violation that is no function": (lambda run: train(env=Rail(), violation=3), TypeError, "violation"),
    "a constraint for a robot that has one": (lambda run: train(violation=lambda obs, info: True), ValueError, "constraint of its own"),
    "a run into the folder of another": (lambda run: train(log_dir=run.path), ValueError, "already holds a run"),
    "a run that is none": (lambda run: sskp.resume("nowhere"), ValueError, "no run directory"),
    "a policy of nothing": (lambda run: sskp.load("nowhere"), ValueError, ""),
    "an observation of three dimensions": (lambda run: run.policy().act(np.zeros((2, 2, 5))), ValueError, "dimensions"),
    "an observation of another robot": (lambda run: run.policy().act(np.zeros(11)), ValueError, "11 numbers where 5"),
    "an observation of infinity": (lambda run: run.policy().act([0, 0, np.inf, 0, 0]), ValueError, "not finite"),
    "observations that are words": (lambda run: run.policy().act(["a"] * 5), TypeError, "observation"),
    "an export over something": (lambda run: run.policy().export_onnx("."), ValueError, "exists already"),
    "an agent that is stepped twice too early": (lambda run: agent().begin([0.0, 0.0]), RuntimeError, "not over"),
    "an agent that is told NaN": (lambda run: agent().step([0.0, np.nan], 1.0), ValueError, "observation"),
    "an agent that is told half a row": (lambda run: agent().step([0.0], 1.0), ValueError, "1 numbers where 2"),
    "an agent that is closed": (lambda run: closed(agent()).step([0.0, 0.0], 1.0), RuntimeError, "closed"),
    "a collection without end": (lambda run: sskp.collect("toy", lambda obs: np.zeros(2), 0), ValueError, "episodes"),
    "a policy that gives too much": (lambda run: sskp.collect("toy", lambda obs: np.zeros(3), 2, out="sets", progress=False), ValueError, "action"),
    "a policy that is none": (lambda run: sskp.collect("toy", 3, 2), TypeError, "policy"),
    "an answer that nobody asked for": (lambda run: _sskp.Work.train("sac", "toy", None, 0, 10**9, 1, None, None, "{}", pathlib.Path("work"), False).heard(), RuntimeError, "nothing was asked"),
}


def test_there_are_thirty_at_least():
    assert len(HOSTILE) >= 30


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_call_is_an_exception(name, run):
    call, kind, text = HOSTILE[name]
    with pytest.raises(kind) as raised:
        call(run)
    assert text.lower() in str(raised.value).lower(), raised.value
    gc.collect()
    # Nothing was begun that should not have been, and what there was is as it was.
    assert not pathlib.Path("run/config.toml").exists() and run.policy().act(np.zeros(5)).shape == (2,)


def in_a_fork(work):
    """Does something in a forked process; gives the words of what it raised."""
    ours, theirs = multiprocessing.get_context("fork").Pipe()

    def child():
        try:
            work()
            theirs.send("nothing")
        except BaseException as error:  # noqa: BLE001
            theirs.send(f"{type(error).__name__}: {error}")
        os._exit(0)

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    assert ours.poll(60), "it hangs"
    said = ours.recv()
    process.join(30)
    return said


def test_forks_are_refused_where_threads_are_needed_and_fine_elsewhere():
    robots = vector()
    robots.step(np.zeros((3, 3)))
    assert "RuntimeError" in (said := in_a_fork(lambda: robots.step(np.zeros((3, 3))))) and "fork" in said
    learner = agent()
    assert "fork" in in_a_fork(lambda: learner.step([0.0, 0.0], 1.0))
    env = hopper()
    assert in_a_fork(lambda: env.step(np.zeros(3))) == "nothing"
    # Those of this process go on.
    assert robots.step(np.zeros((3, 3)))[0].shape == (3, 11) and learner.step([0.0, 0.0], 1.0) is not None
    learner.close()


def test_threads_may_share_what_they_like(run):
    env, robots, policy, failures = sskp.RobotEnv("hopper", render_mode="rgb_array", width=8, height=8), vector(), run.policy(), []
    env.reset(seed=0)

    def hammer():
        for _ in range(200):
            for call in (
                lambda: env.step(np.zeros(3)),
                lambda: robots.step(np.zeros((3, 3))),
                lambda: policy.act(np.zeros(5)),
                policy.reset,
                robots.reset,
                env.reset,
                env.render,
            ):
                try:
                    call()
                except RuntimeError as error:
                    failures.append(str(error))

    threads = [threading.Thread(target=hammer) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert all("another thread" in text or "reset" in text for text in failures)
    runs = []
    threads = [threading.Thread(target=lambda i=i: runs.append(train(log_dir=f"thread-{i}", callback=lambda row: None))) for i in range(3)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert [made.finished for made in runs] == [True] * 3


def test_callbacks_that_cannot_be_pickled_are_called():
    lock = threading.Lock()

    def callback(row):
        with lock:
            seen.append(row["episode"])

    seen = []
    train(callback=callback)
    assert seen == list(range(1, len(seen) + 1)) and len(seen) > 3


@pytest.mark.parametrize("ending", ["sys.exit(3)", "os.abort()", "raise KeyError('gone')", "threading.Thread(target=long).start(); time.sleep(1)"])
def test_an_interpreter_that_exits_in_the_middle_of_a_run_leaves_a_run_that_goes_on(ending, folder):
    program = f"""
    import os, sys, threading, time
    sys.path.insert(0, {str(ROOT / "tests/python/package")!r})
    import sskp
    from common import SAC
    config = {{**SAC, "run.checkpoint_every": 100}}
    def callback(row):
        if row["episode"] == 20 and threading.current_thread() is threading.main_thread():
            {ending if "long" not in ending else "pass"}
    def long():
        sskp.train("sac", "toy", total_steps=10**8, log_dir="run", config=config, progress=False)
    if {"long" in ending!r}:
        thread = threading.Thread(target=long, daemon=True)
        thread.start()
        while not os.path.isdir("run/checkpoints"):
            time.sleep(0.05)
    else:
        sskp.train("sac", "toy", total_steps=10**8, log_dir="run", config=config, progress=False, callback=callback)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120)
    # Nothing but what the program asked for itself: no fault of the memory, no hanging.
    expected = {"sys.exit(3)": 3, "os.abort()": -6, "raise KeyError('gone')": 1}.get(ending, 0)
    assert done.returncode == expected, done.stderr
    checkpoint = sorted((folder / "run/checkpoints").glob("step-*"))[-1]
    steps = int(checkpoint.name.split("-")[1])
    assert sskp.resume("run", total_steps=steps + 100, progress=False).steps == steps + 100

"""Our robots as Gymnasium environments."""

import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest
import sskp
from common import command_line
from gymnasium.utils.env_checker import check_env

IDS = [f"sskp/{name}-v0" for name in ("Ant", "Cheetah", "Hopper", "Humanoid", "Toy")]


def test_importing_takes_no_time_and_nothing_else():
    code = "import time; t = time.perf_counter(); import sskp, sys; print(time.perf_counter() - t, 'gymnasium' in sys.modules)"
    seconds, gymnasium_too = min(
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split() for _ in range(3)
    )
    assert float(seconds) < 0.3 and gymnasium_too == "False"


@pytest.mark.parametrize("name", IDS)
def test_gymnasiums_own_checker_passes(name):
    with warnings.catch_warnings():
        warnings.filterwarnings("error")
        # Gymnasium says this of its own robots as well.
        warnings.filterwarnings("ignore", message=".*A Box observation space.*infinity.*")
        check_env(gymnasium.make(name, render_mode="rgb_array").unwrapped)


@pytest.mark.parametrize("name", IDS)
def test_the_docstring_is_the_contract_and_spaces_fit_it(name):
    env = gymnasium.make(name).unwrapped
    contract = command_line("robots", env.robot).stdout
    text = type(env).__doc__
    for line in ("Reward:", "Start:", "Violation:", 'info["cost"]'):
        assert line in text
    for part in text.split("Violation: ")[1].split("\n")[0], text.split("Reward: ")[1].split("\n")[0]:
        assert part in contract
    assert len([line for line in text.splitlines() if line[:7].strip().isdigit()]) == env.observation_space.shape[0] + env.action_space.shape[0]


def test_the_same_seed_is_the_same_episode_and_the_command_lines(folder):
    env = gymnasium.make("sskp/Hopper-v0")
    start = env.reset(seed=3)[0]
    play = lambda: [env.step(np.full(3, 0.1, np.float32))[:2] for _ in range(20)]  # noqa: E731
    first = play()
    assert (env.reset(seed=3)[0] == start).all() and not (env.reset()[0] == start).all()
    env.reset(seed=3)
    assert all((a[0] == b[0]).all() and a[1] == b[1] for a, b in zip(first, play()))
    command_line("rollout", "--env", "hopper", "--seed", "3", "--random", "5", "--out", "rollout.csv")
    header, *rows = [line.split(",") for line in (folder / "rollout.csv").read_text().splitlines()]
    numbers = lambda row, word: np.array([float(x) for x, name in zip(row, header) if name.startswith(word)])  # noqa: E731
    env.reset(seed=3)
    for row in rows:
        observation, reward, *_ = env.step(numbers(row, "action").astype(np.float32))
        assert (observation == numbers(row, "obs")).all() and reward == numbers(row, "reward")


def test_a_fall_costs_one_and_ends_the_episode():
    env = gymnasium.make("sskp/Hopper-v0")
    env.reset(seed=0)
    costs = []
    while True:
        _, _, terminated, truncated, info = env.step(np.array([1.0, 0.0, -1.0], np.float32))
        costs.append(info["cost"])
        if terminated or truncated:
            break
    assert terminated and not truncated and costs[-1] == 1.0 and sum(costs) == 1.0
    toy = gymnasium.make("sskp/Toy-v0").unwrapped
    toy.reset(seed=0)
    ends = [toy.step(np.zeros(2, np.float32))[2:4] for _ in range(toy._robot.time_limit)]
    assert ends[-1] == (False, True) and not any(t or u for t, u in ends[:-1])


def test_our_action_space_draws_gymnasiums_numbers():
    ours, theirs = gymnasium.make("sskp/Ant-v0").action_space, gymnasium.spaces.Box(-1.0, 1.0, (8,), np.float32)
    ours.seed(7), theirs.seed(7)
    assert ours == theirs and all((ours.sample() == theirs.sample()).all() for _ in range(5))


def test_a_state_is_kept_and_gone_back_to():
    env = gymnasium.make("sskp/Ant-v0").unwrapped
    env.reset(seed=1)
    action = np.full(8, 0.2, np.float32)
    state = [env.step(action) and env.save() for _ in range(5)][-1]
    there = [env.step(action)[0] for _ in range(5)]
    env.reset(options={"state": state})
    assert all((env.step(action)[0] == obs).all() for obs in there)


def test_pictures_and_pages_show_the_robot(folder):
    for name in IDS:
        env = gymnasium.make(name, render_mode="rgb_array", width=120, height=80).unwrapped
        env.reset(seed=0)
        first = env.render()
        for _ in range(8):
            env.step(env.action_space.sample())
        assert first.shape == (80, 120, 3) and first.dtype == np.uint8
        assert len(np.unique(first.reshape(-1, 3), axis=0)) > 4 and (first != env.render()).any(), name
    env = sskp.RobotEnv("hopper", record=True)
    env.reset(seed=0)
    env.step(np.zeros(3))
    env.save_replay("replay.html")
    assert "hopper" in (folder / "replay.html").read_text()


def test_the_vector_steps_what_single_robots_step():
    n = 5
    for name, threads in (("hopper", 1), ("hopper", 2), ("toy", 3)):
        vector = sskp.make_vec(name, n, threads=threads)
        singles = [sskp.RobotEnv(name) for _ in range(n)]
        rows, infos = vector.reset(seed=10)
        assert isinstance(vector, gymnasium.vector.VectorEnv) and rows.shape == vector.observation_space.shape
        assert (rows == [env.reset(seed=10 + i)[0] for i, env in enumerate(singles)]).all()
        vector.action_space.seed(0)
        over, ended = [False] * n, 0
        for _ in range(120):
            actions = vector.action_space.sample()
            rows, rewards, terminated, truncated, infos = vector.step(actions)
            for i, env in enumerate(singles):
                if over[i]:
                    expected, over[i] = (env.reset()[0], 0.0, False, False, {"cost": 0.0}), False
                else:
                    expected = env.step(actions[i])
                    over[i] = expected[2] or expected[3]
                    ended += over[i]
                assert (rows[i] == expected[0]).all()
                assert (rewards[i], terminated[i], truncated[i], infos["cost"][i]) == (*expected[1:4], expected[4]["cost"])
        assert ended > n, "episodes ended, and began again"
        vector.close()


@pytest.mark.parametrize("autoreset", ["next-step", "same-step"])
def test_a_vector_gives_the_same_bytes_whatever_its_threads(autoreset):
    """Who steps which robot is chance: more threads than cores, and more robots than are taken at once."""

    def played(name, count, threads):
        vector = sskp.make_vec(name, count, threads=threads, autoreset=autoreset)
        bytes_, ends = vector.reset(seed=3)[0].tobytes(), 0
        vector.action_space.seed(1)
        for _ in range(60):
            rows, rewards, terminated, truncated, infos = vector.step(vector.action_space.sample())
            ends += int(terminated.sum())
            final = [infos["final_obs"][i].tobytes() for i in np.flatnonzero(infos.get("_final_obs", []))]
            bytes_ += b"".join([rows.tobytes(), rewards.tobytes(), terminated.tobytes(), truncated.tobytes(), infos["cost"].tobytes(), *final])
        vector.close()
        return bytes_, ends

    for name, count in (("hopper", 7), ("toy", 300)):
        alone, ends = played(name, count, 1)
        assert ends > count and all(played(name, count, threads) == (alone, ends) for threads in (2, 5))


def test_same_step_resets_keep_the_last_observation():
    vector = sskp.make_vec("hopper", 3, autoreset="same-step")
    single = sskp.RobotEnv("hopper")
    vector.reset(seed=4), single.reset(seed=4)
    action = np.tile(np.array([1.0, 0.0, -1.0], np.float32), (3, 1))
    while True:
        rows, _, terminated, _, infos = vector.step(action)
        expected = single.step(action[0])
        if terminated[0]:
            break
    assert (infos["final_obs"][0] == expected[0]).all() and (rows[0] == single.reset()[0]).all()


def test_gymnasium_makes_the_vector_too():
    vector = gymnasium.make_vec("sskp/Hopper-v0", num_envs=3, vectorization_mode="vector_entry_point")
    assert type(vector).__name__ == "HopperVector" and vector.reset(seed=0)[0].shape == (3, 11)
    forked = gymnasium.vector.AsyncVectorEnv([lambda: gymnasium.make("sskp/Hopper-v0")] * 2, context="fork")
    assert forked.reset(seed=0)[0].shape == (2, 11)
    forked.close()


def test_actions_are_the_numbers_of_gymnasiums_own_box():
    for robot in sskp.robots():
        env = gymnasium.make(f"sskp/{robot.capitalize()}-v0")
        shape = env.action_space.shape
        plain = gymnasium.spaces.Box(-1.0, 1.0, shape, np.float32)
        env.action_space.seed(7), plain.seed(7)
        for _ in range(50):
            ours, theirs = env.action_space.sample(), plain.sample()
            assert ours.dtype == theirs.dtype == np.float32 and ours.tobytes() == theirs.tobytes()
    vectors = sskp.make_vec("hopper", 4, threads=1)
    plain = gymnasium.spaces.Box(-1.0, 1.0, vectors.action_space.shape, np.float32)
    vectors.action_space.seed(7), plain.seed(7)
    assert vectors.action_space.sample().tobytes() == plain.sample().tobytes()
    vectors.close()

"""What `cargo xtask bench python` and `bench policy` time from Python. One measurement per call; prints one line of JSON."""

import json
import pathlib
import sys
import tempfile
import time

import gymnasium
import numpy as np

OURS = {"hopper": "sskp/Hopper-v0", "cheetah": "sskp/Cheetah-v0", "ant": "sskp/Ant-v0", "humanoid": "sskp/Humanoid-v0"}
THEIRS = {"hopper": "Hopper-v5", "cheetah": "HalfCheetah-v5", "ant": "Ant-v5", "humanoid": "Humanoid-v5"}
ENVPOOL = {"hopper": "Hopper-v4", "cheetah": "HalfCheetah-v4", "ant": "Ant-v4", "humanoid": "Humanoid-v4"}
BLOCK = 4096


def single(robot, side, draw, seconds):
    """Steps per second of one environment under random actions, resets included; `sample` draws as users do, `block` beforehand."""
    if side == "ours":
        import sskp  # noqa: F401 - makes our robots known
    env = gymnasium.make((OURS if side == "ours" else THEIRS)[robot])
    space = env.action_space
    block = np.random.default_rng(0).uniform(space.low, space.high, (BLOCK, *space.shape)).astype(np.float32)
    env.reset(seed=0)
    steps, began, limit = 0, time.perf_counter(), float(seconds)
    while True:
        for i in range(256):
            action = block[(steps + i) % BLOCK] if draw == "block" else space.sample()
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        steps += 256
        if (elapsed := time.perf_counter() - began) >= limit:
            return steps / elapsed


def vector(robot, side, count, threads, seconds):
    """Environment steps per second of a vector, actions drawn beforehand."""
    count, threads = int(count), int(threads)
    if side == "ours":
        import sskp

        env = sskp.make_vec(robot, count, threads=threads)
    elif side == "gymnasium":
        # A process for each environment is how it is made; as many environments as the others have threads would be idle.
        env = gymnasium.vector.AsyncVectorEnv([lambda: gymnasium.make(THEIRS[robot])] * count)
    else:
        import envpool

        env = envpool.make_gymnasium(ENVPOOL[robot], num_envs=count, num_threads=threads, seed=0)
    dim = gymnasium.make(THEIRS[robot]).action_space.shape[0]
    high = 0.4 if robot == "humanoid" and side != "ours" else 1.0
    block = np.random.default_rng(0).uniform(-high, high, (64, count, dim)).astype(np.float32 if side != "envpool" else np.float64)
    env.reset()
    for i in range(10):
        env.step(block[i])
    steps, began, limit = 0, time.perf_counter(), float(seconds)
    while True:
        for i in range(16):
            env.step(block[(steps + i) % 64])
        steps += 16
        if (elapsed := time.perf_counter() - began) >= limit:
            env.close()
            return steps * count / elapsed


def train(algo, robot, steps, *words):
    """Environment steps per second of a run, as its summary has them."""
    import sskp

    config = {word.split("=")[0]: json.loads(word.split("=")[1]) for word in words}
    with tempfile.TemporaryDirectory() as folder:
        run = sskp.train(algo, robot, total_steps=int(steps), log_dir=f"{folder}/run", config=config, progress=False)
    return run.steps / run.summary["wall_seconds"]


def foreign(robot, steps):
    """Microseconds that a step of Gymnasium's own robot costs more inside of a run (random actions, no update) than in a bare loop."""
    import sskp

    def bare():
        env = gymnasium.make(THEIRS[robot])
        env.reset(seed=0)
        block = np.random.default_rng(0).uniform(-1, 1, (BLOCK, *env.action_space.shape)).astype(np.float32)
        began = time.perf_counter()
        for i in range(int(steps)):
            _, _, terminated, truncated, _ = env.step(block[i % BLOCK])
            if terminated or truncated:
                env.reset()
        return (time.perf_counter() - began) / int(steps)

    def inside():
        with tempfile.TemporaryDirectory() as folder:
            run = sskp.train(
                "sac", THEIRS[robot], total_steps=int(steps), log_dir=f"{folder}/run", config={"sac.random_steps": int(steps)}, progress=False
            )
        return run.summary["wall_seconds"] / int(steps)

    return 1e6 * (inside() - bare())


def decide(folder, side, count):
    """The 99.9th percentile and the median of one decision in microseconds: with the exported networks in onnxruntime or PyTorch, on one
    thread, put together by the reference runner."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))
    import run_policy

    policy = run_policy.Exported(folder, threads=1)
    if side == "torch":
        use_torch(policy)
    rng, times = np.random.default_rng(0), []
    observations = rng.normal(0, 0.3, (256, policy.about["obs_dim"]))
    for i in range(int(count) + 50):
        began = time.perf_counter()
        policy.act(observations[i % 256])
        times.append(1e6 * (time.perf_counter() - began))
    times = times[50:]
    return float(np.quantile(times, 0.999)), float(np.median(times))


def use_torch(policy):
    """Plays the same networks in PyTorch, eager: the layers are read out of the ONNX files."""
    import onnx
    import torch
    from onnx import numpy_helper

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)

    def network(name):
        about = policy.about["networks"][name]
        graph = onnx.load(f"{policy.folder}/{about['file']}").graph
        weights = {tensor.name: torch.tensor(numpy_helper.to_array(tensor)) for tensor in graph.initializer}
        operations = {
            "Concat": lambda x, node: torch.cat(x, 1),
            "Gemm": lambda x, node: torch.addmm(x[2], x[0], x[1]),
            "Relu": lambda x, node: torch.relu(x[0]),
            "Tanh": lambda x, node: torch.tanh(x[0]),
            "Exp": lambda x, node: torch.exp(x[0]),
            "Sigmoid": lambda x, node: torch.sigmoid(x[0]),
            "Max": lambda x, node: torch.maximum(*x),
            "Clip": lambda x, node: torch.clamp(x[0], float(x[1]), float(x[2])),
            "Identity": lambda x, node: x[0],
            "Split": lambda x, node: torch.split(x[0], x[1].tolist(), 1),
        }
        plan = [(operations[node.op_type], list(node.input), list(node.output), node) for node in graph.node]
        outputs = [value.name for value in graph.output]

        def call(**inputs):
            values = {**weights, **{key: torch.from_numpy(np.ascontiguousarray(value, np.float32)) for key, value in inputs.items()}}
            for operation, names, results, node in plan:
                made = operation([values[name] for name in names], node)
                values.update(zip(results, made if isinstance(made, tuple) else (made,)))
            return [values[name].numpy() for name in outputs]

        return call

    networks = {name: network(name) for name in policy.networks}
    policy.run = lambda name, **inputs: networks[name](**inputs)


if __name__ == "__main__":
    result = globals()[sys.argv[1]](*sys.argv[2:])
    if isinstance(result, tuple):
        print(json.dumps({"p999_us": result[0], "median_us": result[1]}))
    else:
        print(json.dumps({"value": result}))

"""Time of the fastest plan of the risk planner in PyTorch, on one thread.

The same computation as ours: in each of six iterations 512 skills are drawn from a diagonal Gaussian and kept inside a box, a
perceptron with two hidden layers scores each together with the state, and the Gaussian is refitted to the 64 lowest; in the end
one skill is drawn. Two ways: `plain` gives every row of the perceptron state and skill, as one writes it; `split` computes the
state's part of the first layer once, as ours does.

Prints one line of JSON. `cargo xtask bench plan` runs this in the virtual environment of `bench update`; by hand:

    python plan_python.py --obs 11 --width 128 --seconds 2
"""

import argparse
import json
import os
import platform
import time

WARM_PLANS = 20
"""Plans before the clock starts, as on our side."""


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--obs", type=int, required=True)
    parser.add_argument("--dim", type=int, default=10)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--samples", type=int, default=512)
    parser.add_argument("--elites", type=int, default=64)
    parser.add_argument("--iterations", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=2.0)
    return parser.parse_args()


def main():
    arguments = parse()
    # Must come before PyTorch is imported: it reads these when it starts.
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    obs, dim, width = arguments.obs, arguments.dim, arguments.width
    samples, elites = arguments.samples, arguments.elites
    net = torch.nn.Sequential(
        torch.nn.Linear(obs + dim, width),
        torch.nn.ReLU(),
        torch.nn.Linear(width, width),
        torch.nn.ReLU(),
        torch.nn.Linear(width, 1),
    )
    state = torch.randn(1, obs)
    policy_mean, policy_std, bound = torch.zeros(dim), torch.ones(dim), torch.full((dim,), 2.0)
    first, rest = net[0], net[1:]
    of_state, of_skill = first.weight[:, :obs].t().contiguous(), first.weight[:, obs:].t().contiguous()

    def plain(skills):
        return net(torch.cat([state.expand(samples, obs), skills], dim=1))

    def split(skills):
        return rest(torch.addmm(torch.addmm(first.bias, state, of_state), skills, of_skill))

    def draw(mean, std, count):
        return torch.clamp(mean + std * torch.randn(count, dim), -bound, bound)

    def plan(score):
        mean, std = policy_mean, policy_std
        for _ in range(arguments.iterations):
            skills = draw(mean, std, samples)
            lowest = torch.topk(score(skills).squeeze(1), elites, largest=False, sorted=False).indices
            std, mean = torch.std_mean(skills[lowest], dim=0, correction=0)
            std = std.clamp(min=1e-6)
        return draw(mean, std, 1)

    def microseconds(score):
        for _ in range(WARM_PLANS):
            plan(score)
        # The fastest counts, as on our side: what is slower was the machine's doing.
        fastest, begin = float("inf"), time.perf_counter()
        while fastest == float("inf") or time.perf_counter() - begin < arguments.seconds:
            start = time.perf_counter()
            plan(score)
            fastest = min(fastest, time.perf_counter() - start)
        return 1e6 * fastest

    with torch.inference_mode():
        skills = draw(policy_mean, policy_std, samples)
        assert torch.allclose(plain(skills), split(skills), atol=1e-4)
        result = {"us_per_plan": microseconds(plain), "us_per_plan_split": microseconds(split)}
    result["versions"] = f"torch {torch.__version__}, python {platform.python_version()}"
    print(json.dumps(result))


if __name__ == "__main__":
    main()

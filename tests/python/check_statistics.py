"""Compares our statistics with those of the package rliable (Agarwal et al. 2021).

usage: check_statistics.py cases.json

Each case has `x` and `y`, scores by task and run, and what we make of them: `iqm`, `iqm_interval`, `improvement`,
`improvement_interval`. Point estimates must be equal; intervals are random, and must agree to a part of their width.
"""

import json
import sys
from pathlib import Path

import numpy as np
from rliable import library, metrics


def close(ours, theirs, tolerance):
    return np.all(np.abs(np.asarray(ours) - np.asarray(theirs)) <= tolerance)


def differences(case):
    # Ours are tasks of runs, theirs runs of tasks.
    x, y = np.array(case["x"]).T, np.array(case["y"]).T
    random = np.random.RandomState(1)

    def estimate(scores, func, reps):
        return library.get_interval_estimates(scores, func, reps=reps, random_state=random)

    points, intervals = estimate({"x": x}, lambda s: np.array([metrics.aggregate_iqm(s)]), 20000)
    yield "iqm", case["iqm"], points["x"][0], 1e-9
    width = intervals["x"][1, 0] - intervals["x"][0, 0]
    yield "iqm_interval", case["iqm_interval"], intervals["x"][:, 0], 0.05 * width + 1e-9
    # Theirs is slow: a test of hypotheses for every resample and task.
    improvement = lambda a, b: np.array([metrics.probability_of_improvement(a, b)])
    points, intervals = estimate({"x,y": (x, y)}, improvement, 1500)
    yield "improvement", case["improvement"], points["x,y"][0], 1e-9
    width = intervals["x,y"][1, 0] - intervals["x,y"][0, 0]
    # Few runs make few values that this can have, so an end may lie one value beside.
    step = 1.0 / (x.shape[0] * y.shape[0] * x.shape[1])
    yield "improvement_interval", case["improvement_interval"], intervals["x,y"][:, 0], 0.08 * width + step


def main(file):
    cases = json.loads(Path(file).read_text())
    failed = 0
    for number, case in enumerate(cases):
        for name, ours, theirs, tolerance in differences(case):
            if not close(ours, theirs, tolerance):
                print(f"case {number}: {name} is {ours}, rliable says {theirs}")
                failed += 1
    print(f"{len(cases)} cases, {failed} differences")
    sys.exit(failed > 0 or not cases)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])

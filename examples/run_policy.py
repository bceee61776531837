"""Plays a policy that `sskp export RUN --onnx FOLDER` wrote, with NumPy and onnxruntime alone. Copy it.

    python run_policy.py FOLDER            # says how long a decision takes

    policy = Exported(FOLDER)
    policy.reset()                          # an episode begins
    action = policy.act(observation)        # in the environment's own limits; policy.risk is what is predicted of the skill
"""

import json
import pathlib
import sys
import time

import numpy as np
import onnxruntime


class Exported:
    """A policy out of its folder. `kind` names the recipe: squashed, recovery or skill."""

    def __init__(self, folder, threads=1):
        folder = pathlib.Path(folder)
        self.about = json.loads((folder / "policy.json").read_text())
        assert self.about["form"] == "sskp-policy/1", "a form that this program does not know"
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.folder = folder
        self.networks = {
            name: onnxruntime.InferenceSession(folder / network["file"], options, providers=["CPUExecutionProvider"])
            for name, network in self.about["networks"].items()
        }
        self.recipe = self.about["recipe"]
        if "noise" in self.recipe:
            self.noise = np.load(folder / self.recipe["noise"])
        self.low, self.high = np.array(self.about["action_low"]), np.array(self.about["action_high"])
        self.reset()

    def reset(self):
        """An episode begins."""
        self.played = self.recipe.get("skill_length", 0)
        self.risk = None

    def act(self, observation):
        """The action for one observation."""
        state = np.asarray(observation, np.float32)[None]
        action = getattr(self, self.about["kind"])(state)[0]
        return (self.low + (np.clip(action, -1, 1).astype(np.float64) + 1) * 0.5 * (self.high - self.low)).astype(np.float32)

    def run(self, name, **inputs):
        """The outputs of a network."""
        return self.networks[name].run(None, {key: np.ascontiguousarray(value, np.float32) for key, value in inputs.items()})

    def squashed(self, state):
        """SAC and its like: one network."""
        return self.run("actor", state=state)[0]

    def recovery(self, state):
        """Recovery RL: where the task policy's action is too risky, the recovery policy acts."""
        action = self.run("actor", state=state)[0]
        if self.run("risk", state=state, action=action)[0][0, 0] > np.float32(self.recipe["threshold"]):
            action = self.run("recovery", state=state)[0]
        return action

    def skill(self, state):
        """SSkP: every few steps a skill is planned, which a decoder turns into actions."""
        standard = self.recipe["standardise"]
        shift, scale = np.float32(standard["shift"]), np.float32(standard["scale"])
        state = np.clip((state - shift) * scale, -standard["clip"], standard["clip"])
        if self.played == self.recipe["skill_length"]:
            self.played, self.z = 0, self.plan(state)
            if "risk" in self.networks:
                self.risk = 1 / (1 + np.exp(-float(self.logits(state, self.z[None])[0])))
            if self.recipe["decoder"] == "open-loop":
                start = {key: np.float32(value)[None] for key, value in self.recipe["start"].items()}
                self.memory = [start["action"], start["h"], start["c"]]
        self.played += 1
        if self.recipe["decoder"] == "closed-loop":
            return self.run("decoder", state=state, skill=self.z[None])[0]
        action, h, c = self.memory
        self.memory = self.run("decoder", action=action, skill=self.z[None], h=h, c=c)
        return np.clip(self.memory[0], -1, 1)

    def logits(self, state, skills):
        """How risky some skills are in one state."""
        return self.run("risk", state=np.repeat(state, len(skills), 0), skill=skills)[0][:, 0]

    def plan(self, state):
        """Algorithm 1 of the paper with numbers that were drawn once: the mean of the last Gaussian."""
        planner = self.recipe["planner"]
        bound = np.float32(planner["bound"])
        first_mean, first_std = (row[0] for row in self.run("policy", state=state))
        mean, std = first_mean, first_std
        tolerance = np.float32(planner["tolerance"])
        with np.errstate(divide="ignore"):
            least = np.log(tolerance / (np.float32(1) - tolerance))
        least_std = np.float32(planner["min_std"])
        reach = np.float32(planner["near_policy"] or np.inf) * bound
        for noise in self.noise if planner["planning"] != "off" else []:
            drawn = mean + std * noise
            scores = self.logits(state, np.clip(drawn, -bound, bound))
            # Risks within the tolerance are alike; what is no number is the riskiest of all.
            scores = np.where(np.isnan(scores), np.inf, np.maximum(scores, least))
            if planner["planning"] == "naive":
                mean = drawn[np.argmin(scores)]
                continue
            if (scores == scores[0]).all():
                break
            elites = drawn[np.sort(np.argsort(scores, kind="stable")[: planner["elites"]])].astype(np.float64)
            mean = np.clip(elites.mean(0).astype(np.float32), first_mean - reach, first_mean + reach)
            std = np.maximum(elites.std(0).astype(np.float32), least_std)
        return np.clip(mean, -bound, bound)


def main(folder):
    policy = Exported(folder)
    observation = np.zeros(policy.about["obs_dim"])
    times = []
    for _ in range(500):
        began = time.perf_counter()
        policy.act(observation)
        times.append(time.perf_counter() - began)
    print(f"{policy.about['algo']} on {policy.about['env']}: median {1e6 * np.median(times):.0f} us a decision, longest {1e6 * max(times):.0f}")


if __name__ == "__main__":
    main(sys.argv[1])

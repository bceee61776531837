#!/usr/bin/env python3
"""Writes the golden trajectories of the four robots (see README.md).

Needs mujoco==3.17.0 and numpy; --check-gymnasium needs gymnasium==1.4.0 too. The robots are written here a second
time, from their formulas, so that a mistake in the Rust crate cannot hide in its own reference.
"""

import argparse
import json
import math
import struct
import sys
from pathlib import Path

import mujoco
import numpy as np

HERE = Path(__file__).resolve().parent
ASSETS = HERE.parent.parent / "vendor" / "assets"


# ------------------------------------------------------------------------------------------------- the robots


class Robot:
    """Physics, observation, reward and constraint of one robot; knows nothing of episodes."""

    frame_skip = 5
    scale = 1.0  # the action is multiplied by this
    skip = 1  # leading entries of qpos that are not observed

    def __init__(self, contact_cost=False):
        self.model = mujoco.MjModel.from_xml_path(str(ASSETS / self.xml))
        self.data = mujoco.MjData(self.model)
        self.dt = self.frame_skip * self.model.opt.timestep
        self.contact_cost = contact_cost

    def start(self, qpos, qvel):
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:] = qpos
        self.data.qvel[:] = qvel
        mujoco.mj_forward(self.model, self.data)

    def step(self, action):
        """Plays one float32 action; returns (observation, reward, violation)."""
        used = self.scale * np.clip(action.astype(np.float64), -1.0, 1.0)
        before = self.x()
        self.data.ctrl[:] = used
        for _ in range(self.frame_skip):
            mujoco.mj_step(self.model, self.data)
        reward = self.forward_weight * (self.x() - before) / self.dt - self.control_weight * np.sum(used**2)
        if self.contact_cost:
            mujoco.mj_rnePostConstraint(self.model, self.data)
            reward -= self.contact()
        return self.obs(), float(reward), self.violation()

    def x(self):
        return float(self.data.qpos[0])

    def obs(self):
        return np.concatenate([self.data.qpos[self.skip :], self.data.qvel])

    def finite(self):
        return bool(np.isfinite(self.data.qpos).all() and np.isfinite(self.data.qvel).all())

    def noise(self, rng, width=None):
        width = self.reset_width if width is None else width
        return (
            self.model.qpos0 + rng.uniform(-width, width, self.model.nq),
            rng.uniform(-width, width, self.model.nv),
        )


class Ant(Robot):
    name, xml = "ant", "ant.xml"
    forward_weight, control_weight, reset_width, skip = 1.0, 0.5, 0.1, 2

    def x(self):
        # As the last mj_step left it: the frame belongs to the state before that step's integration.
        return float(self.data.body("torso").xpos[0])

    def violation(self):
        return not (self.finite() and 0.2 <= self.data.qpos[2] <= 1.0)

    def contact(self):
        return 5e-4 * np.sum(np.clip(self.data.cfrc_ext, -1.0, 1.0) ** 2)

    def noise(self, rng, width=None):
        width = self.reset_width if width is None else width
        return (
            self.model.qpos0 + rng.uniform(-width, width, self.model.nq),
            width * rng.standard_normal(self.model.nv),
        )


class Cheetah(Robot):
    name, xml = "cheetah", "half_cheetah.xml"
    forward_weight, control_weight, reset_width = 1.0, 0.1, 0.1

    def __init__(self, contact_cost=False):
        super().__init__(contact_cost)
        self.scratch = mujoco.MjData(self.model)

    def violation(self):
        _, z, th = self.data.qpos[:3]
        centre = 0.7 + z - 0.6 * np.sin(th) + 0.1 * np.cos(th)
        answer = not (centre - 0.15 * abs(np.cos(0.87 + th)) - 0.046 >= 0.0)
        assert answer == self.head_touches(self.data.qpos), "closed form and contact differ"
        return answer

    def head_touches(self, qpos):
        head, floor = self.model.geom("head").id, self.model.geom("floor").id
        mujoco.mj_resetData(self.model, self.scratch)
        self.scratch.qpos[:] = qpos
        mujoco.mj_forward(self.model, self.scratch)
        return any({c.geom1, c.geom2} == {head, floor} for c in self.scratch.contact)

    def noise(self, rng, width=None):
        return Ant.noise(self, rng, width)


class Hopper(Robot):
    name, xml = "hopper", "hopper.xml"
    forward_weight, control_weight, reset_width, frame_skip = 1.0, 1e-3, 0.005, 4

    def obs(self):
        return np.concatenate([self.data.qpos[1:], np.clip(self.data.qvel, -10.0, 10.0)])

    def violation(self):
        q, v = self.data.qpos, self.data.qvel
        sane = self.finite() and bool((np.abs(np.concatenate([q[2:], v])) < 100.0).all())
        return not (sane and q[1] > 0.7 and abs(q[2]) < 0.2)


class Humanoid(Robot):
    name, xml = "humanoid", "humanoid.xml"
    forward_weight, control_weight, reset_width, scale, skip = 1.25, 0.1, 0.01, 0.4, 2

    def x(self):
        mass = self.model.body_mass
        return float(np.sum(mass * self.data.xipos[:, 0]) / np.sum(mass))

    def violation(self):
        return not (self.finite() and 1.0 <= self.data.qpos[2] <= 2.0)

    def contact(self):
        return min(0.5e-6 * np.sum(self.data.cfrc_ext**2), 10.0)


ROBOTS = [Ant, Cheetah, Hopper, Humanoid]


# -------------------------------------------------------------------------------------- starts and controllers
# A controller is made from a random stream and maps (robot, time) to an action.


def uniform(rng):
    return lambda robot, t: rng.uniform(-1.0, 1.0, robot.model.nu)


def held(steps, std):
    """Gaussian actions held for some steps, beyond [-1, 1] now and then: the robot must clip them."""

    def make(rng):
        last = None

        def act(robot, t):
            nonlocal last
            if t % steps == 0:
                last = std * rng.standard_normal(robot.model.nu)
            return last

        return act

    return make


def waves(size):
    """Slow small waves, every joint with its own frequency and phase."""

    def make(rng):
        speed, phase = rng.uniform(0.02, 0.2, 32), rng.uniform(0.0, 2.0 * np.pi, 32)
        return lambda robot, t: (size * np.sin(speed * t + phase))[: robot.model.nu]

    return make


def constant(*values):
    return lambda rng: lambda robot, t: np.array(values, dtype=np.float64)


def hopper_balance(rng):
    """Holds the joints and leans the ankle against the centre of mass."""

    def act(robot, t):
        d = robot.data
        lean = d.subtree_com[0, 0] - d.geom("foot_geom").xpos[0]
        a = -0.5 * d.qpos[3:] - 0.01 * d.qvel[3:]
        a[2] -= 2.0 * lean
        return a

    return act


# Of humanoid_balance, found by random search. Rows: abdomen_y, hip_y, knee (forward lean) and hip_x, abdomen_x
# (sideways lean). Columns: offset and speed of the centre of mass, angle and rate of the torso, constant.
HUMANOID_GAINS = np.array(
    [
        [-0.0382, 0.2386, 0.1142, 0.5659, -0.3],
        [0.5545, 0.2365, 0.7227, 0.0542, -0.5554],
        [0.1357, -0.0495, -0.572, -0.3645, 1.8841],
        [-0.3369, 0.1429, -0.8764, -0.6149, 0.3754],
        [0.453, 0.4622, -0.2366, 1.0342, 0.0],
    ]
)


def humanoid_balance(rng):
    """Holds a posture and moves hips, knees and belly against the fall; stays up for 310 steps."""

    def act(robot, t):
        m, d = robot.model, robot.data
        mujoco.mj_subtreeVel(m, d)
        feet = 0.5 * (d.geom("left_foot").xpos + d.geom("right_foot").xpos)
        offset, speed = d.subtree_com[1] - feet, d.subtree_linvel[1]
        w, x, y, z = d.qpos[3:7]
        pitch, roll = np.arcsin(2.0 * (w * y - z * x)), np.arctan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y))
        forward = HUMANOID_GAINS[:3] @ [offset[0], speed[0], pitch, d.qvel[4], 1.0]
        side = HUMANOID_GAINS[3:] @ [offset[1], speed[1], roll, d.qvel[3], 0.0]
        spread = HUMANOID_GAINS[3, 4]
        target = {
            "abdomen_y": forward[0],
            "right_hip_y": forward[1],
            "left_hip_y": forward[1],
            "right_knee": forward[2],
            "left_knee": forward[2],
            "right_hip_x": side[0] - spread,
            "left_hip_x": -side[0] - spread,
            "abdomen_x": side[1],
        }
        action = np.empty(m.nu)
        for i in range(m.nu):
            joint = m.joint(m.actuator_trnid[i, 0])
            error = target.get(m.actuator(i).name, 0.0) - d.qpos[joint.qposadr[0]]
            action[i] = (1.816 * error - 0.158 * d.qvel[joint.dofadr[0]]) * 100.0 / m.actuator_gear[i, 0]
        return np.clip(action, -1.0, 1.0)

    return act


def quat_about_x(angle):
    return [np.cos(angle / 2.0), np.sin(angle / 2.0), 0.0, 0.0]


def cases(kind):
    """(name, qpos, qvel, controller, steps, contact cost) of one robot, each with its own random stream."""
    robot = kind()

    def case(number, name, controller, width=None, steps=1000, contact=False, qpos=None, qvel=None):
        rng = np.random.default_rng([20250501, ROBOTS.index(kind), number])
        start_qpos, start_qvel = robot.noise(rng, width)
        for at, value in (qpos or {}).items():
            start_qpos[at] = value
        for at, value in (qvel or {}).items():
            start_qvel[at] = value
        return name, start_qpos, start_qvel, controller(rng), steps, contact

    if kind is Ant:
        flip = dict(enumerate(quat_about_x(3.0), start=3))
        return [
            case(1, "random", uniform),
            case(2, "wide", held(5, 0.8), width=0.2),
            case(3, "flip", uniform, qpos={2: 0.9} | flip, qvel={2: 3.0}),
            case(4, "calm", waves(0.15)),
            case(5, "contact", uniform, steps=200, contact=True),
            # The torso is a ball of radius 0.25: only a crash presses it below 0.2.
            case(6, "slam", uniform, steps=30, qpos={2: 1.0}, qvel={2: -20.0}),
        ]
    if kind is Cheetah:
        return [
            case(1, "random", uniform),
            case(2, "wide", held(4, 1.0), width=0.25),
            case(3, "flip", uniform, qpos={1: 0.3, 2: 2.6}, qvel={2: 2.0}),
            case(4, "calm", waves(0.2)),
        ]
    if kind is Hopper:
        return [
            case(1, "random", uniform),
            case(2, "wide", held(3, 1.0), width=0.05),
            case(3, "kick", constant(1.0, -1.0, 1.0)),
            case(4, "calm", hopper_balance),
            # Falling from a height: nothing but the speed passes its bound (100 m/s).
            case(5, "runaway", constant(0.0, 0.0, 0.0), steps=30, qpos={1: 30.0}, qvel={1: -99.8}),
        ]
    return [
        case(1, "random", uniform),
        case(2, "wide", held(5, 1.0), width=0.05),
        case(3, "toss", uniform, qvel={2: 5.0}, steps=300),
        case(4, "calm", humanoid_balance, steps=300),
        # Dropped hard, so that the cost meets its cap of 10.
        case(5, "contact", uniform, steps=200, contact=True, qvel={2: -4.0}),
    ]


# ------------------------------------------------------------------------------------------------- recording


def play(kind, qpos, qvel, controller, steps, contact):
    robot = kind(contact)
    robot.start(qpos, qvel)
    obs, actions, rewards, violations = [robot.obs()], [], [], []
    for t in range(steps):
        action = np.asarray(controller(robot, t)).astype(np.float32)
        o, r, v = robot.step(action)
        actions.append(action)
        obs.append(o)
        rewards.append(r)
        violations.append(v)
    assert np.isfinite(np.array(obs)).all()
    assert all(w.number == 0 for w in robot.data.warning), "the simulator warned: not a usable trajectory"
    return np.array(obs), np.array(actions), np.array(rewards), np.array(violations)


def fnv1a64(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def libm_fingerprint():
    """Hash of what this machine's libm returns for a few thousand arguments of the functions MuJoCo calls.

    Where it is the same, the physics must be the same to the last bit; where it is not, it cannot be.
    """
    values = []
    for i in range(1000):
        x = (i + 0.5) / 500.0 - 1.0  # (-1, 1)
        y = 3.0 + 2.0 * x
        values += [math.sin(y), math.cos(y), math.tan(x), math.asin(x), math.acos(x), math.atan2(x, y)]
        values += [math.exp(x), math.log(y), math.pow(y, x)]
    return fnv1a64(struct.pack(f"<{len(values)}d", *values))


def kept_rows(violations):
    """Which observations (0 is the start state) are stored in full."""
    steps = len(violations)
    keep = set(range(21)) | set(range(0, steps + 1, 50)) | {steps}
    changes = [k for k in range(1, steps) if violations[k] != violations[k - 1]]
    for k in changes[:6]:
        keep |= {k, k + 1}  # the last step before the change and the first after; step k is row k + 1
    return sorted(keep)


def write(path, kind, case, qpos, qvel, contact, obs, actions, rewards, violations):
    rows = kept_rows(violations)
    header = {
        "format": "sskp-golden-1",
        "robot": kind.name,
        "case": case,
        "contact_cost": int(contact),
        "steps": len(rewards),
        "nq": len(qpos),
        "nv": len(qvel),
        "action_dim": actions.shape[1],
        "obs_dim": obs.shape[1],
        "rows": len(rows),
        "violations": int(violations.sum()),
        "libm": f"{libm_fingerprint():016x}",
        "mujoco": mujoco.__version__,
    }
    hashes = [fnv1a64(o.astype("<f8").tobytes()) for o in obs]
    with open(path, "wb") as file:
        file.write(json.dumps(header).encode() + b"\n")
        for array, dtype in [
            (qpos, "<f8"),
            (qvel, "<f8"),
            (actions, "<f4"),
            (rewards, "<f8"),
            (hashes[1:], "<u8"),
            (violations, "u1"),
            (rows, "<u4"),
            (obs[rows], "<f8"),
        ]:
            file.write(np.array(array, dtype=dtype).tobytes())


# ------------------------------------------------------------------------------------------------ comparisons


def check_gymnasium(kind, qpos, qvel, contact, obs, actions, rewards, violations):
    """The same start and actions in Gymnasium's own environment; returns a line for the report.

    Its bare environments go on after their end, so the whole trajectory is compared.
    """
    import gymnasium

    assert gymnasium.__version__ == "1.4.0", gymnasium.__version__
    quiet = dict(healthy_reward=0.0)
    if kind in (Ant, Humanoid):
        quiet["include_cfrc_ext_in_observation"] = False
        if not contact:
            quiet["contact_cost_weight"] = 0.0
    if kind is Humanoid:
        quiet |= dict(
            include_cinert_in_observation=False,
            include_cvel_in_observation=False,
            include_qfrc_actuator_in_observation=False,
        )
    name = {Ant: "Ant-v5", Cheetah: "HalfCheetah-v5", Hopper: "Hopper-v5", Humanoid: "Humanoid-v5"}[kind]
    env = gymnasium.make(name, **({} if kind is Cheetah else quiet)).unwrapped
    env.reset(seed=0)
    mujoco.mj_resetData(env.model, env.data)
    env.set_state(qpos, qvel)
    worst_obs = worst_reward = 0.0
    equal = 0
    for t, action in enumerate(actions):
        used = kind.scale * np.clip(action.astype(np.float64), -1.0, 1.0)
        o, r, terminated, _, _ = env.step(used)
        equal += bool(np.array_equal(o, obs[t + 1]))
        worst_obs = max(worst_obs, float(np.max(np.abs(o - obs[t + 1]) / np.maximum(1.0, np.abs(obs[t + 1])))))
        worst_reward = max(worst_reward, abs(r - rewards[t]))
        if kind is not Cheetah:
            assert terminated == violations[t], f"{kind.name} step {t + 1}: termination differs"
    env.close()
    assert worst_obs <= 1e-12 and worst_reward <= 1e-12, (kind.name, worst_obs, worst_reward)
    return f"gymnasium: {t + 1} steps, {equal} bit-equal, obs {worst_obs:.1e}, reward {worst_reward:.1e}"


def check_cheetah(poses=20000):
    robot = Cheetah()
    rng = np.random.default_rng(7)
    touching = 0
    for _ in range(poses):
        robot.data.qpos[:] = 0.0
        robot.data.qpos[1] = rng.uniform(-0.7, 0.6)
        robot.data.qpos[2] = rng.uniform(-2.0 * np.pi, 2.0 * np.pi)
        robot.data.qpos[3:] = rng.uniform(-0.5, 0.5, 6)
        touching += robot.violation()  # asserts that both answers agree
    print(f"cheetah: closed form and contacts agree in {poses} poses, {touching} of them touching")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=HERE, help="folder for the .bin files (default: next to this script)")
    parser.add_argument("--check-gymnasium", action="store_true", help="compare every trajectory with Gymnasium 1.4.0 too")
    args = parser.parse_args()
    if mujoco.__version__ != "3.17.0":
        sys.exit(f"mujoco {mujoco.__version__} is not 3.17.0: its trajectories would differ")
    mujoco.set_mju_user_warning(lambda text: None)  # half_cheetah.xml warns at each load
    args.out.mkdir(parents=True, exist_ok=True)
    total = 0
    for kind in ROBOTS:
        for name, qpos, qvel, controller, steps, contact in cases(kind):
            record = play(kind, qpos, qvel, controller, steps, contact)
            path = args.out / f"{kind.name}-{name}.bin"
            write(path, kind, name, qpos, qvel, contact, *record)
            total += path.stat().st_size
            violations = record[3]
            assert violations.any() != (name == "calm"), f"{path.name} does not show what it is for"
            first = int(np.argmax(violations)) + 1 if violations.any() else None
            line = f"{path.name:22} {steps:5} steps, {int(violations.sum()):4} violating, first {first}"
            if args.check_gymnasium:
                line += "; " + check_gymnasium(kind, qpos, qvel, contact, *record)
            print(line, flush=True)
    check_cheetah()
    print(f"{total} bytes")


if __name__ == "__main__":
    main()

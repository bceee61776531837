"""Trains a population of SSkP+ learners at once: networks on one GPU (JAX), robots on all cores (farm).

    python train.py POPULATION.json OUT        beside data.npz, libfarm.so and MuJoCo's library (SSKP_MUJOCO_DIR)

POPULATION.json: {"steps": .., "members": [{"robot": .., "seed": .., settings ..}, ..]}; settings and defaults below.
Skills are drawn from the frozen prior: there is no skill policy and no planning. Everything else is the update of
crates/methods/src/sskp_plus, in TF32. OUT/windows.npz: reward and violations per member and window.
"""
import ctypes
import json
import os
import sys
import threading
import time
from functools import partial

os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.92")
import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_default_prng_impl", "unsafe_rbg")
OBS, ACTION, SKILL, WIDTH, RETURNS = 45, 17, 10, 128, 3
ROW = 2 * OBS + ACTION + 4
ROBOTS, ACTIONS, SECONDS = ["ant", "cheetah", "hopper", "humanoid"], [8, 6, 3, 17], [0.05, 0.05, 0.008, 0.015]
INPUTS = [27 + 8, 17 + 6, 11 + 3, 45 + 17]
BOUND = 2.5
# Steps over which the mean of played rewards is taken.
MEAN_OVER = 20_000
DEFAULTS = dict(
    horizon=2.0, risk_horizon=1.0, critics=4, norm=0.0, rate=1e-3, decoder_rate=1e-4, tau=0.005, updates=0.5, noise=0.02,
    spread=0.15, target_noise=0.1, share=0.5, doubt=1.6, target_doubt=1.0, violation_value=0.6, hold=0.1, follow=2e-4,
    price=5.0, dearest=3.0, negligible=0.01, adapt=1.0, allowed=5e-5, first_caution=3.0, patience=1e4, least=0.3, most=10.0,
    warm_up=10_000, share_end=0.1, fade=5e4,
    # Tried here only: no M (1 in its place, and the reference always follows); noise on actions times 1/m, at most this; a minibatch's rows
    # that count; rewards less the running mean of those played (a violation then costs one value more); risk's price levels off above
    # `bend` (price·bend·log(1 + risk/bend)); the least share of k when m is small (k·max(trusting, min(1, m))).
    back=1.0, bold=1.0, rows=256, centre=0.0, bend=100.0, trusting=1.0,
)  # fmt: skip

HERE = os.path.dirname(os.path.abspath(__file__))
config, out = json.load(open(sys.argv[1])), sys.argv[2]
os.makedirs(out, exist_ok=True)
members = [{**DEFAULTS, **m} for m in config["members"]]
P, STEPS = len(members), config["steps"]
CHUNK, BATCH, CRITICS = config.get("chunk", 40), config.get("batch", 256), max(int(m["critics"]) for m in members)
WINDOW, OFFLINE = config.get("window", 25_000), config.get("offline", 10_000)
MOST_UPDATES = max(m["updates"] for m in members)
data = np.load(os.path.join(HERE, "data.npz"))
column = lambda key: np.array([m[key] for m in members], np.float32)
robot = np.array([ROBOTS.index(m["robot"]) for m in members], np.int32)
dt = np.array(SECONDS)[robot]
gamma = (1 - 1 / np.clip(column("horizon") / dt, 20, 1000)).astype(np.float32)
risk_gamma = (1 - 1 / np.clip(column("risk_horizon") / dt, 20, 1000)).astype(np.float32)
unit = np.array([abs(data[ROBOTS[r] + "_rewards"].mean()) for r in robot], np.float32)
cost = (column("violation_value") + column("centre")) * unit / (1 - gamma)


def demonstrations(name, gamma, risk_gamma, cost):
    states, actions, rewards, ends = [data[f"{name}_{k}"] for k in ["states", "actions", "rewards", "ends"]]
    obs, n = states.shape[1], actions.shape[1]
    rows, s, a = np.zeros((len(rewards), ROW), np.float32), 0, 0
    for length, violated in ends:
        t = np.arange(length)
        ahead, total, r = np.minimum(RETURNS, length - t), np.zeros(length), rewards[a : a + length].astype(np.float64)
        r[-1] -= cost * violated
        for k in range(RETURNS - 1, -1, -1):
            inside = t + k < length
            total = np.where(inside, r[np.minimum(t + k, length - 1)] + gamma * total, 0.0)
        row, dead = rows[a : a + length], (t + ahead == length) & bool(violated)
        row[:, :obs], row[:, OBS : OBS + n] = states[s : s + length], actions[a : a + length]
        row[:, OBS + ACTION] = total
        row[:, OBS + ACTION + 1] = np.where(dead, 0, gamma**ahead)
        row[:, OBS + ACTION + 2] = np.where(dead, risk_gamma ** (ahead - 1.0), 0)
        row[:, OBS + ACTION + 3] = np.where(dead, 0, risk_gamma**ahead)
        row[:, OBS + ACTION + 4 :][:, :obs] = states[s + t + ahead]
        s, a = s + length + 1, a + length
    return rows[:100_000]


kinds = sorted(set(zip(robot.tolist(), gamma.tolist(), risk_gamma.tolist(), cost.tolist())))
demos = jnp.array(np.stack([demonstrations(ROBOTS[r], *rest) for r, *rest in kinds]))
demos_of = jnp.array([kinds.index(k) for k in zip(robot.tolist(), gamma.tolist(), risk_gamma.tolist(), cost.tolist())])


def tree(flat, sizes):
    net, at = {}, 0
    for i, (a, b) in enumerate(zip(sizes, sizes[1:])):
        net[f"w{i}"], net[f"b{i}"] = flat[at : at + a * b].reshape(a, b), flat[at + a * b : at + (a + 1) * b]
        at += (a + 1) * b
    return net


stack = lambda trees: jax.tree.map(lambda *x: jnp.stack(x), *trees)
first = stack([tree(data[ROBOTS[r] + "_decoder"], [OBS + SKILL, WIDTH, WIDTH, ACTION]) for r in robot])
prior = stack([tree(data[ROBOTS[r] + "_prior"], [OBS, WIDTH, WIDTH, WIDTH, 2 * SKILL]) for r in robot])
mask = jnp.array(np.stack([np.arange(ACTION) < ACTIONS[r] for r in robot]).astype(np.float32))


def critic(key, copies):
    net, keys = {}, jax.random.split(key, 6)
    for i, (a, b) in enumerate([(OBS + ACTION, WIDTH), (WIDTH, WIDTH), (WIDTH, 1)]):
        inputs = np.array([INPUTS[r] if i == 0 else a for r in robot], np.float32).reshape(P, *[1] * (len(copies) + 2))
        net[f"w{i}"] = jax.random.uniform(keys[2 * i], (P, *copies, a, b), minval=-1, maxval=1) / np.sqrt(inputs)
        net[f"b{i}"] = jax.random.uniform(keys[2 * i + 1], (P, *copies, b), minval=-1, maxval=1) / np.sqrt(inputs[..., 0])
    return net


def forward(net, x, norm=None):
    n = len(net) // 2
    for i in range(n):
        x = x @ net[f"w{i}"] + net[f"b{i}"]
        if i < n - 1:
            if norm is not None:
                mean = x.mean(-1, keepdims=True)
                normed = (x - mean) * jax.lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5)
                x = jnp.where(norm > 0, normed, x)
            x = jax.nn.relu(x)
    return x


values = lambda nets, x, norm: jax.vmap(lambda net: forward(net, x, norm)[:, 0])(nets)


def doubtful(q, used, doubt):
    mean = (q * used[:, None]).sum(0) / used.sum()
    variance = (((q - mean) ** 2) * used[:, None]).sum(0) / used.sum()
    return mean - doubt * jnp.sqrt(variance + 1e-8)


def adam(grad, m, v, t, rate, params):
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grad)
    v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, grad)
    step = lambda p, m, v: p - rate * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return jax.tree.map(step, params, m, v), m, v


toward = lambda a, b, share: jax.tree.map(lambda a, b: a + share * (b - a), a, b)
select = lambda go, a, b: jax.tree.map(lambda a, b: jnp.where(go > 0, a, b), a, b)


def skills(prior, state, spread, key):
    head = forward(prior, state)
    draw = jax.random.normal(key, (state.shape[0], SKILL))
    return jnp.clip(head[:, :SKILL] + spread * jnp.exp(jnp.clip(head[:, SKILL:], -20, 2)) * draw, -BOUND, BOUND)


def learn_critics(st, h, prior, mask, b, key):
    s, a, s2 = b[:, :OBS], b[:, OBS : OBS + ACTION], b[:, OBS + ACTION + 4 :]
    R, d, y, e = [b[:, OBS + ACTION + i] for i in range(4)]
    k1, k2 = jax.random.split(key)
    a2 = jnp.clip(forward(st["played"], jnp.concatenate([s2, skills(prior, s2, h["spread"], k1)], 1)), -1, 1) * mask
    a2 = jnp.clip(a2 + jnp.clip(h["target_noise"] * jax.random.normal(k2, a2.shape), -0.25, 0.25), -1, 1) * mask
    now, then = jnp.concatenate([s, a], 1), jnp.concatenate([s2, a2], 1)
    # How many steps R is made of.
    steps = jnp.log(jnp.where(e > 0, e, y * h["risk_gamma"])) / jnp.log(h["risk_gamma"])
    R = R - h["centre"] * (1 - h["gamma"] ** steps) / (1 - h["gamma"])
    reward = R / h["unit"] + d * doubtful(values(st["slow_q"], then, h["norm"]), h["used"], h["target_doubt"])
    risk = y + e * jax.nn.sigmoid(forward(st["slow_c"], then, h["norm"])[:, 0])

    def cross_entropy(c):
        logit = forward(c, now, h["norm"])[:, 0]
        return (jax.nn.softplus(logit) - risk * logit) @ w

    w = jnp.where(jnp.arange(b.shape[0]) * 0.618034 % 1 < h["rows"], 1 / (h["rows"] * b.shape[0]), 0.0)
    grad_q = jax.grad(lambda q: (((values(q, now, h["norm"]) - reward) ** 2) @ w).sum())(st["q"])
    t = st["t"] + 1
    q, mq, vq = adam(grad_q, st["mq"], st["vq"], t, h["rate"], st["q"])
    c, mc, vc = adam(jax.grad(cross_entropy)(st["c"]), st["mc"], st["vc"], t, h["rate"], st["c"])
    slow_q, slow_c = toward(st["slow_q"], q, h["tau"]), toward(st["slow_c"], c, h["tau"])
    return dict(st, q=q, mq=mq, vq=vq, c=c, mc=mc, vc=vc, t=t, slow_q=slow_q, slow_c=slow_c)


def learn_decoder(st, h, prior, mask, b, key, go):
    s = b[:, :OBS]
    x = jnp.concatenate([s, skills(prior, s, h["spread"], key)], 1)
    reference = forward(st["reference"], x) * mask

    def loss(net):
        raw = forward(net, x) * mask
        a = raw + jax.lax.stop_gradient(jnp.clip(raw, -1, 1) - raw)
        sa = jnp.concatenate([s, a], 1)
        q = doubtful(values(st["q"], sa, h["norm"]), h["used"], h["doubt"])
        c = jax.nn.sigmoid(forward(st["c"], sa, h["norm"])[:, 0])
        hold, outside = ((raw - reference) ** 2).sum(1), ((raw - jnp.clip(raw, -1, 1)) ** 2).sum(1)
        price = h["price"] * h["bend"] * jnp.log1p(jax.nn.relu(c - h["negligible"]) / h["bend"])
        w = jnp.where(jnp.arange(b.shape[0]) * 0.618034 % 1 < h["rows"], 1 / (h["rows"] * b.shape[0]), 0.0)
        return (-(1 - h["gamma"]) * q + price + h["hold"] * hold + outside) @ w

    td = st["td"] + go
    net, m, v = adam(jax.grad(loss)(st["net"]), st["md"], st["vd"], td + 1e-6, h["decoder_rate"], st["net"])
    net, m, v = select(go, net, st["net"]), select(go, m, st["md"]), select(go, v, st["vd"])
    played, reference = toward(st["played"], net, h["tau"] * go), toward(st["reference"], net, h["follow"] * go)
    reference = toward(reference, st["offline"], h["retreat"] * go)
    return dict(st, net=net, md=m, vd=v, td=td, played=played, reference=reference)


@jax.vmap
def pair(st, h, prior, mask, b1, b2, key, do, go):
    k1, k2, k3 = jax.random.split(key, 3)
    new = learn_critics(learn_critics(st, h, prior, mask, b1, k1), h, prior, mask, b2, k2)
    return select(do, learn_decoder(new, h, prior, mask, b2, k3, go), st)


def minibatch(replay, size, share, key):
    k1, k2 = jax.random.split(key)
    played = replay[jnp.arange(P)[:, None], jax.random.randint(k1, (P, BATCH), 0, size)]
    shown = demos[demos_of[:, None], jax.random.randint(k2, (P, BATCH), 0, demos.shape[1])]
    return jnp.where((jnp.arange(BATCH)[None] < share[:, None] * BATCH)[:, :, None], shown, played)


@partial(jax.jit, donate_argnums=(0,), static_argnums=(6,))
def learn(st, replay, size, h, key, go, pairs):
    def body(st, at):
        keys = jax.random.split(at[0], 3)
        b1, b2 = [minibatch(replay, size, h["share"], k) for k in keys[:2]]
        do = (jnp.floor((at[1] + 1) * h["pace"] + 1e-4) > jnp.floor(at[1] * h["pace"] + 1e-4)).astype(jnp.float32)
        return pair(st, h, prior, mask, b1, b2, jax.random.split(keys[2], P), do, go), ()

    return jax.lax.scan(body, st, (jax.random.split(key, pairs), jnp.arange(pairs)))[0]


insert = jax.jit(lambda replay, rows, at: jax.lax.dynamic_update_slice(replay, rows, (0, at, 0)), donate_argnums=(0,))
flat = jax.jit(lambda net: jnp.concatenate([net[f"{k}{i}"].reshape(P, -1) for i in range(3) for k in "wb"], 1))


def settings(violations, before, t, mean, offline=False):
    """Numbers of every member now: the rule of caution. `before`: violations before the decoder moved."""
    first = column("allowed") * column("patience")
    m = (column("first_caution") * first + violations) / (column("allowed") * (column("patience") + t))
    m = np.where(column("adapt") > 0, np.clip(m, column("least"), column("most")), 1.0)
    rate = lambda violations, t: (first + violations) / (column("patience") + t)
    worse = rate(violations, t) / np.maximum(column("allowed"), rate(before, np.minimum(t, column("warm_up"))))
    worse = np.minimum(worse, column("most"))
    follow = np.where((column("back") > 0) & (worse >= 1), 0, column("follow") / m)
    retreat = np.where(column("back") > 0, column("follow") * np.maximum(0, worse - 1), 0)
    held = np.where(column("back") > 0, np.maximum(1, worse), 1)
    keys = ["norm", "rate", "decoder_rate", "tau", "target_noise", "negligible", "target_doubt", "bend"]
    h = {key: column(key) for key in keys}
    used = np.stack([np.arange(CRITICS) < m["critics"] for m in members])
    h |= dict(gamma=gamma, risk_gamma=risk_gamma, centre=column("centre") * mean, unit=unit, used=used)
    h |= dict(hold=column("hold") * m * held, follow=np.minimum(1, follow), retreat=np.minimum(1, retreat))
    h |= dict(pace=column("updates") / MOST_UPDATES)
    h |= dict(price=column("price") * np.minimum(column("dearest"), m), spread=column("spread") * np.minimum(1, 1 / m))
    h |= dict(doubt=column("doubt") * np.maximum(column("trusting"), np.minimum(1, m)))
    end, fade = column("share_end"), column("fade")
    h |= dict(share=end + (column("share") - end) * fade / (fade + t), rows=column("rows") / BATCH)
    if offline:
        h |= dict(share=np.ones(P), pace=np.ones(P))
    return {key: jnp.asarray(value, jnp.float32) for key, value in h.items()}, m


def main():
    lib = ctypes.CDLL(os.path.join(HERE, "libfarm.so"))
    lib.farm_new.restype = ctypes.c_void_p
    at = lambda array: array.ctypes.data_as(ctypes.c_void_p)
    gathered = lambda key: np.concatenate([data[f"{r}_{key}"] for r in ROBOTS])
    shift, scale, priors = gathered("shift"), gathered("scale"), gathered("prior")
    seeds = np.array([m["seed"] for m in members], np.uint64)
    threads = ctypes.c_size_t(config.get("threads", os.cpu_count()))
    farm = ctypes.c_void_p(lib.farm_new(ctypes.c_size_t(P), at(robot), at(seeds), at(shift), at(scale), threads))

    key, k1, k2 = jax.random.split(jax.random.key(config.get("key", 0)), 3)
    q, c = critic(k1, (CRITICS,)), critic(k2, ())
    c["b2"] = jnp.full_like(c["b2"], -4.0)
    zero, copy = (lambda t: jax.tree.map(jnp.zeros_like, t)), (lambda t: jax.tree.map(jnp.array, t))
    st = dict(q=q, slow_q=copy(q), mq=zero(q), vq=zero(q), c=c, slow_c=copy(c), mc=zero(c), vc=zero(c), t=jnp.zeros(P))
    st |= dict(net=copy(first), played=copy(first), reference=copy(first), offline=copy(first), md=zero(first), vd=zero(first), td=jnp.zeros(P))
    replay, pairs = jnp.zeros((P, STEPS, ROW), jnp.float32), max(1, round(CHUNK * MOST_UPDATES / 2))
    begin, h = time.time(), settings(np.zeros(P), np.zeros(P), 0, unit, offline=True)[0]
    for _ in range(round(OFFLINE / 2 / pairs)):
        key, k = jax.random.split(key)
        st = learn(st, replay, jnp.int32(1), h, k, jnp.zeros(P), pairs)
    jax.block_until_ready(st)
    print(f"offline {time.time() - begin:.0f} s", flush=True)

    rows, stats = np.zeros((P, CHUNK, ROW), np.float32), np.zeros((P, 2), np.float32)
    mean = unit.copy()
    violations, before, window, windows, t = np.zeros(P), np.zeros(P), np.zeros((P, 2)), [], 0
    while t < STEPS and time.time() - begin < config.get("limit", 1e9):
        before = np.where(t <= column("warm_up"), violations, before)
        h, m = settings(violations, before, t, mean)
        decoders = np.asarray(flat(st["played"]))
        spread = column("spread") * np.minimum(1, 1 / m)
        same = lambda x: np.full(P, x)
        noise = column("noise") * np.clip(1 / m, 1, column("bold"))
        given = [spread, noise, gamma, risk_gamma, same(RETURNS), same(BOUND), cost]
        given = np.ascontiguousarray(np.stack(given, 1).astype(np.float32))
        # Robots and networks at the same time: what is played is one chunk behind what has learnt.
        arguments = (farm, ctypes.c_size_t(CHUNK), at(decoders), at(priors), at(given), at(rows), at(stats))
        play = threading.Thread(target=lib.farm_play, args=arguments)
        play.start()
        if t > 0:
            key, k = jax.random.split(key)
            st = learn(st, replay, jnp.int32(t), h, k, jnp.asarray((t >= column("warm_up")).astype(np.float32)), pairs)
        play.join()
        jax.block_until_ready(st)
        replay = insert(replay, jnp.asarray(rows), jnp.int32(t))
        mean = mean + (stats[:, 0] / CHUNK - mean) * CHUNK / MEAN_OVER
        violations, window, t = violations + stats[:, 1], window + stats, t + CHUNK
        if t % WINDOW < CHUNK:
            windows.append(window)
            window = np.zeros((P, 2))
            print(f"{t} steps, {time.time() - begin:.0f} s", flush=True)
            np.savez(os.path.join(out, "windows.npz"), windows=np.array(windows), caution=m)


main()

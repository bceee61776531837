"""Median time of one gradient update of every learner in PyTorch, on one thread.

The same updates as ours: the same networks, minibatches, losses and optimisers, eager, as one writes them, with one liberty
that helps: while a policy climbs critics, these are frozen, so that nobody computes gradients they do not need. Each update
draws its minibatch from a tensor of made-up transitions, as ours draws from its replay. Two measurements: with Adam as it
comes, and with `Adam(fused=True)`.

Prints one line of JSON. `cargo xtask bench update` runs this in its virtual environment; by hand:

    python methods_python.py --row sac --obs 11 --action 3 --batch 256 --seconds 1

To add a row: a function of that name, with `_` for `-`, in `ROWS`. It returns one update as a function, and the modules and
parameters that learn.
"""

import argparse
import copy
import json
import math
import os
import platform
import statistics
import time

# Must come before PyTorch is imported: it reads these when it starts.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

WARM_UPDATES = 10
"""Updates before the clock starts, as on our side."""

KEPT = 10_000
"""Transitions to draw from, as on our side."""

LOG_STD = (-20.0, 2.0)
"""Bounds of a policy's log deviation."""


# Networks and Gaussians.


def mlp(*sizes):
    layers = []
    for inputs, outputs in zip(sizes, sizes[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def split(head):
    mean, log_std = head.chunk(2, dim=-1)
    return mean, log_std.clamp(*LOG_STD)


def sample(head):
    mean, log_std = split(head)
    return mean + log_std.exp() * torch.randn_like(mean)


def squashed(head):
    """An action of a Gaussian squashed by tanh, and its log-probability."""
    mean, log_std = split(head)
    noise = torch.randn_like(mean)
    raw = mean + log_std.exp() * noise
    log_prob = -0.5 * noise**2 - log_std - 0.5 * math.log(2 * math.pi)
    slope = 2 * (math.log(2) - raw - F.softplus(-2 * raw))
    return torch.tanh(raw), (log_prob - slope).sum(-1)


def kl(head, other):
    (mean, log_std), (other_mean, other_log_std) = split(head), split(other)
    variance, other_variance = (2 * log_std).exp(), (2 * other_log_std).exp()
    return (other_log_std - log_std + (variance + (mean - other_mean) ** 2) / (2 * other_variance) - 0.5).sum(-1)


class Twin(nn.Module):
    """Critics on (s, a), two if nothing else is said, with slow copies."""

    def __init__(self, sizes, tau, count=2):
        super().__init__()
        self.nets = nn.ModuleList(mlp(*sizes) for _ in range(count))
        self.slow = copy.deepcopy(self.nets).requires_grad_(False)
        self.tau = tau

    def forward(self, state, action):
        both = torch.cat([state, action], dim=-1)
        return [net(both).squeeze(-1) for net in self.nets]

    def target(self, state, action):
        both = torch.cat([state, action], dim=-1)
        return [net(both).squeeze(-1) for net in self.slow]

    def follow(self):
        with torch.no_grad():
            for slow, fast in zip(self.slow.parameters(), self.nets.parameters()):
                slow.lerp_(fast, self.tau)

    def freeze(self, frozen):
        self.nets.requires_grad_(not frozen)


def step(optimiser, loss):
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()


# Data.


def transitions(obs, action):
    """State, action, reward, violation and next state of made-up transitions; every tenth is a violation."""
    violation = torch.zeros(KEPT)
    violation[::10] = 1
    return (torch.randn(KEPT, obs), 2 * torch.rand(KEPT, action) - 1, torch.randn(KEPT), violation, torch.randn(KEPT, obs))


def draw(data, rows):
    index = torch.randint(len(data[0]), (rows,))
    return [column[index] for column in data]


# The updates.


def soft_actor_critic(adam, obs, action, actor=None, prior=None, min_critic=True, alpha=1.0, learn_alpha=True, value=None):
    """SAC: critics, actor, temperature, targets. With a prior, the penalty is the divergence from it, not log π; `value` is what
    a violation is worth, its reward if none."""
    actor = actor or mlp(obs, 256, 256, 2 * action)
    critics = Twin([obs + action, 256, 256, 1], 0.005)
    log_alpha = torch.tensor(math.log(alpha), requires_grad=learn_alpha)
    actor_adam, critic_adam = adam(actor.parameters(), 3e-4), adam(critics.nets.parameters(), 3e-4)
    alpha_adam = adam([log_alpha], 3e-4) if learn_alpha else None
    target_penalty = float(action) if prior is None else 5.0

    def choose(state):
        head = actor(state)
        if prior is None:
            return squashed(head)
        with torch.no_grad():
            anchor = prior(state)
        return sample(head).clamp(-2, 2), kl(head, anchor)

    def update(state, act, reward, violation, next_state):
        alpha = log_alpha.detach().exp()
        with torch.no_grad():
            choice, penalty = choose(next_state)
            soft = torch.minimum(*critics.target(next_state, choice)) - alpha * penalty
            ended = reward if value is None else torch.full_like(reward, value)
            wanted = torch.where(violation > 0, ended, reward + 0.99 * soft)
        step(critic_adam, sum(F.mse_loss(q, wanted) for q in critics(state, act)))
        critics.follow()
        critics.freeze(True)
        choice, penalty = choose(state)
        if min_critic:
            q = torch.minimum(*critics(state, choice))
        else:
            q = critics.nets[torch.randint(2, ()).item()](torch.cat([state, choice], dim=-1)).squeeze(-1)
        step(actor_adam, (alpha * penalty - q).mean())
        critics.freeze(False)
        if learn_alpha:
            step(alpha_adam, -log_alpha * (penalty.detach().mean() - target_penalty))

    learns = [actor, critics.nets] + ([log_alpha] if learn_alpha else [])
    return update, learns, actor


def sac(adam, obs, action, batch):
    data = transitions(obs, action)
    update, learns, _ = soft_actor_critic(adam, obs, action)
    return lambda: update(*draw(data, batch)), learns


def recovery_rl(adam, obs, action, batch):
    data = transitions(obs, action)
    positive = [column[data[3] > 0] for column in data]
    other = [column[data[3] == 0] for column in data]
    task, learns, actor = soft_actor_critic(adam, obs, action, alpha=0.2, learn_alpha=False)
    critics = Twin([obs + action, 256, 256, 1], 2e-4)
    recovery = mlp(obs, 256, 256, action)
    log_std = torch.full((action,), math.log(0.1), requires_grad=True)
    critic_adam = adam(critics.nets.parameters(), 3e-4)
    recovery_adam = adam([*recovery.parameters(), log_std], 3e-4)
    violating = int(0.3 * batch)

    def update():
        task(*draw(data, batch))
        parts = zip(draw(positive, violating), draw(other, batch - violating))
        state, act, _, cost, next_state = [torch.cat(part) for part in parts]
        with torch.no_grad():
            choice, _ = squashed(actor(next_state))
            risk = torch.sigmoid(torch.maximum(*critics.target(next_state, choice)))
            wanted = cost + (1 - cost) * 0.6 * risk
        step(critic_adam, sum(F.mse_loss(torch.sigmoid(q), wanted) for q in critics(state, act)))
        critics.follow()
        critics.freeze(True)
        mean = torch.tanh(recovery(state))
        choice = (mean + log_std.exp() * torch.randn_like(mean)).clamp(-1, 1)
        step(recovery_adam, torch.sigmoid(torch.maximum(*critics(state, choice))).mean())
        critics.freeze(False)
        with torch.no_grad():
            log_std.clamp_(min=math.log(1e-6))

    return update, [*learns, critics.nets, recovery, log_std]


def cpq(adam, obs, action, batch):
    data = transitions(obs, action)
    latent, sampled = 2 * action, 10
    limit = (1 - 0.99**1000) / ((1 - 0.99) * 1000)
    encoder, decoder = mlp(obs + action, 400, 400, 2 * latent), mlp(obs + latent, 400, 400, action)
    actor = mlp(obs, 256, 256, 2 * action)
    rewards, costs = (Twin([obs + action, 256, 256, 1], 0.005) for _ in range(2))
    vae_adam = adam([*encoder.parameters(), *decoder.parameters()], 1e-3)
    reward_adam, cost_adam = adam(rewards.nets.parameters(), 1e-3), adam(costs.nets.parameters(), 1e-3)
    actor_adam = adam(actor.parameters(), 1e-4)
    alpha = torch.zeros(())

    def encode(both):
        mean, log_std = encoder(both).chunk(2, dim=-1)
        return mean, log_std.clamp(-4, 15)

    def divergence(mean, log_std):
        return (0.5 * (mean**2 + (2 * log_std).exp() - 1) - log_std).mean(-1)

    def update():
        state, act, reward, cost, next_state = draw(data, batch)
        # The autoencoder.
        mean, log_std = encode(torch.cat([state, act], dim=-1))
        z = mean + log_std.exp() * torch.randn_like(mean)
        rebuilt = torch.tanh(decoder(torch.cat([state, z], dim=-1)))
        step(vae_adam, F.mse_loss(rebuilt, act) + 0.5 * divergence(mean, log_std).mean())
        # Reward critics.
        with torch.no_grad():
            choice, _ = squashed(actor(next_state))
            next_cost = torch.maximum(*costs.target(next_state, choice))
            next_value = torch.minimum(*rewards.target(next_state, choice))
            goes_on = (cost == 0) & (next_cost <= limit)
            wanted = 0.1 * reward + 0.99 * goes_on * next_value
            wanted_cost = cost + 0.99 * (1 - cost) * next_cost.clamp(0, 1)
        step(reward_adam, sum(F.mse_loss(q, wanted) for q in rewards(state, act)))
        rewards.follow()
        # Cost critics, pushed up on actions out of distribution. The actor's head serves its own loss, too.
        head = actor(state)
        with torch.no_grad():
            states = state.repeat(sampled, 1)
            choices, _ = squashed(head.repeat(sampled, 1))
            unlike = divergence(*encode(torch.cat([states, choices], dim=-1)))
            outside = unlike >= torch.quantile(unlike, 0.75)
            states, choices = states[outside], choices[outside]
        loss = sum(F.mse_loss(q, wanted_cost) for q in costs(state, act))
        pushed = costs(states, choices)
        loss = loss - alpha * sum(q.clamp(max=1.5 * limit).sum() for q in pushed) / (sampled * batch)
        step(cost_adam, loss)
        costs.follow()
        with torch.no_grad():
            below = 1.5 * limit - 0.5 * (pushed[0] + pushed[1]).mean()
            alpha.add_(1e-4 * below * len(states) / (sampled * batch)).clamp_(0, 0.2)
        # Actor.
        rewards.freeze(True)
        costs.freeze(True)
        choice, _ = squashed(head)
        q, q_cost = torch.minimum(*rewards(state, choice)), torch.maximum(*costs(state, choice))
        climbs = q_cost.detach() <= limit
        step(actor_adam, torch.where(climbs, -q, q.detach().abs().mean() * q_cost).mean())
        rewards.freeze(False)
        costs.freeze(False)

    return update, [encoder, decoder, actor, rewards.nets, costs.nets]


class EnsembleLinear(nn.Module):
    """A linear layer of every member at once."""

    def __init__(self, members, inputs, outputs):
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter(torch.empty(members, inputs, outputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(members, 1, outputs).uniform_(-bound, bound))

    def forward(self, x):
        return torch.baddbmm(self.bias, x, self.weight)


def smbpo_model(adam, obs, action, batch):
    data = transitions(obs, action)
    members, width, outputs = 5, 200, obs + 1
    centre, scale = data[0].mean(0), data[0].std(0)

    def layer(inputs, outputs):
        return EnsembleLinear(members, inputs, outputs)

    trunk = nn.Sequential(layer(obs + action, width), nn.ReLU(), layer(width, width), nn.ReLU())
    mean_head, raw_head = (nn.Sequential(layer(width, width), nn.ReLU(), layer(width, outputs)) for _ in range(2))
    greatest = torch.full((outputs,), 1.0, requires_grad=True)
    least = torch.full((outputs,), -10.0, requires_grad=True)
    learns = [trunk, mean_head, raw_head, greatest, least]
    optimiser = adam(parameters(learns), 1e-3)

    def update():
        index = torch.randint(KEPT, (members, batch))
        state, act, reward, _, next_state = [column[index] for column in data]
        hidden = trunk(torch.cat([(state - centre) / scale, act], dim=-1))
        wanted = torch.cat([next_state - state, reward.unsqueeze(-1)], dim=-1)
        mean, log_var = mean_head(hidden), raw_head(hidden)
        log_var = greatest - F.softplus(greatest - log_var)
        log_var = least + F.softplus(log_var - least)
        loss = ((wanted - mean) ** 2 * (-log_var).exp() + log_var).sum(-1).mean()
        step(optimiser, loss + 0.01 * (greatest.sum() - least.sum()))

    return update, learns


def smbpo_policy(adam, obs, action, batch):
    real, imagined = transitions(obs, action), transitions(obs, action)
    count = int(0.1 * batch)
    update, learns, _ = soft_actor_critic(adam, obs, action, min_critic=False, value=-100.0)

    def both():
        parts = zip(draw(real, count), draw(imagined, batch - count))
        return [torch.cat(part) for part in parts]

    return lambda: update(*both()), learns


def skill_prior(obs, dim):
    return mlp(obs, 128, 128, 128, 2 * dim)


def sskp_policy(adam, obs, action, batch):
    dim = 10
    data = transitions(obs, dim)
    prior = skill_prior(obs, dim).requires_grad_(False)
    actor = copy.deepcopy(prior).requires_grad_(True)
    update, learns, _ = soft_actor_critic(adam, obs, dim, actor=actor, prior=prior)
    return lambda: update(*draw(data, batch)), learns


def sskp_risk(adam, obs, action, batch):
    dim, class_prior = 10, 0.1
    sets = [torch.randn(KEPT, obs) for _ in range(2)]
    prior, net = skill_prior(obs, dim), mlp(obs + dim, 256, 256, 1)
    optimiser = adam(net.parameters(), 3e-4, weight_decay=1e-4)

    def update():
        state = torch.cat([states[torch.randint(KEPT, (batch,))] for states in sets])
        with torch.no_grad():
            skill = sample(prior(state))
        logits = net(torch.cat([state, skill], dim=-1)).squeeze(-1).clamp(-10, 10)
        positive, unlabelled = logits[:batch], logits[batch:]
        negative = F.softplus(unlabelled).mean() - class_prior * F.softplus(positive).mean()
        step(optimiser, class_prior * F.softplus(-positive).mean() + negative.clamp(min=0))

    return update, [net]


def sskp_skills(adam, obs, action, batch):
    dim, horizon, hidden, beta = 10, 10, 128, 5e-4
    windows = 2 * torch.rand(KEPT, horizon, action) - 1
    starts = torch.randn(KEPT, obs)
    encoder, encoder_head = nn.LSTM(action, hidden), nn.Linear(hidden, 2 * dim)
    decoder, decoder_head = nn.LSTMCell(action + dim, hidden), nn.Linear(hidden, action)
    prior = skill_prior(obs, dim)
    first = [torch.zeros(size, requires_grad=True) for size in (hidden, hidden, action)]
    # A second vector of biases has no effect that the first has not.
    for bias in (encoder.bias_hh_l0, decoder.bias_hh):
        nn.init.zeros_(bias).requires_grad_(False)
    learns = [encoder, encoder_head, decoder, decoder_head, prior, *first]
    optimiser = adam(parameters(learns), 1e-3)

    def update():
        index = torch.randint(KEPT, (batch,))
        actions, state = windows[index].transpose(0, 1), starts[index]
        head = encoder_head(encoder(actions)[0][-1])
        z = sample(head)
        h, c, last = (start.expand(batch, -1) for start in first)
        rebuilt = []
        for _ in range(horizon):
            h, c = decoder(torch.cat([last, z], dim=-1), (h, c))
            last = decoder_head(h)
            rebuilt.append(last)
        mean, log_std = split(prior(state))
        log_prob = -0.5 * ((z.detach() - mean) / log_std.exp()) ** 2 - log_std - 0.5 * math.log(2 * math.pi)
        loss = 0.5 * F.mse_loss(torch.stack(rebuilt), actions)
        loss = loss + beta * kl(head, torch.zeros_like(head)).mean() / dim - log_prob.sum(-1).mean()
        step(optimiser, loss)

    return update, learns


def sskp_plus_steps(adam, obs, action, batch):
    """Two updates of the critics of single steps, and one of the decoder."""
    dim, gamma, risk_gamma, price, hold, follow, tau = 10, 0.996, 0.992, 5.0, 0.1, 2e-4, 5e-3
    near_cost, near_decay = 8.0, 0.03
    data = transitions(obs, action)
    violating = 2 + torch.randn(59, obs)
    policy, decoder = skill_prior(obs, dim), mlp(obs + dim, 128, 128, action)
    reference, slow = (copy.deepcopy(decoder).requires_grad_(False) for _ in range(2))
    critics, risk = Twin((obs + action, 256, 256, 1), tau, 4), mlp(obs + action, 256, 256, 1)
    slow_risk = copy.deepcopy(risk).requires_grad_(False)
    near = nn.Linear(2 * obs, 1)
    optimisers = [adam(parameters([net]), 1e-3) for net in (critics.nets, risk, near)]
    optimisers.append(adam(decoder.parameters(), 1e-4))

    def both(a, b):
        return torch.cat([a, b], dim=-1)

    def doubtful(values, doubt):
        values = torch.stack(values)
        return values.mean(0) - doubt * values.std(0, unbiased=False)

    def nearness(state):
        state = state.clamp(-10, 10)
        return near(both(state, 0.5 * state.square())).squeeze(-1)

    def learn_nearness(state):
        others = F.softplus(nearness(state)).mean()
        found = F.softplus(-nearness(violating[torch.randint(len(violating), (32,))])).mean()
        step(optimisers[2], 0.5 * (others + found) + 0.5 * near_decay * near.weight.square().sum())

    def learn_critics():
        state, played, reward, violation, after = draw(data, batch)
        goes_on = 1 - violation
        learn_nearness(state)
        with torch.no_grad():
            noise = (0.1 * torch.randn(batch, action)).clamp(-0.25, 0.25)
            chosen = (slow(both(after, sample(policy(after)))).clamp(-1, 1) + noise).clamp(-1, 1)
            value = gamma**3 * goes_on * doubtful(critics.target(after, chosen), 1.0)
            value = reward - 3 * near_cost * nearness(after).sigmoid() + value
            chance = violation + risk_gamma**3 * goes_on * slow_risk(both(after, chosen)).squeeze(-1).sigmoid()
        step(optimisers[0], sum(F.mse_loss(q, value) for q in critics(state, played)))
        logits = risk(both(state, played)).squeeze(-1)
        step(optimisers[1], F.binary_cross_entropy_with_logits(logits, chance))
        critics.follow()
        with torch.no_grad():
            for target, net in zip(slow_risk.parameters(), risk.parameters()):
                target.lerp_(net, tau)
        return state

    def update():
        learn_critics()
        state = learn_critics()
        critics.freeze(True)
        risk.requires_grad_(False)
        with torch.no_grad():
            skilled = both(state, sample(policy(state)))
            anchor = reference(skilled)
        out = decoder(skilled)
        acted = out.clamp(-1, 1)
        danger = (risk(both(state, acted)).squeeze(-1).sigmoid() - 0.01).clamp(min=0)
        gain = (1 - gamma) * doubtful(critics(state, acted), 1.6)
        step(optimisers[3], (price * danger - gain + hold * (out - anchor).square().sum(-1)).mean())
        critics.freeze(False)
        risk.requires_grad_(True)
        with torch.no_grad():
            for target, rate in ((slow, tau), (reference, follow)):
                for a, b in zip(target.parameters(), decoder.parameters()):
                    a.lerp_(b, rate)

    return update, [critics.nets, risk, near, decoder]


ROWS = [sac, recovery_rl, cpq, smbpo_model, smbpo_policy, sskp_policy, sskp_risk, sskp_skills, sskp_plus_steps]


# Measuring.


def parameters(learns):
    """Of modules and parameters, those that learn."""
    of = [part.parameters() if isinstance(part, nn.Module) else [part] for part in learns]
    return [parameter for part in of for parameter in part if parameter.requires_grad]


def milliseconds(update, seconds):
    for _ in range(WARM_UPDATES):
        update()
    times, begin = [], time.perf_counter()
    while not times or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        update()
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


def main():
    rows = {row.__name__.replace("_", "-"): row for row in ROWS}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--row", required=True, choices=rows)
    parser.add_argument("--obs", type=int, required=True)
    parser.add_argument("--action", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=1.0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    result = {"row": arguments.row, "batch": arguments.batch}
    for key, fused in (("ms_per_update", None), ("ms_per_update_fused", True)):

        def adam(learnt, rate, **settings):
            return torch.optim.Adam(learnt, lr=rate, fused=fused, **settings)

        update, learns = rows[arguments.row](adam, arguments.obs, arguments.action, arguments.batch)
        result["parameters"] = sum(parameter.numel() for parameter in parameters(learns))
        result[key] = milliseconds(update, arguments.seconds)
    result["versions"] = f"torch {torch.__version__}, python {platform.python_version()}"
    print(json.dumps(result))


if __name__ == "__main__":
    main()

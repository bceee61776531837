//! Plays many members of a population at once, a robot each: the prior of the skills is frozen, the decoders are handed in.
//!
//! Networks are padded to the largest robot, so that all members have the same shapes on the GPU.

use std::collections::VecDeque;

use rayon::prelude::*;
use sskp_blocks::env::{End, Env};
use sskp_blocks::rng::Rng;

const OBS: usize = 45;
const ACTION: usize = 17;
const SKILL: usize = 10;
const WIDTH: usize = 128;
const HORIZON: usize = 10;
/// `[s, a, R, d, y, e, s_n]`, as in `crates/methods/src/sskp_plus/steps.rs`.
const ROW: usize = 2 * OBS + ACTION + 4;
const DECODER: usize = (OBS + SKILL + 1) * WIDTH + (WIDTH + 1) * WIDTH + (WIDTH + 1) * ACTION;
const PRIOR: usize = (OBS + 1) * WIDTH + 2 * (WIDTH + 1) * WIDTH + (WIDTH + 1) * 2 * SKILL;
/// Per member: spread, noise, γ, γ_c, n, bound of skills, cost of a violation.
const SETTINGS: usize = 7;
/// Per member: reward, violations.
const STATS: usize = 2;
const ROBOTS: usize = 4;

struct Member {
    env: Box<dyn Env>,
    robot: usize,
    obs: usize,
    action: usize,
    starts: Rng,
    rng: Rng,
    state: [f32; OBS],
    skill: [f32; SKILL],
    /// Steps left of the skill.
    left: usize,
    over: bool,
    /// Steps whose next n are not complete yet.
    waiting: VecDeque<([f32; OBS], [f32; ACTION], f32)>,
    /// Rows to be handed out: as many a call as steps were played.
    rows: VecDeque<[f32; ROW]>,
    last: [f32; ROW],
}

/// A population.
pub struct Farm {
    members: Vec<Member>,
    shift: Vec<f32>,
    scale: Vec<f32>,
    pool: rayon::ThreadPool,
}

fn layer(x: &[f32], weights: &[f32], bias: &[f32], out: &mut [f32], relu: bool) {
    let n = out.len();
    out.copy_from_slice(bias);
    for (x, row) in x.iter().zip(weights.chunks_exact(n)).filter(|(x, _)| **x != 0.0) {
        out.iter_mut().zip(row).for_each(|(y, w)| *y += x * w);
    }
    if relu {
        out.iter_mut().for_each(|y| *y = y.max(0.0));
    }
}

fn forward(x: &[f32], params: &[f32], hidden: usize, out: &mut [f32]) {
    let mut a = [0.0; WIDTH];
    let (mut at, mut inputs) = (0, x.len());
    for l in 0..hidden {
        let (weights, rest) = params[at..].split_at(inputs * WIDTH);
        let before = a;
        layer(if l == 0 { x } else { &before }, weights, &rest[..WIDTH], &mut a, true);
        at += (inputs + 1) * WIDTH;
        inputs = WIDTH;
    }
    let (weights, rest) = params[at..].split_at(WIDTH * out.len());
    let n = out.len();
    layer(&a, weights, &rest[..n], out, false);
}

impl Member {
    fn look(&mut self, shift: &[f32], scale: &[f32]) {
        for i in 0..self.obs {
            self.state[i] = ((self.env.obs()[i] as f32 - shift[i]) * scale[i]).clamp(-10.0, 10.0);
        }
    }

    /// The oldest step that waits becomes a row.
    fn emit(&mut self, gamma: f32, risk_gamma: f32, violated: bool) {
        let steps = self.waiting.len() as i32;
        let rewards = self.waiting.iter().rev();
        let reward = rewards.fold(0.0, |sum, (_, _, r)| f64::from(*r) + f64::from(gamma) * sum);
        let (s, a, _) = self.waiting.pop_front().expect("a step");
        let numbers = match violated {
            true => [reward as f32, 0.0, risk_gamma.powi(steps - 1), 0.0],
            false => [reward as f32, gamma.powi(steps), 0.0, risk_gamma.powi(steps)],
        };
        let mut row = [0.0; ROW];
        row[..OBS].copy_from_slice(&s);
        row[OBS..][..ACTION].copy_from_slice(&a);
        row[OBS + ACTION..][..4].copy_from_slice(&numbers);
        row[OBS + ACTION + 4..].copy_from_slice(&self.state);
        self.rows.push_back(row);
    }

    fn step(&mut self, shift: &[f32], scale: &[f32], prior: &[f32], decoder: &[f32], settings: &[f32], stats: &mut [f32]) {
        let [spread, noise, gamma, risk_gamma, n, bound, cost] = settings.try_into().expect("the settings of a member");
        if self.over {
            self.env.reset(&mut self.starts).expect("a start");
            self.look(shift, scale);
            (self.over, self.left) = (false, 0);
        }
        if self.left == 0 {
            let (mut head, mut draw) = ([0.0; 2 * SKILL], [0.0; SKILL]);
            forward(&self.state, prior, 3, &mut head);
            self.rng.fill_normal(&mut draw);
            for i in 0..SKILL {
                let deviation = head[SKILL + i].clamp(-20.0, 2.0).exp();
                self.skill[i] = (head[i] + spread * deviation * draw[i]).clamp(-bound, bound);
            }
            self.left = HORIZON;
        }
        self.left -= 1;
        let mut input = [0.0; OBS + SKILL];
        input[..OBS].copy_from_slice(&self.state);
        input[OBS..].copy_from_slice(&self.skill);
        let (mut action, mut draw) = ([0.0; ACTION], [0.0; ACTION]);
        forward(&input, decoder, 2, &mut action);
        self.rng.fill_normal(&mut draw[..self.action]);
        for i in 0..ACTION {
            let played = (action[i].clamp(-1.0, 1.0) + noise * draw[i]).clamp(-1.0, 1.0);
            action[i] = if i < self.action { played } else { 0.0 };
        }
        let before = self.state;
        let step = self.env.step(&action[..self.action]).expect("a step");
        self.look(shift, scale);
        let violated = step.end == Some(End::Violation);
        stats[0] += step.reward as f32;
        stats[1] += f32::from(u8::from(violated));
        self.waiting.push_back((before, action, step.reward as f32 - if violated { cost } else { 0.0 }));
        if step.end.is_some() {
            self.over = true;
            while !self.waiting.is_empty() {
                self.emit(gamma, risk_gamma, violated);
            }
        } else if self.waiting.len() == n as usize {
            self.emit(gamma, risk_gamma, false);
        }
    }
}

/// A population of `n` members.
///
/// # Safety
/// `robots` and `seeds` point to `n` numbers, `shift` and `scale` to those of all robots.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farm_new(
    n: usize,
    robots: *const i32,
    seeds: *const u64,
    shift: *const f32,
    scale: *const f32,
    threads: usize,
) -> *mut Farm {
    // SAFETY: the caller's word.
    let (robots, seeds) = unsafe { (std::slice::from_raw_parts(robots, n), std::slice::from_raw_parts(seeds, n)) };
    let read = |from: *const f32| unsafe { std::slice::from_raw_parts(from, ROBOTS * OBS).to_vec() };
    let entries = sskp_robots::robots();
    let member = |(robot, seed): (&i32, &u64)| {
        let env = entries[*robot as usize].make(Default::default()).expect("a robot");
        Member {
            robot: *robot as usize,
            obs: env.spec().obs_dim,
            action: env.spec().action_dim,
            env,
            starts: Rng::stream(*seed, "env"),
            rng: Rng::stream(*seed, "farm"),
            state: [0.0; OBS],
            skill: [0.0; SKILL],
            left: 0,
            over: true,
            waiting: VecDeque::new(),
            rows: VecDeque::new(),
            last: [0.0; ROW],
        }
    };
    Box::into_raw(Box::new(Farm {
        members: robots.iter().zip(seeds).map(member).collect(),
        shift: read(shift),
        scale: read(scale),
        pool: rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads"),
    }))
}

/// Plays `steps` of every member. The last n rows of a member come with a later call; the first call repeats rows in their place.
///
/// # Safety
/// All pointers are to arrays of the population's size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farm_play(
    farm: *mut Farm,
    steps: usize,
    decoders: *const f32,
    priors: *const f32,
    settings: *const f32,
    rows: *mut f32,
    stats: *mut f32,
) {
    // SAFETY: the caller's word.
    let Farm { members, shift, scale, pool } = unsafe { &mut *farm };
    let n = members.len();
    let (decoders, priors, settings) = unsafe {
        (
            std::slice::from_raw_parts(decoders, n * DECODER),
            std::slice::from_raw_parts(priors, ROBOTS * PRIOR),
            std::slice::from_raw_parts(settings, n * SETTINGS),
        )
    };
    let (rows, stats) = unsafe {
        (std::slice::from_raw_parts_mut(rows, n * steps * ROW), std::slice::from_raw_parts_mut(stats, n * STATS))
    };
    pool.install(|| {
        let out = rows.par_chunks_mut(steps * ROW).zip(stats.par_chunks_mut(STATS));
        let given = decoders.par_chunks(DECODER).zip(settings.par_chunks(SETTINGS));
        members.par_iter_mut().zip(out).zip(given).with_max_len(1).for_each(
            |((member, (rows, stats)), (decoder, settings))| {
                let of = |all: &[f32], size: usize| all[member.robot * size..][..size].to_vec();
                let (shift, scale, prior) = (of(shift, OBS), of(scale, OBS), of(priors, PRIOR));
                stats.fill(0.0);
                for _ in 0..steps {
                    member.step(&shift, &scale, &prior, decoder, settings, stats);
                }
                for row in rows.chunks_exact_mut(ROW) {
                    member.last = member.rows.pop_front().unwrap_or(member.last);
                    row.copy_from_slice(&member.last);
                }
            },
        );
    });
}

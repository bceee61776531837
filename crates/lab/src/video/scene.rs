//! What is seen through a lens: one ray through every pixel, more where neighbours see different things, and of the robot only what may be there.

use std::sync::LazyLock;

use super::shapes::{Placed, V, add, cross, dot, mix, scale, sub, unit};

/// Rays through a pixel at an edge, in each direction.
const FINE: usize = 3;
/// Side of the squares, in pixels, that know which shapes may be seen in them.
const BLOCK: usize = 16;
/// Rays that are shorter meet what they come from.
const OFF: f32 = 2e-3;
const SKY: V = [0.25, 0.42, 0.66];
const HAZE: V = [0.66, 0.70, 0.72];
/// Metres.
const TILE: f32 = 0.5;
const TILES: [V; 2] = [[0.235, 0.25, 0.265], [0.36, 0.37, 0.375]];
/// How much of what is behind a faint robot is hidden by it.
const FAINT: f32 = 0.28;

static SUN: LazyLock<V> = LazyLock::new(|| unit([-0.42, -0.62, 1.0]));

/// An eye and what it looks at, in pixels.
pub struct Lens {
    eye: V,
    back: V,
    across: V,
    up: V,
    /// Half of the picture at a distance of one.
    half: [f32; 2],
    size: [usize; 2],
}

impl Lens {
    pub fn new(eye: V, centre: V, opening: f32, width: usize, height: usize) -> Self {
        let back = unit(sub(eye, centre));
        let across = unit(cross([0.0, 0.0, 1.0], back));
        let high = (opening / 2.0).tan();
        let half = [high * width as f32 / height as f32, high];
        Self { eye, back, across, up: cross(back, across), half, size: [width, height] }
    }

    /// The way of the ray through a place of the picture.
    fn ray(&self, x: f32, y: f32) -> V {
        let [w, h] = self.size.map(|n| n as f32);
        let (sx, sy) = ((2.0 * x / w - 1.0) * self.half[0], (1.0 - 2.0 * y / h) * self.half[1]);
        unit(sub(add(scale(self.across, sx), scale(self.up, sy)), self.back))
    }

    /// Blocks in which some of the balls' hull may be seen: the first and the one after the last, across and down.
    fn blocks(&self, balls: [(V, f32); 2]) -> [[usize; 2]; 2] {
        let mut least = [f32::INFINITY; 2];
        let mut most = [f32::NEG_INFINITY; 2];
        for (centre, radius) in balls {
            let p = sub(centre, self.eye);
            let (z, sides) = (-dot(p, self.back), [dot(p, self.across), -dot(p, self.up)]);
            for k in 0..2 {
                let n = self.size[k] as f32;
                // A ball around the eye, or one that is nowhere, may be anywhere.
                let [mut low, mut high] = [0.0, n];
                if z > 1.01 * radius {
                    let root = radius * (sides[k] * sides[k] + z * z - radius * radius).sqrt();
                    [low, high] = [-root, root].map(|r| {
                        let slope = (sides[k] * z + r) / (z * z - radius * radius);
                        (slope / self.half[k] + 1.0) / 2.0 * n
                    });
                }
                least[k] = least[k].min(low - 1.0);
                most[k] = most[k].max(high + 1.0);
            }
        }
        [0, 1].map(|k| {
            let block = |x: f32| x.clamp(0.0, self.size[k] as f32) as usize;
            [block(least[k]) / BLOCK, block(most[k]).div_ceil(BLOCK)]
        })
    }
}

/// What may be seen in a block.
#[derive(Clone, Default)]
pub struct Near {
    solid: Vec<usize>,
    /// What may throw a shadow on the ground there.
    shading: Vec<usize>,
    ghosts: Vec<(usize, usize)>,
}

/// Everything that is there at one moment.
pub struct Scene {
    /// Shape, colour, and whether it is part of the robot.
    pub solid: Vec<(Placed, V, bool)>,
    pub ghosts: Vec<(Vec<Placed>, V)>,
    pub floor: Option<f32>,
    pub lens: Lens,
    pub centre: V,
    pub reach: f32,
    pub fade: f32,
}

impl Scene {
    /// Red, green and blue of every pixel, by what may be seen in each block.
    pub fn expose(&self, blocks: &[Near]) -> Vec<u8> {
        let [width, height] = self.lens.size;
        let across = width.div_ceil(BLOCK);
        let of = |x: usize, y: usize| &blocks[y / BLOCK * across + x / BLOCK];
        let all: Vec<usize> = (0..self.solid.len()).filter(|i| self.solid[*i].2).collect();
        let mut seen = Vec::with_capacity(width * height);
        for y in 0..height {
            seen.extend((0..width).map(|x| {
                let ray = self.lens.ray(x as f32 + 0.5, y as f32 + 0.5);
                self.light(ray, of(x, y), &all)
            }));
        }
        let mut rgb = Vec::with_capacity(3 * width * height);
        for y in 0..height {
            for x in 0..width {
                let (mut light, thing) = seen[y * width + x];
                let (left, right) = (x.saturating_sub(1), (x + 1).min(width - 1));
                let mut rows = [y.saturating_sub(1), y, (y + 1).min(height - 1)].into_iter();
                if rows.any(|y| seen[y * width + left..=y * width + right].iter().any(|other| other.1 != thing)) {
                    let mut sum = [0.0; 3];
                    for k in 0..FINE * FINE {
                        let [dx, dy] = [k % FINE, k / FINE].map(|i| (i as f32 + 0.5) / FINE as f32);
                        sum = add(sum, self.light(self.lens.ray(x as f32 + dx, y as f32 + dy), of(x, y), &all).0);
                    }
                    light = scale(sum, 1.0 / (FINE * FINE) as f32);
                }
                rgb.extend(light.map(developed));
            }
        }
        rgb
    }

    /// What may be seen in each block, row by row.
    pub fn blocks(&self) -> Vec<Near> {
        let [across, down] = self.lens.size.map(|n| n.div_ceil(BLOCK));
        let mut blocks = vec![Near::default(); across * down];
        let mut each = |balls: [(V, f32); 2], put: &dyn Fn(&mut Near)| {
            let [x, y] = self.lens.blocks(balls);
            for row in y[0]..y[1] {
                blocks[row * across + x[0]..row * across + x[1]].iter_mut().for_each(put);
            }
        };
        for (i, (placed, _, robot)) in self.solid.iter().enumerate() {
            each(placed.balls(), &|near| near.solid.push(i));
            if let (Some(floor), true) = (self.floor, robot) {
                // Light falls aslant: a ball's shadow is an ellipse on the ground, inside of a larger ball.
                let fallen = placed.balls().map(|(at, radius)| {
                    let down = (at[2] - floor) / SUN[2];
                    (sub(at, scale(*SUN, down)), radius / SUN[2] + OFF)
                });
                each(fallen, &|near| near.shading.push(i));
            }
        }
        for (g, (shapes, _)) in self.ghosts.iter().enumerate() {
            for (i, placed) in shapes.iter().enumerate() {
                each(placed.balls(), &|near| near.ghosts.push((g, i)));
            }
        }
        blocks
    }

    /// As [`Scene::blocks`], when nobody looks where anything is.
    #[cfg(test)]
    pub fn everything_everywhere(&self) -> Vec<Near> {
        let solid: Vec<usize> = (0..self.solid.len()).collect();
        let ghosts = self.ghosts.iter().enumerate().flat_map(|(g, (all, _))| (0..all.len()).map(move |i| (g, i)));
        let shading = solid.iter().copied().filter(|i| self.solid[*i].2).collect();
        let near = Near { shading, ghosts: ghosts.collect(), solid };
        vec![near; self.blocks().len()]
    }

    /// The light that comes along a ray to the eye, and a number that is another one where something else is seen.
    fn light(&self, along: V, near: &Near, all: &[usize]) -> (V, u64) {
        let hit = |placed: &Placed| placed.hit(self.lens.eye, along);
        let nearest = near
            .solid
            .iter()
            .filter_map(|i| hit(&self.solid[*i].0).map(|(t, n)| (t, n, *i)))
            .min_by(|a, b| a.0.total_cmp(&b.0));
        let ground = self.floor.map(|z| (z - self.lens.eye[2]) / along[2]).filter(|t| *t > 0.0 && t.is_finite());
        let (depth, mut light, mut thing) = match (nearest, ground) {
            (Some((t, n, i)), ground) if ground.is_none_or(|g| t < g) => {
                let (_, colour, robot) = self.solid[i];
                let at = add(self.lens.eye, scale(along, t));
                let colour = if robot { colour } else { self.tiled(t, along, n, [scale(colour, 0.85), colour]) };
                let (light, lit) = self.shaded(at, along, n, colour, if robot { 0.22 } else { 0.03 }, all);
                (t, light, 2 * (i as u64 + 2) + u64::from(lit))
            }
            (_, Some(t)) => {
                let (at, up) = (add(self.lens.eye, scale(along, t)), [0.0, 0.0, 1.0]);
                let colour = self.tiled(t, along, up, TILES);
                let (light, lit) = self.shaded(at, along, up, colour, 0.02, &near.shading);
                (t, light, 2 + u64::from(lit))
            }
            _ => (f32::INFINITY, sky(along), 0),
        };
        // Shapes of one faint robot follow one another.
        for ghost in near.ghosts.chunk_by(|a, b| a.0 == b.0) {
            let (shapes, colour) = &self.ghosts[ghost[0].0];
            let met = ghost.iter().filter_map(|(_, i)| hit(&shapes[*i]).map(|(t, n)| (t, n, *i)));
            let nearest = met.min_by(|a, b| a.0.total_cmp(&b.0)).filter(|met| met.0 < depth);
            if let Some((t, n, i)) = nearest {
                let at = add(self.lens.eye, scale(along, t));
                light = mix(light, self.shaded(at, along, n, *colour, 0.1, all).0, FAINT);
                thing = thing.wrapping_mul(1009).wrapping_add((ghost[0].0 * 64 + i + 1) as u64);
            }
        }
        (light, thing)
    }

    /// A chequered ground, whose squares fade into one another far away. Each pixel has the mean of the squares in it, so that one ray is enough.
    fn tiled(&self, t: f32, along: V, n: V, [a, b]: [V; 2]) -> V {
        if n[2] < 0.5 {
            return scale(a, 0.6);
        }
        let lens = &self.lens;
        // How far the point goes on level ground when the ray goes a pixel to the side, and when it goes one down.
        let pixel = 2.0 * lens.half[1] / lens.size[1] as f32 * t * -dot(along, lens.back);
        let [right, down] = [lens.across, lens.up].map(|side| {
            let level = sub(side, scale(along, side[2] / along[2].abs().max(1e-6).copysign(along[2])));
            scale(level, pixel)
        });
        let at = add(lens.eye, scale(along, t));
        // The mean of +1 and -1, one after the other, over a pixel's width.
        let mean = |k: usize| {
            let (p, wide) = (at[k] / TILE, ((right[k].abs() + down[k].abs()) / TILE).max(1e-4));
            let wave = |p: f32| ((p / 2.0).rem_euclid(1.0) - 0.5).abs();
            2.0 * (wave(p - wide / 2.0) - wave(p + wide / 2.0)) / wide
        };
        let clear = (-t * t / (0.8 * self.fade).powi(2)).exp();
        mix(a, b, 0.5 - 0.5 * mean(0) * mean(1) * clear)
    }

    /// The light of a point, and whether the sun reaches it past those that may stand between.
    fn shaded(&self, at: V, along: V, n: V, colour: V, shine: f32, between: &[usize]) -> (V, bool) {
        let mut direct = dot(n, *SUN).max(0.0);
        let away = sub(at, self.centre);
        if direct > 0.0 && dot(away, away).sqrt() < 4.0 * self.reach {
            let from = add(at, scale(n, OFF));
            if between.iter().any(|i| self.solid[*i].0.hit(from, *SUN).is_some()) {
                direct = 0.0;
            }
        }
        let above = mix([0.20, 0.18, 0.16], [0.35, 0.39, 0.45], 0.5 + 0.5 * n[2]);
        let sum = add(scale([1.0; 3], 1.2 * direct), above);
        let mut light = [colour[0] * sum[0], colour[1] * sum[1], colour[2] * sum[2]];
        let half_way = unit(sub(*SUN, along));
        light = add(light, [direct * shine * dot(n, half_way).max(0.0).powi(48); 3]);
        let flat = sub(at, self.lens.eye);
        let far = 1.0 - (-(flat[0] * flat[0] + flat[1] * flat[1]) / self.fade.powi(2)).exp();
        (mix(light, HAZE, far), direct > 0.0)
    }
}

fn sky(along: V) -> V {
    let z = (along[2] / 0.5).clamp(0.0, 1.0);
    mix(HAZE, SKY, (z * z * (3.0 - 2.0 * z)).powf(0.6))
}

/// Light that is white whatever follows.
const WHITE: f32 = 7.3;

/// Light to a byte: a film's curve, then the screen's. Looked up by the light's root, since the dark end is the steep one.
fn developed(light: f32) -> u8 {
    static CURVE: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let byte = |i: usize| {
            let x = WHITE * (i as f32 / 4095.0).powi(2);
            let film = (x * (2.51 * x + 0.03) / (x * (2.43 * x + 0.59) + 0.14)).clamp(0.0, 1.0);
            (255.0 * film.powf(1.0 / 2.2)).round() as u8
        };
        (0..4096).map(byte).collect()
    });
    CURVE[((light / WHITE).clamp(0.0, 1.0).sqrt() * 4095.0).round() as usize]
}

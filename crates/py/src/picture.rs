//! A plain picture of a robot, ray by ray: for `render_mode="rgb_array"` without any graphics library. The replay page is prettier.

use sskp::blocks::env::{Geom, Pose, Shape};

type V = [f32; 3];

fn sub(a: V, b: V) -> V {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}
fn along(a: V, d: V, t: f32) -> V {
    [a[0] + d[0] * t, a[1] + d[1] * t, a[2] + d[2] * t]
}
fn dot(a: V, b: V) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}
fn unit(a: V) -> V {
    let length = dot(a, a).sqrt().max(1e-9);
    a.map(|x| x / length)
}
fn cross(a: V, b: V) -> V {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}
/// Rotates by a quaternion (w, x, y, z).
fn turn(q: [f32; 4], v: V) -> V {
    let axis = [q[1], q[2], q[3]];
    let t = cross(axis, v).map(|x| 2.0 * x);
    let u = cross(axis, t);
    [v[0] + q[0] * t[0] + u[0], v[1] + q[0] * t[1] + u[1], v[2] + q[0] * t[2] + u[2]]
}
fn turn_back(q: [f32; 4], v: V) -> V {
    turn([q[0], -q[1], -q[2], -q[3]], v)
}

/// Where one looks from, and at what.
pub struct Camera {
    from: V,
    at: V,
}

/// Towards the light.
const LIGHT: V = [0.35, -0.6, 0.72];
const SKY: V = [0.80, 0.87, 0.94];

impl Camera {
    /// Beside the robot, at the height of its middle; planes and what is longer than two metres are its ground.
    pub fn following(geoms: &[Geom], poses: &[Pose]) -> Self {
        let moving: Vec<V> = geoms
            .iter()
            .zip(poses)
            .filter(|(g, _)| g.shape != Shape::Plane && g.size.iter().all(|s| *s <= 1.0))
            .map(|(_, p)| p.pos)
            .collect();
        let n = moving.len().max(1) as f32;
        let at = moving.iter().fold([0.0; 3], |sum, p| along(sum, *p, 1.0)).map(|x| x / n);
        Self { from: along(at, [0.6, -3.6, 0.9], 1.0), at }
    }

    /// The picture, `height` rows of `width` pixels of red, green and blue.
    pub fn draw(&self, geoms: &[Geom], poses: &[Pose], width: usize, height: usize) -> Vec<u8> {
        let forward = unit(sub(self.at, self.from));
        let right = unit(cross(forward, [0.0, 0.0, 1.0]));
        let up = cross(right, forward);
        let half = 0.5 * width.min(height) as f32;
        let mut pixels = Vec::with_capacity(width * height * 3);
        for y in 0..height {
            for x in 0..width {
                let (dx, dy) =
                    ((x as f32 + 0.5 - 0.5 * width as f32) / half, (0.5 * height as f32 - y as f32 - 0.5) / half);
                let ray = unit(along(along(forward, right, 0.45 * dx), up, 0.45 * dy));
                let colour = self.colour(geoms, poses, ray);
                pixels.extend(colour.map(|c| (255.0 * c.clamp(0.0, 1.0)) as u8));
            }
        }
        pixels
    }

    fn colour(&self, geoms: &[Geom], poses: &[Pose], ray: V) -> V {
        let mut nearest: Option<(f32, V, &Geom)> = None;
        for (geom, pose) in geoms.iter().zip(poses) {
            let (from, direction) = (turn_back(pose.quat, sub(self.from, pose.pos)), turn_back(pose.quat, ray));
            if let Some((t, normal)) = hit(geom, from, direction)
                && nearest.as_ref().is_none_or(|(best, ..)| t < *best)
            {
                nearest = Some((t, turn(pose.quat, normal), geom));
            }
        }
        let Some((t, normal, geom)) = nearest else { return SKY };
        let mut colour = [geom.rgba[0], geom.rgba[1], geom.rgba[2]];
        if geom.shape == Shape::Plane {
            let p = along(self.from, ray, t);
            let dark = (p[0].floor() + p[1].floor()).rem_euclid(2.0) < 1.0;
            let fade = (t / 40.0).min(1.0);
            let tile = if dark { [0.55, 0.60, 0.65] } else { [0.66, 0.71, 0.75] };
            colour = [0, 1, 2].map(|i| tile[i] * (1.0 - fade) + SKY[i] * fade);
        }
        let light = 0.45 + 0.55 * dot(normal, unit(LIGHT)).max(0.0);
        colour.map(|c| c * light)
    }
}

/// The smaller positive root of a t² + 2 b t + c = 0.
fn root(a: f32, b: f32, c: f32) -> Option<f32> {
    let inside = b * b - a * c;
    if inside < 0.0 || a <= 0.0 {
        return None;
    }
    let t = (-b - inside.sqrt()) / a;
    (t > 1e-4).then_some(t)
}

fn sphere(from: V, d: V, centre: V, radius: f32) -> Option<(f32, V)> {
    let o = sub(from, centre);
    let t = root(dot(d, d), dot(o, d), dot(o, o) - radius * radius)?;
    Some((t, unit(along(o, d, t))))
}

/// The side of a tube along z.
fn tube(from: V, d: V, radius: f32, half: f32) -> Option<(f32, V)> {
    let flat = |v: V| [v[0], v[1], 0.0];
    let (o, f) = (flat(from), flat(d));
    let t = root(dot(f, f), dot(o, f), dot(o, o) - radius * radius)?;
    let p = along(from, d, t);
    (p[2].abs() <= half).then(|| (t, unit(flat(p))))
}

/// Where a ray meets a shape, in the shape's own frame, and the normal there.
fn hit(geom: &Geom, from: V, d: V) -> Option<(f32, V)> {
    let [r, half, third] = geom.size;
    let nearer = |a: Option<(f32, V)>, b: Option<(f32, V)>| match (a, b) {
        (Some(a), Some(b)) => Some(if a.0 <= b.0 { a } else { b }),
        (a, b) => a.or(b),
    };
    let disc = |z: f32| {
        let t = (z - from[2]) / d[2];
        let p = along(from, d, t);
        (t > 1e-4 && p[0] * p[0] + p[1] * p[1] <= r * r).then_some((t, [0.0, 0.0, z.signum()]))
    };
    match geom.shape {
        Shape::Plane => {
            let t = -from[2] / d[2];
            (t > 1e-4 && t.is_finite()).then_some((t, [0.0, 0.0, 1.0]))
        }
        Shape::Sphere => sphere(from, d, [0.0; 3], r),
        Shape::Capsule => {
            let ends = nearer(sphere(from, d, [0.0, 0.0, half], r), sphere(from, d, [0.0, 0.0, -half], r));
            nearer(tube(from, d, r, half), ends)
        }
        Shape::Cylinder => nearer(tube(from, d, r, half), nearer(disc(half), disc(-half))),
        Shape::Ellipsoid => {
            let scale = |v: V| [v[0] / r, v[1] / half, v[2] / third];
            let (t, n) = sphere(scale(from), scale(d), [0.0; 3], 1.0)?;
            Some((t, unit(scale(n))))
        }
        Shape::Box => {
            let (mut enter, mut leave, mut axis) = (f32::NEG_INFINITY, f32::INFINITY, 0);
            for (i, size) in geom.size.into_iter().enumerate() {
                let [a, b] = [-size, size].map(|side| (side - from[i]) / d[i]);
                if a.min(b) > enter {
                    (enter, axis) = (a.min(b), i);
                }
                leave = leave.min(a.max(b));
            }
            let mut normal = [0.0; 3];
            normal[axis] = -d[axis].signum();
            (enter > 1e-4 && enter <= leave).then_some((enter, normal))
        }
    }
}

//! Where a ray meets a shape.

use sskp_blocks::env::{Pose, Shape};

pub type V = [f32; 3];

pub fn dot(a: V, b: V) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}
pub fn add(a: V, b: V) -> V {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}
pub fn sub(a: V, b: V) -> V {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}
pub fn scale(a: V, s: f32) -> V {
    a.map(|x| x * s)
}
pub fn cross(a: V, b: V) -> V {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}
pub fn unit(a: V) -> V {
    scale(a, 1.0 / dot(a, a).sqrt().max(1e-12))
}
pub fn mix(a: V, b: V, t: f32) -> V {
    add(scale(a, 1.0 - t), scale(b, t))
}

/// Turned by a quaternion w, x, y, z.
fn turned(q: [f32; 4], v: V) -> V {
    let axis = [q[1], q[2], q[3]];
    add(v, scale(cross(axis, add(cross(axis, v), scale(v, q[0]))), 2.0))
}

/// A shape in its place, with what rays need.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    shape: Shape,
    size: V,
    pub at: V,
    /// Where its own axes point.
    axes: [V; 3],
    /// Radius of a ball around it.
    pub reach: f32,
}

impl Placed {
    pub fn new(shape: Shape, size: [f32; 3], pose: &Pose) -> Self {
        let reach = match shape {
            Shape::Capsule => size[0] + size[1],
            Shape::Cylinder => size[0].hypot(size[1]),
            Shape::Box => dot(size, size).sqrt(),
            Shape::Ellipsoid => size[0].max(size[1]).max(size[2]),
            _ => size[0],
        };
        let axes = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]].map(|axis| turned(pose.quat, axis));
        Self { shape, size, at: pose.pos, axes, reach }
    }

    /// Two balls whose hull holds it.
    pub fn balls(&self) -> [(V, f32); 2] {
        let (radius, half) = match self.shape {
            Shape::Capsule | Shape::Cylinder => (self.size[0], self.size[1]),
            _ => (self.reach, 0.0),
        };
        [half, -half].map(|along| (add(self.at, scale(self.axes[2], along)), radius))
    }

    /// How far along a ray the shape begins, and the way out of it there.
    pub fn hit(&self, from: V, along: V) -> Option<(f32, V)> {
        // A ball around it is asked first.
        let away = sub(from, self.at);
        let b = dot(away, along);
        if dot(away, away) - b * b > self.reach * self.reach {
            return None;
        }
        let inside = |v: V| self.axes.map(|axis| dot(v, axis));
        let (o, d) = (inside(away), inside(along));
        let (t, n) = match self.shape {
            Shape::Capsule => capsule(o, d, self.size[0], self.size[1]),
            Shape::Cylinder => cylinder(o, d, self.size[0], self.size[1]),
            Shape::Box => slab(o, d, self.size),
            Shape::Ellipsoid => ellipsoid(o, d, self.size),
            _ => ellipsoid(o, d, [self.size[0]; 3]),
        }?;
        let [x, y, z] = self.axes;
        (t > 1e-4).then(|| (t, unit(add(add(scale(x, n[0]), scale(y, n[1])), scale(z, n[2])))))
    }
}

/// The nearer root of |o + t·d|² = r² in scaled space.
fn ellipsoid(o: V, d: V, r: V) -> Option<(f32, V)> {
    let inverse = r.map(|x| 1.0 / x.max(1e-6));
    let scaled = |v: V| [v[0] * inverse[0], v[1] * inverse[1], v[2] * inverse[2]];
    let (o1, d1) = (scaled(o), scaled(d));
    let (a, b, c) = (dot(d1, d1), dot(o1, d1), dot(o1, o1) - 1.0);
    let root = b * b - a * c;
    if root < 0.0 {
        return None;
    }
    let t = (-b - root.sqrt()) / a;
    Some((t, scaled(scaled(add(o, scale(d, t))))))
}

/// The round side of a capsule or a cylinder along z.
fn tube(o: V, d: V, r: f32, half: f32) -> Option<(f32, V)> {
    let (a, b, c) = (d[0] * d[0] + d[1] * d[1], o[0] * d[0] + o[1] * d[1], o[0] * o[0] + o[1] * o[1] - r * r);
    let root = b * b - a * c;
    if root < 0.0 || a <= 1e-9 {
        return None;
    }
    let t = (-b - root.sqrt()) / a;
    let p = add(o, scale(d, t));
    (p[2].abs() <= half).then_some((t, [p[0], p[1], 0.0]))
}

/// Along z, with half its length between the middles of its ends.
fn capsule(o: V, d: V, r: f32, half: f32) -> Option<(f32, V)> {
    if let Some(hit) = tube(o, d, r, half) {
        return Some(hit);
    }
    let ends = [half, -half].into_iter().filter_map(|z| {
        let from = [o[0], o[1], o[2] - z];
        ellipsoid(from, d, [r; 3])
    });
    ends.min_by(|a, b| a.0.total_cmp(&b.0))
}

fn cylinder(o: V, d: V, r: f32, half: f32) -> Option<(f32, V)> {
    if let Some(hit) = tube(o, d, r, half) {
        return Some(hit);
    }
    let side = -d[2].signum();
    let t = (side * half - o[2]) / d[2];
    let p = add(o, scale(d, t));
    (t.is_finite() && p[0] * p[0] + p[1] * p[1] <= r * r).then_some((t, [0.0, 0.0, side]))
}

fn slab(o: V, d: V, half: V) -> Option<(f32, V)> {
    let (mut near, mut far, mut n) = (f32::NEG_INFINITY, f32::INFINITY, [0.0; 3]);
    for k in 0..3 {
        let inverse = 1.0 / if d[k].abs() < 1e-9 { 1e-9 } else { d[k] };
        let (a, b) = ((-half[k] - o[k]) * inverse, (half[k] - o[k]) * inverse);
        let (low, high) = (a.min(b), a.max(b));
        if low > near {
            near = low;
            n = [0.0; 3];
            n[k] = -d[k].signum();
        }
        far = far.min(high);
    }
    (near <= far).then_some((near, n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rays_meet_shapes_where_they_must() {
        let quat = [1.0, 0.0, 0.0, 0.0];
        let hit = |shape, size, from: V, along: V| {
            let pose = Pose { pos: [0.0, 0.0, 1.0], quat };
            Placed::new(shape, size, &pose).hit(from, along).map(|(t, n)| (t, n.map(|x| (x * 100.0).round() / 100.0)))
        };
        let along = [1.0, 0.0, 0.0];
        assert_eq!(hit(Shape::Sphere, [0.5; 3], [-2.0, 0.0, 1.0], along), Some((1.5, [-1.0, 0.0, 0.0])));
        assert_eq!(hit(Shape::Sphere, [0.5; 3], [-2.0, 0.0, 1.6], along), None);
        assert_eq!(hit(Shape::Capsule, [0.25, 1.0, 0.0], [-2.0, 0.0, 1.9], along), Some((1.75, [-1.0, 0.0, 0.0])));
        assert_eq!(
            hit(Shape::Capsule, [0.25, 1.0, 0.0], [0.0, 0.0, 5.0], [0.0, 0.0, -1.0]),
            Some((2.75, [0.0, 0.0, 1.0]))
        );
        assert_eq!(
            hit(Shape::Cylinder, [0.25, 1.0, 0.0], [0.0, 0.0, 5.0], [0.0, 0.0, -1.0]),
            Some((3.0, [0.0, 0.0, 1.0]))
        );
        assert_eq!(hit(Shape::Box, [0.5, 1.0, 1.0], [-2.0, 0.9, 1.0], along), Some((1.5, [-1.0, 0.0, 0.0])));
        assert_eq!(hit(Shape::Ellipsoid, [1.0, 0.5, 0.5], [-2.0, 0.0, 1.0], along), Some((1.0, [-1.0, 0.0, 0.0])));
        // Turned by a quarter around y, a capsule lies along x.
        let pose = Pose { pos: [0.0; 3], quat: [0.5f32.sqrt(), 0.0, 0.5f32.sqrt(), 0.0] };
        let lying = Placed::new(Shape::Capsule, [0.25, 1.0, 0.0], &pose);
        let (t, _) = lying.hit([0.9, 0.0, 2.0], [0.0, 0.0, -1.0]).unwrap();
        assert!((t - 1.75).abs() < 1e-5, "{t}");
    }
}

//! One moment of an episode as a picture, by rays through every pixel: no graphics card, no window, the same bytes everywhere.

use sskp_blocks::env::{End, Pose, Shape};
use sskp_blocks::{Error, Result};

use super::scene::{Lens, Scene};
use super::shapes::{Placed, V, add, cross, dot, mix, scale, sub, unit};
use crate::rollout::Recording;

/// Opening of the lens, in height.
const LENS: f32 = 0.62;
const BODY: V = [0.42, 0.34, 0.25];
const LEFT: V = [0.06, 0.27, 0.33];
const RIGHT: V = [0.62, 0.17, 0.06];
const ALARM: V = [0.75, 0.03, 0.02];
const STOOD: V = [0.05, 0.20, 0.42];

/// Pixels, red, green and blue, row by row from above.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// Pixels across.
    pub width: usize,
    /// Pixels down.
    pub height: usize,
    /// Three bytes each.
    pub rgb: Vec<u8>,
}

impl Picture {
    /// Pictures of one height side by side.
    pub fn beside(parts: &[Picture]) -> Picture {
        let height = parts.iter().map(|p| p.height).min().unwrap_or(0);
        let rows =
            (0..height).flat_map(|y| parts.iter().flat_map(move |p| &p.rgb[3 * p.width * y..3 * p.width * (y + 1)]));
        Picture { width: parts.iter().map(|p| p.width).sum(), height, rgb: rows.copied().collect() }
    }
}

/// An episode, ready to be drawn at any time.
pub struct View<'a> {
    episode: &'a Recording,
    width: usize,
    height: usize,
    /// Shapes that move, and those that do not but for the ground.
    moving: Vec<usize>,
    still: Vec<usize>,
    floor: Option<f32>,
    colours: Vec<V>,
    /// Where the camera looks, frame by frame.
    path: Vec<V>,
    back: V,
    distance: f32,
    reach: f32,
}

impl<'a> View<'a> {
    /// Looks at an episode from the side, from as far as shows all of the robot in every frame.
    pub fn new(episode: &'a Recording, width: usize, height: usize) -> Result<Self> {
        let (frames, geoms) = (&episode.frames, &episode.geoms);
        let first = frames.first().filter(|first| !first.poses.is_empty());
        let Some(first) = first else {
            return Err(Error::other("there is nothing to draw: the environment has no shapes"));
        };
        let moves = |g: &usize| frames.iter().any(|f| f.poses[*g] != first.poses[*g]);
        let solid = |g: &usize| geoms[*g].shape != Shape::Plane;
        let (mut moving, still): (Vec<usize>, Vec<usize>) = (0..geoms.len()).filter(solid).partition(moves);
        if moving.is_empty() {
            moving = still.clone();
        }
        let floor = (0..geoms.len()).find(|g| !solid(g)).map(|g| first.poses[g].pos[2]);
        let path = path(episode, &moving);
        let (turn, lift): (f32, f32) = if floor.is_some() { (-1.12, 0.2) } else { (-2.65, 0.42) };
        let back = [lift.cos() * turn.cos(), lift.cos() * turn.sin(), lift.sin()];
        let mut view = Self {
            episode,
            width,
            height,
            colours: colours(episode, &moving),
            still: still.into_iter().filter(|g| !moving.contains(g)).collect(),
            moving,
            floor,
            path,
            back,
            distance: 0.0,
            reach: 0.5,
        };
        view.step_back();
        Ok(view)
    }

    /// Simulated time of the episode, and of the faint robots that outlast it.
    pub fn seconds(&self) -> f64 {
        let ends = self.episode.ghosts.iter().map(|ghost| ghost.from + ghost.poses.len());
        ends.chain([self.episode.steps()]).max().unwrap_or(0) as f64 * self.episode.dt
    }

    fn axes(&self) -> [V; 2] {
        let across = unit(cross([0.0, 0.0, 1.0], self.back));
        [across, cross(self.back, across)]
    }

    fn step_back(&mut self) {
        let [across, up] = self.axes();
        let high = (LENS / 2.0).tan();
        let wide = high * self.width as f32 / self.height as f32;
        let mut needed: Vec<f32> = Vec::new();
        let mut reaches: Vec<f32> = Vec::new();
        for (frame, centre) in self.episode.frames.iter().zip(&self.path) {
            let (mut most, mut reach): (f32, f32) = (0.0, 0.3);
            for placed in self.moving.iter().map(|g| self.placed(*g, &frame.poses[*g])) {
                let p = sub(placed.at, *centre);
                let (x, y) = (dot(p, across).abs() + placed.reach, dot(p, up).abs() + placed.reach);
                most = most.max(dot(p, self.back) + (x / wide).max(y / high));
                reach = reach.max(dot(p, p).sqrt() + placed.reach);
            }
            if most.is_finite() && reach.is_finite() {
                needed.push(most);
                reaches.push(reach);
            }
        }
        let middle = |list: &mut Vec<f32>| {
            list.sort_by(f32::total_cmp);
            list.get(list.len() / 2).copied().unwrap_or(1.0)
        };
        let most = needed.iter().copied().fold(0.5, f32::max);
        // A simulation that breaks flings limbs away: nobody steps back for that.
        self.distance = most.min(2.0 * middle(&mut needed)) * 1.12;
        if self.floor.is_none() {
            self.distance = self.distance.max(5.0);
        }
        self.reach = middle(&mut reaches);
    }

    fn placed(&self, g: usize, pose: &Pose) -> Placed {
        let geom = &self.episode.geoms[g];
        Placed::new(geom.shape, geom.size, pose)
    }

    /// How red the robot is: by how near it is to a violation, and wholly after one.
    fn alarm(&self, frame: usize) -> f32 {
        let fell = self.episode.end == Some(End::Violation) && frame >= self.episode.steps();
        let readings = &self.episode.frames[frame].readings;
        let margins = self.episode.gauges.iter().zip(readings).map(|(gauge, x)| gauge.margin(f64::from(*x)));
        let margin = margins.fold(f64::INFINITY, f64::min) as f32;
        if fell { 0.6 } else { 0.45 * (1.0 - margin).clamp(0.0, 1.0) }
    }

    /// The picture at a time in seconds.
    pub fn draw(&self, time: f64) -> Picture {
        let scene = self.scene(time);
        Picture { width: self.width, height: self.height, rgb: scene.expose(&scene.blocks()) }
    }

    fn scene(&self, time: f64) -> Scene {
        let (episode, at) = (self.episode, time / self.episode.dt);
        let frame = (at.round() as usize).min(episode.steps());
        let (now, centre, alarm) = (&episode.frames[frame], self.path[frame], self.alarm(frame));
        let solid: Vec<(Placed, V, bool)> = self
            .moving
            .iter()
            .map(|g| {
                let base = self.colours[*g];
                (self.placed(*g, &now.poses[*g]), add(scale(base, 1.0 - alarm), scale(ALARM, alarm)), true)
            })
            .chain(self.still.iter().map(|g| (self.placed(*g, &now.poses[*g]), self.colours[*g], false)))
            .collect();
        let ghosts: Vec<(Vec<Placed>, V)> = episode
            .ghosts
            .iter()
            .filter(|ghost| at > ghost.from as f64 && !ghost.poses.is_empty())
            .map(|ghost| {
                let k = (at.round() as usize).saturating_sub(ghost.from + 1).min(ghost.poses.len() - 1);
                let placed = self.moving.iter().map(|g| self.placed(*g, &ghost.poses[k][*g])).collect();
                (placed, if ghost.fell { ALARM } else { STOOD })
            })
            .collect();
        let mut eye = add(centre, scale(self.back, self.distance));
        if let Some(floor) = self.floor {
            eye[2] = eye[2].max(floor + 0.06);
        }
        Scene {
            solid,
            ghosts,
            floor: self.floor,
            lens: Lens::new(eye, centre, LENS, self.width, self.height),
            centre,
            reach: self.reach,
            fade: self.distance + 12.0 * self.reach,
        }
    }
}

/// The torso over the ground and the robot's middle in height, smoothed forwards and backwards.
fn path(episode: &Recording, moving: &[usize]) -> Vec<V> {
    let mut path: Vec<V> = Vec::new();
    for frame in &episode.frames {
        let heights = moving.iter().map(|g| frame.poses[*g].pos[2]);
        let (low, high) = heights.fold((f32::INFINITY, f32::NEG_INFINITY), |(l, h), z| (l.min(z), h.max(z)));
        let torso = frame.poses[moving[0]].pos;
        let at = [torso[0], torso[1], (low + high) / 2.0];
        let finite = at.iter().all(|x| x.is_finite());
        path.push(if finite { at } else { path.last().copied().unwrap_or_default() });
    }
    let keep = (-episode.dt / 0.3).exp() as f32;
    for i in 1..path.len() {
        path[i] = mix(path[i], path[i - 1], keep);
    }
    for i in (0..path.len().saturating_sub(1)).rev() {
        path[i] = mix(path[i], path[i + 1], keep);
    }
    path
}

/// Limbs are told apart by the robot's left and right where it has sides, else by front and back, else from one to the next.
fn colours(episode: &Recording, moving: &[usize]) -> Vec<V> {
    let linear = |x: f32| if x <= 0.04045 { x / 12.92 } else { ((x + 0.055) / 1.055).powf(2.4) };
    let mut colours: Vec<V> = episode.geoms.iter().map(|g| [g.rgba[0], g.rgba[1], g.rgba[2]].map(linear)).collect();
    if moving.len() < 2 {
        return colours;
    }
    let poses = &episode.frames[0].poses;
    let from = |g: usize, k: usize| poses[g].pos[k] - poses[moving[0]].pos[k];
    let sided = moving.iter().any(|g| from(*g, 1).abs() > 0.03);
    let side = |g: usize| match sided {
        true => from(g, 1) / 0.03,
        false if from(g, 2) < -0.03 => -from(g, 0) / 0.15,
        false => 0.0,
    };
    let flanked = moving.iter().any(|g| side(*g).abs() > 1.0);
    for (i, g) in moving.iter().enumerate() {
        colours[*g] = match side(*g) {
            s if s.abs() > 1.0 => mix(BODY, if s > 0.0 { LEFT } else { RIGHT }, 0.8),
            _ if !flanked && i % 2 == 1 => mix(BODY, RIGHT, 0.55),
            _ => BODY,
        };
    }
    colours
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;
    use crate::rollout::Stage;
    use sskp_blocks::env::Env as _;
    use sskp_blocks::registry::EnvOptions;
    use sskp_blocks::rng::Rng;

    fn play(name: &str, steps: usize) -> Recording {
        let env = Registry::standard().make_env(name, EnvOptions::default()).unwrap();
        let (mut stage, tape) = Stage::new(env).recorded();
        stage.reset(&mut Rng::stream(0, "env")).unwrap();
        let action = vec![0.3; stage.spec().action_dim];
        (0..steps).for_each(|_| _ = stage.step(&action).unwrap());
        tape.take().remove(0)
    }

    #[test]
    fn every_robot_is_seen_whole_and_moves() {
        for robot in sskp_robots::robots() {
            let episode = play(&robot.name, 12);
            let view = View::new(&episode, 96, 64).unwrap();
            let [first, last] = [0.0, 12.0 * episode.dt].map(|time| view.draw(time));
            assert_eq!(first.rgb.len(), 3 * 96 * 64);
            assert_eq!(first, view.draw(0.0), "the same picture again");
            assert_ne!(first, last, "{}", robot.name);
            // The robot is warm or teal, the ground and the sky are grey and blue: its pixels stay inside the frame.
            let warm = |p: &[u8]| i32::from(p[0]) - i32::from(p[2]) > 18;
            let pixels: Vec<&[u8]> = first.rgb.chunks_exact(3).collect();
            let inside = pixels.iter().filter(|p| warm(p)).count();
            assert!(inside > 20, "{}: {inside} pixels", robot.name);
            if episode.geoms.iter().any(|g| g.shape == Shape::Plane) {
                let edge = (0..96).flat_map(|x| [pixels[x], pixels[63 * 96 + x]]).filter(|p| warm(p)).count();
                assert_eq!(edge, 0, "{} is cut off", robot.name);
            }
        }
    }

    #[test]
    fn nothing_is_lost_by_looking_only_for_what_may_be_there() {
        for robot in sskp_robots::robots().iter().map(|robot| robot.name.as_str()).chain(["toy"]) {
            let mut episode = play(robot, 8);
            // Faint robots, one of them far to the side, and one around the eye.
            let poses = |by: f32| {
                let mut poses = episode.frames[4].poses.clone();
                poses.iter_mut().for_each(|pose| pose.pos[1] -= by);
                vec![poses; 9]
            };
            let ghost = |by| crate::rollout::Ghost { from: 2, fell: by > 1.0, poses: poses(by) };
            let ghosts = [0.3, 1.7, 4.0].map(ghost);
            episode.ghosts = ghosts.into();
            let view = View::new(&episode, 150, 90).unwrap();
            let scene = view.scene(6.0 * episode.dt);
            let everything = scene.everything_everywhere();
            assert!(scene.expose(&scene.blocks()) == scene.expose(&everything), "{robot}");
        }
    }

    #[test]
    fn a_robot_is_red_after_its_violation_and_faint_ones_are_seen() {
        let mut episode = play("hopper", 12);
        let red = |episode: &Recording, time: f64| {
            let picture = View::new(episode, 96, 64).unwrap().draw(time);
            picture.rgb.chunks_exact(3).filter(|p| i32::from(p[0]) - i32::from(p[1]) > 70).count()
        };
        let before = red(&episode, 12.0 * episode.dt);
        episode.end = Some(End::Violation);
        assert!(red(&episode, 12.0 * episode.dt) > before + 20);
        episode.end = None;
        let mut shifted = episode.frames[6].poses.clone();
        shifted.iter_mut().for_each(|pose| pose.pos[0] -= 0.5);
        let plain = View::new(&episode, 96, 64).unwrap().draw(8.0 * episode.dt);
        episode.ghosts = vec![crate::rollout::Ghost { from: 3, fell: true, poses: vec![shifted; 9] }];
        assert_ne!(View::new(&episode, 96, 64).unwrap().draw(8.0 * episode.dt), plain);
        assert_eq!(View::new(&episode, 96, 64).unwrap().draw(3.0 * episode.dt).rgb.len(), plain.rgb.len());
    }
}

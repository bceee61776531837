//! A replay page: one HTML file that shows a moving robot in any browser with WebGL2, from a disk, without a network.
//!
//! The page is put together, when this is compiled, from the files in `replay_page`, with a JSON object in its middle. Its scripts are one function per
//! episode, cut where its subjects change: `start.js` opens it and `end.js` closes it. Numbers that exist once per frame are
//! base64 of little-endian arrays; poses are 16-bit fixed point relative to the frame's origin (the torso), which is
//! finer than a tenth of a millimetre on a robot and a third of the size of plain floats.

use std::path::Path;

use serde::Serialize;
use sskp_blocks::env::{Anomaly, End, Pose, Shape};
use sskp_blocks::registry::Contract;
use sskp_blocks::{Error, Result};

use crate::markup::escape;
use crate::rollout::{Frame, Recording};
use sskp_blocks::files::write_whole;

/// What a page shows: one episode, or the part of it that was played.
#[derive(Clone, Debug)]
pub struct ReplayPage {
    /// Heads the page.
    pub title: String,
    /// What was played: a policy, a file of actions, a seed.
    pub subtitle: String,
    /// The robot in words.
    pub contract: Contract,
    /// The robot and its frames.
    pub episode: Recording,
}

/// The page, cut where the title and the data go.
const TEMPLATE: &str = concat!(
    include_str!("replay_page/head.html"),
    include_str!("replay_page/style.css"),
    include_str!("replay_page/body.html"),
    include_str!("replay_page/start.js"),
    include_str!("replay_page/data.js"),
    include_str!("replay_page/geometry.js"),
    include_str!("replay_page/shaders.js"),
    include_str!("replay_page/scene.js"),
    include_str!("replay_page/strip.js"),
    include_str!("replay_page/controls.js"),
    include_str!("replay_page/saving.js"),
    include_str!("replay_page/selftest.js"),
    include_str!("replay_page/end.js"),
    "</script>\n</body>\n</html>\n"
);
const TITLE: &str = "{{title}}";
const DATA: &str = "{{data}}";

/// Positions further than this from the torso are drawn here: a simulation that broke must not cost the rest of the
/// episode its precision.
const FARTHEST: f32 = 50.0;

/// What the page's script reads. Its names are the script's names.
#[derive(Serialize)]
struct PageData<'a> {
    title: &'a str,
    subtitle: &'a str,
    env: &'a str,
    about: &'a str,
    rule: &'a str,
    dt: f64,
    frames: usize,
    steps: usize,
    total: f64,
    end: Option<&'a str>,
    anomaly: Option<&'a str>,
    geoms: Vec<PageGeom<'a>>,
    /// Index of the geom the camera follows.
    follow: usize,
    /// Metres per unit of the positions.
    unit: f32,
    /// `f32 [frames][3]`
    origins: String,
    /// `i16 [frames][moving geoms][7]`: position, quaternion
    poses: String,
    /// `f32 [frames]`
    rewards: String,
    /// `f32 [frames]`, NaN where there is none
    risks: Option<String>,
    /// Frames with a cost.
    violations: Vec<usize>,
    /// Frames in which a skill was chosen.
    choices: Vec<usize>,
    gauges: Vec<PageGauge<'a>>,
    ghosts: Vec<PageGhost>,
}

#[derive(Serialize)]
struct PageGauge<'a> {
    name: &'a str,
    /// Null where there is none.
    low: Option<f64>,
    high: Option<f64>,
    near: f64,
    /// `f32 [frames]`
    data: String,
}

#[derive(Serialize)]
struct PageGhost {
    from: usize,
    fell: bool,
    frames: usize,
    /// As those of the robot.
    origins: String,
    poses: String,
}

#[derive(Serialize)]
struct PageGeom<'a> {
    shape: &'static str,
    size: [f32; 3],
    rgba: [f32; 4],
    name: &'a str,
    /// Where it always is; none for a geom that moves.
    fixed: Option<[f32; 7]>,
}

/// Writes the page. It appears whole or not at all.
pub fn write_html(replay: &ReplayPage, path: &Path) -> Result<()> {
    write_whole(path, html(replay)?.as_bytes())
}

/// Writes several episodes side by side, moved by the same controls.
pub fn write_side_by_side(replays: &[ReplayPage], path: &Path) -> Result<()> {
    write_whole(path, side_by_side(replays)?.as_bytes())
}

/// The page as text.
pub fn html(replay: &ReplayPage) -> Result<String> {
    side_by_side(std::slice::from_ref(replay))
}

/// Episodes on one page. A browser draws at most sixteen.
const MOST: usize = 9;

/// Several episodes on one page, as text.
pub fn side_by_side(replays: &[ReplayPage]) -> Result<String> {
    let [replay, ..] = replays else { return Err(Error::other("a replay page needs an episode")) };
    if replays.len() > MOST {
        return Err(Error::other(format!("{} episodes are too many for one page: {MOST} are the most", replays.len())));
    }
    let pages = replays.iter().map(page).collect::<Result<Vec<_>>>()?;
    let data = serde_json::to_string(&pages).map_err(|e| Error::other(format!("the replay page: {e}")))?;
    // Inside a script element only "<" could end it early, and in JSON "<" stands only in strings.
    let data = data.replace('<', "\\u003c");
    let title = escape(&format!("{}: {}", replay.title, replay.subtitle));
    let (head, rest) = TEMPLATE.split_once(TITLE).expect("the template has a title");
    let (middle, tail) = rest.split_once(DATA).expect("the template has a place for the data");
    Ok([head, &title, middle, &data, tail].concat())
}

fn page(replay: &ReplayPage) -> Result<PageData<'_>> {
    let episode = &replay.episode;
    let (frames, geoms) = (&episode.frames, &episode.geoms);
    let Some(first) = frames.first() else {
        return Err(Error::other("a replay needs at least one frame, and this one has none"));
    };
    if let Some(i) = frames.iter().position(|f| f.poses.len() != geoms.len()) {
        let (got, needed) = (frames[i].poses.len(), geoms.len());
        return Err(Error::other(format!("frame {i} of the replay has {got} poses for {needed} shapes")));
    }
    let moves: Vec<bool> =
        (0..geoms.len()).map(|g| frames.iter().any(|f| bits(&f.poses[g]) != bits(&first.poses[g]))).collect();
    let moving: Vec<usize> = (0..geoms.len()).filter(|g| moves[*g]).collect();
    // Models list their bodies from the root, so the first shape that moves is the torso.
    let body = || geoms.iter().position(|g| g.shape != Shape::Plane);
    let follow = moving.first().copied().or_else(body).unwrap_or(0);

    // A frame that is not finite cannot be drawn: the one before it stays on the screen.
    let mut drawn: Vec<&Frame> = Vec::with_capacity(frames.len());
    for frame in frames {
        let finite = frame.poses.iter().all(|p| p.pos.iter().chain(&p.quat).all(|x| x.is_finite()));
        drawn.push(if finite { frame } else { drawn.last().unwrap_or(&first) });
    }
    let origin = |f: &Frame| f.poses.get(follow).map_or([0.0; 3], |p| p.pos);
    let mut farthest: f32 = 0.1;
    for frame in &drawn {
        let o = origin(frame);
        let offsets = moving.iter().flat_map(|g| (0..3).map(move |k| (frame.poses[*g].pos[k] - o[k]).abs()));
        farthest = offsets.fold(farthest, f32::max);
    }
    let unit = farthest.min(FARTHEST) / f32::from(i16::MAX);

    let (mut origins, mut poses) = (Vec::new(), Vec::new());
    for frame in &drawn {
        encode(&frame.poses, follow, &moving, unit, &mut origins, &mut poses);
    }
    // The way on of the faint robots, where they outlast the other one.
    let beyond =
        episode.ghosts.iter().map(|g| g.from + 1 + g.poses.len()).max().unwrap_or(0).saturating_sub(frames.len());
    for _ in 0..beyond {
        origins.extend_from_within(origins.len() - 12..);
        poses.extend_from_within(poses.len() - 14 * moving.len()..);
    }
    let padded = |values: &mut dyn Iterator<Item = f32>| {
        base64(&values.chain(std::iter::repeat_n(f32::NAN, beyond)).flat_map(f32::to_le_bytes).collect::<Vec<u8>>())
    };
    let ghosts = episode.ghosts.iter().map(|ghost| {
        let (mut origins, mut poses) = (Vec::new(), Vec::new());
        for frame in &ghost.poses {
            encode(frame, follow, &moving, unit, &mut origins, &mut poses);
        }
        PageGhost {
            from: ghost.from,
            fell: ghost.fell,
            frames: ghost.poses.len(),
            origins: base64(&origins),
            poses: base64(&poses),
        }
    });
    let bound = |b: f64| b.is_finite().then_some(b);
    let gauges = episode.gauges.iter().enumerate().map(|(i, g)| PageGauge {
        name: &g.name,
        low: bound(g.low),
        high: bound(g.high),
        near: g.near,
        data: padded(&mut frames.iter().map(|f| f.readings.get(i).copied().unwrap_or(f32::NAN))),
    });
    let risks = frames.iter().any(|f| f.risk.is_some());
    Ok(PageData {
        title: &replay.title,
        subtitle: &replay.subtitle,
        env: &episode.env,
        about: &replay.contract.about,
        rule: &replay.contract.violation,
        dt: episode.dt,
        frames: frames.len() + beyond,
        steps: episode.steps(),
        total: episode.total_reward(),
        end: episode.end.map(End::name),
        anomaly: episode.anomaly.map(Anomaly::name),
        geoms: geoms
            .iter()
            .enumerate()
            .map(|(g, geom)| {
                let ([x, y, z], [a, b, c, d]) = (first.poses[g].pos, first.poses[g].quat);
                PageGeom {
                    shape: geom.shape.name(),
                    size: geom.size,
                    rgba: geom.rgba,
                    name: &geom.name,
                    fixed: (!moves[g]).then_some([x, y, z, a, b, c, d]),
                }
            })
            .collect(),
        follow,
        unit,
        origins: base64(&origins),
        poses: base64(&poses),
        rewards: padded(&mut frames.iter().map(|f| f.reward as f32)),
        risks: risks.then(|| padded(&mut frames.iter().map(|f| f.risk.unwrap_or(f32::NAN)))),
        violations: (0..frames.len()).filter(|i| frames[*i].cost > 0.0).collect(),
        choices: (0..frames.len()).filter(|i| frames[*i].choice).collect(),
        gauges: gauges.collect(),
        ghosts: ghosts.collect(),
    })
}

/// One frame: where the followed shape is, and the others around it in fixed point.
fn encode(frame: &[Pose], follow: usize, moving: &[usize], unit: f32, origins: &mut Vec<u8>, poses: &mut Vec<u8>) {
    let o = frame.get(follow).map_or([0.0; 3], |p| p.pos);
    origins.extend(o.iter().flat_map(|x| x.to_le_bytes()));
    for pose in moving.iter().map(|g| &frame[*g]) {
        // `as` saturates, which is what FARTHEST counts on.
        let position = (0..3).map(|k| ((pose.pos[k] - o[k]) / unit).round() as i16);
        let quaternion = pose.quat.iter().map(|q| (q * f32::from(i16::MAX)).round() as i16);
        poses.extend(position.chain(quaternion).flat_map(i16::to_le_bytes));
    }
}

/// A pose as bits, so that comparing two asks for identity and not for closeness.
fn bits(pose: &Pose) -> [u32; 7] {
    let ([x, y, z], [a, b, c, d]) = (pose.pos, pose.quat);
    [x, y, z, a, b, c, d].map(f32::to_bits)
}

/// RFC 4648 base64 with padding: what the browser's `atob` reads.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |w, b| w << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            let digit = ALPHABET[(word >> (18 - 6 * i) & 63) as usize];
            text.push(if i <= chunk.len() { digit.into() } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::Stage;
    use sskp_blocks::env::Env;
    use sskp_blocks::registry::{EnvEntry, EnvOptions};
    use sskp_blocks::rng::Rng;

    fn play(robot: &EnvEntry, steps: usize) -> ReplayPage {
        let env = robot.make(EnvOptions::default()).unwrap();
        let (mut stage, tape) = Stage::new(env).recorded();
        stage.reset(&mut Rng::stream(0, "env")).unwrap();
        let action = vec![0.0; stage.spec().action_dim];
        for _ in 0..steps {
            stage.step(&action).unwrap();
        }
        tape.take().remove(0).into_page(robot, "no action")
    }

    fn robot(name: &str) -> EnvEntry {
        crate::registry::Registry::standard().env(name).unwrap().clone()
    }

    fn data(page: &str) -> serde_json::Value {
        let start = page.find("application/json\">").unwrap() + "application/json\">".len();
        let end = start + page[start..].find("</script>").unwrap();
        let mut all: Vec<serde_json::Value> = serde_json::from_str(&page[start..end]).unwrap();
        all.remove(0)
    }

    #[test]
    fn base64_is_that_of_rfc_4648() {
        let pairs =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE=")];
        for (plain, coded) in pairs {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xfe]), "+//+");
    }

    #[test]
    fn a_thousand_frames_of_every_robot_stay_below_a_megabyte() {
        for robot in &sskp_robots::robots() {
            let page = html(&play(robot, 1000)).unwrap();
            assert!(page.len() < 1_000_000, "{}: {} bytes", robot.name, page.len());
            let data = data(&page);
            assert_eq!(data["frames"], 1001);
            assert_eq!(data["rule"], robot.contract.violation);
            let moving = data["geoms"].as_array().unwrap().iter().filter(|g| g["fixed"].is_null()).count();
            assert_eq!(data["poses"].as_str().unwrap().len(), (1001 * moving * 14_usize).div_ceil(3) * 4);
        }
    }

    #[test]
    fn text_cannot_leave_its_place_in_the_page() {
        let toy = robot("toy");
        let mut replay = play(&toy, 2);
        let nasty = "</script><script>alert(1)</script><!-- {{data}} \"&\u{2028}";
        replay.title = nasty.into();
        replay.subtitle = nasty.into();
        replay.episode.geoms[0].name = nasty.into();
        let page = html(&replay).unwrap();
        let plain = html(&play(&toy, 2)).unwrap();
        for mark in ["<script", "</script", "<!--"] {
            assert_eq!(page.matches(mark).count(), plain.matches(mark).count(), "{mark}");
        }
        assert_eq!(data(&page)["title"], nasty);
        assert_eq!(data(&page)["geoms"][0]["name"], nasty);
    }

    #[test]
    fn the_page_asks_nothing_of_a_network() {
        let page = html(&play(&robot("toy"), 2)).unwrap();
        for mark in ["http:", "https:", "src=", "@import", "url(", "fetch(", "import("] {
            assert!(!page.contains(mark), "{mark}");
        }
        assert!(page.contains("default-src 'none'"), "the browser is told so, too");
    }

    #[test]
    fn a_frame_that_is_not_finite_shows_the_one_before_it() {
        let mut replay = play(&robot("hopper"), 3);
        let as_played = data(&html(&replay).unwrap());
        replay.episode.frames.push(replay.episode.frames[3].clone());
        let whole = data(&html(&replay).unwrap());
        replay.episode.frames[4].poses[1].pos[2] = f32::NAN;
        let broken = data(&html(&replay).unwrap());
        assert_eq!(broken["poses"], whole["poses"]);
        assert_ne!(broken["poses"], as_played["poses"]);
    }

    #[test]
    fn a_replay_without_frames_or_with_too_few_poses_is_refused() {
        let mut replay = play(&robot("toy"), 2);
        replay.episode.frames[1].poses.pop();
        let error = html(&replay).unwrap_err().to_string();
        assert!(error.contains("frame 1") && error.contains("1 poses for 2"), "{error}");
        replay.episode.frames.clear();
        assert!(html(&replay).is_err());
    }
}

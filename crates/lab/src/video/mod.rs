//! Episodes as moving pictures, without a browser: drawn by [`picture`], written as GIF, MP4 or WebM.

mod av1;
mod gif;
mod mp4;
pub mod picture;
mod scene;
mod shapes;
mod webm;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use sskp_blocks::files::write_whole;
use sskp_blocks::{Error, Result};

use crate::replay_page::ReplayPage;
use picture::{Picture, View};

/// Pictures a second of a video, and of a GIF, whose files are larger; fewer where the robot has fewer moments a second.
const RATES: [f64; 2] = [30.0, 20.0];
/// Fewer are no film.
const SLOWEST: f64 = 15.0;
/// Width and height of an episode, by how many are side by side.
const SIZES: [[usize; 2]; 2] = [[640, 360], [480, 360]];
/// The same of a GIF.
const GIF_SIZES: [[usize; 2]; 2] = [[480, 270], [360, 270]];
/// A longer episode is shown until here: a thousand steps of a slow robot are a minute and a half.
const LONGEST: f64 = 100.0;
/// Seconds that the last picture stays.
const HOLD: f64 = 0.8;

/// What a file is, by its ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Gif,
    Mp4,
    Webm,
}

fn kind(path: &Path) -> Result<Kind> {
    match path.extension().and_then(|e| e.to_str()) {
        Some("gif") => Ok(Kind::Gif),
        Some("mp4") => Ok(Kind::Mp4),
        Some("webm") => Ok(Kind::Webm),
        _ => Err(Error::other(format!("{}: a video is called NAME.mp4, NAME.webm or NAME.gif", path.display()))),
    }
}

/// Says what is wrong with the name of a video, before any work.
pub fn check(path: &Path) -> Result<()> {
    kind(path).map(|_| ())
}

/// Draws episodes side by side, the first `seconds` of them, and writes the video. It appears whole or not at all.
pub fn write(replays: &[ReplayPage], path: &Path, seconds: Option<f64>) -> Result<()> {
    let kind = kind(path)?;
    let rate = rate(replays, RATES[usize::from(kind == Kind::Gif)]);
    let sizes = if kind == Kind::Gif { GIF_SIZES } else { SIZES };
    let reel = Reel::new(replays, rate, sizes[usize::from(replays.len() > 1)], seconds)?;
    let bytes = match kind {
        Kind::Gif => gif::encode(&reel)?,
        Kind::Mp4 => mp4::write(&av1::encode(&reel)?),
        Kind::Webm => webm::write(&av1::encode(&reel)?),
    };
    write_whole(path, &bytes)
}

/// At most `most` pictures a second. A robot of twenty moments a second has twenty pictures: with thirty, every other moment would be seen twice, and it would limp.
fn rate(replays: &[ReplayPage], most: f64) -> f64 {
    let own = replays.iter().map(|replay| 1.0 / replay.episode.dt).fold(0.0, f64::max);
    let whole = (own - own.round()).abs() < 1e-6;
    if whole && (SLOWEST..most).contains(&own) { own.round() } else { most }
}

/// Episodes side by side as pictures in time, each drawn when it is asked for.
struct Reel<'a> {
    views: Vec<View<'a>>,
    rate: f64,
    count: usize,
    width: usize,
    height: usize,
}

impl<'a> Reel<'a> {
    fn new(replays: &'a [ReplayPage], rate: f64, [width, height]: [usize; 2], until: Option<f64>) -> Result<Self> {
        let views =
            replays.iter().map(|replay| View::new(&replay.episode, width, height)).collect::<Result<Vec<_>>>()?;
        if views.is_empty() {
            return Err(Error::other("a video needs an episode"));
        }
        let seconds = views.iter().map(View::seconds).fold(0.0, f64::max).min(LONGEST);
        let seconds = until.filter(|until| *until < seconds).unwrap_or(seconds + HOLD);
        let count = ((seconds * rate).ceil() as usize).max(1);
        Ok(Self { width: width * views.len(), views, rate, count, height })
    }

    fn picture(&self, i: usize) -> Picture {
        let parts: Vec<Picture> = self.views.iter().map(|view| view.draw(i as f64 / self.rate)).collect();
        Picture::beside(&parts)
    }
}

/// Does pieces of work on all processors; what they gave, in order.
fn on_all<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(count);
    let next = AtomicUsize::new(0);
    let some = || {
        let mine = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)).filter(|i| *i < count));
        mine.map(|i| (i, work(i))).collect::<Vec<_>>()
    };
    let mut all: Vec<(usize, T)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(some)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("drawing does not panic")).collect()
    });
    all.sort_by_key(|one| one.0);
    all.into_iter().map(|one| one.1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;
    use crate::rollout::Stage;
    use sskp_blocks::env::Env as _;
    use sskp_blocks::registry::EnvOptions;
    use sskp_blocks::rng::Rng;

    fn still(robot: &str, steps: usize) -> ReplayPage {
        let entry = Registry::standard().env(robot).unwrap().clone();
        let (mut stage, tape) = Stage::new(entry.make(EnvOptions::default()).unwrap()).recorded();
        stage.reset(&mut Rng::stream(0, "env")).unwrap();
        let action = vec![0.0; stage.spec().action_dim];
        (0..steps).for_each(|_| _ = stage.step(&action).unwrap());
        tape.take().remove(0).into_page(&entry, "")
    }

    #[test]
    fn a_film_has_a_picture_for_each_moment_of_a_slow_robot_and_thirty_a_second_of_a_fast_one() {
        let rates = |robot: &str| RATES.map(|most| rate(&[still(robot, 1)], most));
        assert_eq!(rates("cheetah"), [20.0, 20.0]);
        assert_eq!(rates("hopper"), [30.0, 20.0]);
        assert_eq!(rates("toy"), [30.0, 20.0], "ten a second are no film");
    }

    #[test]
    fn parts_of_a_film_are_in_order_and_begin_with_a_picture_that_stands_by_itself() {
        let pages = [still("cheetah", 45)];
        let reel = Reel::new(&pages, 20.0, [64, 36], None).unwrap();
        let film = av1::encode(&reel).unwrap();
        assert_eq!((film.packets.len(), reel.count), (61, 61), "45 moments, 0.8 s more");
        let alone: Vec<usize> = (0..61).filter(|i| film.packets[*i].1).collect();
        assert_eq!(alone, [0, 40]);
        let again = av1::encode(&reel).unwrap();
        assert_eq!(film.packets, again.packets, "whichever thread did what");
    }
}

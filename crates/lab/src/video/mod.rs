//! Episodes as moving pictures, without a browser: drawn by [`picture`], written as GIF, MP4 or WebM.

mod av1;
mod gif;
mod mp4;
pub mod picture;
mod shapes;
mod webm;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use sskp_blocks::files::write_whole;
use sskp_blocks::{Error, Result};

use crate::replay_page::ReplayPage;
use picture::{Picture, View};

/// Pictures a second of a video, and of a GIF, whose files are larger.
const RATES: [f64; 2] = [30.0, 20.0];
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
    let rate = RATES[usize::from(kind == Kind::Gif)];
    let sizes = if kind == Kind::Gif { GIF_SIZES } else { SIZES };
    let pictures = pictures(replays, rate, sizes[usize::from(replays.len() > 1)], seconds)?;
    let bytes = match kind {
        Kind::Gif => gif::encode(&pictures, rate)?,
        Kind::Mp4 => mp4::write(&av1::encode(&pictures, rate)?),
        Kind::Webm => webm::write(&av1::encode(&pictures, rate)?),
    };
    write_whole(path, &bytes)
}

/// All pictures of the episodes side by side, in time.
fn pictures(
    replays: &[ReplayPage],
    rate: f64,
    [width, height]: [usize; 2],
    until: Option<f64>,
) -> Result<Vec<Picture>> {
    let views = replays.iter().map(|replay| View::new(&replay.episode, width, height)).collect::<Result<Vec<_>>>()?;
    let seconds = views.iter().map(View::seconds).fold(0.0, f64::max).min(LONGEST);
    let seconds = until.filter(|until| *until < seconds).unwrap_or(seconds + HOLD);
    if views.is_empty() {
        return Err(Error::other("a video needs an episode"));
    }
    let count = (seconds * rate).ceil() as usize;
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let (next, views) = (AtomicUsize::new(0), &views);
    let draw = || {
        let mut drawn = Vec::new();
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= count {
                return drawn;
            }
            let parts: Vec<Picture> = views.iter().map(|view| view.draw(i as f64 / rate)).collect();
            drawn.push((i, Picture::beside(&parts)));
        }
    };
    let mut all: Vec<(usize, Picture)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(draw)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("drawing does not panic")).collect()
    });
    all.sort_by_key(|one| one.0);
    Ok(all.into_iter().map(|one| one.1).collect())
}

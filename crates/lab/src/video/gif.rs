//! GIF: one palette for the whole film, and of every picture only what changed.

use std::sync::OnceLock;

use gif::{DisposalMethod, Encoder, Frame, Repeat};
use sskp_blocks::{Error, Result};

use super::{Reel, on_all};

/// Colours; one more means that the pixel stays as it was.
const COLOURS: usize = 255;

pub fn encode(reel: &Reel) -> Result<Vec<u8>> {
    let failed = |e: gif::EncodingError| Error::other(format!("the GIF: {e}"));
    let side = |n: usize| u16::try_from(n).map_err(|_| Error::other("too large for a GIF"));
    let (width, height) = (side(reel.width)?, side(reel.height)?);
    // A few pictures have the colours of all.
    let every = (reel.count / 6).max(1);
    let some = on_all(reel.count.div_ceil(every), |i| {
        let picture = reel.picture(i * every);
        picture.rgb.chunks_exact(3).step_by(5).flat_map(|p| [p[0], p[1], p[2], 255]).collect::<Vec<u8>>()
    });
    let some = some.concat();
    let palette = color_quant::NeuQuant::new(4, COLOURS, &some);
    let mut colours = palette.color_map_rgb();
    colours.resize(3 * COLOURS, 0);
    colours.extend([0, 0, 0]);
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out, width, height, &colours).map_err(failed)?;
    encoder.set_repeat(Repeat::Infinite).map_err(failed)?;
    // Six bits a channel are finer than the palette.
    let nearest: Vec<OnceLock<u8>> = (0..1 << 18).map(|_| OnceLock::new()).collect();
    let pictures = on_all(reel.count, |i| {
        let colour = |p: &[u8]| {
            let key = usize::from(p[0] >> 2) << 12 | usize::from(p[1] >> 2) << 6 | usize::from(p[2] >> 2);
            let middle = |k: usize| (key >> k & 63) as u8 * 4 + 2;
            *nearest[key].get_or_init(|| palette.index_of(&[middle(12), middle(6), middle(0), 255]) as u8)
        };
        reel.picture(i).rgb.chunks_exact(3).map(colour).collect::<Vec<u8>>()
    });
    let mut before: Option<Vec<u8>> = None;
    // Delays are whole hundredths: what is lost by rounding comes back.
    let mut shown = 0;
    for (i, now) in pictures.into_iter().enumerate() {
        let mut seen = now.clone();
        if let Some(before) = &before {
            seen.iter_mut().zip(before).filter(|(a, b)| a == b).for_each(|(a, _)| *a = COLOURS as u8);
        }
        let until = (100.0 * (i + 1) as f64 / reel.rate).round() as u64;
        let mut frame = Frame::from_indexed_pixels(width, height, seen, Some(COLOURS as u8));
        frame.delay = (until - shown) as u16;
        frame.dispose = DisposalMethod::Keep;
        shown = until;
        encoder.write_frame(&frame).map_err(failed)?;
        before = Some(now);
    }
    drop(encoder);
    Ok(out)
}

//! GIF: one palette for the whole film, and of every picture only what changed.

use std::collections::HashMap;

use gif::{DisposalMethod, Encoder, Frame, Repeat};
use sskp_blocks::{Error, Result};

use super::picture::Picture;

/// Colours; one more means that the pixel stays as it was.
const COLOURS: usize = 255;

pub fn encode(pictures: &[Picture], rate: f64) -> Result<Vec<u8>> {
    let failed = |e: gif::EncodingError| Error::other(format!("the GIF: {e}"));
    let [first, ..] = pictures else { return Err(Error::other("a film without a picture")) };
    let side = |n: usize| u16::try_from(n).map_err(|_| Error::other("too large for a GIF"));
    let (width, height) = (side(first.width)?, side(first.height)?);
    // A few pictures have the colours of all.
    let some: Vec<u8> = pictures
        .iter()
        .step_by((pictures.len() / 6).max(1))
        .flat_map(|picture| picture.rgb.chunks_exact(3).step_by(5).flat_map(|p| [p[0], p[1], p[2], 255]))
        .collect();
    let palette = color_quant::NeuQuant::new(4, COLOURS, &some);
    let mut colours = palette.color_map_rgb();
    colours.resize(3 * COLOURS, 0);
    colours.extend([0, 0, 0]);
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out, width, height, &colours).map_err(failed)?;
    encoder.set_repeat(Repeat::Infinite).map_err(failed)?;
    let mut index: HashMap<u32, u8> = HashMap::new();
    let mut nearest = |p: &[u8]| {
        // Five bits a channel are finer than the palette.
        let key = u32::from(p[0] >> 2) << 16 | u32::from(p[1] >> 2) << 8 | u32::from(p[2] >> 2);
        *index.entry(key).or_insert_with(|| palette.index_of(&[p[0], p[1], p[2], 255]) as u8)
    };
    let mut before: Option<Vec<u8>> = None;
    // Delays are whole hundredths: what is lost by rounding comes back.
    let mut shown = 0;
    for (i, picture) in pictures.iter().enumerate() {
        let now: Vec<u8> = picture.rgb.chunks_exact(3).map(&mut nearest).collect();
        let mut seen = now.clone();
        if let Some(before) = &before {
            seen.iter_mut().zip(before).filter(|(a, b)| a == b).for_each(|(a, _)| *a = COLOURS as u8);
        }
        let until = (100.0 * (i + 1) as f64 / rate).round() as u64;
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

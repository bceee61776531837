//! AV1, by rav1e: what browsers and players read out of MP4 and WebM, without a licence to pay.

use rav1e::prelude::*;
use sskp_blocks::{Error, Result as OurResult};

use super::picture::Picture;

/// A film, encoded.
pub struct Film {
    pub width: usize,
    pub height: usize,
    /// Pictures a second, a whole number.
    pub rate: u64,
    /// What a container has to say of the stream before it: the content of `av1C`.
    pub head: Vec<u8>,
    /// Pictures in the order of time, and whether each stands by itself.
    pub packets: Vec<(Vec<u8>, bool)>,
}

/// rav1e's fastest: a robot on a plain ground is easy, and people wait.
const SPEED: u8 = 10;
/// Finer than the default of 100, whose ground has blocks.
const QUANTISER: usize = 80;

pub fn encode(pictures: &[Picture], rate: f64) -> OurResult<Film> {
    let failed = |e: &dyn std::fmt::Display| Error::other(format!("the video: {e}"));
    let [first, ..] = pictures else { return Err(Error::other("a film without a picture")) };
    let (width, height, rate) = (first.width & !1, first.height & !1, rate.round() as u64);
    let description = ColorDescription {
        color_primaries: ColorPrimaries::BT709,
        transfer_characteristics: TransferCharacteristics::BT709,
        matrix_coefficients: MatrixCoefficients::BT709,
    };
    let settings = EncoderConfig {
        width,
        height,
        speed_settings: SpeedSettings::from_preset(SPEED),
        time_base: Rational::new(1, rate),
        // In the order of time: containers stay simple.
        low_latency: true,
        quantizer: QUANTISER,
        max_key_frame_interval: 2 * rate,
        color_description: Some(description),
        pixel_range: PixelRange::Limited,
        ..EncoderConfig::default()
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let config = Config::new().with_encoder_config(settings).with_threads(threads);
    let mut context: Context<u8> = config.new_context().map_err(|e| failed(&e))?;
    let mut packets = Vec::with_capacity(pictures.len());
    for picture in pictures {
        let mut frame = context.new_frame();
        for (plane, bytes) in frame.planes.iter_mut().zip(planes(picture, width, height)) {
            let across = if bytes.len() == width * height { width } else { width / 2 };
            plane.copy_from_raw_u8(&bytes, across, 1);
        }
        context.send_frame(frame).map_err(|e| failed(&e))?;
        drain(&mut context, &mut packets).map_err(|e| failed(&e))?;
    }
    context.flush();
    drain(&mut context, &mut packets).map_err(|e| failed(&e))?;
    if packets.len() != pictures.len() {
        return Err(Error::other(format!("the video: {} pictures became {}", pictures.len(), packets.len())));
    }
    Ok(Film { width, height, rate, head: context.container_sequence_header(), packets })
}

fn drain(context: &mut Context<u8>, packets: &mut Vec<(Vec<u8>, bool)>) -> Result<(), EncoderStatus> {
    loop {
        match context.receive_packet() {
            // A mark of time before each picture is for streams without a container.
            Ok(packet) => {
                let data = packet.data.strip_prefix(&[0x12, 0x00]).unwrap_or(&packet.data).to_vec();
                packets.push((data, packet.frame_type == FrameType::KEY));
            }
            Err(EncoderStatus::Encoded) => {}
            Err(EncoderStatus::NeedMoreData | EncoderStatus::LimitReached) => return Ok(()),
            Err(other) => return Err(other),
        }
    }
}

/// Brightness of every pixel, and the two colours of every four (BT.709, limited range).
fn planes(picture: &Picture, width: usize, height: usize) -> [Vec<u8>; 3] {
    let pixel = |x: usize, y: usize| {
        let at = 3 * (y * picture.width + x);
        [0, 1, 2].map(|k| f32::from(picture.rgb[at + k]) / 255.0)
    };
    let luma = |[r, g, b]: [f32; 3]| 0.2126 * r + 0.7152 * g + 0.0722 * b;
    let mut out = [Vec::with_capacity(width * height), Vec::new(), Vec::new()];
    for y in 0..height {
        out[0].extend((0..width).map(|x| (16.0 + 219.0 * luma(pixel(x, y))).round() as u8));
    }
    for y in (0..height).step_by(2) {
        for x in (0..width).step_by(2) {
            let four = [pixel(x, y), pixel(x + 1, y), pixel(x, y + 1), pixel(x + 1, y + 1)];
            let mean = [0, 1, 2].map(|k| four.iter().map(|p| p[k]).sum::<f32>() / 4.0);
            let l = luma(mean);
            out[1].push((128.0 + 224.0 * (mean[2] - l) / 1.8556).round() as u8);
            out[2].push((128.0 + 224.0 * (mean[0] - l) / 1.5748).round() as u8);
        }
    }
    out
}

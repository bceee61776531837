//! AV1, by rav1e: what browsers and players read out of MP4 and WebM, without a licence to pay.

use rav1e::prelude::*;
use sskp_blocks::{Error, Result as OurResult};

use super::picture::Picture;
use super::{Reel, on_all};

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

/// Seconds of a film that are encoded by themselves, each part by one thread. They begin with a picture that stands by itself, where players can jump to.
const PART: u64 = 2;

pub fn encode(reel: &Reel) -> OurResult<Film> {
    let (width, height, rate) = (reel.width & !1, reel.height & !1, reel.rate.round() as u64);
    let color_description = Some(ColorDescription {
        color_primaries: ColorPrimaries::BT709,
        transfer_characteristics: TransferCharacteristics::BT709,
        matrix_coefficients: MatrixCoefficients::BT709,
    });
    let mut speed_settings = SpeedSettings::from_preset(SPEED);
    // A robot that runs has no change of scene.
    speed_settings.scene_detection_mode = SceneDetectionSpeed::None;
    let settings = EncoderConfig {
        width,
        height,
        speed_settings,
        time_base: Rational::new(1, rate),
        // In the order of time: containers stay simple.
        low_latency: true,
        quantizer: QUANTISER,
        // Weighing what eyes see takes a seventh of the time; on plain ground and plain limbs nothing is seen of it.
        tune: Tune::Psnr,
        max_key_frame_interval: PART * rate,
        color_description,
        pixel_range: PixelRange::Limited,
        ..EncoderConfig::default()
    };
    let config = Config::new().with_encoder_config(settings).with_threads(1);
    let failed = |e: &dyn std::fmt::Display| Error::other(format!("the video: {e}"));
    let head = config.new_context::<u8>().map_err(|e| failed(&e))?.container_sequence_header();
    let part = (PART * rate) as usize;
    let parts = on_all(reel.count.div_ceil(part), |k| -> OurResult<_> {
        let pictures = k * part..reel.count.min((k + 1) * part);
        let count = pictures.len();
        let mut context: Context<u8> = config.new_context().map_err(|e| failed(&e))?;
        let mut packets = Vec::with_capacity(count);
        for picture in pictures.map(|i| reel.picture(i)) {
            let mut frame = context.new_frame();
            for (plane, bytes) in frame.planes.iter_mut().zip(planes(&picture, width, height)) {
                let across = if bytes.len() == width * height { width } else { width / 2 };
                plane.copy_from_raw_u8(&bytes, across, 1);
            }
            context.send_frame(frame).map_err(|e| failed(&e))?;
            drain(&mut context, &mut packets).map_err(|e| failed(&e))?;
        }
        context.flush();
        drain(&mut context, &mut packets).map_err(|e| failed(&e))?;
        match packets.len() == count {
            true => Ok(packets),
            false => Err(Error::other(format!("the video: {count} pictures became {}", packets.len()))),
        }
    });
    let parts = parts.into_iter().collect::<OurResult<Vec<_>>>()?;
    Ok(Film { width, height, rate, head, packets: parts.concat() })
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

//! Pictures: PNG and JPEG, told apart by their first bytes.
//!
//! JPEG is decoded with whole numbers and without the processor's wide instructions (the crate is built without those
//! features), so that a picture has the same pixels on every machine.

use super::super::error::FormatError;
use super::super::images::ImageShape;
use png::{ColorType, Transformations};
use std::fmt::Display;
use std::io::Cursor;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// The most bytes of a picture in memory.
const MOST_BYTES: usize = 1 << 28;
/// The first bytes of every JPEG picture.
const JPEG: [u8; 3] = [0xff, 0xd8, 0xff];

/// The pixels of a picture: 8 bits in each channel, grey or in three colours.
pub(super) fn decode(bytes: &[u8]) -> Result<(ImageShape, Vec<u8>), FormatError> {
    if bytes.starts_with(&JPEG) { decode_jpeg(bytes) } else { decode_png(bytes) }
}

fn wrong(found: &dyn Display) -> FormatError {
    // Decoders may say it in several lines.
    let found = found.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    FormatError::new(found, "a complete PNG or JPEG picture")
}

fn decode_png(bytes: &[u8]) -> Result<(ImageShape, Vec<u8>), FormatError> {
    let mut decoder = png::Decoder::new(Cursor::new(bytes));
    decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
    let mut reader = decoder.read_info().map_err(|error| wrong(&error))?;
    let size = reader.output_buffer_size().filter(|&size| size <= MOST_BYTES);
    let mut pixels = vec![0; size.ok_or_else(|| wrong(&"a picture that is too large"))?];
    let frame = reader.next_frame(&mut pixels).map_err(|error| wrong(&error))?;
    pixels.truncate(frame.buffer_size());
    let (all, kept) = match frame.color_type {
        ColorType::Grayscale => (1, 1),
        ColorType::GrayscaleAlpha => (2, 1),
        ColorType::Rgba => (4, 3),
        ColorType::Rgb | ColorType::Indexed => (3, 3),
    };
    // What is transparent has a colour too.
    let colours = |pixel: &[u8]| pixel[..kept].to_vec();
    let shape = ImageShape::new(kept as u32, frame.height, frame.width);
    Ok((shape, pixels.chunks_exact(all).flat_map(colours).collect()))
}

fn decode_jpeg(bytes: &[u8]) -> Result<(ImageShape, Vec<u8>), FormatError> {
    // A picture that is cut off is an error, and not one whose lower part is grey.
    let options = DecoderOptions::default().set_strict_mode(true);
    let mut decoder = JpegDecoder::new_with_options(Cursor::new(bytes), options);
    decoder.decode_headers().map_err(|error| wrong(&error))?;
    let is_grey = decoder.input_colorspace() == Some(ColorSpace::Luma);
    let (channels, colours) = if is_grey { (1, ColorSpace::Luma) } else { (3, ColorSpace::RGB) };
    decoder.set_options(options.jpeg_set_out_colorspace(colours));
    let size = decoder.output_buffer_size().filter(|&size| size <= MOST_BYTES);
    let mut pixels = vec![0; size.ok_or_else(|| wrong(&"a picture that is too large"))?];
    decoder.decode_into(&mut pixels).map_err(|error| wrong(&error))?;
    let (width, height) = decoder.dimensions().ok_or_else(|| wrong(&"a picture without a size"))?;
    let side = |side: usize| u32::try_from(side).map_err(|error| wrong(&error));
    Ok((ImageShape::new(channels, side(height)?, side(width)?), pixels))
}

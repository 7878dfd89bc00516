//! A picture as PNG. Each unit of length is two dots in both directions, so that letters are sharp on today's screens.

use super::shapes::{Part, Shape};
use embedded_graphics::mono_font::MonoTextStyle;
use embedded_graphics::mono_font::iso_8859_1::{FONT_7X13, FONT_7X13_BOLD};
use embedded_graphics::pixelcolor::Rgb888;
use embedded_graphics::prelude::*;
use embedded_graphics::primitives::{PrimitiveStyleBuilder, Rectangle};
use embedded_graphics::text::{Baseline, Text};
use std::convert::Infallible;

/// The dots of a unit of length.
const SCALE: usize = 2;

const BORDER: Rgb888 = Rgb888::new(0x55, 0x55, 0x55);

/// An image in memory.
struct Image {
    /// In dots.
    width: usize,
    height: usize,
    /// Red, green and blue of each dot, row by row.
    dots: Vec<u8>,
}

impl OriginDimensions for Image {
    fn size(&self) -> Size {
        let units = |dots: usize| u32::try_from(dots / SCALE).unwrap_or(u32::MAX);
        Size::new(units(self.width), units(self.height))
    }
}

impl DrawTarget for Image {
    type Color = Rgb888;
    type Error = Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<Rgb888>>>(&mut self, pixels: I) -> Result<(), Infallible> {
        for Pixel(point, colour) in pixels {
            let (Ok(x), Ok(y)) = (usize::try_from(point.x), usize::try_from(point.y)) else {
                continue;
            };
            for y in SCALE * y..SCALE * (y + 1) {
                for x in SCALE * x..SCALE * (x + 1) {
                    let place = 3 * (y * self.width + x);
                    if x < self.width && y < self.height {
                        self.dots[place..place + 3].copy_from_slice(&[colour.r(), colour.g(), colour.b()]);
                    }
                }
            }
        }
        Ok(())
    }
}

/// The picture.
pub(super) fn written(whole: &Part) -> Vec<u8> {
    let (width, height) = whole.size();
    let dots = |units: i32| SCALE * usize::try_from(units).unwrap_or(0);
    let (width, height) = (dots(width), dots(height));
    let mut image = Image {
        width,
        height,
        dots: vec![255; 3 * width * height],
    };
    for shape in whole.shapes() {
        let Ok(()) = draw(shape, &mut image);
    }
    encoded(&image)
}

fn draw(shape: &Shape, image: &mut Image) -> Result<(), Infallible> {
    match shape {
        Shape::Rectangle { at, size, fill } => {
            let [red, green, blue] = fill.colour();
            let mut style = PrimitiveStyleBuilder::new().fill_color(Rgb888::new(red, green, blue));
            if fill.has_border() {
                style = style.stroke_color(BORDER).stroke_width(1);
            }
            let length = |units: i32| u32::try_from(units).unwrap_or(0);
            Rectangle::new(Point::new(at.0, at.1), Size::new(length(size.0), length(size.1)))
                .into_styled(style.build())
                .draw(image)
        }
        Shape::Text { at, text, strong } => {
            let font = if *strong { &FONT_7X13_BOLD } else { &FONT_7X13 };
            let style = MonoTextStyle::new(font, Rgb888::BLACK);
            Text::with_baseline(text, Point::new(at.0, at.1), style, Baseline::Top)
                .draw(image)
                .map(drop)
        }
    }
}

fn encoded(image: &Image) -> Vec<u8> {
    let mut bytes = vec![];
    let size = |dots: usize| u32::try_from(dots).unwrap_or(u32::MAX);
    let mut encoder = png::Encoder::new(&mut bytes, size(image.width), size(image.height));
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let written = encoder
        .write_header()
        .and_then(|mut writer| writer.write_image_data(&image.dots));
    // It writes to memory, which cannot fail, and the size matches the dots.
    debug_assert!(written.is_ok(), "{written:?}");
    bytes
}

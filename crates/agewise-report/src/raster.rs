//! Rendering SVG text to PNG with the embedded fonts only, so that no installed font matters.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::{Database, Source};
use resvg::usvg::{FontResolver, Options, Tree};

use crate::error::DrawError;

/// Most pixels a PNG may have: about 256 MB while it is drawn.
const MOST_PIXELS: f64 = 64e6;
/// From this weight on, letters are bold.
const BOLD_FROM: u16 = 600;

/// Renders `svg` with `scale` pixels per SVG unit.
pub(crate) fn render_png(svg: &str, scale: f32) -> Result<Vec<u8>, DrawError> {
    if !scale.is_finite() || scale <= 0.0 {
        return Err(DrawError::Scale { scale });
    }
    let tree = Tree::from_str(svg, &options())
        .map_err(|error| DrawError::Render { message: error.to_string() })?;
    let width = (f64::from(tree.size().width()) * f64::from(scale)).round().max(1.0);
    let height = (f64::from(tree.size().height()) * f64::from(scale)).round().max(1.0);
    let too_large = || DrawError::TooLarge { width, height };
    if width * height > MOST_PIXELS {
        return Err(too_large());
    }
    let mut pixmap = Pixmap::new(width as u32, height as u32).ok_or_else(too_large)?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixmap.as_mut());
    pixmap.encode_png().map_err(|error| DrawError::Render { message: error.to_string() })
}

/// Options that answer every font family with `DejaVu Sans`.
fn options() -> Options<'static> {
    let mut fonts = Database::new();
    let regular = fonts.load_font_source(Source::Binary(Arc::new(dejavu::sans::regular())));
    let bold = fonts.load_font_source(Source::Binary(Arc::new(dejavu::sans::bold())));
    let (regular, bold) = (regular.first().copied(), bold.first().copied());
    Options {
        fontdb: Arc::new(fonts),
        font_resolver: FontResolver {
            select_font: Box::new(
                move |font, _| {
                    if font.weight() >= BOLD_FROM { bold } else { regular }
                },
            ),
            select_fallback: FontResolver::default_fallback_selector(),
        },
        ..Options::default()
    }
}

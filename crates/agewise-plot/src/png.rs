//! Rendering SVG to PNG with the embedded fonts only, so that no installed font matters, and what can go wrong.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::{Database, Source};
use resvg::usvg::{FontResolver, Options, Tree};

/// Why a figure could not be drawn or saved.
#[derive(Debug, thiserror::Error)]
pub enum DrawError {
    /// The file name does not say whether SVG or PNG is wanted.
    #[error(
        "cannot tell the picture format of \"{}\": {}; use a name that ends in .svg or .png",
        path.display(),
        extension(path)
    )]
    UnknownFormat {
        /// The file that was asked for.
        path: PathBuf,
    },
    /// The file could not be written; nothing was left behind.
    #[error("cannot write the figure to \"{}\": {source}", path.display())]
    Write {
        /// The file that was asked for.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The scale of a PNG is not a number above zero.
    #[error("the scale of a PNG must be a number above zero, not {scale}")]
    Scale {
        /// The scale that was asked for.
        scale: f32,
    },
    /// The PNG would have more pixels than is sensible.
    #[error("a PNG of {width} × {height} pixels is too large; use a smaller scale or figure")]
    TooLarge {
        /// Width in pixels.
        width: f64,
        /// Height in pixels.
        height: f64,
    },
    /// The renderer refused the drawing or the picture.
    #[error("cannot render the figure as PNG: {message}")]
    Render {
        /// What the renderer said.
        message: String,
    },
}

/// How the name of a file ends.
fn extension(path: &Path) -> String {
    path.extension().map_or_else(
        || "it has no extension".to_owned(),
        |extension| format!("its extension is \".{}\"", extension.to_string_lossy()),
    )
}

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

//! What can go wrong when a figure is drawn or saved.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a figure could not be drawn or saved.
#[derive(Debug)]
pub enum DrawError {
    /// The file name does not say whether SVG or PNG is wanted.
    UnknownFormat {
        /// The file that was asked for.
        path: PathBuf,
    },
    /// The file could not be written; nothing was left behind.
    Write {
        /// The file that was asked for.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The scale of a PNG is not a number above zero.
    Scale {
        /// The scale that was asked for.
        scale: f32,
    },
    /// The PNG would have more pixels than is sensible.
    TooLarge {
        /// Width in pixels.
        width: f64,
        /// Height in pixels.
        height: f64,
    },
    /// The renderer refused the drawing or the picture.
    Render {
        /// What the renderer said.
        message: String,
    },
}

impl fmt::Display for DrawError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownFormat { path } => {
                let found = path.extension().map_or_else(
                    || "it has no extension".to_owned(),
                    |extension| format!("its extension is \".{}\"", extension.to_string_lossy()),
                );
                write!(
                    formatter,
                    "cannot tell the picture format of \"{}\": {found}; use a name that ends in \
                     .svg or .png",
                    path.display()
                )
            }
            Self::Write { path, source } => {
                write!(formatter, "cannot write the figure to \"{}\": {source}", path.display())
            }
            Self::Scale { scale } => {
                write!(formatter, "the scale of a PNG must be a number above zero, not {scale}")
            }
            Self::TooLarge { width, height } => write!(
                formatter,
                "a PNG of {width} × {height} pixels is too large; use a smaller scale or figure"
            ),
            Self::Render { message } => {
                write!(formatter, "cannot render the figure as PNG: {message}")
            }
        }
    }
}

impl std::error::Error for DrawError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Write { source, .. } => Some(source),
            _ => None,
        }
    }
}

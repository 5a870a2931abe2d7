//! Measuring and breaking text with the metrics of the embedded font.

use std::sync::LazyLock;

use skrifa::instance::{LocationRef, Size};
use skrifa::{FontRef, MetadataProvider};

/// Thickness of the letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    /// Running text.
    Regular,
    /// Titles.
    Bold,
}

/// How a piece of text is set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextStyle {
    pub(crate) size: f64,
    pub(crate) weight: Weight,
    pub(crate) fill: &'static str,
}

static REGULAR: LazyLock<Option<FontRef<'static>>> =
    LazyLock::new(|| FontRef::new(dejavu::sans::regular()).ok());
static BOLD: LazyLock<Option<FontRef<'static>>> =
    LazyLock::new(|| FontRef::new(dejavu::sans::bold()).ok());

/// Width of a character the font does not have, in ems.
const UNKNOWN_CHARACTER_WIDTH: f64 = 0.7;

impl TextStyle {
    /// Distance between the baselines of two lines of this text.
    pub(crate) fn line_height(&self) -> f64 {
        (self.size * 1.4).round()
    }

    /// Distance from the middle of a capital letter or digit down to its baseline.
    pub(crate) fn half_capital_height(&self) -> f64 {
        self.size * 0.36
    }

    /// Width of `text` on one line.
    pub(crate) fn width(&self, text: &str) -> f64 {
        let font = match self.weight {
            Weight::Regular => &*REGULAR,
            Weight::Bold => &*BOLD,
        };
        let Some(font) = font else {
            return text.chars().count() as f64 * UNKNOWN_CHARACTER_WIDTH * self.size;
        };
        let glyphs = font.charmap();
        let metrics = font.glyph_metrics(Size::new(self.size as f32), LocationRef::default());
        text.chars()
            .map(|character| {
                glyphs
                    .map(character)
                    .and_then(|glyph| metrics.advance_width(glyph))
                    .map_or(UNKNOWN_CHARACTER_WIDTH * self.size, f64::from)
            })
            .sum()
    }

    /// Breaks `text` into lines no wider than `max_width`: at spaces where it can, inside a word
    /// where it must. Line breaks in the text are kept; blank text gives no lines.
    pub(crate) fn wrap(&self, text: &str, max_width: f64) -> Vec<String> {
        let mut lines = Vec::new();
        for paragraph in text.lines() {
            let mut line = String::new();
            for word in paragraph.split_whitespace() {
                let joined =
                    if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
                if self.width(&joined) <= max_width {
                    line = joined;
                    continue;
                }
                if !line.is_empty() {
                    lines.push(std::mem::take(&mut line));
                }
                line = self.break_word(word, max_width, &mut lines);
            }
            if !line.is_empty() {
                lines.push(line);
            }
        }
        lines
    }

    /// Cuts a word into full lines, added to `lines`, and returns what is left of it.
    fn break_word(&self, word: &str, max_width: f64, lines: &mut Vec<String>) -> String {
        let mut rest = String::new();
        for character in word.chars() {
            rest.push(character);
            if self.width(&rest) > max_width && rest.chars().count() > 1 {
                rest.pop();
                lines.push(std::mem::take(&mut rest));
                rest.push(character);
            }
        }
        rest
    }

    /// `text` on one line, with its end replaced by "…" when it is wider than `max_width`.
    pub(crate) fn shorten(&self, text: &str, max_width: f64) -> String {
        let single_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if self.width(&single_line) <= max_width {
            return single_line;
        }
        let mut kept = single_line;
        while kept.pop().is_some() {
            let candidate = format!("{}…", kept.trim_end());
            if self.width(&candidate) <= max_width {
                return candidate;
            }
        }
        "…".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STYLE: TextStyle = TextStyle { size: 12.0, weight: Weight::Regular, fill: "#000" };

    #[test]
    fn widths_come_from_the_font() {
        let bold = TextStyle { weight: Weight::Bold, ..STYLE };
        assert!(STYLE.width("W") > 2.0 * STYLE.width("i"));
        assert!(bold.width("markov-optimal") > STYLE.width("markov-optimal"));
        // All digits of DejaVu Sans have the same advance: 1303 of 2048 units.
        assert!((STYLE.width("10") - 2.0 * 12.0 * 1303.0 / 2048.0).abs() < 0.05);
    }

    #[test]
    fn wrapped_lines_fit_and_keep_every_word() {
        let text = "Every client is chosen with the chance of its age, round after round.";
        let lines = STYLE.wrap(text, 120.0);
        assert!(lines.len() > 2);
        assert!(lines.iter().all(|line| STYLE.width(line) <= 120.0));
        assert_eq!(lines.join(" "), text);
    }

    #[test]
    fn a_word_wider_than_the_line_is_broken() {
        let lines = STYLE.wrap(&"x".repeat(60), 50.0);
        assert!(lines.iter().all(|line| STYLE.width(line) <= 50.0));
        assert_eq!(lines.concat(), "x".repeat(60));
        assert_eq!(STYLE.wrap("abc", 0.0), ["a", "b", "c"]);
    }

    #[test]
    fn blank_text_has_no_lines_and_breaks_are_kept() {
        assert!(STYLE.wrap(" \n ", 100.0).is_empty());
        assert_eq!(STYLE.wrap("a\nb", 100.0), ["a", "b"]);
    }

    #[test]
    fn shortened_text_fits_and_shows_that_it_was_cut() {
        assert_eq!(STYLE.shorten("short\nname", 200.0), "short name");
        let cut = STYLE.shorten("a name that is far too long for its place", 80.0);
        assert!(cut.ends_with('…') && STYLE.width(&cut) <= 80.0);
        assert_eq!(STYLE.shorten("long", 1.0), "…");
    }
}

//! Writing SVG text: escaping, short numbers, and the few elements a figure is made of.

use crate::geometry::{Point, Rect};
use crate::text::{TextStyle, Weight};
use crate::theme;
use std::fmt::Write as _;

/// `value` with at most two decimals and no trailing zeros: enough for a tenth of a pixel at any
/// sensible scale, and the same bytes on every run.
pub(crate) fn number(value: f64) -> String {
    let fixed = format!("{value:.2}");
    let short = fixed.trim_end_matches('0').trim_end_matches('.');
    if short == "-0" { "0".to_owned() } else { short.to_owned() }
}

/// `text` made safe for XML element content and attribute values.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            '\t' | '\n' | '\r' => escaped.push(' '),
            // XML 1.0 has no way to write these, not even as a character reference.
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Which point of a text its position names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    /// The left end of the baseline.
    Start,
    /// The middle of the baseline.
    Middle,
    /// The right end of the baseline.
    End,
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stroke<'a> {
    pub(crate) color: &'a str,
    pub(crate) width: f64,
    /// Lengths of dashes and gaps; empty for a solid line.
    pub(crate) dash: &'a str,
}

impl Stroke<'_> {
    fn attributes(&self) -> String {
        let dash = match self.dash {
            "" => String::new(),
            pattern => format!(r#" stroke-dasharray="{pattern}""#),
        };
        format!(r#"stroke="{}" stroke-width="{}"{dash}"#, self.color, number(self.width))
    }
}

/// The `d` attribute of a path, under construction.
#[derive(Debug, Default)]
pub(crate) struct PathData(String);

impl PathData {
    /// Whether nothing has been added.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The attribute by which a page finds the whole of which this is a part; nothing where it is all.
    fn kept(&self, whole: &Self) -> String {
        if self.0 == whole.0 { String::new() } else { format!(r#" data-all="{}""#, whole.0) }
    }

    /// Adds straight lines through all `points`.
    pub(crate) fn polyline(&mut self, points: &[Point]) {
        for (index, point) in points.iter().enumerate() {
            self.0.push(if index == 0 { 'M' } else { 'L' });
            self.push_pair(point.x, point.y);
        }
    }

    /// Adds a closed shape with these corners.
    pub(crate) fn closed(&mut self, corners: &[Point]) {
        if !corners.is_empty() {
            self.polyline(corners);
            self.0.push('Z');
        }
    }

    /// Adds a closed shape; `corners` are offsets from `center`.
    pub(crate) fn polygon(&mut self, center: Point, corners: impl Iterator<Item = (f64, f64)>) {
        for (index, (dx, dy)) in corners.enumerate() {
            self.0.push(if index == 0 { 'M' } else { 'L' });
            self.push_pair(center.x + dx, center.y + dy);
        }
        self.0.push('Z');
    }

    /// Adds an upright rectangle.
    pub(crate) fn rect(&mut self, rect: &Rect) {
        self.0.push('M');
        self.push_pair(rect.x, rect.y);
        let (width, height) = (number(rect.width), number(rect.height));
        self.0.push_str(&["h", &width, "v", &height, "h-", &width, "Z"].concat());
    }

    /// Adds a circle.
    pub(crate) fn circle(&mut self, center: Point, radius: f64) {
        let (radius_text, diameter) = (number(radius), number(2.0 * radius));
        self.0.push('M');
        self.push_pair(center.x - radius, center.y);
        for sweep in [&diameter, &format!("-{diameter}")] {
            self.0
                .push_str(&["a", &radius_text, ",", &radius_text, " 0 1,0 ", sweep, ",0"].concat());
        }
        self.0.push('Z');
    }

    fn push_pair(&mut self, x: f64, y: f64) {
        self.0.push_str(&number(x));
        self.0.push(',');
        self.0.push_str(&number(y));
    }
}

/// A path of horizontal lines, each moved to from the end of the one before: far shorter than
/// with absolute positions. Positions must be exact in two decimals, or errors would add up.
#[derive(Debug, Default)]
pub(crate) struct RunPath {
    data: PathData,
    end: Option<Point>,
}

impl RunPath {
    /// Adds a line to the right.
    pub(crate) fn add(&mut self, from: Point, length: f64) {
        match self.end {
            None => {
                self.data.0.push('M');
                self.data.push_pair(from.x, from.y);
            }
            Some(end) => {
                self.data.0.push('m');
                self.data.push_pair(from.x - end.x, from.y - end.y);
            }
        }
        self.data.0.push('h');
        self.data.0.push_str(&number(length));
        self.end = Some(Point { x: from.x + length, y: from.y });
    }
}

/// An SVG document, written element by element from back to front.
#[derive(Debug)]
pub(crate) struct SvgWriter {
    document: String,
}

impl SvgWriter {
    /// Starts a document on a white page, with a name and a description for screen readers.
    pub(crate) fn new(width: f64, height: f64, title: &str, description: &str) -> Self {
        let (width, height) = (number(width), number(height));
        let mut writer = Self { document: String::new() };
        writer.element(&format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" font-family="{}">"#,
            theme::FONT_STACK
        ));
        writer.element(&format!("<title>{}</title>", escape(title)));
        writer.element(&format!("<desc>{}</desc>", escape(description)));
        writer.element(&format!(
            r#"<rect width="{width}" height="{height}" fill="{}"/>"#,
            theme::BACKGROUND
        ));
        writer
    }

    /// Ends the document.
    pub(crate) fn finish(mut self) -> String {
        self.element("</svg>");
        self.document
    }

    /// Draws a straight line.
    pub(crate) fn line(&mut self, from: Point, to: Point, stroke: &Stroke) {
        self.element(&format!(
            r#"<line x1="{}" y1="{}" x2="{}" y2="{}" {}/>"#,
            number(from.x),
            number(from.y),
            number(to.x),
            number(to.y),
            stroke.attributes()
        ));
    }

    /// Draws the outline of a path, unless it is empty.
    pub(crate) fn stroke_path(&mut self, path: &PathData, stroke: &Stroke) {
        if !path.is_empty() {
            self.element(&format!(
                r#"<path d="{}" fill="none" {} stroke-linejoin="round"/>"#,
                path.0,
                stroke.attributes()
            ));
        }
    }

    /// Draws the outline of the part of a path that is in view, and keeps the whole for a page that shows another part.
    pub(crate) fn stroke_part(&mut self, part: &PathData, whole: &PathData, stroke: &Stroke) {
        if !whole.is_empty() {
            self.element(&format!(
                r#"<path d="{}" fill="none" {} stroke-linejoin="round"{}/>"#,
                part.0,
                stroke.attributes(),
                part.kept(whole)
            ));
        }
    }

    /// Fills a path, with an outline when one is given, unless the path is empty.
    pub(crate) fn fill_path(&mut self, path: &PathData, fill: &str, outline: Option<&Stroke>) {
        if !path.is_empty() {
            let outline =
                outline.map_or_else(String::new, |stroke| format!(" {}", stroke.attributes()));
            self.element(&format!(r#"<path d="{}" fill="{fill}"{outline}/>"#, path.0));
        }
    }

    /// Fills a path so that what is behind it shines through, with a faint outline that keeps its
    /// border visible where several of them overlap and in print.
    pub(crate) fn tint_path(&mut self, path: &PathData, color: &str) {
        self.tint_part(path, path, color);
    }

    /// Tints the part of a path that is in view, and keeps the whole for a page that shows another part.
    pub(crate) fn tint_part(&mut self, part: &PathData, whole: &PathData, color: &str) {
        if !whole.is_empty() {
            self.element(&format!(
                r#"<path d="{}" fill="{color}" fill-opacity="{}" stroke="{color}" stroke-opacity="{}" stroke-width="0.8" stroke-linejoin="round"{}/>"#,
                part.0,
                number(theme::TINT_OPACITY),
                number(theme::TINT_OUTLINE_OPACITY),
                part.kept(whole)
            ));
        }
    }

    /// Draws horizontal lines of this thickness.
    pub(crate) fn stroke_runs(&mut self, path: &RunPath, color: &str, width: f64) {
        self.stroke_path(&path.data, &Stroke { color, width, dash: "" });
    }

    /// Draws `contents` in a group with these attributes, by which the script of a page finds it; without contents there
    /// is no group.
    pub(crate) fn group(&mut self, attributes: &[(&str, &str)], contents: impl FnOnce(&mut Self)) {
        let begin = self.document.len();
        let mut tag = String::from("<g");
        for (name, value) in attributes {
            _ = write!(tag, r#" {name}="{}""#, escape(value));
        }
        self.element(&(tag + ">"));
        let empty = self.document.len();
        contents(self);
        if self.document.len() == empty {
            self.document.truncate(begin);
        } else {
            self.element("</g>");
        }
    }

    /// Draws what belongs to a named series: a page can hide all that has one name. What has no name is drawn as it is.
    pub(crate) fn series(&mut self, name: &str, contents: impl FnOnce(&mut Self)) {
        if name.trim().is_empty() {
            contents(self);
        } else {
            self.group(&[("data-series", name)], contents);
        }
    }

    /// A text that browsers show beside the pointer when it rests on the group around it.
    pub(crate) fn tooltip(&mut self, text: &str) {
        self.element(&format!("<title>{}</title>", escape(text)));
    }

    /// Fills the marks of values, and notes where these are: the shape of a mark does not say it.
    pub(crate) fn fill_marks(
        &mut self,
        path: &PathData,
        fill: &str,
        outline: Option<&Stroke>,
        values: &[Point],
    ) {
        if !path.is_empty() {
            let outline =
                outline.map_or_else(String::new, |stroke| format!(" {}", stroke.attributes()));
            let at: Vec<String> =
                values.iter().map(|at| format!("{},{}", number(at.x), number(at.y))).collect();
            self.element(&format!(
                r#"<path d="{}" fill="{fill}"{outline} data-at="{}"/>"#,
                path.0,
                at.join(" ")
            ));
        }
    }

    /// Draws `contents` without smoothing their edges: shapes that touch leave no seam then.
    pub(crate) fn crisp(&mut self, contents: impl FnOnce(&mut Self)) {
        self.element(r#"<g shape-rendering="crispEdges">"#);
        contents(self);
        self.element("</g>");
    }

    /// Writes text on one line.
    pub(crate) fn text(&mut self, text: &str, at: Point, anchor: Anchor, style: &TextStyle) {
        self.write_text(text, at, anchor, style, "");
    }

    /// Writes text on one line with a white rim, readable on top of grid lines and data.
    pub(crate) fn halo_text(&mut self, text: &str, at: Point, anchor: Anchor, style: &TextStyle) {
        let rim = format!(
            r#" stroke="{}" stroke-width="3" stroke-linejoin="round" paint-order="stroke""#,
            theme::BACKGROUND
        );
        self.write_text(text, at, anchor, style, &rim);
    }

    /// Writes text that runs upwards, centred on `at`.
    pub(crate) fn upward_text(&mut self, text: &str, at: Point, style: &TextStyle) {
        let turn = format!(r#" transform="rotate(-90 {} {})""#, number(at.x), number(at.y));
        self.write_text(text, at, Anchor::Middle, style, &turn);
    }

    fn write_text(
        &mut self,
        text: &str,
        at: Point,
        anchor: Anchor,
        style: &TextStyle,
        more_attributes: &str,
    ) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => r#" text-anchor="middle""#,
            Anchor::End => r#" text-anchor="end""#,
        };
        let weight = match style.weight {
            Weight::Regular => "",
            Weight::Bold => r#" font-weight="bold""#,
        };
        self.element(&format!(
            r#"<text x="{}" y="{}" font-size="{}"{weight} fill="{}"{anchor}{more_attributes}>{}</text>"#,
            number(at.x),
            number(at.y),
            number(style.size),
            style.fill,
            escape(text)
        ));
    }

    fn element(&mut self, element: &str) {
        self.document.push_str(element);
        self.document.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(number(1.0), "1");
        assert_eq!(number(100.0), "100");
        assert_eq!(number(0.126), "0.13");
        assert_eq!(number(-0.001), "0");
        assert_eq!(number(-2.50), "-2.5");
    }

    #[test]
    fn markup_and_control_characters_are_escaped() {
        assert_eq!(escape(r#"<a & "b" 'c'>"#), "&lt;a &amp; &quot;b&quot; &apos;c&apos;&gt;");
        assert_eq!(escape("a\u{0}b\u{1b}c\nd"), "a\u{fffd}b\u{fffd}c d");
        assert_eq!(escape("Größe 10⁻³"), "Größe 10⁻³");
    }

    #[test]
    fn rectangles_are_closed_paths() {
        let mut path = PathData::default();
        path.rect(&Rect { x: 1.0, y: 2.5, width: 3.0, height: 4.0 });
        assert_eq!(path.0, "M1,2.5h3v4h-3Z");
    }

    #[test]
    fn empty_paths_are_not_written() {
        let mut writer = SvgWriter::new(10.0, 10.0, "t", "d");
        writer.stroke_path(&PathData::default(), &Stroke { color: "#000", width: 1.0, dash: "" });
        writer.fill_path(&PathData::default(), "#000", None);
        writer.tint_path(&PathData::default(), "#000");
        assert!(!writer.finish().contains("<path"));
    }
}

//! Writing a page as HTML that is also well-formed XML.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::interaction::{choices, content_security_policy, json, script};
use super::{Block, KeyFigure, Link, LivePage, LiveState, Page};
use crate::svg::{escape, number};
use crate::theme::DARK;

const STYLE: &str = include_str!("page.css");
/// What reports add: what one can play with, and the dark.
const REPORT_STYLE: &str = include_str!("report.css");

/// The policy forbids every request, so that the page stays self-contained whatever is in it; the
/// empty icon keeps browsers from asking a server for one.
fn head(policy: &str) -> String {
    format!(
        r#"<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta http-equiv="Content-Security-Policy" content="{policy}"/>
<link rel="icon" href="data:,"/>
"#
    )
}

/// The style of a report: figures have the colours of paper, and others in the dark.
fn report_style() -> String {
    let mut style =
        format!("\n{STYLE}{REPORT_STYLE}@media screen and (prefers-color-scheme: dark) {{\n");
    for (light, dark) in DARK {
        _ = writeln!(style, "  svg [fill=\"{light}\"] {{ fill: {dark}; }}");
        _ = writeln!(style, "  svg [stroke=\"{light}\"] {{ stroke: {dark}; }}");
    }
    style.push_str("}\n");
    style
}

/// How much a figure may shrink on narrow screens before it scrolls instead: its numbers have to
/// stay readable.
const SMALLEST_FIGURE_SCALE: f64 = 0.7;

/// Writes the whole page.
pub(super) fn write(page: &Page) -> String {
    let mut blocks = String::new();
    write_blocks(&mut blocks, page, &anchors(page));
    frame(page, &blocks, None)
}

/// Writes a page about something that goes on, and the sections of it that change.
pub(super) fn write_live(page: &Page, state: &LiveState) -> LivePage {
    let now = format!(
        "<section id=\"now\" data-state=\"{}\">\n<h2>{}</h2>\n<p>{}</p>\n</section>\n",
        escape(&state.state),
        escape(&state.headline),
        escape(&state.detail)
    );
    let mut past = format!("<section id=\"past\" data-version=\"{}\">\n", escape(&state.version));
    write_blocks(&mut past, page, &anchors(page));
    past.push_str("</section>\n");
    LivePage { whole: frame(page, &format!("{now}{past}"), Some(&state.source)), now, past }
}

/// The page around its blocks; with the name of its source it asks that for what is new.
fn frame(page: &Page, blocks: &str, source: Option<&str>) -> String {
    // The script is cut out of XML with comments: what is hashed is all that stands in the element.
    let (style, script) = (report_style(), format!("//<![CDATA[\n{}\n//]]>", script()));
    let source_attribute =
        source.map_or(String::new(), |source| format!(" data-source=\"{}\"", escape(source)));
    let mut html = format!("<!DOCTYPE html>\n<html lang=\"en\"{source_attribute}>\n<head>\n");
    html.push_str(&head(&content_security_policy(&style, &script, source.is_some())));
    _ = writeln!(html, "<title>{}</title>\n<style>{style}</style>\n</head>", escape(&page.title));
    _ = writeln!(html, "<body>\n<header>\n<h1>{}</h1>", escape(&page.title));
    write_text(&mut html, "p", " class=\"lead\"", &page.lead);
    html.push_str("</header>\n");
    write_contents(&mut html, page, &anchors(page));
    if source.is_some() {
        html.push_str("<p id=\"gone\" role=\"alert\" hidden=\"\"></p>\n");
    }
    _ = write!(html, "<main>\n{blocks}</main>\n");
    write_text(&mut html, "footer", "", &page.footer);
    write_data(&mut html, "id=\"series\"", &choices(&page.choices));
    _ = writeln!(html, "<script>{script}</script>");
    if source.is_some() {
        html.push_str("<script src=\"live.js\"></script>\n");
    }
    html.push_str("</body>\n</html>\n");
    html
}

/// The style of a page, and its blocks.
pub(super) fn write_parts(page: &Page) -> (&'static str, String) {
    let mut html = String::new();
    write_blocks(&mut html, page, &anchors(page));
    (STYLE, html)
}

fn write_blocks(html: &mut String, page: &Page, anchors: &[String]) {
    let mut next_anchor = anchors.iter();
    let (mut labels, mut section) = (Labels::default(), "");
    for block in &page.blocks {
        match block {
            Block::Heading(text) => {
                section = text;
                let anchor = next_anchor.next().map_or("", String::as_str);
                _ = writeln!(html, r#"<h2 id="{anchor}">{}</h2>"#, escape(text));
            }
            Block::Subheading(text) => write_text(html, "h3", "", text),
            Block::Paragraph(text) => write_text(html, "p", "", text),
            Block::List(items) => write_list(html, items),
            Block::Note(text) => {
                write_text(html, "p", " class=\"remark\" role=\"note\"", text);
            }
            Block::Figure { title, svg, width, reading, files } => {
                let name = if title.trim().is_empty() { "Figure" } else { title };
                let label = labels.unlike_others(name, section);
                write_figure(html, &label, svg, *width, (reading, files));
            }
            Block::Matrix { folded, matrix } => {
                let label = labels.unlike_others(matrix.name(), section);
                if let Some((summary, is_open)) = folded {
                    let open = if *is_open { " open=\"\"" } else { "" };
                    _ = writeln!(html, "<details{open}>\n<summary>{}</summary>", escape(summary));
                }
                matrix.write_to(html, &label);
                html.push_str(if folded.is_some() { "</details>\n" } else { "" });
            }
            Block::Sentences { summary, sentences } => write_sentences(html, summary, sentences),
            Block::Links(links) => {
                _ = writeln!(html, "<p class=\"links\">{}</p>", link_list(links));
            }
            Block::Units(units) => write_data(html, "class=\"units\"", &json(units)),
            Block::Table(table) => {
                table.write_to(html, &labels.unlike_others(table.name(), section));
            }
            Block::KeyFigures(figures) => write_key_figures(html, figures),
            Block::Preformatted { summary, text } => {
                _ = writeln!(
                    html,
                    "<details>\n<summary>{}</summary>\n<pre tabindex=\"0\">{}</pre>\n</details>",
                    escape(summary),
                    escape_lines(text)
                );
            }
        }
    }
}

/// The labels of regions so far: readers jump from one to another by them, so that no two may be the same.
#[derive(Default)]
struct Labels(BTreeSet<String>);

impl Labels {
    /// A label for something of this name: with its section, and a number, where others are called like it.
    fn unlike_others(&mut self, name: &str, section: &str) -> String {
        let longer =
            if section.is_empty() { name.to_owned() } else { format!("{name} ({section})") };
        let numbered = (2_usize..).map(|count| format!("{longer} {count}"));
        let mut candidates = [name.to_owned(), longer.clone()].into_iter().chain(numbered);
        let free = candidates.find(|candidate| self.0.insert(candidate.clone()));
        free.unwrap_or_else(|| name.to_owned())
    }
}

/// Writes an element around `text`, unless the text is blank.
fn write_text(html: &mut String, tag: &str, attributes: &str, text: &str) {
    if !text.trim().is_empty() {
        _ = writeln!(html, "<{tag}{attributes}>{}</{tag}>", escape(text));
    }
}

fn write_list(html: &mut String, items: &[String]) {
    if items.iter().all(|item| item.trim().is_empty()) {
        return;
    }
    html.push_str("<ul>\n");
    for item in items {
        write_text(html, "li", "", item);
    }
    html.push_str("</ul>\n");
}

fn headings(page: &Page) -> impl Iterator<Item = &str> {
    page.blocks.iter().filter_map(|block| match block {
        Block::Heading(text) => Some(text.as_str()),
        _ => None,
    })
}

/// A different anchor for each heading, made of the letters and digits of its text.
fn anchors(page: &Page) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let anchor = |heading: &str| {
        let words: Vec<String> = heading
            .split(|character: char| !character.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_ascii_lowercase)
            .collect();
        let plain = if words.is_empty() { "section".to_owned() } else { words.join("-") };
        let numbered = (2_usize..).map(|count| format!("{plain}-{count}"));
        let mut candidates = [plain.clone()].into_iter().chain(numbered);
        candidates.find(|candidate| taken.insert(candidate.clone())).unwrap_or(plain)
    };
    headings(page).map(anchor).collect()
}

fn write_contents(html: &mut String, page: &Page, anchors: &[String]) {
    if anchors.len() < 2 {
        return;
    }
    html.push_str("<nav aria-label=\"Contents\">\n<ol>\n");
    for (heading, anchor) in headings(page).zip(anchors) {
        _ = writeln!(html, r##"<li><a href="#{anchor}">{}</a></li>"##, escape(heading));
    }
    html.push_str("</ol>\n</nav>\n");
}

fn write_figure(
    html: &mut String,
    label: &str,
    svg: &str,
    width: f64,
    (reading, files): (&str, &[Link]),
) {
    _ = writeln!(
        html,
        "<figure>\n<div class=\"scroll chart\" role=\"region\" tabindex=\"0\" aria-label=\"{}\">\n\
         <div style=\"min-width:{}px\">\n{svg}</div>\n</div>",
        escape(label),
        number((SMALLEST_FIGURE_SCALE * width).round())
    );
    let links = match files {
        [] => String::new(),
        files => format!("<span class=\"files\">{}</span>", link_list(files)),
    };
    if !reading.trim().is_empty() {
        _ = writeln!(
            html,
            "<figcaption><strong>How to read it.</strong> {}{links}</figcaption>",
            escape(reading)
        );
    }
    html.push_str("</figure>\n");
}

/// Links beside each other.
fn link_list(links: &[Link]) -> String {
    let link = |Link { text, path }: &Link| {
        format!(r#"<a href="{}">{}</a>"#, escape(&percent_encoded(path)), escape(text))
    };
    links.iter().map(link).collect::<Vec<_>>().join(" ")
}

/// A relative path as a link: a name in it can neither be taken for a scheme nor for a query.
fn percent_encoded(path: &str) -> String {
    let mut link = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                link.push(char::from(byte));
            }
            other => _ = write!(link, "%{other:02X}"),
        }
    }
    link
}

/// Sentences with ids, folded away.
fn write_sentences(html: &mut String, summary: &str, sentences: &[(String, String)]) {
    if sentences.is_empty() {
        return;
    }
    _ = writeln!(html, "<details>\n<summary>{}</summary>\n<ul>", escape(summary));
    for (id, sentence) in sentences {
        _ = writeln!(html, r#"<li id="{}">{}</li>"#, escape(id), escape(sentence));
    }
    html.push_str("</ul>\n</details>\n");
}

/// Data for the script, which no browser runs.
fn write_data(html: &mut String, attribute: &str, json: &str) {
    _ = writeln!(html, r#"<script type="application/json" {attribute}>{json}</script>"#);
}

fn write_key_figures(html: &mut String, figures: &[KeyFigure]) {
    if figures.is_empty() {
        return;
    }
    html.push_str("<dl>\n");
    for KeyFigure { label, value, note } in figures {
        _ = write!(html, "<div><dt>{}</dt><dd>{}</dd>", escape(label), escape(value));
        if !note.trim().is_empty() {
            _ = write!(html, "<dd class=\"note\">{}</dd>", escape(note));
        }
        html.push_str("</div>\n");
    }
    html.push_str("</dl>\n");
}

/// `text` made safe for XML, with its line breaks.
fn escape_lines(text: &str) -> String {
    text.lines().map(escape).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_simple_and_differ() {
        let page = Page::new("t")
            .heading("Age & fairness")
            .heading("age, fairness!")
            .heading("Σ")
            .heading("Age fairness 2");
        assert_eq!(
            anchors(&page),
            ["age-fairness", "age-fairness-2", "section", "age-fairness-2-2"]
        );
    }

    #[test]
    fn preformatted_text_keeps_its_lines() {
        assert_eq!(escape_lines("a <b>\n  c\n"), "a &lt;b&gt;\n  c");
    }

    #[test]
    fn one_heading_needs_no_contents() {
        assert!(!write(&Page::new("t").heading("a")).contains("<nav"));
        assert!(write(&Page::new("t").heading("a").heading("b")).contains("<nav"));
    }

    #[test]
    fn no_two_regions_have_the_same_label() {
        let mut labels = Labels::default();
        let mut label = |name: &str, section: &str| labels.unlike_others(name, section);
        assert_eq!(label("Load", "first"), "Load");
        assert_eq!(label("Load", "second"), "Load (second)");
        assert_eq!(label("Load", "second"), "Load (second) 2");
        assert_eq!(label("Table", ""), "Table");
        assert_eq!(label("Table", ""), "Table 2");
    }
}

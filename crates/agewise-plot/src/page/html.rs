//! Writing a page as HTML that is also well-formed XML.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::{Block, KeyFigure, Page};
use crate::svg::{escape, number};

const STYLE: &str = include_str!("page.css");

/// The policy forbids every request, so that the page stays self-contained whatever is in it; the
/// empty icon keeps browsers from asking a server for one.
const HEAD: &str = r#"<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:"/>
<link rel="icon" href="data:,"/>
"#;

/// How much a figure may shrink on narrow screens before it scrolls instead: its numbers have to
/// stay readable.
const SMALLEST_FIGURE_SCALE: f64 = 0.7;

/// Writes the whole page.
pub(super) fn write(page: &Page) -> String {
    let anchors = anchors(page);
    let mut html = String::from("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n");
    html.push_str(HEAD);
    _ = writeln!(html, "<title>{}</title>\n<style>\n{STYLE}</style>\n</head>", escape(&page.title));
    _ = writeln!(html, "<body>\n<header>\n<h1>{}</h1>", escape(&page.title));
    write_text(&mut html, "p", " class=\"lead\"", &page.lead);
    html.push_str("</header>\n");
    write_contents(&mut html, page, &anchors);
    html.push_str("<main>\n");
    write_blocks(&mut html, page, &anchors);
    html.push_str("</main>\n");
    write_text(&mut html, "footer", "", &page.footer);
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
            Block::Figure { title, svg, width, reading } => {
                let name = if title.trim().is_empty() { "Figure" } else { title };
                write_figure(html, &labels.unlike_others(name, section), svg, *width, reading);
            }
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

fn write_figure(html: &mut String, label: &str, svg: &str, width: f64, reading: &str) {
    _ = writeln!(
        html,
        "<figure>\n<div class=\"scroll chart\" role=\"region\" tabindex=\"0\" aria-label=\"{}\">\n\
         <div style=\"min-width:{}px\">\n{svg}</div>\n</div>",
        escape(label),
        number((SMALLEST_FIGURE_SCALE * width).round())
    );
    if !reading.trim().is_empty() {
        _ = writeln!(
            html,
            "<figcaption><strong>How to read it.</strong> {}</figcaption>",
            escape(reading)
        );
    }
    html.push_str("</figure>\n");
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

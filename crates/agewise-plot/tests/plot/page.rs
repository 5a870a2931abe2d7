//! Report pages as browsers read them.

use std::collections::BTreeSet;

use agewise_plot::{
    Axis, AxisUnit, Cell, Column, Comparison, Figure, HeatMap, KeyFigure, Link, LiveState, Matrix,
    MatrixCell, Page, Panel, Series, SeriesStyle, Table,
};
use proptest::prelude::*;
use resvg::usvg::roxmltree::{Document, Error as XmlError, Node, ParsingOptions};

fn figure(title: &str) -> Figure {
    let line = Series::new("a", SeriesStyle::Line, [(0.0, 1.0), (1.0, 2.0)]);
    let axis = || Axis::linear("axis");
    Figure::new(title)
        .panel(Panel::new("p", axis(), axis()).series(line.band([(0.0, 0.0, 1.0)])))
        .panel(HeatMap::new("m", axis(), axis(), axis()).rows([[1.0, 2.0], [3.0, f64::NAN]]))
}

fn sample_page() -> Page {
    Page::new("Report")
        .lead("What it is about.")
        .key_figures([
            KeyFigure::new("clients", "100").note("cold start"),
            KeyFigure::new("T", "9"),
        ])
        .heading("Results")
        .paragraph("Some text.")
        .subheading("In short")
        .list(["One is faster.".to_owned(), " ".to_owned(), "Two is fairer.".to_owned()])
        .note("Only one seed.")
        .table(
            Table::new([Column::text("policy"), Column::number("age")])
                .caption("All policies")
                .row([Cell::new("random"), Cell::new("5.67")])
                .row([Cell::new("oldest"), Cell::new("2.83").best()]),
        )
        .figure(&figure("First"), "Lower is better.")
        .heading("Results")
        .figure(&figure("Second"), "")
        .preformatted("Command", "agewise simulate\n  --rounds 10")
        .footer("Made by a test.")
}

/// The page is written so that an XML parser can read it.
fn parse(html: &str) -> Result<Document<'_>, XmlError> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(html, options)
}

fn all_text(node: Node) -> String {
    node.descendants().filter(Node::is_text).filter_map(|text| text.text()).collect()
}

/// The texts of all elements with this name.
fn texts_of(document: &Document, tag: &str) -> Vec<String> {
    let elements = document.descendants().filter(|node| node.tag_name().name() == tag);
    elements.map(all_text).collect()
}

#[test]
fn every_block_is_there_in_order() {
    let html = sample_page().to_html();
    let document = parse(&html).unwrap();
    assert_eq!(document.root_element().attribute("lang"), Some("en"));
    let main = document.descendants().find(|node| node.has_tag_name("main")).unwrap();
    let tags: Vec<&str> =
        main.children().filter(Node::is_element).map(|node| node.tag_name().name()).collect();
    assert_eq!(
        tags,
        ["dl", "h2", "p", "h3", "ul", "p", "div", "figure", "h2", "figure", "details"]
    );
    let list = document.descendants().find(|node| node.has_tag_name("ul")).unwrap();
    let items: Vec<String> = list.children().filter(Node::is_element).map(all_text).collect();
    assert_eq!(items, ["One is faster.", "Two is fairer."]);
    assert_eq!(texts_of(&document, "h3"), ["In short"]);
    let note = document.descendants().find(|node| node.attribute("role") == Some("note")).unwrap();
    assert_eq!(all_text(note), "Only one seed.");
    assert_eq!(texts_of(&document, "h1"), ["Report"]);
    assert_eq!(texts_of(&document, "dd"), ["100", "cold start", "9"]);
    assert_eq!(texts_of(&document, "strong"), ["2.83", "How to read it."]);
    assert_eq!(texts_of(&document, "pre"), ["agewise simulate\n  --rounds 10"]);
    assert_eq!(texts_of(&document, "footer"), ["Made by a test."]);
}

#[test]
fn nothing_is_asked_of_the_outside() {
    let html = sample_page().to_html();
    let document = parse(&html).unwrap();
    for node in document.descendants().filter(Node::is_element) {
        assert!(!["img", "image", "iframe", "object"].contains(&node.tag_name().name()));
        for attribute in node.attributes() {
            let value = attribute.value();
            match attribute.name() {
                "href" => assert!(value.starts_with('#') || value.starts_with("data:"), "{value}"),
                "src" | "srcset" | "action" => panic!("{value}"),
                name => assert!(!name.starts_with("on"), "{name}"),
            }
            assert!(!value.contains("http") && !value.contains("url("), "{value}");
        }
    }
    let policy = document.descendants().find(|node| node.has_attribute("http-equiv")).unwrap();
    let policy = policy.attribute("content").unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
    assert!(!policy.contains("connect-src") && !policy.contains("'self'"), "{policy}");
    let style = &texts_of(&document, "style")[0];
    for request in ["url(", "@import", "http", "@font-face"] {
        assert!(!style.contains(request), "{request}");
    }
}

#[test]
fn ids_are_unique_and_the_contents_point_to_them() {
    let html = sample_page().to_html();
    let document = parse(&html).unwrap();
    let attributes = |name: &str| -> Vec<String> {
        let values = document.descendants().filter_map(|node| node.attribute(name));
        values.map(str::to_owned).collect()
    };
    let ids = attributes("id");
    let (data, ids) = ids.split_last().unwrap();
    assert_eq!(data, "series");
    assert_eq!(ids, ["results", "results-2"], "subheadings are not in the contents");
    let targets: Vec<String> = attributes("href")
        .iter()
        .filter_map(|link| link.strip_prefix('#').map(str::to_owned))
        .collect();
    assert_eq!(targets, ids);
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
}

#[test]
fn figures_are_inline_and_scale() {
    let html = sample_page().to_html();
    let document = parse(&html).unwrap();
    assert_eq!(document.descendants().filter(|node| node.tag_name().name() == "svg").count(), 2);
    assert!(html.contains(&figure("First").to_svg()));
    assert!(html.contains("max-width: 100%") && html.contains("min-width:770px"));
    assert!(html.contains("width=device-width") && html.contains("@media print"));
}

#[test]
fn cells_of_a_matrix_lead_to_sentences() {
    let cell = |comparison| MatrixCell {
        comparison,
        text: "-3".to_owned(),
        sentence: "pair_0".to_owned(),
    };
    let matrix = Matrix::new("Speed", ["a".to_owned(), "b".to_owned()])
        .cell(0, 1, cell(Comparison::Better))
        .cell(1, 0, cell(Comparison::Worse));
    let html = Page::new("t")
        .folded_matrix("Speed: 1 of 1", false, matrix)
        .sentences("All", [("pair_0".to_owned(), "a is faster than b.".to_owned())])
        .to_html();
    let document = parse(&html).unwrap();
    let links = document.descendants().filter(|node| node.has_tag_name("a"));
    assert!(links.filter(|link| link.attribute("href") == Some("#pair_0")).count() == 2);
    let sentence = document.descendants().find(|node| node.attribute("id") == Some("pair_0"));
    assert_eq!(all_text(sentence.unwrap()), "a is faster than b.");
}

/// A link is a way to a file, whatever the file is called.
#[test]
fn links_are_relative_paths() {
    let html = Page::new("t").links([Link::new("model", "../a b/javascript:x?.csv")]).to_html();
    assert!(html.contains(r#"href="../a%20b/javascript%3Ax%3F.csv""#), "{html}");
}

#[test]
fn a_live_page_has_parts_that_can_be_replaced() {
    let state = LiveState {
        state: "training".to_owned(),
        headline: "1 of 2 <runs>".to_owned(),
        detail: "5 rounds".to_owned(),
        source: "The report".to_owned(),
        version: "7".to_owned(),
    };
    let page = sample_page().to_live(&state);
    let document = parse(&page.whole).unwrap();
    assert_eq!(document.root_element().attribute("data-source"), Some("The report"));
    assert!(page.whole.contains(&page.now) && page.whole.contains(&page.past));
    assert!(page.now.contains("1 of 2 &lt;runs&gt;") && page.past.contains(r#"data-version="7""#));
    assert!(page.whole.contains("connect-src 'self'") && page.whole.contains("live.js"));
    assert!(!sample_page().to_html().contains("live.js"));
}

#[test]
fn an_empty_page_is_a_page() {
    let html = Page::new("")
        .key_figures([])
        .table(Table::new([]))
        .list([])
        .list([String::new()])
        .subheading("")
        .note(" ")
        .to_html();
    let document = parse(&html).unwrap();
    let main = document.descendants().find(|node| node.has_tag_name("main")).unwrap();
    assert_eq!(main.children().filter(Node::is_element).count(), 0);
}

#[test]
fn the_same_page_gives_the_same_bytes() {
    assert_eq!(sample_page().to_html(), sample_page().to_html());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn no_text_can_break_out(
        text in prop_oneof![any::<String>(), Just(r#"</p><script src="x">]]> & '"</pre>"#.to_owned())],
        rows in prop::collection::vec(prop::collection::vec(any::<String>(), 0..4), 0..4),
    ) {
        let table = Table::new([Column::text(&*text), Column::number(&*text)]).caption(&*text);
        let page = Page::new(&*text)
            .lead(&*text)
            .heading(&*text)
            .heading(&*text)
            .subheading(&*text)
            .paragraph(&*text)
            .list([text.clone(), text.clone()])
            .note(&*text)
            .key_figures([KeyFigure::new(&*text, &*text).note(&*text)])
            .table(rows.into_iter().fold(table, Table::row))
            .figure(&figure(&text), &*text)
            .preformatted(&*text, &*text)
            .choices([(text.clone(), 0)])
            .units([AxisUnit::new(&*text, &*text).series(&*text, vec![(1.0, 2.0)])])
            .matrix(Matrix::new(&*text, [text.clone(), text.clone()]))
            .sentences(&*text, [("pair_0".to_owned(), text.clone())])
            .links([Link::new(&*text, &*text)])
            .footer(&*text);
        let html = page.to_html();
        let document = parse(&html).unwrap();
        let scripts = document.descendants().filter(|node| node.has_tag_name("script")).count();
        // That of the page, the names that it has, and the units.
        prop_assert_eq!(scripts, 3);
        let count = |tag: &str| {
            document.descendants().filter(|node| node.tag_name().name() == tag).count()
        };
        prop_assert_eq!((count("h2"), count("figure"), count("pre"), count("svg")), (2, 1, 1, 1));
    }
}

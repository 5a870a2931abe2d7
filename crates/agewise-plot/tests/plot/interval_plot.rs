//! Interval plots as their users see them.

use agewise_plot::{
    Axis, Figure, IntervalPlot, IntervalRow, Panel, ReferenceLine, Series, SeriesStyle,
};
use proptest::prelude::*;
use resvg::tiny_skia::Pixmap;
use resvg::usvg::roxmltree::{Document, Error as XmlError};

fn plot(rows: usize) -> IntervalPlot {
    let empty = IntervalPlot::new("Rounds", Axis::linear("difference (%)"));
    (0..rows).fold(empty, |plot, index| {
        let value = index as f64 - 2.0;
        plot.row(
            IntervalRow::new(format!("policy {index}"), value)
                .interval(value - 1.0, value + 1.5)
                .dots([value - 0.5, value, value, value + 0.5])
                .note("4 of 4"),
        )
    })
}

fn svg(plot: IntervalPlot) -> String {
    Figure::new("t").panel(plot).to_svg()
}

fn texts(svg: &str) -> Result<Vec<String>, XmlError> {
    let document = Document::parse(svg)?;
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    Ok(texts.filter_map(|node| node.text().map(str::to_owned)).collect())
}

/// The number in an attribute of the outermost element.
fn side(svg: &str, name: &str) -> Option<f64> {
    let document = Document::parse(svg).ok()?;
    document.root_element().attribute(name)?.parse().ok()
}

#[test]
fn every_text_is_there_once_and_escaped() {
    let hostile = r#"<b> & "q" 'h'"#;
    let plot = IntervalPlot::new(hostile, Axis::linear(hostile))
        .row(IntervalRow::new(hostile, 1.0).note(hostile))
        .reference(ReferenceLine::vertical(0.0, hostile));
    let found = texts(&svg(plot)).unwrap().iter().filter(|text| *text == hostile).count();
    assert_eq!(found, 5, "title, axis, row, note, reference line");
}

#[test]
fn it_has_rows_notes_and_an_axis_but_no_legend() {
    let svg = svg(plot(3).reference(ReferenceLine::vertical(0.0, "random")));
    let texts = texts(&svg).unwrap();
    for text in ["Rounds", "difference (%)", "policy 0", "policy 1", "policy 2", "random", "0"] {
        assert_eq!(texts.iter().filter(|found| *found == text).count(), 1, "{text} in {texts:?}");
    }
    assert_eq!(texts.iter().filter(|text| *text == "4 of 4").count(), 3);
    assert!(svg.contains("policy 1 (4 of 4)"), "the description names the rows");
    assert!(!svg.contains(" id="));
}

#[test]
fn infinite_values_become_arrows() {
    let filled_shapes = |row: IntervalRow| {
        let plot = IntervalPlot::new("", Axis::linear("rounds"))
            .row(IntervalRow::new("finite", 10.0))
            .row(row.slot(1));
        let svg = svg(plot);
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        svg.matches(r##"fill="#d55e00""##).count()
    };
    let infinity = f64::INFINITY;
    assert_eq!(filled_shapes(IntervalRow::new("a", f64::NAN)), 0);
    assert_eq!(filled_shapes(IntervalRow::new("a", infinity)), 1);
    assert_eq!(filled_shapes(IntervalRow::new("a", 5.0).interval(4.0, 6.0)), 1);
    assert_eq!(filled_shapes(IntervalRow::new("a", 5.0).interval(4.0, infinity)), 2);
    assert_eq!(filled_shapes(IntervalRow::new("a", f64::NAN).interval(-infinity, infinity)), 1);
    assert_eq!(filled_shapes(IntervalRow::new("a", f64::NAN).dots([infinity; 3])), 1);
}

#[test]
fn a_row_without_a_value_keeps_its_name_and_note() {
    let row = IntervalRow::new("never run", f64::NAN).interval(f64::NAN, 1.0).note("no run");
    let texts = texts(&svg(IntervalPlot::new("", Axis::linear("")).row(row))).unwrap();
    assert_eq!(texts, ["t", "never run", "no run"]);
}

#[test]
fn without_rows_it_says_so() {
    let svg = svg(plot(0).reference(ReferenceLine::vertical(0.0, "random")));
    assert!(texts(&svg).unwrap().iter().any(|text| text == "no data"));
    assert!(svg.contains("; no data."));
}

#[test]
fn long_names_and_notes_are_cut() {
    let long = "a name without an end ".repeat(10);
    let svg = svg(plot(1).row(IntervalRow::new(&*long, 1.0).note(&*long)));
    let cut = texts(&svg).unwrap().into_iter().filter(|text| text.ends_with('…')).count();
    assert_eq!(cut, 2);
    let short_enough = "a name of forty letters, shown in full";
    let texts = texts(&self::svg(plot(1).row(IntervalRow::new(short_enough, 1.0)))).unwrap();
    assert!(texts.iter().any(|text| text == short_enough));
}

#[test]
fn the_height_follows_from_the_rows() {
    let height = |figure: Figure| side(&figure.to_svg(), "height").unwrap();
    let alone = |rows| height(Figure::new("t").panel(plot(rows)));
    assert!((alone(12) - alone(2) - 10.0 * 34.0).abs() < 1.5);
    assert!(alone(1) < 220.0);
    let asked = height(Figure::new("t").panel(plot(4)).panel_height(900.0));
    assert!((asked - alone(4)).abs() < 1e-9);
    let two = height(Figure::new("t").panel(plot(4)).panel(plot(9)));
    assert!((two - alone(9)).abs() < 1e-9);
}

#[test]
fn it_stands_beside_panels_and_shares_their_colours() {
    let panel = || {
        let line = Series::new("policy 0", SeriesStyle::Line, [(0.0, 1.0), (1.0, 2.0)]).slot(3);
        Panel::new("Lines", Axis::linear("x"), Axis::linear("y")).series(line)
    };
    let mixed = Figure::new("t").panel(panel()).panel(plot(1));
    let svg = mixed.to_svg();
    // The line in its panel and in the legend; dots (fill and outline), bar and marker of the row.
    assert_eq!(svg.matches("#b5548e").count(), 6, "{svg}");
    assert!(!svg.contains("#0072b2"));
    let height = |figure: &Figure| side(&figure.to_svg(), "height").unwrap();
    let one_panel = Figure::new("t").panel(panel());
    assert!((height(&mixed) - height(&one_panel)).abs() < 1e-9);
    let many_rows = Figure::new("t").panel(panel()).panel(plot(30));
    assert!(height(&many_rows) > 30.0 * 34.0);
    let alone = |panel: Panel| Figure::new("t").panel(panel).columns(1);
    assert!(height(&alone(panel()).panel(plot(2))) > height(&alone(panel())) + 68.0);
}

#[test]
fn many_dots_give_small_files() {
    let dots = |value: f64| (0..200_000).map(move |index| value * f64::from(index % 1000));
    let row = |value: f64| IntervalRow::new("a", 1.0).dots(dots(value));
    for value in [1.0, f64::INFINITY] {
        let size = svg(IntervalPlot::new("", Axis::linear("")).row(row(value))).len();
        assert!(size < 100_000, "{size} bytes");
    }
}

#[test]
fn the_same_plot_gives_the_same_bytes_and_a_picture() {
    let figure = || Figure::new("t").panel(plot(5)).panel(plot(3));
    assert_eq!(figure().to_svg(), figure().to_svg());
    let png = figure().to_png(1.0).unwrap();
    assert_eq!(png, figure().to_png(1.0).unwrap());
    let picture = Pixmap::decode_png(&png).unwrap();
    let blue = |pixel: (u8, u8, u8)| pixel == (0x00, 0x72, 0xb2);
    let pixels = picture.pixels().iter().map(|one| (one.red(), one.green(), one.blue()));
    assert!(pixels.filter(|&pixel| blue(pixel)).count() > 100);
}

fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => -100.0..100.0_f64,
        1 => any::<f64>(),
        1 => prop::sample::select(vec![
            f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, 0.0, 5e-324,
        ]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_row_can_make_drawing_fail(
        rows in prop::collection::vec(
            (any_number(), any_number(), any_number(), prop::collection::vec(any_number(), 0..12)),
            0..6,
        ),
        logarithmic: bool,
        range in prop::option::of((any_number(), any_number())),
        reference in any_number(),
        width in any_number(),
        slot in prop::option::of(any::<usize>()),
        name in any::<String>(),
    ) {
        let axis = if logarithmic { Axis::log10(&*name) } else { Axis::linear(&*name) };
        let axis = range.map_or(axis.clone(), |(low, high)| axis.range(low, high));
        let plot = IntervalPlot::new(&*name, axis).reference(ReferenceLine::vertical(reference, &*name));
        let plot = rows.into_iter().fold(plot, |plot, (value, low, high, dots)| {
            let row = IntervalRow::new(&*name, value).interval(low, high).dots(dots).note(&*name);
            plot.row(slot.map_or(row.clone(), |slot| row.slot(slot)))
        });
        let svg = Figure::new("t").panel(plot.clone()).panel(plot).width(width).to_svg();
        prop_assert!(Document::parse(&svg).is_ok());
        let numbers_only = svg.lines().filter(|line| !line.contains("</")).collect::<String>();
        prop_assert!(!numbers_only.contains("NaN") && !numbers_only.contains("inf"));
    }
}

//! Heat maps as their users see them.

use agewise_plot::{Axis, Figure, HeatMap, Panel, Series, SeriesStyle};
use proptest::prelude::*;
use resvg::tiny_skia::Pixmap;
use resvg::usvg::roxmltree::{Document, Error as XmlError};

fn map(value: Axis) -> HeatMap {
    HeatMap::new("Ages", Axis::linear("round"), Axis::linear("client"), value)
}

fn texts(svg: &str) -> Result<Vec<String>, XmlError> {
    let document = Document::parse(svg)?;
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    Ok(texts.filter_map(|node| node.text().map(str::to_owned)).collect())
}

/// A matrix without any order, the worst case for the size of the file.
fn noise(columns: u64, rows: u64) -> impl Iterator<Item = impl Iterator<Item = f64>> {
    let value = |seed: u64| (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64;
    (0..rows).map(move |row| (0..columns).map(move |column| value(row * columns + column + 1)))
}

#[test]
fn it_has_axes_and_a_labelled_colour_bar() {
    let rows = [[0.0, 5.0], [10.0, 20.0]];
    let svg = Figure::new("t").panel(map(Axis::linear("age (rounds)")).rows(rows)).to_svg();
    let texts = texts(&svg).unwrap();
    for label in ["Ages", "round", "client", "age (rounds)", "0", "10", "20"] {
        assert!(texts.iter().any(|text| text == label), "{label} in {texts:?}");
    }
    assert!(!texts.iter().any(|text| text == "no data"));
    assert!(svg.contains("heat map of age (rounds)"));
}

#[test]
fn the_first_row_is_at_the_bottom_and_gaps_are_grey() {
    let rows = [vec![0.0, 0.0], vec![1.0]];
    let map = map(Axis::linear("v").range(0.0, 1.0)).rows(rows);
    let figure = Figure::new("").panel(map);
    assert!(texts(&figure.to_svg()).unwrap().iter().any(|text| text == "no data"));
    let picture = Pixmap::decode_png(&figure.to_png(1.0).unwrap()).unwrap();
    let color = |x: u32, y: u32| {
        let pixel = picture.pixel(x, y).unwrap();
        (pixel.red(), pixel.green(), pixel.blue())
    };
    let (left, right, upper, lower) = (200, 500, 120, 280);
    assert_eq!(color(left, lower), (0x01, 0x20, 0x58));
    assert_eq!(color(left, upper), (0xe3, 0xde, 0x3d));
    assert_eq!(color(right, upper), (0xec, 0xef, 0xf2));
}

#[test]
fn zeros_have_no_colour_on_a_log_scale() {
    let zeros = || map(Axis::log10("clients")).missing_label("none").rows([[0.0, 1.0, 100.0]]);
    let texts = texts(&Figure::new("t").panel(zeros()).to_svg()).unwrap();
    for label in ["none", "1", "10", "10²"] {
        assert!(texts.iter().any(|text| text == label), "{label} in {texts:?}");
    }
}

#[test]
fn large_matrices_give_small_files() {
    let svg = |columns, rows| {
        Figure::new("t")
            .panel(map(Axis::linear("v")).rows(noise(columns, rows)))
            .width(3000.0)
            .panel_height(2000.0)
            .to_svg()
    };
    let size = svg(2000, 500).len();
    assert!(size < 750_000, "{size} bytes");
    assert!(svg(30, 20).len() < 40_000);
}

#[test]
fn it_stands_beside_panels_and_has_no_legend_entry() {
    let panel = Panel::new("Lines", Axis::linear("x"), Axis::linear("y")).series(Series::new(
        "only",
        SeriesStyle::Line,
        [(0.0, 1.0), (1.0, 2.0)],
    ));
    let svg =
        Figure::new("t").panel(panel).panel(map(Axis::linear("v")).rows(noise(5, 5))).to_svg();
    let texts = texts(&svg).unwrap();
    for title in ["Lines", "Ages", "only"] {
        assert_eq!(texts.iter().filter(|text| *text == title).count(), 1, "{title}");
    }
}

#[test]
fn a_matrix_without_values_says_so() {
    let empty: [Vec<Vec<f64>>; 3] = [vec![], vec![vec![], vec![]], vec![vec![f64::NAN; 3]; 2]];
    for rows in empty {
        let svg = Figure::new("t").panel(map(Axis::linear("v")).rows(rows)).to_svg();
        assert!(texts(&svg).unwrap().iter().any(|text| text == "no data"));
    }
}

fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => -100.0..100.0_f64,
        1 => any::<f64>(),
        1 => prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::MAX, f64::MIN, 0.0, 5e-324]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_matrix_can_make_drawing_fail(
        rows in prop::collection::vec(prop::collection::vec(any_number(), 0..12), 0..8),
        logarithmic: (bool, bool, bool),
        extent in prop::option::of(((any_number(), any_number()), (any_number(), any_number()))),
        range in prop::option::of((any_number(), any_number())),
        name in any::<String>(),
    ) {
        let axis = |log: bool| {
            let axis = if log { Axis::log10(&*name) } else { Axis::linear(&*name) };
            range.map_or(axis.clone(), |(low, high)| axis.range(low, high))
        };
        let mut map = HeatMap::new(
            &*name,
            axis(logarithmic.0),
            axis(logarithmic.1),
            axis(logarithmic.2),
        )
        .missing_label(&*name)
        .rows(rows);
        if let Some((x, y)) = extent {
            map = map.extent(x, y);
        }
        let svg = Figure::new("t").panel(map).to_svg();
        prop_assert!(Document::parse(&svg).is_ok());
        let numbers_only = svg.lines().filter(|line| !line.contains("</")).collect::<String>();
        prop_assert!(!numbers_only.contains("NaN") && !numbers_only.contains("inf"));
    }
}

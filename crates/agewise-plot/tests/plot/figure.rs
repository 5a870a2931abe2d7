//! Figures as their users see them: text, pictures and files.

use std::path::{Path, PathBuf};
use std::{fs, io};

use agewise_plot::{
    Axis, DrawError, Figure, LegendPosition, Panel, ReferenceLine, Series, SeriesStyle,
};
use proptest::prelude::*;
use resvg::tiny_skia::Pixmap;
use resvg::usvg::roxmltree::{Document, Error as XmlError};

const STYLES: [SeriesStyle; 6] = [
    SeriesStyle::Line,
    SeriesStyle::LineWithMarkers,
    SeriesStyle::Markers,
    SeriesStyle::Stems,
    SeriesStyle::Steps,
    SeriesStyle::Bars,
];

fn panel(title: &str) -> Panel {
    Panel::new(title, Axis::linear("age (rounds)").integer_ticks(), Axis::linear("probability"))
}

fn sample_figure() -> Figure {
    let chances = (0..=10).map(|age| (f64::from(age), f64::from(age) / 10.0));
    let distances = (1..=20).map(|x| (f64::from(x), 0.15 * 0.85_f64.powi(x - 1)));
    Figure::new("Two policies")
        .subtitle("100 clients")
        .panel(
            panel("Chance")
                .series(Series::new("linear", SeriesStyle::LineWithMarkers, chances))
                .series(Series::new("random", SeriesStyle::Line, [(0.0, 0.15), (10.0, 0.15)])),
        )
        .panel(
            panel("Distance")
                .series(Series::new("random", SeriesStyle::Stems, distances))
                .reference(ReferenceLine::vertical(6.67, "mean")),
        )
        .caption("What it shows.")
}

/// All texts of a figure, in drawing order; an error when the SVG is not well-formed.
fn texts(svg: &str) -> Result<Vec<String>, XmlError> {
    let document = Document::parse(svg)?;
    let texts = document
        .descendants()
        .filter(|node| node.has_tag_name("text"))
        .filter_map(|node| node.text().map(str::to_owned))
        .collect();
    Ok(texts)
}

/// An empty folder of its own for each test.
fn folder(name: &str) -> io::Result<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::remove_dir_all(&folder).ok();
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

#[test]
fn every_text_is_there_once_and_escaped() {
    let hostile = r#"<b> & "quotes" 'here'"#;
    let svg = Figure::new(hostile)
        .subtitle("sub \u{1}")
        .caption(hostile)
        .panel(
            Panel::new(hostile, Axis::linear(hostile), Axis::linear(hostile))
                .series(Series::new(hostile, SeriesStyle::Line, [(0.0, 1.0), (1.0, 2.0)]))
                .reference(ReferenceLine::horizontal(1.5, hostile)),
        )
        .to_svg();
    let found = texts(&svg).unwrap().iter().filter(|text| *text == hostile).count();
    assert_eq!(found, 7, "title, caption, panel title, two axes, legend, reference line");
}

#[test]
fn it_has_a_name_and_a_description_for_screen_readers() {
    let svg = sample_figure().to_svg();
    let document = Document::parse(&svg).unwrap();
    let text_of = |tag: &str| {
        let node = document.descendants().find(|node| node.has_tag_name(tag)).unwrap();
        node.text().unwrap().to_owned()
    };
    assert_eq!(text_of("title"), "Two policies");
    let description = text_of("desc");
    assert!(description.contains("Panel \"Chance\": probability against age (rounds)"));
    assert!(description.contains("series: linear, random."));
    assert!(description.contains("What it shows."));
}

/// What the script of a page needs: the place and the axes of a plot, and what belongs to which series.
#[test]
fn parts_of_a_figure_can_be_found() {
    let points = (0..=50).map(|x| (f64::from(x), f64::from(x * x)));
    let x = Axis::linear("round").convertible();
    let y = Axis::linear("y").range(0.0, 100.0);
    let figure = Figure::new("t")
        .panel(Panel::new("p", x, y).series(Series::new("a & b", SeriesStyle::Line, points)))
        .panel(panel("q").series(Series::new(
            "c",
            SeriesStyle::LineWithMarkers,
            (0..=10).map(|x| (f64::from(x), 1.0)),
        )));
    let svg = figure.to_svg();
    let document = Document::parse(&svg).unwrap();
    let with = |name: &str| {
        document.descendants().filter(|node| node.has_attribute(name)).collect::<Vec<_>>()
    };
    let plots = with("data-place");
    assert_eq!(plots.len(), 2);
    assert_eq!(plots[0].attribute("data-x"), Some("0 50 linear"));
    assert_eq!(plots[0].attribute("data-zoom"), Some("units"));
    assert_eq!(plots[1].attribute("data-zoom"), None);
    let names: Vec<_> =
        with("data-series").iter().map(|node| node.attribute("data-series")).collect();
    assert_eq!(names[0], Some("a & b"));
    // Most of the curve is above the plot, and kept for pages that show more.
    let whole = with("data-all")[0].attribute("data-all").unwrap();
    assert!(whole.matches('L').count() > 40, "{whole}");
    let seen = with("data-all")[0].attribute("d").unwrap();
    assert!(seen.matches('L').count() < 15, "{seen}");
    // Marks note which values they stand for.
    assert_eq!(with("data-at")[0].attribute("data-at").unwrap().split(' ').count(), 11);
    assert_eq!(with("data-entry").len(), 2);
}

#[test]
fn the_legend_names_each_series_once() {
    for position in [LegendPosition::Top, LegendPosition::Bottom] {
        let texts = texts(&sample_figure().legend(position).to_svg()).unwrap();
        assert_eq!(texts.iter().filter(|text| *text == "random").count(), 1);
        assert_eq!(texts.iter().filter(|text| *text == "linear").count(), 1);
    }
}

#[test]
fn a_series_name_has_one_colour_in_all_panels() {
    let svg = sample_figure().to_svg();
    let first = svg.matches("#0072b2").count();
    let second = svg.matches("#d55e00").count();
    // "linear": line and markers in one panel and in the legend. "random": a line in one panel,
    // stems and their markers in the other, line and marker in the legend.
    assert_eq!((first, second), (4, 5));
}

#[test]
fn bands_and_bars_share_the_entry_and_the_colour_of_their_name() {
    let line = Series::new("a", SeriesStyle::Line, [(0.0, 1.0), (1.0, 2.0)]);
    let svg = Figure::new("t")
        .panel(panel("line").series(line.band([(0.0, 0.5, 1.5), (1.0, 1.5, 2.5)]).slot(2)))
        .panel(panel("bars").series(Series::new("a", SeriesStyle::Bars, [(1.0, 3.0)])))
        .to_svg();
    assert_eq!(texts(&svg).unwrap().iter().filter(|text| *text == "a").count(), 1);
    assert!(svg.contains("#008f68") && !svg.contains("#0072b2"));
    // The band in its panel and in the legend.
    assert_eq!(svg.matches("fill-opacity").count(), 2);
}

#[test]
fn a_band_is_part_of_the_automatic_range() {
    let line = Series::new("a", SeriesStyle::Line, [(0.0, 1.0), (1.0, 1.0)]);
    let band = line.band([(0.0, -40.0, 1.0), (1.0, 1.0, 40.0)]);
    let texts = texts(&Figure::new("t").panel(panel("p").series(band)).to_svg()).unwrap();
    assert!(texts.iter().any(|text| text == "−40") && texts.iter().any(|text| text == "40"));
}

#[test]
fn hundreds_of_bars_become_one_outline() {
    let histogram = |count: i32| {
        let points = (1..=count).map(|x| (f64::from(x), f64::from(x % 7)));
        let series = Series::new("a", SeriesStyle::Bars, points);
        Figure::new("t").panel(panel("p").series(series)).to_svg()
    };
    assert!(!histogram(30).contains("fill-opacity"));
    assert!(histogram(800).contains("fill-opacity"));
}

#[test]
fn panels_without_data_say_so() {
    let nothing_to_show = [
        panel("empty"),
        panel("no points").series(Series::new("a", SeriesStyle::Line, [])),
        panel("not numbers").series(Series::new(
            "b",
            SeriesStyle::Stems,
            [(f64::NAN, 1.0), (1.0, f64::INFINITY)],
        )),
        Panel::new("below zero", Axis::log10("x"), Axis::log10("y")).series(Series::new(
            "c",
            SeriesStyle::Markers,
            [(1.0, 0.0), (-1.0, 1.0)],
        )),
    ];
    let figure = nothing_to_show.into_iter().fold(Figure::new("t"), Figure::panel).columns(2);
    let svg = figure.to_svg();
    assert_eq!(texts(&svg).unwrap().iter().filter(|text| *text == "no data").count(), 4);
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
}

#[test]
fn even_an_empty_figure_can_be_drawn() {
    let png = Figure::new("").to_png(1.0).unwrap();
    assert!(Pixmap::decode_png(&png).is_ok());
}

#[test]
fn long_series_give_short_files() {
    let wave = |style| {
        let points = (0..100_000).map(|x| (f64::from(x), (f64::from(x) * 0.7).sin()));
        let band = points.clone().map(|(x, y)| (x, y - 1.0, y + 1.0));
        let series = Series::new("wave", style, points).band(band);
        Figure::new("t").panel(panel("p").series(series)).to_svg()
    };
    for style in STYLES {
        let size = wave(style).len();
        assert!(size < 500_000, "{style:?}: {size} bytes");
    }
}

#[test]
fn a_log_axis_is_labelled_with_powers_of_ten() {
    let points = (0..50).map(|x| (f64::from(x), 10_f64.powf(-f64::from(x) / 10.0)));
    let svg = Figure::new("t")
        .panel(Panel::new("p", Axis::linear("round"), Axis::log10("loss")).series(Series::new(
            "loss",
            SeriesStyle::Line,
            points,
        )))
        .to_svg();
    let texts = texts(&svg).unwrap();
    for label in ["1", "10⁻¹", "10⁻³", "10⁻⁵"] {
        assert!(texts.iter().any(|text| text == label), "{label} in {texts:?}");
    }
}

#[test]
fn a_png_has_the_size_of_the_figure_and_shows_something() {
    let svg = sample_figure().to_svg();
    let document = Document::parse(&svg).unwrap();
    let side = |name| document.root_element().attribute(name).unwrap().parse::<u32>().unwrap();
    let pixmap = Pixmap::decode_png(&sample_figure().to_png(2.0).unwrap()).unwrap();
    assert_eq!((pixmap.width(), pixmap.height()), (2 * side("width"), 2 * side("height")));

    let dark = pixmap.pixels().iter().filter(|pixel| pixel.red() < 128).count();
    let white = pixmap.pixels().iter().filter(|pixel| pixel.red() == 255).count();
    assert!(dark > 5_000 && white > dark);
    assert!(pixmap.pixels().iter().all(|pixel| pixel.alpha() == 255));
}

#[test]
fn text_reaches_the_png_without_installed_fonts() {
    let with_title = Pixmap::decode_png(&Figure::new("Title").to_png(1.0).unwrap()).unwrap();
    assert!(with_title.pixels().iter().any(|pixel| pixel.red() < 100));
}

#[test]
fn a_png_scale_must_make_sense() {
    for scale in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        assert!(matches!(sample_figure().to_png(scale), Err(DrawError::Scale { .. })));
    }
    let error = sample_figure().to_png(1e6).unwrap_err();
    assert!(matches!(error, DrawError::TooLarge { .. }), "{error}");
}

#[test]
fn the_same_figure_gives_the_same_bytes() {
    assert_eq!(sample_figure().to_svg(), sample_figure().to_svg());
    assert_eq!(sample_figure().to_png(1.0).unwrap(), sample_figure().to_png(1.0).unwrap());
}

#[test]
fn saving_picks_the_format_by_the_extension() {
    let folder = folder("formats").unwrap();
    let (svg, png) = (folder.join("figure.SVG"), folder.join("figure.png"));
    sample_figure().save(&svg).unwrap();
    sample_figure().save(&png).unwrap();
    assert_eq!(fs::read_to_string(&svg).unwrap(), sample_figure().to_svg());
    assert_eq!(fs::read(&png).unwrap(), sample_figure().to_png(2.0).unwrap());
    sample_figure().save(&svg).expect("an older file is replaced");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
}

#[test]
fn an_unknown_extension_is_named_with_what_would_be_right() {
    let folder = folder("extensions").unwrap();
    for (name, found) in
        [("figure.pdf", "\".pdf\""), ("figure", "no extension"), (".svg", "no extension")]
    {
        let error = sample_figure().save(&folder.join(name)).unwrap_err();
        let message = error.to_string();
        assert!(matches!(error, DrawError::UnknownFormat { .. }));
        for part in [name, found, ".svg or .png"] {
            assert!(message.contains(part), "{part} in {message}");
        }
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
}

#[test]
fn a_failed_write_leaves_nothing_behind() {
    let folder = folder("failures").unwrap();
    let missing = folder.join("missing").join("figure.svg");
    let error = sample_figure().save(&missing).unwrap_err();
    assert!(error.to_string().contains("figure.svg"), "{error}");
    assert!(std::error::Error::source(&error).is_some());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);

    // The temporary file can be written here, but it cannot take the place of a folder.
    let occupied = folder.join("occupied.svg");
    fs::create_dir_all(occupied.join("inside")).unwrap();
    assert!(matches!(sample_figure().save(&occupied), Err(DrawError::Write { .. })));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
}

#[test]
fn sizes_can_be_set_and_stay_usable() {
    let size = |figure: Figure| {
        let svg = figure.to_svg();
        let document = Document::parse(&svg).unwrap();
        let side = |name| document.root_element().attribute(name).unwrap().parse::<f64>().unwrap();
        (side("width"), side("height"))
    };
    let (width, height) = size(sample_figure());
    assert!((width - 1100.0).abs() < 1.0);
    assert!((size(sample_figure().width(1500.0)).0 - 1500.0).abs() < 1.0);
    let (_, taller) = size(sample_figure().panel_height(460.0));
    assert!((taller - height - 100.0).abs() < 1.0);
    let (_, stacked) = size(sample_figure().columns(1));
    assert!(stacked > height + 300.0);
    for odd in [f64::NAN, -5.0, 0.0] {
        let (width, height) = size(sample_figure().width(odd).panel_height(odd));
        assert!(width > 200.0 && height > 200.0);
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
    fn no_data_can_make_drawing_fail(
        points in prop::collection::vec((any_number(), any_number()), 0..30),
        style in prop::sample::select(STYLES.to_vec()),
        logarithmic: (bool, bool),
        range in prop::option::of((any_number(), any_number())),
        band in prop::collection::vec((any_number(), any_number(), any_number()), 0..10),
        reference in any_number(),
        name in any::<String>(),
    ) {
        let axis = |log| if log { Axis::log10(&*name) } else { Axis::linear(&*name) };
        let (mut x, y) = (axis(logarithmic.0), axis(logarithmic.1));
        if let Some((low, high)) = range {
            x = x.range(low, high);
        }
        let figure = Figure::new(&*name).caption(&*name).panel(
            Panel::new(&*name, x, y)
                .series(Series::new(&*name, style, points.clone()).band(band))
                .series(Series::new("again", style, points))
                .reference(ReferenceLine::horizontal(reference, &*name))
                .reference(ReferenceLine::vertical(reference, &*name)),
        );
        let svg = figure.to_svg();
        prop_assert!(Document::parse(&svg).is_ok());
        let numbers_only = svg.lines().filter(|line| !line.contains("</")).collect::<String>();
        prop_assert!(!numbers_only.contains("NaN") && !numbers_only.contains("inf"));
    }
}

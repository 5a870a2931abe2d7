//! The figures of the live page, drawn with the code of the reports.

use super::history::{MOST_AGE_ROUNDS, Snapshot};
use super::status::count;
use crate::coordinator::shared::LiveStatus;
use crate::coordinator::storage::ledger::{RoundOutcome, RoundSummary};
use agewise_plot::{Axis, Figure, HeatMap, Panel, ReferenceLine, Series, SeriesStyle};

/// Fits on a telephone without scrolling, and two or three beside each other elsewhere.
const WIDTH: f64 = 460.0;
/// Under a legend; without one a panel is as much higher as to end at the same height.
const PANEL_HEIGHT: f64 = 260.0;
const LEGEND_HEIGHT: f64 = 40.0;
/// The heat map has a row of the page for itself.
const HEAT_MAP_WIDTH: f64 = 1240.0;
/// The highest row of the heat map; greater ages are in it, too.
const MOST_AGE_ROWS: f64 = 60.0;
/// Up to so many rounds each of them has a marker.
const MOST_MARKERS: usize = 60;

/// Looks: what is wanted, what is measured against it, and what should not happen.
const MAIN: usize = 0;
const SECOND: usize = 2;
const BAD: usize = 1;
const ODD: usize = 4;

/// All figures with a sentence that helps to read them, in the order of the page.
pub(super) fn all(seen: &Snapshot, live: Option<&LiveStatus>) -> Vec<(Figure, &'static str)> {
    vec![
        (evaluation(seen, "Test accuracy", "test accuracy", |row| row.accuracy), ""),
        (evaluation(seen, "Test loss", "test loss", |row| row.loss), ""),
        (cohorts(seen, target(seen, live)), ""),
        (timeline(seen), ""),
        (late_and_refused(seen), ""),
        (intervals(seen, interval(seen, live)), ""),
        (
            ages(seen, interval(seen, live)),
            "Each column is a round, each row an age at the start of the round, the last row all greater ages; colour is the number of \
             clients. An even load fills a band at the bottom; clients that wait too long are above it.",
        ),
    ]
}

fn target(seen: &Snapshot, live: Option<&LiveStatus>) -> Option<f64> {
    let first = || seen.params.as_ref().map(|params| params.round.cohort as f64);
    live.map(|live| f64::from(live.target)).or_else(first)
}

fn interval(seen: &Snapshot, live: Option<&LiveStatus>) -> f64 {
    let last = || seen.rounds.last().map(|row| row.interval);
    let found = live.map(|live| live.interval).or_else(last);
    found.filter(|interval| interval.is_finite() && *interval >= 1.0).unwrap_or(1.0)
}

/// A figure of the small size, which says which rounds it shows and what a dashed line means.
fn figure(seen: &Snapshot, title: &str, dashed: &str) -> Figure {
    let over = seen.rounds_over();
    let shown = seen.rounds.len() as u64;
    let subtitle = match shown {
        1 => "the first round".to_string(),
        _ if shown < over => format!("the last {shown} of {} rounds", count(over)),
        _ => format!("all {shown} rounds so far"),
    };
    let subtitle = match dashed {
        "" => subtitle,
        _ => format!("{subtitle}; dashed: {dashed}"),
    };
    Figure::new(title).subtitle(subtitle).width(WIDTH).panel_height(PANEL_HEIGHT)
}

/// A panel over the rounds, which all figures show from the same one to the same one.
fn panel(seen: &Snapshot, y: Axis) -> Panel {
    let first = seen.rounds.first().map_or(0, |row| row.round) as f64;
    let last = seen.rounds.last().map_or(0, |row| row.round) as f64;
    let x = Axis::linear("round").range(first - 0.5, last + 0.5);
    Panel::new("", x.integer_ticks(), y)
}

/// A value of each round that has one.
fn points(
    seen: &Snapshot,
    value: impl Fn(&RoundSummary) -> Option<f64>,
) -> impl Iterator<Item = (f64, f64)> {
    seen.rounds.iter().filter_map(move |row| Some((row.round as f64, value(row)?)))
}

fn line(seen: &Snapshot) -> SeriesStyle {
    let has_room = seen.rounds.len() <= MOST_MARKERS;
    if has_room { SeriesStyle::LineWithMarkers } else { SeriesStyle::Line }
}

fn evaluation(
    seen: &Snapshot,
    title: &str,
    label: &str,
    value: impl Fn(&RoundSummary) -> Option<f64>,
) -> Figure {
    let series = Series::new("", line(seen), points(seen, value)).slot(MAIN);
    figure(seen, title, "")
        .panel(panel(seen, Axis::linear(label)).series(series))
        .panel_height(PANEL_HEIGHT + LEGEND_HEIGHT)
}

fn cohorts(seen: &Snapshot, target: Option<f64>) -> Figure {
    let size = |of: fn(&RoundSummary) -> u32| points(seen, move |row| Some(f64::from(of(row))));
    let selected = Series::new("selected", line(seen), size(|row| row.selected)).slot(MAIN);
    let reported = Series::new("reported", line(seen), size(|row| row.reported)).slot(SECOND);
    let most = seen.rounds.iter().map(|row| f64::from(row.selected)).fold(1.0, f64::max);
    let y = Axis::linear("clients").range(0.0, 1.08 * most.max(target.unwrap_or(0.0)));
    let mut panel = panel(seen, y.integer_ticks()).series(selected).series(reported);
    let mut dashed = String::new();
    if let Some(target) = target {
        panel = panel.reference(ReferenceLine::horizontal(target, ""));
        dashed = format!("target {target}");
    }
    figure(seen, "Cohort size", &dashed).panel(panel)
}

fn timeline(seen: &Snapshot) -> Figure {
    let marked = |is_marked: fn(&RoundSummary) -> bool| {
        points(seen, move |row| is_marked(row).then_some(row.seconds))
    };
    let mut panel = panel(seen, Axis::linear("seconds"));
    let all = Series::new("round", SeriesStyle::Line, points(seen, |row| Some(row.seconds)));
    panel = panel.series(all.slot(MAIN));
    let has_none = marked(|row| row.outcome != RoundOutcome::Committed);
    let abandoned = Series::new("no new model", SeriesStyle::Markers, has_none);
    let forced = Series::new("forced", SeriesStyle::Markers, marked(|row| row.forced));
    figure(seen, "Time of a round", "")
        .panel(panel.series(forced.slot(ODD)).series(abandoned.slot(BAD)))
}

fn late_and_refused(seen: &Snapshot) -> Figure {
    let most = seen.rounds.iter().map(|row| row.late.max(row.refused)).max().unwrap_or(0);
    // Rounds without any have no mark, unless that is all there is to say.
    let least = most.min(1);
    let style = if most == 0 { SeriesStyle::Line } else { SeriesStyle::Stems };
    let counts = |of: fn(&RoundSummary) -> u32| {
        points(seen, move |row| Some(of(row)).filter(|count| *count >= least).map(f64::from))
    };
    let y = Axis::linear("reports and requests").range(0.0, (1.08 * f64::from(most)).max(4.0));
    let late = Series::new("late", style, counts(|row| row.late)).slot(ODD);
    let refused = Series::new("refused", style, counts(|row| row.refused)).slot(BAD);
    let panel = panel(seen, y.integer_ticks()).series(late).series(refused);
    figure(seen, "Late and refused", "").panel(panel)
}

fn intervals(seen: &Snapshot, interval: f64) -> Figure {
    let total: u64 = seen.credited.iter().map(|(_, count)| count).sum();
    let end = (4.0 * interval).max(8.0).ceil() + 0.5;
    let beyond = seen.credited.iter().filter(|(age, _)| *age as f64 + 1.0 > end);
    let beyond: u64 = beyond.map(|(_, count)| count).sum();
    let shares = seen
        .credited
        .iter()
        .map(|&(age, count)| (age as f64 + 1.0, count as f64 / total.max(1) as f64));
    let x = Axis::linear("X (rounds)").range(0.5, end).integer_ticks();
    let panel = Panel::new("", x, Axis::linear("share of reports"))
        .series(Series::new("", SeriesStyle::Bars, shares).slot(MAIN))
        .reference(ReferenceLine::vertical(interval, ""));
    let figure = figure(seen, "Rounds between two reports", &format!("target {interval:.2}"))
        .panel(panel)
        .panel_height(PANEL_HEIGHT + LEGEND_HEIGHT);
    match beyond {
        0 => figure,
        _ => figure.caption(format!("{} of {} waited longer.", count(beyond), count(total))),
    }
}

fn ages(seen: &Snapshot, interval: f64) -> Figure {
    let first = seen.ages.first().map_or(0, |(round, ..)| *round);
    let last = seen.ages.last().map_or(0, |(round, ..)| *round);
    let oldest = seen.ages.iter().map(|(_, age, _)| *age).max().unwrap_or(0);
    let top = (4.0 * interval).ceil().clamp(4.0, MOST_AGE_ROWS) as u64;
    let top = top.min(oldest.max(4));
    let columns = last.saturating_sub(first).min(u64::from(MOST_AGE_ROUNDS)) as usize + 1;
    let mut rows = vec![vec![f64::NAN; columns]; top as usize + 1];
    for &(round, age, clients) in &seen.ages {
        if let Some(cell) =
            rows[age.min(top) as usize].get_mut(round.saturating_sub(first) as usize)
        {
            *cell = if cell.is_nan() { 0.0 } else { *cell } + f64::from(clients);
        }
    }
    let x = Axis::linear("round").integer_ticks();
    let y = Axis::linear("age (rounds)").integer_ticks();
    let map = HeatMap::new("", x, y, Axis::linear("clients"))
        .rows(rows)
        .extent((first as f64 - 0.5, last as f64 + 0.5), (-0.5, top as f64 + 0.5))
        .missing_label("no client");
    let subtitle = match first {
        0 => "clients by the rounds that they have been waiting".to_string(),
        _ => format!("the last {columns} rounds; {} before them are left out", count(first)),
    };
    Figure::new("Ages")
        .subtitle(subtitle)
        .width(HEAT_MAP_WIDTH)
        .panel_height(PANEL_HEIGHT)
        .panel(map)
}

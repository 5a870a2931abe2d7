//! The figures of a comparison.

use super::Comparison;
use crate::looks::{REFERENCE, slots};
use crate::report::{
    Axis, Figure, IntervalPlot, IntervalRow, Panel, ReferenceLine, Series, SeriesStyle,
};
use crate::sim::Estimate;
use crate::sim::study::{CurvePoint, Measure, Record, StudySummary};
use std::collections::BTreeMap;

/// The most policies whose intervals are drawn as bands: more bands hide the lines.
const MOST_BANDS: usize = 8;

/// A figure with its file name and a sentence that helps to read it.
pub(super) struct NamedFigure {
    pub(super) name: &'static str,
    /// The question that it answers.
    pub(super) heading: &'static str,
    pub(super) figure: Figure,
    pub(super) reading: String,
}

impl Comparison {
    /// All figures, in the order of the report.
    pub(super) fn figures(&self, summary: &StudySummary) -> Vec<NamedFigure> {
        let band = if self.bands() {
            "with its 95% interval as a band"
        } else {
            "without bands, as so many would hide the lines"
        };
        let mut figures = vec![named(
            "learning",
            "How fast do they learn?",
            self.learning_figure(),
            format!(
                "Accuracy and loss on the test images after each round: the mean over seeds, {band}. Where runs end at the \
                 target, lines end with the first run that does."
            ),
        )];
        if !self.study.params().targets.is_empty() {
            figures.push(named(
                "rounds-to-target",
                "How many rounds to the target?",
                self.target_figure(summary),
                "One dot per seed; the marker is the median, the bar its 95% bootstrap interval. An arrow means that the \
                 interval has no end: too many runs never got there. On the right, how many did.",
            ));
        }
        if self.study.contenders().len() > 1 {
            figures.push(named(
                "differences",
                "Is the difference real?",
                self.difference_figure(summary),
                "Each policy against the baseline over common seeds, with the 95% interval of the paired difference. A bar \
                 that does not touch the line at 0 is a difference that the data support, if it is the only one you look at.",
            ));
            figures.push(named(
                "advantage",
                "When does it matter?",
                self.advantage_figure(),
                format!(
                    "Accuracy minus that of the baseline under the same seed, round by round: the mean over seeds, {band}. \
                     Above 0 a policy is ahead."
                ),
            ));
        }
        if let Some(figure) = self.bound_figure() {
            figures.push(named(
                "bound",
                "What does Theorem 1 promise?",
                figure,
                "The first seed. Lower curve, F(theta) - F* as measured; upper curve, the bound of Theorem 1 with constants \
                 estimated from these data. Both axes are logarithmic: the distance is how much the bound gives away.",
            ));
        }
        figures.push(named(
            "clients",
            "Whom does the model serve?",
            self.client_figure(),
            "The accuracy that each client would see from the last model: the test accuracy of its classes, in its \
             proportions. Clients in order, the worst served first, over all seeds.",
        ));
        figures.push(named(
            "load",
            "Who does the work?",
            self.load_figure(),
            "Left, rounds between two selections of a client: the more to the left a curve stands at 1, the shorter the \
             longest waits. Middle, clients in order of how often they took part, and the share of all the work that they did: \
             on the diagonal everyone does the same. Right, clients per round under the first seed.",
        ));
        figures
    }

    /// Whether there are few enough policies to draw bands.
    fn bands(&self) -> bool {
        self.study.contenders().len() <= MOST_BANDS
    }

    fn titled(&self, title: &str) -> Figure {
        let params = self.study.params();
        Figure::new(title).subtitle(format!(
            "{}, {}, {} clients, {} per round, {}, {}, {} {}",
            params.data,
            params.partition,
            params.clients,
            params.cohort,
            params.model,
            params.local_work,
            params.seeds,
            if params.seeds == 1 { "seed" } else { "seeds" }
        ))
    }

    /// Label and look of each policy.
    fn looks(&self) -> Vec<(&str, usize)> {
        let specs: Vec<_> = self.study.contenders().iter().map(|c| &c.spec).collect();
        let labels = self.study.contenders().iter().map(|c| c.label.as_str());
        labels.zip(slots(&specs)).collect()
    }

    /// The runs of a policy that have anything to show.
    pub(super) fn runs_of(&self, place: usize) -> impl Iterator<Item = &Record> + Clone {
        let of = move |record: &&Record| record.id.contender == place && !record.logs.is_empty();
        self.records.iter().filter(of)
    }

    fn learning_figure(&self) -> Figure {
        let x = || Axis::linear("round");
        let mut accuracy = Panel::new("Accuracy", x(), Axis::linear("test accuracy"));
        let mut loss = Panel::new("Loss", x(), Axis::log10("test loss"));
        for (place, (label, slot)) in self.looks().into_iter().enumerate() {
            let runs: Vec<&Record> = self.runs_of(place).collect();
            let curve = |value: fn(&CurvePoint) -> Option<f64>, limits| {
                let curves = runs.iter().map(|record| {
                    record.curve.iter().filter_map(move |p| Some((p.round, value(p)?))).collect()
                });
                self.curve(label, slot, curves.collect(), limits)
            };
            accuracy = accuracy.series(curve(|point| Some(point.accuracy), (0.0, 1.0)));
            loss = loss.series(curve(|point| point.loss, (0.0, f64::INFINITY)));
        }
        for &target in &self.study.params().targets {
            let label = format!("{}%", share(target));
            accuracy = accuracy.reference(ReferenceLine::horizontal(target, label));
        }
        self.titled("Learning").panel(accuracy).panel(loss)
    }

    fn target_figure(&self, summary: &StudySummary) -> Figure {
        let mut figure = self.titled("Rounds to the target").columns(2);
        for (number, &target) in self.study.params().targets.iter().enumerate() {
            let title = format!("To {}% test accuracy", share(target));
            let mut plot = IntervalPlot::new(title, Axis::linear("rounds"));
            for (place, (label, slot)) in self.looks().into_iter().enumerate() {
                let rounds = &summary.policies[place].rounds_to[number].rounds;
                let dots = self
                    .runs_of(place)
                    .filter(|record| record.finished)
                    .filter_map(|record| record.rounds_to(target))
                    .map(|rounds| rounds as f64);
                let mut row = IntervalRow::new(label, rounds.median.unwrap_or(f64::NAN))
                    .slot(slot)
                    .dots(dots)
                    .note(format!("{} of {}", rounds.reached, rounds.runs));
                if let Some(interval) = rounds.interval {
                    row = row.interval(interval.low, interval.high);
                }
                plot = plot.row(row);
            }
            figure = figure.panel(plot);
        }
        figure
    }

    fn difference_figure(&self, summary: &StudySummary) -> Figure {
        let mut figure = self.titled("Against the baseline").columns(2);
        let mut measures: Vec<Measure> = Vec::new();
        for pair in &summary.pairs {
            if !measures.contains(&pair.measure) {
                measures.push(pair.measure);
            }
        }
        let looks: BTreeMap<&str, usize> = self.looks().into_iter().collect();
        for measure in measures {
            let axis = match measure {
                Measure::RoundsTo(_) => "change in percent (fewer rounds to the left)",
                _ => "difference in percentage points (better to the right)",
            };
            let mut plot = IntervalPlot::new(capitalised(&measure.to_string()), Axis::linear(axis))
                .reference(ReferenceLine::vertical(0.0, summary.baseline.clone()));
            let pairs = summary
                .pairs
                .iter()
                .filter(|pair| pair.measure == measure && pair.other == summary.baseline);
            for pair in pairs {
                let slot = looks.get(pair.policy.as_str()).copied().unwrap_or(REFERENCE);
                let mut row = IntervalRow::new(&pair.policy, pair.effect).slot(slot);
                if let Some(interval) = pair.interval {
                    row = row.interval(interval.low, interval.high);
                }
                if pair.at_limit > 0 {
                    row = row.note(format!("{} at the limit", pair.at_limit));
                }
                plot = plot.row(row);
            }
            figure = figure.panel(plot);
        }
        figure
    }

    /// The mean of curves, with a band where there is room for it.
    fn curve(
        &self,
        label: &str,
        slot: usize,
        curves: Vec<Vec<(u64, f64)>>,
        limits: (f64, f64),
    ) -> Series {
        let (points, band) = mean_curve(curves, limits);
        let band = if self.bands() { band } else { Vec::new() };
        Series::new(label, SeriesStyle::Line, points).band(band).slot(slot)
    }

    fn advantage_figure(&self) -> Figure {
        let y = Axis::linear("percentage points");
        let base = self.study.baseline();
        let title = format!("Accuracy minus that of {}", self.study.contenders()[base].label);
        let mut panel = Panel::new(title, Axis::linear("round"), y)
            .reference(ReferenceLine::horizontal(0.0, ""));
        for (place, (label, slot)) in self.looks().into_iter().enumerate() {
            if place == base {
                continue;
            }
            let differences = self.runs_of(place).filter_map(|run| {
                let other = self.runs_of(base).find(|other| other.id.seed == run.id.seed)?;
                let other: BTreeMap<u64, f64> =
                    other.curve.iter().map(|point| (point.round, point.accuracy)).collect();
                let difference = |point: &CurvePoint| {
                    let other = other.get(&point.round)?;
                    Some((point.round, 100.0 * (point.accuracy - other)))
                };
                Some(run.curve.iter().filter_map(difference).collect::<Vec<_>>())
            });
            let limits = (-100.0, 100.0);
            panel = panel.series(self.curve(label, slot, differences.collect(), limits));
        }
        self.titled("The advantage over the rounds").panel(panel)
    }

    /// The bound over the measured error, where the constants are known.
    fn bound_figure(&self) -> Option<Figure> {
        if !self.study.params().bound {
            return None;
        }
        let mut figure = self.titled("Theorem 1 and what was measured").columns(3);
        for (place, (label, slot)) in self.looks().into_iter().enumerate() {
            let record = self.runs_of(place).next()?;
            let gaps = record.gaps.as_ref()?;
            let scene = self.study.scene(record.id.seed).ok()?;
            let x = Axis::log10("rounds");
            let mut panel = Panel::new(label, x, Axis::log10("F(theta) - F*"));
            if let Some(bound) = self.study.bound(place, scene, gaps) {
                let points = gaps.error.iter().filter(|point| point.0 > 0);
                let points = points.map(|&(round, _)| (round as f64, bound.after(round).total()));
                let style = SeriesStyle::Line;
                panel =
                    panel.series(Series::new("bound of Theorem 1", style, points).slot(REFERENCE));
            }
            let points = gaps.error.iter().map(|&(round, error)| (round as f64, error));
            panel = panel.series(Series::new(label, SeriesStyle::Line, points).slot(slot));
            figure = figure.panel(panel);
        }
        Some(figure)
    }

    fn client_figure(&self) -> Figure {
        let x = Axis::linear("share of clients, worst served first").range(0.0, 1.0);
        let mut panel =
            Panel::new("Accuracy by client", x, Axis::linear("accuracy for the client"));
        for (place, (label, slot)) in self.looks().into_iter().enumerate() {
            let clients = self.runs_of(place).flat_map(|record| &record.clients);
            let mut each: Vec<f64> = clients.filter_map(|client| client.accuracy).collect();
            each.sort_by(f64::total_cmp);
            let count = each.len() as f64;
            let points = each.into_iter().enumerate().map(|(i, a)| ((i as f64 + 0.5) / count, a));
            panel = panel.series(Series::new(label, SeriesStyle::Line, points).slot(slot));
        }
        self.titled("Accuracy by client").panel(panel)
    }

    fn load_figure(&self) -> Figure {
        const FIRST: usize = 60;
        let interval = self.study.params().clients as f64 / self.study.params().cohort as f64;
        let x = Axis::linear("X (rounds)").range(0.0, (5.0 * interval).max(8.0).ceil());
        let y = Axis::linear("share of selections").range(0.0, 1.0);
        let mut waits = Panel::new("Waits of at most X rounds", x, y)
            .reference(ReferenceLine::vertical(interval, format!("n/m = {interval:.2}")));
        let x = Axis::linear("share of clients, least busy first").range(0.0, 1.0);
        let y = Axis::linear("share of all selections").range(0.0, 1.0);
        let even = Series::new("everyone the same", SeriesStyle::Line, [(0.0, 0.0), (1.0, 1.0)]);
        let mut lorenz = Panel::new("Load per client", x, y).series(even.slot(REFERENCE));
        let target = self.study.params().cohort as f64;
        let x = Axis::linear("round").integer_ticks();
        let mut cohorts = Panel::new("Clients per round", x, Axis::linear("clients"))
            .reference(ReferenceLine::horizontal(target, "target m"));
        for (place, (label, slot)) in self.looks().into_iter().enumerate() {
            let runs: Vec<&Record> = self.runs_of(place).collect();
            let line =
                |points: Vec<(f64, f64)>| Series::new(label, SeriesStyle::Line, points).slot(slot);
            waits = waits.series(line(waiting_curve(&runs)));
            lorenz = lorenz.series(line(crate::simulate::lorenz_curve(&loads(&runs))));
            let logs = runs.first().map_or(&[][..], |record| &record.logs);
            let size = |log: &crate::sim::study::RoundLog| {
                ((log.round + 1) as f64, log.clients.len() as f64)
            };
            cohorts = cohorts.series(line(logs.iter().take(FIRST).map(size).collect()));
        }
        self.titled("Load").panel(waits).panel(lorenz).panel(cohorts)
    }
}

fn named(
    name: &'static str,
    heading: &'static str,
    figure: Figure,
    reading: impl Into<String>,
) -> NamedFigure {
    NamedFigure { name, heading, figure, reading: reading.into() }
}

/// A share in percent, without digits that say nothing.
pub(super) fn share(value: f64) -> f64 {
    (value * 1e4).round() / 1e2
}

pub(super) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// The mean of curves over the rounds that all of them have, and its 95% interval, as far as values can be.
#[allow(clippy::type_complexity, reason = "points and bands are what a series takes")]
fn mean_curve(
    curves: Vec<Vec<(u64, f64)>>,
    (least, most): (f64, f64),
) -> (Vec<(f64, f64)>, Vec<(f64, f64, f64)>) {
    let mut values: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    let count = curves.len();
    for (round, value) in curves.into_iter().flatten() {
        values.entry(round).or_default().push(value);
    }
    values.retain(|_, values| values.len() == count);
    let estimates: Vec<(f64, Estimate)> = values
        .into_iter()
        .filter_map(|(round, values)| Some((round as f64, Estimate::of(values)?)))
        .collect();
    let band = estimates.iter().filter_map(|&(round, Estimate { mean, half_width })| {
        let half = half_width?;
        Some((round, (mean - half).max(least), (mean + half).min(most)))
    });
    let points = estimates.iter().map(|&(round, estimate)| (round, estimate.mean));
    (points.collect(), band.collect())
}

/// How many clients were chosen how often, over all runs.
fn loads(runs: &[&Record]) -> BTreeMap<u32, u64> {
    let mut loads = BTreeMap::new();
    for client in runs.iter().flat_map(|record| &record.clients) {
        *loads.entry(client.selections).or_default() += 1;
    }
    loads
}

/// The share of selections that came after at most so many rounds, as steps.
fn waiting_curve(runs: &[&Record]) -> Vec<(f64, f64)> {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for &(interval, count) in runs.iter().flat_map(|record| &record.intervals) {
        *counts.entry(interval).or_default() += count;
    }
    let all: u64 = counts.values().sum();
    let mut points = vec![(0.0, 0.0)];
    let mut so_far = 0;
    for (interval, count) in counts {
        points.push((interval as f64, so_far as f64 / all as f64));
        so_far += count;
        points.push((interval as f64, so_far as f64 / all as f64));
    }
    points
}

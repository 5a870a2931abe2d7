//! How fast variants learn, whether the difference is real, and whom the model serves.

use super::ReportFigure;
use crate::format::{capitalised, target_name};
use crate::section::ReportSection;
use crate::series_style::REFERENCE;
use agewise_experiment::{CurvePoint, Measure, TrainingRecord};
use agewise_plot::{
    Axis, Figure, IntervalPlot, IntervalRow, Panel, ReferenceLine, Series, SeriesStyle,
};
use std::collections::BTreeMap;

impl ReportSection<'_> {
    /// The figures of an experiment that trains.
    pub(super) fn learning_figures(&self) -> Vec<ReportFigure> {
        let band = if self.has_bands() {
            "with its 95% interval as a band"
        } else {
            "without bands, as so many would hide the lines"
        };
        let mut figures = vec![ReportFigure::new(
            "learning",
            "How fast do they learn?",
            self.learning_figure(),
            format!(
                "The model on the test set after each round: the mean over seeds, {band}. Where runs end at the target, lines \
                 end with the first run that does."
            ),
        )];
        if !self.experiment().targets().is_empty() {
            figures.push(ReportFigure::new(
                "rounds-to-target",
                if self.experiment().has_clock() {
                    "What does the target cost?"
                } else {
                    "How many rounds to the target?"
                },
                self.target_figure(),
                "One dot per seed; the marker is the median, the bar its 95% bootstrap interval. An arrow means that the \
                 interval has no end: too many runs never got there. On the right, how many did.",
            ));
        }
        figures.extend(self.cost_figure());
        if self.experiment().variants().len() > 1 {
            figures.push(ReportFigure::new(
                "differences",
                "Is the difference real?",
                self.difference_figure(),
                "Each policy against the baseline over common seeds, with the 95% interval of the paired difference. A bar \
                 that does not touch the line at 0 is a difference that the data support, if it is the only one you look at.",
            ));
            figures.push(ReportFigure::new(
                "advantage",
                "When does it matter?",
                self.advantage_figure(),
                format!(
                    "{} minus that of the baseline under the same seed, round by round: the mean over seeds, {band}. {} 0 a \
                     policy is ahead.",
                    capitalised(self.score_name()),
                    if self.is_measured_by_accuracy() { "Above" } else { "Below" }
                ),
            ));
        }
        if let Some(figure) = self.bound_figure() {
            figures.push(ReportFigure::new(
                "bound",
                "What does Theorem 1 promise?",
                figure,
                "The first seed. Lowest curve, F(theta) - F* as measured; above it the bound of Theorem 1 with constants \
                 estimated from these data: as the proof gives it for the learning rate that the theorem states and these \
                 runs took, and as the theorem prints it, which is its form for a rate K times smaller. The proof takes \
                 cohorts of m clients. Both axes are logarithmic: the distance is how much the bound gives away.",
            ));
        }
        if let Some(figure) = self.client_figure() {
            figures.push(ReportFigure::new(
                "clients",
                "Whom does the model serve?",
                figure,
                "The accuracy that each client would see from the last model: the test accuracy of its classes, in its \
                 proportions. Clients in order, the worst served first, over all seeds.",
            ));
        }
        figures
    }

    /// What came of training in the runs of a variant.
    fn training_of(&self, place: usize) -> impl Iterator<Item = (u32, &TrainingRecord)> + Clone {
        self.runs_of(place).filter_map(|run| Some((run.id.seed, run.training.as_ref()?)))
    }

    fn learning_figure(&self) -> Figure {
        let x = || Axis::linear("round");
        let mut accuracy = Panel::new("Accuracy", x(), Axis::linear("test accuracy"));
        let mut loss = Panel::new("Loss", x(), Axis::log10("test loss"));
        for (place, style) in self.styles().into_iter().enumerate() {
            let curve = |value: fn(&CurvePoint) -> Option<f64>, limits| {
                let curves = self.training_of(place).map(|(_, run)| {
                    run.curve
                        .iter()
                        .filter_map(|point| Some((point.round, value(point)?)))
                        .collect()
                });
                self.curve(style, curves.collect(), limits)
            };
            accuracy = accuracy.series(curve(|point| point.accuracy, (0.0, 1.0)));
            loss = loss.series(curve(|point| point.loss, (0.0, f64::INFINITY)));
        }
        let by_accuracy = self.is_measured_by_accuracy();
        for &target in self.experiment().targets() {
            let line = ReferenceLine::horizontal(target, target_name(target, by_accuracy));
            if by_accuracy {
                accuracy = accuracy.reference(line);
            } else {
                loss = loss.reference(line);
            }
        }
        let figure = self.titled("Learning");
        if by_accuracy { figure.panel(accuracy).panel(loss) } else { figure.panel(loss) }
    }

    fn target_figure(&self) -> Figure {
        let unit = self.unit();
        let title = format!("{} to the target", capitalised(unit.words()));
        let mut figure = self.titled(&title).columns(2);
        let by_accuracy = self.is_measured_by_accuracy();
        for (number, &target) in self.experiment().targets().iter().enumerate() {
            let name = target_name(target, by_accuracy);
            let title = if by_accuracy {
                format!("To {name} test accuracy")
            } else {
                format!("To a {name}")
            };
            let mut plot = IntervalPlot::new(title, Axis::linear(unit.words()));
            for (place, (name, slot)) in self.styles().into_iter().enumerate() {
                let policy = &self.summary.policies[place];
                let Some(to) = self.costs_of(policy).nth(number) else {
                    continue;
                };
                let rounds = &to.rounds;
                let dots = self
                    .runs_of(place)
                    .filter(|run| run.finished)
                    .filter_map(|run| run.training.as_ref()?.cost_to(target, unit))
                    .filter_map(|spent| spent.reached.then_some(spent.amount));
                let mut row = IntervalRow::new(name, rounds.median.unwrap_or(f64::NAN))
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

    fn difference_figure(&self) -> Figure {
        let mut figure = self.titled("Against the baseline").columns(2);
        let styles: BTreeMap<&str, usize> = self.styles().into_iter().collect();
        for measure in self.measures() {
            let axis = match measure {
                measure if measure.is_cost() => "change in percent (fewer to the left)",
                measure if measure.is_in_points() => {
                    "difference in percentage points (better to the right)"
                }
                _ => "difference (better to the left)",
            };
            let mut plot = IntervalPlot::new(capitalised(&measure.to_string()), Axis::linear(axis))
                .reference(ReferenceLine::vertical(0.0, self.summary.baseline.clone()));
            for pair in self.with_baseline().filter(|pair| pair.measure == measure) {
                let slot = styles.get(pair.policy.as_str()).copied().unwrap_or(REFERENCE);
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

    fn advantage_figure(&self) -> Figure {
        let base = self.experiment().baseline();
        let (scale, limits, unit) = if self.is_measured_by_accuracy() {
            (100.0, (-100.0, 100.0), "percentage points")
        } else {
            (1.0, (f64::NEG_INFINITY, f64::INFINITY), "difference")
        };
        let score = capitalised(self.score_name());
        let title = format!("{score} minus that of {}", self.summary.baseline);
        let mut panel = Panel::new(title, Axis::linear("round"), Axis::linear(unit))
            .reference(ReferenceLine::horizontal(0.0, ""));
        let curves = |place: usize| {
            self.training_of(place).filter_map(|(seed, run)| {
                let (_, other) = self.training_of(base).find(|(other, _)| *other == seed)?;
                let other: BTreeMap<u64, f64> =
                    other.curve.iter().map(|point| (point.round, point.score)).collect();
                let difference = |point: &CurvePoint| {
                    let other = other.get(&point.round)?;
                    Some((point.round, scale * (point.score - other)))
                };
                Some(run.curve.iter().filter_map(difference).collect::<Vec<_>>())
            })
        };
        for (place, style) in self.styles().into_iter().enumerate() {
            if place != base {
                panel = panel.series(self.curve(style, curves(place).collect(), limits));
            }
        }
        self.titled("The advantage over the rounds").panel(panel)
    }

    /// The bound over the measured error, where the constants are known.
    fn bound_figure(&self) -> Option<Figure> {
        if !self.experiment().training()?.bound {
            return None;
        }
        let mut figure = self.titled("Theorem 1 and what was measured").columns(3);
        for (place, (name, slot)) in self.styles().into_iter().enumerate() {
            let (seed, run) = self.training_of(place).next()?;
            let objectives = run.objectives.as_ref()?;
            let context = self.experiment().context(seed).ok()?;
            let mut panel = Panel::new(name, Axis::log10("rounds"), Axis::log10("F(theta) - F*"));
            if let Some(bound) = self.experiment().bound(place, context, objectives) {
                let rounds =
                    || objectives.error.iter().map(|point| point.0).filter(|&round| round > 0);
                let proven = rounds().map(|round| (round as f64, bound.proven(round).total()));
                let printed = rounds().filter(|round| round.is_power_of_two());
                let printed = printed.map(|round| (round as f64, bound.printed(round).total()));
                let bound =
                    |name, style, points: Vec<_>| Series::new(name, style, points).slot(REFERENCE);
                panel = panel
                    .series(bound("Theorem 1, proven", SeriesStyle::Line, proven.collect()))
                    .series(bound(
                        "Theorem 1, as printed",
                        SeriesStyle::Markers,
                        printed.collect(),
                    ));
            }
            let points = objectives.error.iter().map(|&(round, error)| (round as f64, error));
            panel = panel.series(Series::new(name, SeriesStyle::Line, points).slot(slot));
            figure = figure.panel(panel);
        }
        Some(figure)
    }

    /// Accuracies of single clients, for tasks that have classes.
    fn client_figure(&self) -> Option<Figure> {
        let x = Axis::linear("share of clients, worst served first").range(0.0, 1.0);
        let y = Axis::linear("accuracy for the client");
        let mut panel = Panel::new("Accuracy by client", x, y);
        let mut is_known = false;
        for (place, (name, slot)) in self.styles().into_iter().enumerate() {
            let clients = self.training_of(place).flat_map(|(_, run)| &run.clients);
            let mut each: Vec<f64> = clients.filter_map(|client| client.accuracy).collect();
            each.sort_by(f64::total_cmp);
            is_known |= !each.is_empty();
            let count = each.len() as f64;
            let points = each.into_iter().enumerate().map(|(i, a)| ((i as f64 + 0.5) / count, a));
            panel = panel.series(Series::new(name, SeriesStyle::Line, points).slot(slot));
        }
        is_known.then(|| self.titled("Accuracy by client").panel(panel))
    }

    /// What is compared between variants, in the order of the summary.
    pub(crate) fn measures(&self) -> Vec<Measure> {
        let mut measures: Vec<Measure> = Vec::new();
        for pair in &self.summary.pairs {
            if !measures.contains(&pair.measure) {
                measures.push(pair.measure);
            }
        }
        measures
    }
}

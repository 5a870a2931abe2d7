//! How fast variants learn, whether the difference is real, and whom the model serves.

use super::{ReportFigure, mean_curve};
use crate::format::{capitalised, target_name};
use crate::section::ReportSection;
use crate::series_style::REFERENCE;
use agewise_experiment::{CurvePoint, Measure, TrainingRecord};
use agewise_plot::{
    Axis, Figure, IntervalPlot, IntervalRow, Panel, ReferenceLine, Series, SeriesStyle,
};
use std::collections::BTreeMap;

/// The share of the rounds at the beginning whose differences need not fit into the figure: before models can do anything
/// they are many times as large as later.
const FIRST_ROUNDS: f64 = 0.2;

impl ReportSection<'_> {
    /// The figures of an experiment that trains.
    pub(super) fn learning_figures(&self) -> Vec<ReportFigure> {
        let band = if self.has_bands() {
            "the mean over seeds with its 95% interval as a band"
        } else {
            "the mean over seeds without bands, as so many would hide the lines"
        };
        let differences = if self.experiment().variants().len() > 1 {
            let window = match self.window() {
                1 => String::new(),
                window => format!(", as means over {window} rounds"),
            };
            format!(
                "Left, differences from the baseline under the same seed after the same round{window}: what a lucky start does to \
                 both cancels, and a band that leaves 0 is a difference at that round. The first rounds may leave the figure. "
            )
        } else {
            String::new()
        };
        let mut figures = vec![ReportFigure::new(
            "learning",
            "How fast do they learn?",
            self.learning_figure(),
            format!(
                "{differences}Curves show the model on the test set after each round, {band}; their axes \
                 are logarithmic. Where runs end at the target, lines end with the first run that does."
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

    /// Differences from the baseline beside the curves themselves, which lie on top of each other.
    fn learning_figure(&self) -> Figure {
        let mut figure = self.titled("Learning").columns(2).panel_height(330.0);
        let has_differences = self.experiment().variants().len() > 1;
        let loss_difference = || {
            let title = format!("Loss minus that of {}", self.summary.baseline);
            self.difference(title, "difference", |point| point.loss)
        };
        if self.is_measured_by_accuracy() {
            if has_differences {
                figure = figure.panel(self.score_difference(""));
            }
            figure = figure.panel(self.error_panel());
        }
        if has_differences {
            figure = figure.panel(loss_difference());
        }
        figure.panel(self.loss_panel())
    }

    /// The share of samples that are not recognised: on a logarithmic axis late rounds differ as visibly as early ones.
    fn error_panel(&self) -> Panel {
        let x = Axis::linear("round").convertible();
        let panel = Panel::new("Test error", x, Axis::log10("1 - test accuracy"));
        let panel = self.experiment().targets().iter().fold(panel, |panel, &target| {
            let name = format!("accuracy {}", target_name(target, true));
            panel.reference(ReferenceLine::horizontal(1.0 - target, name))
        });
        self.curves(panel, |point| point.accuracy.map(|accuracy| 1.0 - accuracy), (0.0, 1.0))
    }

    fn loss_panel(&self) -> Panel {
        let x = Axis::linear("round").convertible();
        let mut panel = Panel::new("Test loss", x, Axis::log10("test loss"));
        if !self.is_measured_by_accuracy() {
            for &target in self.experiment().targets() {
                let line = ReferenceLine::horizontal(target, target_name(target, false));
                panel = panel.reference(line);
            }
        }
        self.curves(panel, |point| point.loss, (0.0, f64::INFINITY))
    }

    /// Adds a curve of each variant: the mean over seeds.
    fn curves(
        &self,
        panel: Panel,
        value: fn(&CurvePoint) -> Option<f64>,
        limits: (f64, f64),
    ) -> Panel {
        self.styles().into_iter().enumerate().fold(panel, |panel, (place, style)| {
            let of_run = |(_, run): (u32, &TrainingRecord)| {
                let points = run.curve.iter();
                points.filter_map(|point| Some((point.round, value(point)?))).collect()
            };
            let curves = self.training_of(place).map(of_run).collect();
            panel.series(self.curve(style, curves, limits))
        })
    }

    /// What models are measured by, minus that of the baseline under the same seed; without a title it says that itself.
    pub(super) fn score_difference(&self, title: &str) -> Panel {
        let usual = || {
            format!("{} minus that of {}", capitalised(self.score_name()), self.summary.baseline)
        };
        let title = if title.is_empty() { usual() } else { title.to_string() };
        if self.is_measured_by_accuracy() {
            self.difference(title, "percentage points", |point| Some(100.0 * point.score))
        } else {
            self.difference(title, "difference", |point| Some(point.score))
        }
    }

    /// A value of each round minus that of the baseline under the same seed: the mean over seeds. Pairs are compared
    /// after the same number of rounds, so the axis has no other unit.
    fn difference(
        &self,
        title: String,
        unit: &str,
        value: fn(&CurvePoint) -> Option<f64>,
    ) -> Panel {
        let base = self.experiment().baseline();
        let of_pair = |(seed, run): (u32, &TrainingRecord)| {
            let (_, other) = self.training_of(base).find(|(other, _)| *other == seed)?;
            let other: BTreeMap<u64, f64> = (other.curve.iter())
                .filter_map(|point| Some((point.round, value(point)?)))
                .collect();
            let difference =
                |point: &CurvePoint| Some((point.round, value(point)? - other.get(&point.round)?));
            let raw: Vec<(u64, f64)> = run.curve.iter().filter_map(difference).collect();
            Some(running_means(&raw, self.window()))
        };
        let limits = (f64::NEG_INFINITY, f64::INFINITY);
        let curves = |place: usize| {
            mean_curve(self.training_of(place).filter_map(of_pair).collect(), limits)
        };
        let all: Vec<_> = (0..self.experiment().variants().len()).map(curves).collect();
        let settled = self.experiment().params().rounds as f64 * FIRST_ROUNDS;
        let late = all.iter().flat_map(|(points, band)| {
            let points = points.iter().map(|&(round, value)| (round, value, value));
            points.chain(band.iter().copied().filter(|_| self.has_bands()))
        });
        let late = late.filter(|(round, ..)| *round >= settled);
        let (low, high) = late
            .fold((0.0_f64, 0.0_f64), |(low, high), (_, from, to)| (low.min(from), high.max(to)));
        let room = 0.1 * (high - low);
        let y = Axis::linear(unit).range(low - room, high + room);
        let panel = Panel::new(title, Axis::linear("round").zoomable(), y);
        let panel = panel.reference(ReferenceLine::horizontal(0.0, ""));
        self.styles().into_iter().zip(all).fold(panel, |panel, ((name, slot), (points, band))| {
            let band = if self.has_bands() { band } else { Vec::new() };
            let line = Series::new(name, SeriesStyle::Line, points).slot(slot);
            panel.series(line.band(band))
        })
    }

    /// Differences are means over so many rounds: single rounds are mostly noise.
    fn window(&self) -> usize {
        (self.experiment().params().rounds as usize / 12).clamp(1, 50)
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

/// The mean of each point and those before it, over a window of so many points.
fn running_means(points: &[(u64, f64)], window: usize) -> Vec<(u64, f64)> {
    let mean = |end: usize| {
        let part = &points[(end + 1).saturating_sub(window)..=end];
        (points[end].0, part.iter().map(|(_, value)| value).sum::<f64>() / part.len() as f64)
    };
    (0..points.len()).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_means_look_back() {
        let points = [(1, 4.0), (2, 2.0), (3, 6.0), (5, 1.0)];
        assert_eq!(running_means(&points, 2), [(1, 4.0), (2, 3.0), (3, 4.0), (5, 3.5)]);
        assert_eq!(running_means(&points, 1), points);
    }
}

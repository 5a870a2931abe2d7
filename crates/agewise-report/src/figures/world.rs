//! Available, selected and reporting clients, where clients are not always available.

use super::ReportFigure;
use super::load::mean_over_runs;
use crate::section::ReportSection;
use agewise_experiment::{Record, RoundRecord};
use agewise_plot::{Axis, Panel, ReferenceLine, Series, SeriesStyle};

/// Each point is the mean of so many rounds that a run has about this many points.
const POINTS: usize = 150;

/// A number of clients of a round.
type Clients = fn(&RoundRecord) -> Option<u64>;

impl ReportSection<'_> {
    /// The figure of a world that is not calm.
    pub(super) fn world_figure(&self) -> Option<ReportFigure> {
        if self.experiment().is_calm() {
            return None;
        }
        let target = f64::from(self.experiment().setting().cohort());
        let panels: [(&str, Clients); 3] = [
            ("Could be selected", |row| row.available),
            ("Were selected", |row| Some(row.selected)),
            ("Reported", |row| Some(row.reported)),
        ];
        let mut figure = self.titled("Who is reached?");
        for (place, (title, value)) in panels.into_iter().enumerate() {
            let x = Axis::linear("round").convertible();
            let mut panel = Panel::new(title, x, Axis::linear("clients"));
            if place > 0 {
                panel = panel.reference(ReferenceLine::horizontal(target, "target m"));
            }
            for (variant, (name, slot)) in self.styles().into_iter().enumerate() {
                let runs: Vec<&Record> = self.runs_of(variant).collect();
                let value =
                    |run: &Record, round: usize| value(&run.rounds[round]).map(|n| n as f64);
                let points = thinned(&mean_over_runs(&runs, value));
                panel = panel.series(Series::new(name, SeriesStyle::Line, points).slot(slot));
            }
            figure = figure.panel(panel);
        }
        Some(ReportFigure::new(
            "world",
            "Who is reached?",
            figure,
            "Clients that could be selected in a round, those that were, and those that reported: the mean over seeds and \
             over a few neighbouring rounds. All policies meet the same world under one seed.",
        ))
    }
}

/// Means of neighbouring points, so that about [`POINTS`] are left.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let width = points.len().div_ceil(POINTS).max(1);
    let mean = |part: &[(f64, f64)]| {
        let count = part.len() as f64;
        let sum = part.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
        (sum.0 / count, sum.1 / count)
    };
    points.chunks(width).map(mean).collect()
}

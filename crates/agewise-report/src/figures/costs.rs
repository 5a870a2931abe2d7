//! The score over what was spent: seconds, bytes and the work of clients.

use super::ReportFigure;
use crate::format::capitalised;
use crate::section::ReportSection;
use agewise_experiment::{TrainingRecord, Unit};
use agewise_plot::{Axis, Panel};

/// Points of a curve.
const POINTS: u64 = 120;

/// The units of the panels.
const UNITS: [Unit; 3] = [Unit::Seconds, Unit::Bytes, Unit::ClientSeconds];

impl ReportSection<'_> {
    /// The score over each unit; nothing without a clock.
    pub(super) fn cost_figure(&self) -> Option<ReportFigure> {
        if !self.experiment().has_clock() {
            return None;
        }
        let by_accuracy = self.is_measured_by_accuracy();
        let score = format!("test {}", self.score_name());
        let mut figure = self.titled("Learning over what it costs").columns(3);
        for unit in UNITS {
            let y = if by_accuracy { Axis::linear(&score) } else { Axis::log10(&score) };
            let mut panel = Panel::new(capitalised(unit.words()), Axis::linear(unit.words()), y);
            for (place, style) in self.styles().into_iter().enumerate() {
                let runs: Vec<Vec<(f64, f64)>> = self
                    .runs_of(place)
                    .filter_map(|run| Some(curve(run.training.as_ref()?, unit)))
                    .filter(|curve| !curve.is_empty())
                    .collect();
                // As far as all runs go.
                let end = |curve: &Vec<(f64, f64)>| curve.last().map_or(0.0, |last| last.0);
                let end = runs.iter().map(end).fold(f64::INFINITY, f64::min);
                let grid = |point: u64| end * point as f64 / POINTS as f64;
                let at = |curve: &Vec<(f64, f64)>| {
                    let value = |point| Some((point, score_at(curve, grid(point))?));
                    (1..=POINTS).filter_map(value).collect()
                };
                let limits = if by_accuracy { (0.0, 1.0) } else { (0.0, f64::INFINITY) };
                let (points, band) = super::mean_curve(runs.iter().map(at).collect(), limits);
                let back = |x: f64| end * x / POINTS as f64;
                let points = points.into_iter().map(|(x, y)| (back(x), y));
                let band = band.into_iter().map(|(x, low, high)| (back(x), low, high));
                let band: Vec<_> = if self.has_bands() { band.collect() } else { Vec::new() };
                let (name, slot) = style;
                let line = agewise_plot::SeriesStyle::Line;
                panel = panel
                    .series(agewise_plot::Series::new(name, line, points).band(band).slot(slot));
            }
            figure = figure.panel(panel);
        }
        Some(ReportFigure::new(
            "costs",
            "What does a score cost?",
            figure,
            "The model on the test set over simulated seconds, over bytes in both directions, and over the seconds that \
             clients worked, probes and lost work included: the mean over seeds. A line ends where the first of its runs \
             does.",
        ))
    }
}

/// The evaluations of a run by what had been spent until then.
fn curve(run: &TrainingRecord, unit: Unit) -> Vec<(f64, f64)> {
    let Some(clock) = &run.clock else {
        return Vec::new();
    };
    let mut spent = agewise_experiment::RoundCosts::default();
    let mut points = run.curve.iter().peekable();
    let mut curve = Vec::new();
    for (step, costs) in (1u64..).zip(&clock.rounds) {
        spent.add(costs);
        if let Some(point) = points.next_if(|point| point.step == step)
            && let Some(cost) = unit.of(point.round as f64, &spent)
        {
            curve.push((cost, point.score));
        }
    }
    curve
}

/// The score at a place between evaluations, on a straight line; nothing before the first.
fn score_at(curve: &[(f64, f64)], place: f64) -> Option<f64> {
    let behind = curve.partition_point(|&(cost, _)| cost < place);
    match (behind.checked_sub(1).and_then(|before| curve.get(before)), curve.get(behind)) {
        (Some(&(low, first)), Some(&(high, second))) if high > low => {
            Some(first + (second - first) * (place - low) / (high - low))
        }
        (_, Some(&(cost, score))) if cost <= place => Some(score),
        (Some(&(_, score)), None) => Some(score),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::score_at;

    #[test]
    fn scores_are_straight_between_evaluations() {
        let curve = [(2.0, 0.1), (4.0, 0.5), (4.0, 0.6), (5.0, 0.7)];
        for (place, score) in
            [(1.0, None), (2.0, Some(0.1)), (3.0, Some(0.3)), (4.5, Some(0.65)), (9.0, Some(0.7))]
        {
            let found = score_at(&curve, place);
            let same = match (found, score) {
                (Some(found), Some(score)) => (found - score).abs() < 1e-12,
                (found, score) => found == score,
            };
            assert!(same, "{place}: {found:?}");
        }
    }
}

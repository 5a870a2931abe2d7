//! The figures of an experiment: those of learning where it trains, those of load, and those of the world where clients
//! are not always there.

pub(crate) mod across;
mod costs;
mod learning;
mod load;
mod world;

use crate::section::ReportSection;
use agewise_core::Result;
use agewise_plot::{DrawError, Figure, Series, SeriesStyle};
use std::collections::BTreeMap;

/// The most variants whose intervals are drawn as bands: more bands hide the lines.
const MOST_BANDS: usize = 8;

/// A figure with its file name, the question that it answers, and a sentence that helps to read it.
#[derive(Debug, Clone)]
pub struct ReportFigure {
    /// The name of its files, without extension.
    pub name: &'static str,
    /// The question that it answers.
    pub heading: &'static str,
    /// The figure.
    pub figure: Figure,
    /// How to read it.
    pub reading: String,
}

impl ReportFigure {
    fn new(
        name: &'static str,
        heading: &'static str,
        figure: Figure,
        reading: impl Into<String>,
    ) -> Self {
        Self { name, heading, figure, reading: reading.into() }
    }

    /// The figure as SVG and as PNG.
    pub(crate) fn files(&self) -> std::result::Result<(String, Vec<u8>), DrawError> {
        Ok((self.figure.to_svg(), self.figure.to_png(2.0)?))
    }
}

impl ReportSection<'_> {
    /// All figures, in the order of the report.
    pub fn figures(&self) -> Result<Vec<ReportFigure>> {
        let mut figures = Vec::new();
        if self.trains() {
            figures.extend(self.learning_figures());
        }
        figures.extend(self.world_figure());
        figures.extend(self.load_figures()?);
        Ok(figures)
    }

    /// A figure that says under its title what was played.
    fn titled(&self, title: &str) -> Figure {
        Figure::new(title).subtitle(self.setting_line())
    }

    /// What was played, in a line.
    fn setting_line(&self) -> String {
        let params = self.experiment().params();
        let seeds = match params.seeds {
            1 => format!("seed {}", params.seed),
            seeds => format!("{seeds} seeds"),
        };
        let (clients, cohort) = (params.clients, params.cohort);
        let mut parts = match self.description() {
            Some((data, model, work)) => {
                vec![data, format!("{clients} clients"), format!("{cohort} per round"), model, work]
            }
            None => vec![
                format!("{clients} clients"),
                format!("{cohort} per round"),
                format!("maximum age {}", self.summary.max_age),
                format!("{} rounds", params.rounds),
            ],
        };
        parts.retain(|part| !part.is_empty());
        parts.push(seeds);
        if !self.experiment().is_calm() {
            parts.push(self.world_line());
        }
        parts.join(", ")
    }

    /// Whether there are few enough variants to draw bands.
    fn has_bands(&self) -> bool {
        self.experiment().variants().len() <= MOST_BANDS
    }

    /// The mean of curves, with a band where there is room for it.
    fn curve(
        &self,
        (name, slot): (&str, usize),
        curves: Vec<Vec<(u64, f64)>>,
        limits: (f64, f64),
    ) -> Series {
        let (points, band) = mean_curve(curves, limits);
        let band = if self.has_bands() { band } else { Vec::new() };
        Series::new(name, SeriesStyle::Line, points).band(band).slot(slot)
    }
}

/// The mean of curves over the rounds that all of them have, and its 95% interval, as far as values can be.
#[allow(clippy::type_complexity, reason = "points and bands are what a series takes")]
fn mean_curve(
    curves: Vec<Vec<(u64, f64)>>,
    (least, most): (f64, f64),
) -> (Vec<(f64, f64)>, Vec<(f64, f64, f64)>) {
    use agewise_experiment::Estimate;
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

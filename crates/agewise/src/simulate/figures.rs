//! The figures of a simulation: the paper's three, and ours.

use super::Finished;
use crate::core::{Result, Start};
use crate::looks::{REFERENCE, slots};
use crate::report::{Axis, Figure, HeatMap, Panel, ReferenceLine, Series, SeriesStyle};
use crate::sim::{RunRecord, theory};
use std::collections::BTreeMap;

/// A figure with its file name and a sentence that helps to read it.
pub(super) struct NamedFigure {
    pub(super) name: &'static str,
    /// The question that it answers.
    pub(super) heading: &'static str,
    pub(super) figure: Figure,
    pub(super) reading: &'static str,
}

impl Finished {
    /// All figures, in the order of the report.
    pub(super) fn figures(&self) -> Result<Vec<NamedFigure>> {
        let named = |name, heading, figure, reading| NamedFigure { name, heading, figure, reading };
        Ok(vec![
            named(
                "intervals",
                "How long do clients wait?",
                self.interval_figure()?,
                "One panel per policy: how many rounds pass between two selections of a client. A narrow \
                 peak is an even load; a long tail is clients that wait. Grey markers are the closed form.",
            ),
            named(
                "windows",
                "How even is the load over time?",
                self.window_figure(),
                "How much the number of selections of a client in a window of T rounds varies, over T. The \
                 lower a curve, the more even the load over that time; markers are measured, lines are the \
                 closed form where there is one. A value of zero (everyone equally often) has no place on a \
                 logarithmic axis and is left out.",
            ),
            named(
                "sigma",
                "How much do the weights vary?",
                self.sigma_figure(),
                "Sigma, the sum of the variances of the aggregation weights, over the rounds so far. It is \
                 what the convergence bound sees of a policy; dashed lines are the closed forms.",
            ),
            named(
                "cohorts",
                "How many clients per round?",
                self.cohort_figure(),
                "The number of clients per round, in the first rounds of the first seed. Left from the start that was asked \
                 for; right, for age laws, from the other one: a cold start comes in bursts.",
            ),
            named(
                "ages",
                "How old do clients get?",
                self.age_figure(),
                "The first seed. Each column is a round, each row an age, the last row all greater ages; colour is \
                 the share of all clients. An even load \
                 fills a band at the bottom; light stripes are clients that act in step.",
            ),
            named(
                "lorenz",
                "Who does the work?",
                self.lorenz_figure(),
                "Clients in order of how often they took part, and the share of all the work that they did. \
                 On the diagonal everyone does the same.",
            ),
        ])
    }

    fn subtitle(&self) -> String {
        let params = self.simulation.params();
        let seeds = match params.seeds {
            1 => format!("seed {}", params.seed),
            seeds => format!("{seeds} seeds"),
        };
        format!(
            "{} clients, {} per round, maximum age {}, {} rounds, {seeds}",
            params.clients, params.cohort, params.max_age, params.rounds
        )
    }

    fn titled(&self, title: &str) -> Figure {
        Figure::new(title).subtitle(self.subtitle())
    }

    /// The look of a policy.
    fn slot(&self, policy: usize) -> usize {
        let specs: Vec<_> = self.simulation.policies().iter().map(|policy| &policy.spec).collect();
        slots(&specs)[policy]
    }

    fn names(&self) -> impl Iterator<Item = (usize, &str)> {
        self.summary.policies.iter().map(|policy| policy.policy.as_str()).enumerate()
    }

    fn interval_figure(&self) -> Result<Figure> {
        let interval = self.simulation.setting().interval();
        let mut figure = self.titled("Rounds between two selections").columns(3);
        let end = (4.0 * interval).max(8.0).ceil() + 0.5;
        for (index, name) in self.names() {
            let counts = self.interval_counts(index);
            let total: u64 = counts.values().sum();
            let shares = counts.iter().map(|(&x, &count)| (x as f64, count as f64 / total as f64));
            let x = Axis::linear("X (rounds)").range(0.5, end).integer_ticks();
            let measured = Series::new(name, SeriesStyle::Bars, shares).slot(self.slot(index));
            let mut panel = Panel::new(name, x, Axis::linear("share of selections"))
                .series(measured)
                .reference(ReferenceLine::vertical(interval, format!("n/m = {interval:.2}")));
            if let Some(theory) = theory(&self.simulation, index)? {
                let points = theory.interval_distribution.iter().map(|&(x, p)| (x as f64, p));
                let style = SeriesStyle::Markers;
                panel = panel.series(Series::new("closed form", style, points).slot(REFERENCE));
            }
            figure = figure.panel(panel);
        }
        Ok(figure)
    }

    fn window_figure(&self) -> Figure {
        let x = Axis::log10("T (rounds)");
        let mut panel = Panel::new("Load over a window", x, Axis::log10("sqrt(Var Y) / T"));
        for (index, name) in self.names() {
            let policy = &self.summary.policies[index];
            let point = |(&t, &sd): (&u32, &f64)| (f64::from(t), sd);
            let slot = self.slot(index);
            let measured = policy.window_sd.iter().map(point);
            panel = panel.series(Series::new(name, SeriesStyle::Markers, measured).slot(slot));
            let exact = policy.window_sd_theory.iter().map(point);
            panel = panel.series(Series::new(name, SeriesStyle::Line, exact).slot(slot));
        }
        self.titled("How even is the load over time?").panel(panel)
    }

    fn sigma_figure(&self) -> Figure {
        let x = Axis::linear("round");
        let mut panel = Panel::new("Sigma over the rounds so far", x, Axis::linear("Sigma"));
        for (index, name) in self.names() {
            let runs = &self.runs[index];
            // The first rounds are all noise: a fiftieth of the run is left out of the drawing.
            let skip = self.simulation.params().rounds as usize / 50;
            let means = mean_over_runs(runs, |run, round| run.rounds[round].sigma);
            let points = means.into_iter().skip(skip.max(1));
            panel =
                panel.series(Series::new(name, SeriesStyle::Line, points).slot(self.slot(index)));
        }
        let mut floors: BTreeMap<String, f64> = BTreeMap::new();
        for policy in &self.summary.policies {
            floors.extend(policy.sigma_theory.map(|sigma| (format!("{sigma:.4}"), sigma)));
        }
        for (label, sigma) in floors {
            panel = panel.reference(ReferenceLine::horizontal(sigma, label));
        }
        self.titled("The variance of the weights").panel(panel)
    }

    fn cohort_figure(&self) -> Figure {
        const FIRST: usize = 60;
        let start = |start: Start| match start {
            Start::Stationary => "From a stationary start",
            Start::Cold => "From a cold start (all ages 0)",
        };
        let asked = self.simulation.params().start;
        let other = if asked == Start::Cold { Start::Stationary } else { Start::Cold };
        let target = f64::from(self.simulation.setting().cohort());
        let panel = |title| {
            let x = Axis::linear("round").integer_ticks();
            Panel::new(title, x, Axis::linear("clients in the round"))
                .reference(ReferenceLine::horizontal(target, "target m"))
        };
        let line = |index, name: &str, sizes: Vec<u64>| {
            let points =
                sizes.into_iter().enumerate().map(|(round, size)| (round as f64, size as f64));
            Series::new(name, SeriesStyle::LineWithMarkers, points).slot(self.slot(index))
        };
        let mut figure = self.titled("Clients per round");
        let mut first = panel(start(asked));
        let mut second = panel(start(other));
        let mut has_second = false;
        for (index, name) in self.names() {
            let rounds = self.runs[index].first().map_or(&[][..], |run| &run.rounds);
            let sizes = rounds.iter().take(FIRST).map(|row| row.reported).collect();
            first = first.series(line(index, name, sizes));
            if let Some(sizes) = &self.other_start[index] {
                second = second.series(line(index, name, sizes.clone()));
                has_second = true;
            }
        }
        figure = figure.panel(first);
        if has_second { figure.panel(second) } else { figure }
    }

    fn age_figure(&self) -> Figure {
        let mut figure = self.titled("Ages over time").columns(2);
        let interval = self.simulation.setting().interval();
        let oldest = (4.0 * interval).ceil().clamp(4.0, 400.0) as u64;
        for (index, name) in self.names() {
            let Some(run) = self.runs[index].first() else {
                continue;
            };
            let mut rows = vec![vec![f64::NAN; run.ages.len()]; oldest as usize + 1];
            for (column, (_, counts)) in run.ages.iter().enumerate() {
                let clients: u64 = counts.iter().map(|(_, count)| count).sum();
                for &(age, count) in counts {
                    let cell = &mut rows[age.min(oldest) as usize][column];
                    let share = count as f64 / clients as f64;
                    *cell = if cell.is_nan() { share } else { *cell + share };
                }
            }
            let rounds = self.simulation.params().rounds as f64;
            let y = Axis::linear("age (rounds)").integer_ticks();
            let value = Axis::linear("share of clients").range(0.0, 1.2 / interval);
            let map = HeatMap::new(name, Axis::linear("round"), y, value)
                .rows(rows)
                .extent((0.0, rounds), (-0.5, oldest as f64 + 0.5))
                .missing_label("nobody");
            figure = figure.panel(map);
        }
        figure
    }

    fn lorenz_figure(&self) -> Figure {
        let x = Axis::linear("share of clients, least busy first").range(0.0, 1.0);
        let y = Axis::linear("share of all selections").range(0.0, 1.0);
        let even = Series::new("everyone the same", SeriesStyle::Line, [(0.0, 0.0), (1.0, 1.0)]);
        let mut panel = Panel::new("Who does the work?", x, y).series(even.slot(REFERENCE));
        for (index, name) in self.names() {
            let mut clients_by_load: BTreeMap<u32, u64> = BTreeMap::new();
            for &(load, clients) in self.runs[index].iter().flat_map(|run| &run.selections) {
                *clients_by_load.entry(load).or_default() += clients;
            }
            let points = lorenz_curve(&clients_by_load);
            panel =
                panel.series(Series::new(name, SeriesStyle::Line, points).slot(self.slot(index)));
        }
        self.titled("Load per client").panel(panel)
    }
}

/// The Lorenz curve of loads, each with its number of clients.
pub(crate) fn lorenz_curve(clients_by_load: &BTreeMap<u32, u64>) -> Vec<(f64, f64)> {
    let all: f64 = clients_by_load.values().map(|&clients| clients as f64).sum();
    let work: f64 =
        clients_by_load.iter().map(|(&l, &clients)| f64::from(l) * clients as f64).sum();
    let mut points = vec![(0.0, 0.0)];
    let (mut clients_so_far, mut work_so_far) = (0.0, 0.0);
    for (&load, &clients) in clients_by_load {
        clients_so_far += clients as f64;
        work_so_far += f64::from(load) * clients as f64;
        points.push((clients_so_far / all, work_so_far / work));
    }
    points
}

/// The mean over runs of a value of each round, where all have one.
fn mean_over_runs(
    runs: &[RunRecord],
    value: impl Fn(&RunRecord, usize) -> Option<f64>,
) -> Vec<(f64, f64)> {
    let rounds = runs.iter().map(|run| run.rounds.len()).min().unwrap_or(0);
    let mean = |round: usize| {
        let values: Option<Vec<f64>> = runs.iter().map(|run| value(run, round)).collect();
        let values = values?;
        Some((round as f64, values.iter().sum::<f64>() / values.len() as f64))
    };
    (0..rounds).filter_map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lorenz_curve_ends_at_one() {
        let curve = lorenz_curve(&BTreeMap::from([(0, 1), (2, 2), (4, 1)]));
        assert_eq!(curve, [(0.0, 0.0), (0.25, 0.0), (0.75, 0.5), (1.0, 1.0)]);
    }
}

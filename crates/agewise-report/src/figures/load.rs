//! How variants load their clients, beside the closed forms where the world is the one of the theory: the paper's three
//! figures, and ours.

use super::ReportFigure;
use crate::section::ReportSection;
use crate::series_style::REFERENCE;
use agewise_core::{Result, Start};
use agewise_experiment::{LoadRecord, Record, Variant};
use agewise_plot::{Axis, Figure, HeatMap, Panel, ReferenceLine, Series, SeriesStyle};
use std::collections::{BTreeMap, BTreeSet};

impl ReportSection<'_> {
    pub(super) fn load_figures(&self) -> Result<Vec<ReportFigure>> {
        Ok(vec![
            ReportFigure::new(
                "load",
                "Who does the work?",
                self.load_figure(),
                "Left, rounds between two selections of a client: the more to the left a curve stands at 1, the shorter the \
                 longest waits. Right, clients in order of how often they took part, and the share of all the work that they \
                 did: on the diagonal everyone does the same.",
            ),
            ReportFigure::new(
                "intervals",
                "How long do clients wait?",
                self.interval_figure()?,
                "One panel per policy: how many rounds pass between two selections of a client. A narrow peak is an even \
                 load; a long tail is clients that wait. Grey markers are the closed form, where there is one.",
            ),
            ReportFigure::new(
                "cohorts",
                "How many clients per round?",
                self.cohort_figure()?,
                "The number of clients per round, in the first rounds of the first seed. Left from the start that was asked \
                 for; right, for age laws, from the other one: a cold start comes in bursts.",
            ),
            ReportFigure::new(
                "windows",
                "How even is the load over time?",
                self.window_figure(),
                "How much the number of selections of a client in a window of T rounds varies, over T. The lower a curve, \
                 the more even the load over that time; markers are measured, lines are the closed form where there is one. A \
                 value of zero (everyone equally often) has no place on a logarithmic axis and is left out.",
            ),
            ReportFigure::new(
                "sigma",
                "How much do the weights vary?",
                self.sigma_figure(),
                "Sigma, the sum of the variances of the aggregation weights, over the rounds so far. It is what the \
                 convergence bound sees of a policy; dashed lines are the closed forms.",
            ),
            ReportFigure::new(
                "ages",
                "How old do clients get?",
                self.age_figure(),
                "The first seed. Each column is a round, each row an age, the last row all greater ages; colour is the share \
                 of all clients. An even load fills a band at the bottom; light stripes are clients that act in step.",
            ),
        ])
    }

    /// How the runs of a variant loaded their clients.
    fn loads_of(&self, place: usize) -> impl Iterator<Item = &LoadRecord> {
        self.runs_of(place).filter_map(|run| run.load.as_ref())
    }

    /// How often each X was seen, over all seeds.
    fn interval_counts(&self, place: usize) -> BTreeMap<u64, u64> {
        let mut counts = BTreeMap::new();
        for &(interval, count) in self.loads_of(place).flat_map(|load| &load.intervals) {
            let sum: &mut u64 = counts.entry(interval).or_default();
            *sum = sum.saturating_add(count);
        }
        counts
    }

    /// The target interval of each variant, and what it is.
    fn intervals(&self) -> Vec<(f64, String)> {
        let of = |variant: &Variant| {
            let interval = self.experiment().interval_of(variant);
            let letter = if variant.schedule().updates_per_step().is_some() { 'K' } else { 'm' };
            (interval, format!("n/{letter} = {interval:.2}"))
        };
        self.experiment().variants().iter().map(of).collect()
    }

    fn load_figure(&self) -> Figure {
        let mut intervals = self.intervals();
        intervals.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        intervals.dedup();
        let longest = intervals.last().map_or(0.0, |last| last.0);
        let x = Axis::linear("X (rounds)").range(0.0, (5.0 * longest).max(8.0).ceil());
        let y = Axis::linear("share of selections").range(0.0, 1.0);
        let mut waits = Panel::new("Waits of at most X rounds", x, y);
        for (interval, label) in intervals {
            waits = waits.reference(ReferenceLine::vertical(interval, label));
        }
        let x = Axis::linear("share of clients, least busy first").range(0.0, 1.0);
        let y = Axis::linear("share of all selections").range(0.0, 1.0);
        let even = Series::new("everyone the same", SeriesStyle::Line, [(0.0, 0.0), (1.0, 1.0)]);
        let mut lorenz = Panel::new("Load per client", x, y).series(even.slot(REFERENCE));
        for (place, (name, slot)) in self.styles().into_iter().enumerate() {
            let line =
                |points: Vec<(f64, f64)>| Series::new(name, SeriesStyle::Line, points).slot(slot);
            waits = waits.series(line(waiting_curve(&self.interval_counts(place))));
            let mut clients_by_load: BTreeMap<u32, u64> = BTreeMap::new();
            for &(load, clients) in self.loads_of(place).flat_map(|load| &load.selections) {
                *clients_by_load.entry(load).or_default() += clients;
            }
            lorenz = lorenz.series(line(lorenz_curve(&clients_by_load)));
        }
        self.titled("Load").panel(waits).panel(lorenz)
    }

    fn interval_figure(&self) -> Result<Figure> {
        let mut figure = self.titled("Rounds between two selections").columns(3);
        let variants = self.styles().into_iter().zip(self.intervals()).enumerate();
        for (place, ((name, slot), (interval, label))) in variants {
            let end = (4.0 * interval).max(8.0).ceil() + 0.5;
            let counts = self.interval_counts(place);
            let total: u64 = counts.values().sum();
            let shares = counts.iter().map(|(&x, &count)| (x as f64, count as f64 / total as f64));
            let x = Axis::linear("X (rounds)").range(0.5, end).integer_ticks();
            let measured = Series::new(name, SeriesStyle::Bars, shares).slot(slot);
            let mut panel = Panel::new(name, x, Axis::linear("share of selections"))
                .series(measured)
                .reference(ReferenceLine::vertical(interval, label));
            if let Some(theory) = self.experiment().theory(place)? {
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
        for (policy, (name, slot)) in self.summary.policies.iter().zip(self.styles()) {
            let measured = policy.window_sd.iter().map(|(&t, sd)| (f64::from(t), sd.mean));
            panel = panel.series(Series::new(name, SeriesStyle::Markers, measured).slot(slot));
            let exact = policy.theory.iter().flat_map(|theory| &theory.window_sd);
            let exact = exact.map(|(&t, &sd)| (f64::from(t), sd));
            panel = panel.series(Series::new(name, SeriesStyle::Line, exact).slot(slot));
        }
        self.titled("How even is the load over time?").panel(panel)
    }

    fn sigma_figure(&self) -> Figure {
        let x = Axis::linear("round").convertible();
        let mut panel = Panel::new("Sigma over the rounds so far", x, Axis::linear("Sigma"));
        // The first rounds are all noise: a fiftieth of the run is left out of the drawing.
        let skip = (self.experiment().params().rounds as usize / 50).max(1);
        for (place, (name, slot)) in self.styles().into_iter().enumerate() {
            let runs: Vec<&Record> = self.runs_of(place).collect();
            let points = mean_over_runs(&runs, |run, round| run.rounds[round].sigma);
            let share = self.rounds_per_step(place);
            let points = points.into_iter().skip(skip).map(|(step, sigma)| (step * share, sigma));
            panel = panel.series(Series::new(name, SeriesStyle::Line, points).slot(slot));
        }
        let mut floors: BTreeMap<String, f64> = BTreeMap::new();
        for theory in self.summary.policies.iter().filter_map(|policy| policy.theory.as_ref()) {
            floors.extend(theory.sigma.map(|sigma| (format!("{sigma:.4}"), sigma)));
        }
        for (label, sigma) in floors {
            panel = panel.reference(ReferenceLine::horizontal(sigma, label));
        }
        self.titled("The variance of the weights").panel(panel)
    }

    fn cohort_figure(&self) -> Result<Figure> {
        const FIRST: usize = 60;
        let start = |start: Start| match start {
            Start::Stationary => "From a stationary start",
            Start::Cold => "From a cold start (all ages 0)",
        };
        let asked = self.experiment().params().start;
        let other = if asked == Start::Cold { Start::Stationary } else { Start::Cold };
        let target = |variant: &Variant| {
            let label =
                if variant.schedule().updates_per_step().is_some() { "K" } else { "target m" };
            (self.experiment().updates_of(variant), label)
        };
        let targets: BTreeSet<_> = self.experiment().variants().iter().map(target).collect();
        let panel = |title| {
            let x = Axis::linear("round").integer_ticks();
            let panel = Panel::new(title, x, Axis::linear("clients in the round"));
            targets.iter().fold(panel, |panel, &(target, label)| {
                panel.reference(ReferenceLine::horizontal(target as f64, label))
            })
        };
        let (mut first, mut second, mut has_second) =
            (panel(start(asked)), panel(start(other)), false);
        for (place, (name, slot)) in self.styles().into_iter().enumerate() {
            let line = |sizes: Vec<u64>| {
                let points = (1..).zip(sizes).map(|(round, size)| (f64::from(round), size as f64));
                Series::new(name, SeriesStyle::LineWithMarkers, points).slot(slot)
            };
            let rounds = self.runs_of(place).next().map_or(&[][..], |run| &run.rounds);
            first = first.series(line(rounds.iter().take(FIRST).map(|row| row.reported).collect()));
            if let Some(sizes) = self.experiment().other_start(place)? {
                second = second.series(line(sizes));
                has_second = true;
            }
        }
        let figure = self.titled("Clients per round").panel(first);
        Ok(if has_second { figure.panel(second) } else { figure })
    }

    fn age_figure(&self) -> Figure {
        let mut figure = self.titled("Ages over time").columns(2);
        for (place, ((name, _), (interval, _))) in
            self.styles().into_iter().zip(self.intervals()).enumerate()
        {
            let oldest = (4.0 * interval).ceil().clamp(4.0, 400.0) as u64;
            let Some(run) = self.runs_of(place).next() else {
                continue;
            };
            let ages = run.load.as_ref().map_or(&[][..], |load| &load.ages);
            let mut rows = vec![vec![f64::NAN; ages.len()]; oldest as usize + 1];
            for (column, (_, counts)) in ages.iter().enumerate() {
                let clients: u64 = counts.iter().map(|(_, count)| count).sum();
                for &(age, count) in counts {
                    let cell = &mut rows[age.min(oldest) as usize][column];
                    let share = count as f64 / clients as f64;
                    *cell = if cell.is_nan() { share } else { *cell + share };
                }
            }
            let y = Axis::linear("age (rounds)").integer_ticks();
            let value = Axis::linear("share of clients").range(0.0, 1.2 / interval);
            let map = HeatMap::new(name, Axis::linear("round"), y, value)
                .rows(rows)
                .extent((0.0, run.rounds.len() as f64), (-0.5, oldest as f64 + 0.5))
                .missing_label("no client");
            figure = figure.panel(map);
        }
        figure
    }
}

/// The share of selections that came after at most so many rounds, as steps.
fn waiting_curve(counts: &BTreeMap<u64, u64>) -> Vec<(f64, f64)> {
    let all: u64 = counts.values().sum();
    let mut points = vec![(0.0, 0.0)];
    let mut so_far = 0;
    for (&interval, &count) in counts {
        points.push((interval as f64, so_far as f64 / all as f64));
        so_far += count;
        points.push((interval as f64, so_far as f64 / all as f64));
    }
    points
}

/// The Lorenz curve of loads, each with its number of clients.
fn lorenz_curve(clients_by_load: &BTreeMap<u32, u64>) -> Vec<(f64, f64)> {
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

/// The mean over runs of a value of each round, where all have one; rounds count from 1.
pub(super) fn mean_over_runs(
    runs: &[&Record],
    value: impl Fn(&Record, usize) -> Option<f64>,
) -> Vec<(f64, f64)> {
    let rounds = runs.iter().map(|run| run.rounds.len()).min().unwrap_or(0);
    let mean = |round: usize| {
        let values: Option<Vec<f64>> = runs.iter().map(|run| value(run, round)).collect();
        let values = values?;
        Some(((round + 1) as f64, values.iter().sum::<f64>() / values.len() as f64))
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

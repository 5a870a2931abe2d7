//! The units in which the x axis of curves can be shown beside rounds: what a round has cost so far.

use crate::section::ReportSection;
use agewise_core::Result;
use agewise_experiment::{ClockLog, Experiment, RateDistribution, RoundLog, RoundRecord};
use agewise_plot::AxisUnit;

/// A run has about as many knots; between them the way is straight.
const KNOTS: usize = 150;

/// One round of a run.
struct Round<'a> {
    experiment: &'a Experiment,
    seed: u32,
    record: &'a RoundRecord,
    log: Option<&'a RoundLog>,
}

impl Round<'_> {
    /// What it took, where there is a clock.
    fn clock(&self) -> Option<&ClockLog> {
        self.log?.clock.as_ref()
    }
}

/// A unit: its name, the label of axes, whether an experiment has it, what a round of it costs, and how many of what is
/// counted make one on the axis. A further unit is one more entry of [`KINDS`].
struct Kind {
    name: &'static str,
    label: &'static str,
    exists: fn(&Experiment) -> bool,
    cost: fn(&Round<'_>) -> Result<f64>,
    size: f64,
}

const KINDS: [Kind; 4] = [
    Kind {
        name: "seconds",
        label: "simulated seconds",
        exists: |experiment| {
            let differ = *experiment.speeds() != RateDistribution::default();
            experiment.has_clock() || (experiment.task().is_some() && differ)
        },
        cost: |round| match (round.clock(), round.log) {
            (Some(clock), _) => Ok(clock.costs.seconds),
            // Speeds alone start no clock, and tell what training takes.
            (None, Some(log)) => Ok(round.experiment.context(round.seed)?.seconds(log)),
            (None, None) => Ok(0.0),
        },
        size: 1.0,
    },
    Kind {
        name: "client-seconds",
        label: "client-seconds of work",
        exists: Experiment::has_clock,
        cost: |round| Ok(round.clock().map_or(0.0, |clock| clock.costs.client_seconds)),
        size: 1.0,
    },
    Kind {
        name: "uploads",
        label: "updates received",
        exists: |_| true,
        cost: |round| Ok(round.record.reported as f64),
        size: 1.0,
    },
    Kind {
        name: "megabytes",
        label: "models moved (MB)",
        exists: |experiment| experiment.task().is_some_and(|task| task.parameters() > 0),
        cost: |round| Ok(round.log.map_or(0.0, |log| round.experiment.bytes_of(log) as f64)),
        size: 1e6,
    },
];

impl ReportSection<'_> {
    /// Every unit that this experiment has: for each variant, the mean over seeds of what rounds have cost so far.
    pub(crate) fn units(&self) -> Result<Vec<AxisUnit>> {
        let kinds = KINDS.iter().filter(|kind| (kind.exists)(self.experiment()));
        kinds.map(|kind| self.axis_unit(kind)).collect()
    }

    fn axis_unit(&self, kind: &Kind) -> Result<AxisUnit> {
        let mut unit = AxisUnit::new(kind.name, kind.label);
        for (place, (name, _)) in self.styles().into_iter().enumerate() {
            let runs = self.runs_of(place).map(|run| {
                let logs = run.training.iter().flat_map(|training| &training.logs);
                let logs = logs.map(Some).chain(std::iter::repeat(None));
                let (experiment, seed) = (self.experiment(), run.id.seed);
                let rounds = run.rounds.iter().zip(logs);
                let mut so_far = 0.0;
                rounds
                    .map(|(record, log)| {
                        so_far += (kind.cost)(&Round { experiment, seed, record, log })?;
                        Ok(so_far)
                    })
                    .collect::<Result<Vec<f64>>>()
            });
            unit = unit.series(
                name,
                knots(&runs.collect::<Result<Vec<_>>>()?, kind.size, self.rounds_per_step(place)),
            );
        }
        Ok(unit)
    }
}

/// The mean over runs after some of the steps that all of them have, the last one among them.
fn knots(runs: &[Vec<f64>], size: f64, rounds_per_step: f64) -> Vec<(f64, f64)> {
    let rounds = runs.iter().map(Vec::len).min().unwrap_or(0);
    let step = rounds.div_ceil(KNOTS).max(1);
    let chosen = (1..=rounds).filter(|round| round % step == 0 || *round == rounds);
    let mean = |round: usize| {
        let sum: f64 = runs.iter().map(|run| run[round - 1]).sum();
        let mean = sum / runs.len() as f64 / size;
        // Six digits are finer than a pixel, and keep pages small.
        (round as f64 * rounds_per_step, format!("{mean:.5e}").parse().unwrap_or(mean))
    };
    chosen.map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knots_are_means_and_end_with_the_last_common_round() {
        let short = knots(&[vec![1.0, 2.0, 3.0], vec![3.0, 4.0]], 2.0, 1.0);
        assert_eq!(short, [(1.0, 1.0), (2.0, 1.5)]);
        // Four steps are a round.
        assert_eq!(knots(&[vec![1.0, 2.0]], 1.0, 0.25), [(0.25, 1.0), (0.5, 2.0)]);
        let long: Vec<f64> = (1..=1001).map(f64::from).collect();
        let many = knots(&[long], 1.0, 1.0);
        assert!(many.len() <= KNOTS + 1 && many.last() == Some(&(1001.0, 1001.0)));
        assert!(knots(&[], 1.0, 1.0).is_empty());
    }
}

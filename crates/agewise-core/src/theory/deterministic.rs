//! Exact figures of deterministic policies: their schedule is periodic, so one period is simulated and averaged.

use crate::math;
use crate::setting::{EmptyCohort, Setting};
use crate::weighting::{CohortMember, Weighting};

/// The most decisions (rounds times clients) that a replay may take: about a tenth of a second.
pub(crate) const MOST_DECISIONS: u64 = 20_000_000;

/// What one period shows.
pub(crate) struct PeriodFigures {
    pub(crate) cohort_sizes: Vec<u64>,
    pub(crate) sigma: f64,
}

/// Plays `rounds` rounds in which `takes_part(round, client)` says which clients take part. A forced client
/// is any client with the same probability, so 1/n of it is counted for each client.
pub(crate) fn replay(
    setting: &Setting,
    weighting: Weighting,
    rounds: u64,
    takes_part: impl Fn(u64, u32) -> bool,
) -> PeriodFigures {
    let clients = setting.clients();
    let sizes = setting.sizes();
    let member = |client| CohortMember {
        draws: 1,
        size: sizes.of(client),
        share: sizes.share(client),
        inclusion: setting.rate(client),
    };
    let mut cohort_sizes = Vec::with_capacity(rounds as usize);
    let mut square = 0.0;
    let mut forced = 0.0;
    let mut mean = vec![0.0; clients as usize];
    for round in 0..rounds {
        let cohort: Vec<u32> = (0..clients).filter(|&client| takes_part(round, client)).collect();
        cohort_sizes.push(cohort.len() as u64);
        if cohort.is_empty() && setting.empty_cohort() == EmptyCohort::ForceOne {
            forced += 1.0;
        }
        let members: Vec<CohortMember> = cohort.iter().map(|&client| member(client)).collect();
        for (&client, weight) in cohort.iter().zip(weighting.weights(members)) {
            square += weight * weight;
            mean[client as usize] += weight;
        }
    }
    let rounds = rounds as f64;
    let everyones = forced / f64::from(clients);
    let mean_square = mean.iter().map(|sum| math::square((sum + everyones) / rounds)).sum::<f64>();
    PeriodFigures { cohort_sizes, sigma: (square + forced) / rounds - mean_square }
}

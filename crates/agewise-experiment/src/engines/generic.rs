//! The engine for any policy: it is asked for its cohort in every round, and sees all clients.

use super::counters::{Counters, FreshByAge, credit, fetch};
use super::round::{RoundMetrics, RoundSelection, merge};
use super::shard::SHARD;
use crate::world::WorldSelector;
use agewise_core::{Ages, Cohort, Report, Result};
use rayon::prelude::*;

/// A population in order of number; 24 bytes per client, and one more where clients come and go.
#[derive(Debug)]
pub(crate) struct Generic {
    selector: WorldSelector,
    warmup: u64,
    /// Of everyone who will ever join.
    counters: Vec<Counters>,
    /// The clients that were credited in the last round.
    cohort: Vec<u32>,
    /// Their reports; a buffer that serves one round after the other.
    reports: Vec<Report<'static>>,
    metrics: Vec<RoundMetrics>,
}

impl Generic {
    /// For so many clients that will ever join.
    pub(crate) fn new(selector: WorldSelector, everyone: u32, warmup: u64) -> Self {
        let counters = vec![Counters::default(); everyone as usize];
        let (cohort, reports, metrics) = (Vec::new(), Vec::new(), Vec::new());
        Self { selector, warmup, counters, cohort, reports, metrics }
    }

    /// Whether there is enough to share out.
    pub(crate) fn is_large(&self) -> bool {
        self.counters.len() > SHARD as usize
    }

    /// Chooses the clients of the next round, and credits them at once.
    pub(crate) fn choose(&mut self) -> Result<RoundSelection> {
        let movements = self.selector.begin()?;
        let available = u64::from(self.selector.available());
        let selected = self.selector.select()?;
        let ages = self.selector.selector().ages();
        let metrics = credit_cohort(&mut self.counters, &selected.cohort, ages, self.warmup);
        self.metrics.push(metrics);
        let reported = selected.cohort.clients.len() as u64;
        self.reports.clear();
        self.reports.extend(selected.cohort.clients.iter().copied().map(Report::plain));
        self.selector.finish(reported, &self.reports, &selected.dropped)?;
        self.cohort = selected.cohort.clients;
        Ok(RoundSelection {
            available: Some(available),
            selected: reported + selected.dropped.len() as u64,
            reported,
            forced: selected.cohort.forced,
            joined: movements.joined,
            left: movements.left.into_iter().collect(),
        })
    }

    /// What the rounds chosen since the last time came to.
    pub(crate) fn take_metrics(&mut self) -> Vec<RoundMetrics> {
        std::mem::take(&mut self.metrics)
    }

    /// The clients credited in the last round.
    pub(crate) fn cohort(&self) -> &[u32] {
        &self.cohort
    }

    /// How often each client that has joined was credited.
    pub(crate) fn selections(&self) -> impl Iterator<Item = u32> {
        let joined = self.selector.selector().population().clients() as usize;
        self.counters.iter().take(joined).map(|counters| counters.selections)
    }
}

/// Credits a cohort, `ages` being those at the beginning of its round: neighbours by neighbours, in parallel.
pub(crate) fn credit_cohort(
    counters: &mut [Counters],
    cohort: &Cohort,
    ages: &Ages,
    warmup: u64,
) -> RoundMetrics {
    let fresh = cohort.round.checked_sub(warmup).map(FreshByAge::new);
    let credit_part = |(part, counters): (usize, &mut [Counters])| {
        let first = part as u32 * SHARD;
        let begin = cohort.clients.partition_point(|&client| client < first);
        let behind = first + counters.len() as u32;
        let end = cohort.clients.partition_point(|&client| client < behind);
        let (clients, weights) = (&cohort.clients[begin..end], &cohort.weights[begin..end]);
        let mut metrics = RoundMetrics::default();
        let Some(fresh) = &fresh else {
            for &client in clients {
                metrics.ages.add(ages.of(client), 1);
            }
            return vec![metrics];
        };
        let members: Vec<u16> = clients.iter().map(|&client| (client - first) as u16).collect();
        let mut weights = weights.iter();
        fetch(counters);
        let counted = &mut metrics.ages;
        let fresh = |member| {
            let age = ages.of(first + u32::from(member));
            counted.add(age, 1);
            fresh.of(age)
        };
        let weight = |_| weights.next().copied().unwrap_or(0.0);
        metrics.sums = credit(counters, &members, fresh, weight);
        vec![metrics]
    };
    let parts = if counters.len() > SHARD as usize {
        counters.par_chunks_mut(SHARD as usize).enumerate().map(credit_part).collect()
    } else {
        counters.chunks_mut(SHARD as usize).enumerate().map(credit_part).collect()
    };
    merge(1, parts).pop().unwrap_or_default()
}

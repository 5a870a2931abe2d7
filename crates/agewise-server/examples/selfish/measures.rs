//! What the ledger of a run says about load: waits, cohorts, and who has the credits.
//!
//! A wait X is counted from the credits themselves, never from what a client says about its age.

use crate::trial::{Failure, may_be_selfish};
use agewise_experiment::Estimate;
use agewise_server::coordinator::LEDGER;
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::path::Path;

/// Rounds that are one unit for the spread of cohort sizes: three intervals and more, so that neighbouring units hardly depend on each
/// other.
const BLOCK: usize = 20;

/// A number with half the width of its 95% interval.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    pub(crate) value: f64,
    pub(crate) half_width: f64,
}

/// A run, from its ledger.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The clients that were credited, by round.
    pub(crate) cohorts: Vec<Vec<u32>>,
    /// The finished waits, by client.
    pub(crate) waits: Vec<Vec<f64>>,
    /// How long each client has waited at the end.
    pub(crate) unfinished: Vec<u64>,
    /// How many calls were refused, by reason.
    pub(crate) refusals: BTreeMap<String, i64>,
    /// How often a client that is never selfish was told that the cohort is full.
    pub(crate) turned_away: u64,
}

impl Outcome {
    /// Reads the ledger in a folder.
    pub(crate) fn read(state: &Path) -> Result<Self, Failure> {
        let ledger = Connection::open(state.join(LEDGER))?;
        let rounds: i64 = ledger.query_row("SELECT COUNT(*) FROM rounds", [], |row| row.get(0))?;
        let mut query = ledger.prepare("SELECT first_waiting FROM clients ORDER BY client")?;
        let since = query.query_map([], |row| row.get(0))?;
        let mut since = since.collect::<Result<Vec<i64>, _>>()?;
        let mut cohorts = vec![Vec::new(); rounds as usize];
        let mut waits = vec![Vec::new(); since.len()];
        let credits =
            "SELECT round, client FROM joins WHERE outcome = 'reported' ORDER BY round, client";
        let mut query = ledger.prepare(credits)?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            let (round, client): (i64, u32) = (row.get(0)?, row.get(1)?);
            cohorts[round as usize].push(client);
            let next = round + 1;
            waits[client as usize].push((next - since[client as usize]) as f64);
            since[client as usize] = next;
        }
        let unfinished = since.iter().map(|&since| (rounds - since).max(0) as u64).collect();
        let mut query =
            ledger.prepare("SELECT reason, SUM(count) FROM refusals GROUP BY reason")?;
        let refusals = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let refusals = refusals.collect::<Result<_, _>>()?;
        let mut query = ledger.prepare("SELECT client FROM joins WHERE outcome = 'full'")?;
        let full = query.query_map([], |row| row.get(0))?.collect::<Result<Vec<u32>, _>>()?;
        let turned_away = full.into_iter().filter(|&client| !may_be_selfish(client)).count() as u64;
        Ok(Self { cohorts, waits, unfinished, refusals, turned_away })
    }

    /// The finished waits of the clients that are never selfish, or of the others.
    pub(crate) fn waits_of(&self, selfish: bool) -> Vec<&[f64]> {
        let of = (0..).zip(&self.waits).filter(|(client, _)| may_be_selfish(*client) == selfish);
        of.map(|(_, waits)| waits.as_slice()).collect()
    }

    /// How often each value of X occurred among them.
    pub(crate) fn histogram(&self, selfish: bool) -> BTreeMap<u64, u64> {
        let mut counts = BTreeMap::new();
        for wait in self.waits_of(selfish).concat() {
            *counts.entry(wait as u64).or_default() += 1;
        }
        counts
    }

    /// The longest wait of a client that is never selfish, finished or not.
    pub(crate) fn longest(&self) -> u64 {
        let finished = self.waits_of(false).concat().into_iter().map(|wait| wait as u64);
        let unfinished = (0..).zip(&self.unfinished);
        let unfinished = unfinished.filter(|(client, _)| !may_be_selfish(*client));
        finished.chain(unfinished.map(|(_, &wait)| wait)).max().unwrap_or(0)
    }

    /// Credits per client in 100 rounds; clients are the units.
    pub(crate) fn credits(&self, selfish: bool) -> Measured {
        let scale = 100.0 / self.cohorts.len() as f64;
        let counts = self.waits_of(selfish).into_iter().map(|waits| vec![waits.len() as f64]);
        let credits = measure(&counts.collect::<Vec<_>>(), mean);
        Measured { value: scale * credits.value, half_width: scale * credits.half_width }
    }

    /// The mean of X of the honest clients; clients are the units.
    pub(crate) fn mean_wait(&self) -> Measured {
        measure(&self.waits_of(false), mean)
    }

    /// Var\[X\] of the honest clients; clients are the units.
    pub(crate) fn wait_variance(&self) -> Measured {
        measure(&self.waits_of(false), variance)
    }

    fn sizes(&self) -> Vec<Vec<f64>> {
        let sizes = self.cohorts.iter().map(|cohort| cohort.len() as f64).collect::<Vec<_>>();
        sizes.chunks(BLOCK).map(<[f64]>::to_vec).collect()
    }

    /// The mean size of cohorts; blocks of rounds are the units.
    pub(crate) fn mean_size(&self) -> Measured {
        measure(&self.sizes(), mean)
    }

    /// The standard deviation of their sizes; blocks of rounds are the units.
    pub(crate) fn size_deviation(&self) -> Measured {
        measure(&self.sizes(), |sizes| variance(sizes).sqrt())
    }

    /// Which part of all credits the selfish clients have, or those who would be.
    pub(crate) fn selfish_share(&self) -> f64 {
        let count = |selfish| self.waits_of(selfish).concat().len() as f64;
        count(true) / (count(true) + count(false))
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / values.len() as f64
}

/// A statistic of all values, with an interval by the jackknife: each unit is left out once.
fn measure<U: AsRef<[f64]>>(units: &[U], statistic: impl Fn(&[f64]) -> f64) -> Measured {
    let count = units.len() as f64;
    let all: Vec<f64> = units.iter().flat_map(AsRef::as_ref).copied().collect();
    let value = statistic(&all);
    let without = |excluded: usize| {
        let others = units.iter().enumerate().filter(|(unit, _)| *unit != excluded);
        let others: Vec<f64> = others.flat_map(|(_, values)| values.as_ref()).copied().collect();
        count * value - (count - 1.0) * statistic(&others)
    };
    let estimate = Estimate::of((0..units.len()).map(without));
    let half_width = estimate.and_then(|estimate| estimate.half_width).unwrap_or(f64::NAN);
    Measured { value, half_width }
}

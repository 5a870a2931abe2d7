//! All metrics of one run.

use super::{CoParticipation, CohortSizes, Intervals, Load, ParticipationWindows, WeightMoments};
use crate::ages::Ages;
use crate::error::{Error, Result};
use crate::selector::Cohort;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Watches a run, round by round.
///
/// It keeps 8 bytes for the weights and 4 for the count of each client, and what [`ParticipationWindows`] needs. It can be stored
/// and read back; [`Self::resume`] checks that what was read fits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Participation {
    rounds: u64,
    intervals: Intervals,
    cohort_sizes: CohortSizes,
    windows: ParticipationWindows,
    weights: WeightMoments,
    /// Sums of the total weight of a round and of its square, for the covariance.
    total_weight: (f64, f64),
    pairs: CoParticipation,
    selections: Vec<u32>,
    weight_sums: Vec<f64>,
}

/// The figures of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ParticipationSummary {
    /// Rounds watched.
    pub rounds: u64,
    /// E\[X\].
    pub mean_interval: f64,
    /// Var\[X\].
    pub var_interval: f64,
    /// The mean age at selection.
    pub mean_peak_age: f64,
    /// Sigma.
    pub sigma: f64,
    /// The mean covariance of two clients' weights.
    pub mean_covariance: f64,
    /// Mean cohort size.
    pub cohort_mean: f64,
    /// Standard deviation of the cohort size.
    pub cohort_sd: f64,
    /// Smallest cohort.
    pub cohort_min: u64,
    /// Largest cohort.
    pub cohort_max: u64,
    /// Jain's fairness index of participation.
    pub jain: f64,
    /// Clients that never took part.
    pub never_selected: u64,
    /// The longest time without a selection: the longest X, or the age of a client that still waits.
    pub longest_wait: u64,
    /// sqrt(Var Y)/T for each T.
    pub window_sd: BTreeMap<u32, f64>,
    /// Share of pairs of clients that never shared a round.
    pub never_together: f64,
    /// Relative spread over pairs of the number of shared rounds.
    pub co_participation_spread: f64,
}

impl Participation {
    /// Watches so many clients, with windows of these lengths.
    pub fn new(clients: u32, window_lengths: &[u32]) -> Self {
        Self {
            rounds: 0,
            intervals: Intervals::default(),
            cohort_sizes: CohortSizes::default(),
            windows: ParticipationWindows::new(clients, window_lengths),
            weights: WeightMoments::new(u64::from(clients)),
            total_weight: (0.0, 0.0),
            pairs: CoParticipation::new(clients),
            selections: vec![0; clients as usize],
            weight_sums: vec![0.0; clients as usize],
        }
    }

    /// So many more clients. They count like those that are there from the beginning and have not taken part yet, as in
    /// experiments with clients that join.
    pub fn admit(&mut self, clients: u32) {
        let total = self.selections.len() + clients as usize;
        self.windows.admit(clients);
        self.weights.admit(clients);
        self.pairs.admit(total as u32);
        self.selections.resize(total, 0);
        self.weight_sums.resize(total, 0.0);
    }

    /// Goes on from what was stored, which must be of as many clients and of the same window lengths.
    pub fn resume(&mut self, stored: Self) -> Result<()> {
        let fits = stored.selections.len() == self.selections.len()
            && stored.weight_sums.len() == self.weight_sums.len()
            && stored.weights.clients() == self.weights.clients()
            && stored.windows.is_alike(&self.windows)
            && stored.pairs.is_alike(&self.pairs);
        if !fits {
            let value = format!("metrics of {} clients", stored.selections.len());
            let expected = format!("those of {} clients, complete", self.selections.len());
            return Err(Error::new("participation", value, expected));
        }
        *self = stored;
        Ok(())
    }

    /// Records a round, with the ages at its beginning.
    pub fn record(&mut self, cohort: &Cohort, ages: &Ages) {
        let round = self.rounds;
        for (&client, &weight) in cohort.clients.iter().zip(&cohort.weights) {
            self.intervals.record(ages.of(client));
            self.windows.record(client, round);
            self.selections[client as usize] += 1;
            let sum = &mut self.weight_sums[client as usize];
            self.weights.record(weight, *sum);
            *sum += weight;
        }
        let total: f64 = cohort.weights.iter().sum();
        self.total_weight.0 += total;
        self.total_weight.1 += total * total;
        self.cohort_sizes.record(cohort.clients.len() as u64);
        self.pairs.record(&cohort.clients);
        self.windows.end_round(round);
        self.rounds += 1;
    }

    /// X so far, with its histogram.
    pub fn intervals(&self) -> &Intervals {
        &self.intervals
    }

    /// How often each client took part so far.
    pub fn selections(&self) -> &[u32] {
        &self.selections
    }

    /// Sigma over the rounds so far.
    pub fn sigma(&self) -> f64 {
        self.weights.sigma(self.rounds)
    }

    /// The figures so far; `ages` are those after the last round.
    pub fn summary(&self, ages: &Ages) -> ParticipationSummary {
        let mut load = Load::default();
        for &count in &self.selections {
            load.record(u64::from(count));
        }
        let rounds = self.rounds as f64;
        let mean_total = self.total_weight.0 / rounds;
        let total_variance = (self.total_weight.1 / rounds - mean_total * mean_total).max(0.0);
        ParticipationSummary {
            rounds: self.rounds,
            mean_interval: self.intervals.mean(),
            var_interval: self.intervals.variance(),
            mean_peak_age: self.intervals.mean_peak_age(),
            sigma: self.sigma(),
            mean_covariance: self.weights.mean_covariance(self.sigma(), total_variance),
            cohort_mean: self.cohort_sizes.mean(),
            cohort_sd: self.cohort_sizes.sd(),
            cohort_min: self.cohort_sizes.min(),
            cohort_max: self.cohort_sizes.max(),
            jain: load.jain(),
            never_selected: load.never_selected(),
            longest_wait: self.intervals.longest().max(ages.iter().max().unwrap_or(0)),
            window_sd: self.windows.normalised_sd(),
            never_together: self.pairs.never_together(),
            co_participation_spread: self.pairs.relative_spread(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Availability, PolicySpec, Report, Seed, Selector, SettingParams, Start};

    fn play(selector: &mut Selector, watched: &mut Participation, rounds: u32) {
        for _ in 0..rounds {
            let cohort = selector.select(Availability::Everyone).unwrap();
            watched.record(&cohort, selector.ages());
            let reports: Vec<Report> = cohort.clients.iter().map(|&c| Report::plain(c)).collect();
            selector.finish(&reports).unwrap();
        }
    }

    /// Plays a run, and watches it with `grown`, to which clients are added on the way, and with one for all of them.
    fn growing(grown: &mut Participation, joins: &[u32], most: u32) -> Participation {
        let mut clients = grown.selections.len() as u32;
        let mut whole = Participation::new(clients + joins.iter().sum::<u32>(), &[1, 4, 10]);
        for (round, &joining) in joins.iter().enumerate() {
            grown.admit(joining);
            clients += joining;
            for part in 0..3 {
                let ids: Vec<u32> =
                    (part..clients).step_by(round + 2).take(most as usize).collect();
                let (draws, weights) = (vec![1; ids.len()], vec![0.125; ids.len()]);
                let cohort = Cohort { round: 0, clients: ids, draws, weights, forced: false };
                let ages = Ages::cold(clients);
                grown.record(&cohort, &ages);
                whole.record(&cohort, &ages);
            }
        }
        whole
    }

    #[test]
    fn who_is_admitted_counts_as_if_it_had_always_been_there() {
        let mut grown = Participation::new(5, &[1, 4, 10]);
        let whole = growing(&mut grown, &[0, 1, 7, 0, 20], 9);
        assert_eq!(grown, whole);
    }

    #[test]
    fn going_on_from_what_was_stored_changes_nothing() {
        let setting = SettingParams::new(30, 7, 10).check().unwrap();
        let random = PolicySpec::named("random");
        let mut selector = Selector::new(&random, setting, Seed(2), Start::Stationary).unwrap();
        let new = || Participation::new(30, &[1, 4, 10]);
        let mut watched = new();
        play(&mut selector, &mut watched, 13);
        let text = serde_json::to_string(&watched).unwrap();
        let mut resumed = new();
        resumed.resume(serde_json::from_str(&text).unwrap()).unwrap();
        let halfway = selector.state();
        play(&mut selector, &mut watched, 20);
        selector.restore(halfway).unwrap();
        play(&mut selector, &mut resumed, 20);
        assert_eq!(resumed, watched);
        resumed.admit(4);
        assert!(new().resume(resumed.clone()).is_err());
        let mut grown = new();
        grown.admit(3);
        grown.admit(1);
        grown.resume(resumed).unwrap();
        for (clients, lengths) in [(29, &[1, 4, 10][..]), (30, &[1, 4]), (30, &[1, 4, 11])] {
            let mut other = Participation::new(clients, lengths);
            let stored = serde_json::from_str(&text).unwrap();
            assert_eq!(other.resume(stored).unwrap_err().field(), "participation");
            assert_eq!(other, Participation::new(clients, lengths));
        }
    }
}

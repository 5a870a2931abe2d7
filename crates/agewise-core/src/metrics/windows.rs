//! Y, the selections of a client in a window of T rounds, for many T at once.
//!
//! Windows of each length follow each other without overlap. A client's count in the present window goes
//! up by one when it is selected, which adds 2y + 1 to the sum of squares; nothing is touched for clients
//! that are not selected, and a window that has begun anew is seen from the client's own last selection.

use super::variance_of;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The sums of one window length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowTally {
    length: u32,
    clients: u64,
    windows: u64,
    sum: u128,
    sum_of_squares: u128,
    /// What the window that is not over yet has so far.
    open: (u128, u128),
}

impl WindowTally {
    /// A tally of windows of `length` rounds for so many clients.
    pub fn new(length: u32, clients: u64) -> Self {
        Self { length, clients, windows: 0, sum: 0, sum_of_squares: 0, open: (0, 0) }
    }

    /// The first round of the window that this round is in.
    pub fn window_start(&self, round: u64) -> u64 {
        round - round % u64::from(self.length)
    }

    /// Records a selection of a client that had `earlier` ones in the same window.
    pub fn record(&mut self, earlier: u64) {
        self.record_many(1, earlier);
    }

    /// Records one selection each of so many clients that had `earlier` ones in all.
    pub fn record_many(&mut self, selections: u64, earlier: u64) {
        self.open.0 += u128::from(selections);
        self.open.1 += 2 * u128::from(earlier) + u128::from(selections);
    }

    /// T.
    pub fn length(&self) -> u32 {
        self.length
    }

    /// Ends a round; closes the window if it was its last.
    pub fn end_round(&mut self, round: u64) {
        if (round + 1).is_multiple_of(u64::from(self.length)) {
            self.windows += 1;
            self.sum += self.open.0;
            self.sum_of_squares += self.open.1;
            self.open = (0, 0);
        }
    }

    /// sqrt(Var Y)/T over all clients and closed windows; NaN while no window is closed.
    pub fn normalised_sd(&self) -> f64 {
        let samples = u128::from(self.clients) * u128::from(self.windows);
        variance_of(samples, self.sum, self.sum_of_squares).sqrt() / f64::from(self.length)
    }
}

/// The tallies of several window lengths, with the counters of all clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParticipationWindows {
    tallies: Vec<WindowTally>,
    /// For each client its selections in the present window of each length; valid as of its last one.
    counts: Vec<u32>,
    /// The round of each client's last selection, plus one; 0 for none.
    last: Vec<u64>,
}

impl ParticipationWindows {
    /// Windows of these lengths for so many clients; lengths of 0 are left out.
    pub fn new(clients: u32, lengths: &[u32]) -> Self {
        let lengths = lengths.iter().filter(|&&length| length > 0);
        let tallies: Vec<_> =
            lengths.map(|&length| WindowTally::new(length, u64::from(clients))).collect();
        let counts = vec![0; clients as usize * tallies.len()];
        Self { tallies, counts, last: vec![0; clients as usize] }
    }

    /// So many more clients, which were not selected in any window so far.
    pub(super) fn admit(&mut self, clients: u32) {
        for tally in &mut self.tallies {
            tally.clients += u64::from(clients);
        }
        let total = self.last.len() + clients as usize;
        self.last.resize(total, 0);
        self.counts.resize(total * self.tallies.len(), 0);
    }

    /// Whether two accumulators watch the same clients with the same lengths.
    pub(super) fn is_alike(&self, other: &Self) -> bool {
        let lengths = |windows: &Self| -> Vec<(u32, u64)> {
            windows.tallies.iter().map(|tally| (tally.length, tally.clients)).collect()
        };
        lengths(self) == lengths(other)
            && (self.counts.len(), self.last.len()) == (other.counts.len(), other.last.len())
    }

    /// Records that a client is selected in a round.
    pub fn record(&mut self, client: u32, round: u64) {
        let client = client as usize;
        let width = self.tallies.len();
        let counts = &mut self.counts[client * width..(client + 1) * width];
        for (tally, count) in self.tallies.iter_mut().zip(counts) {
            if self.last[client] <= tally.window_start(round) {
                *count = 0;
            }
            tally.record(u64::from(*count));
            *count += 1;
        }
        self.last[client] = round + 1;
    }

    /// Ends a round.
    pub fn end_round(&mut self, round: u64) {
        for tally in &mut self.tallies {
            tally.end_round(round);
        }
    }

    /// sqrt(Var Y)/T for each T.
    pub fn normalised_sd(&self) -> BTreeMap<u32, f64> {
        self.tallies.iter().map(|tally| (tally.length, tally.normalised_sd())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Chance, Draws, Seed, Stream};

    #[test]
    fn agrees_with_counting_every_window() {
        let (clients, rounds) = (20u32, 50u64);
        let chance = Chance::new(0.3);
        let selected = |client: u32, round: u64| {
            chance.wins(Draws::new(Seed(5), Stream::DRAW, round).of(u64::from(client)))
        };
        let lengths = [1, 3, 7, 10, 50, 51];
        let mut windows = ParticipationWindows::new(clients, &lengths);
        for round in 0..rounds {
            for client in (0..clients).filter(|&client| selected(client, round)) {
                windows.record(client, round);
            }
            windows.end_round(round);
        }
        let measured = windows.normalised_sd();
        for length in lengths {
            let whole = rounds / u64::from(length);
            let mut counts = Vec::new();
            for window in 0..whole {
                let start = window * u64::from(length);
                let range = start..start + u64::from(length);
                for client in 0..clients {
                    counts.push(range.clone().filter(|&r| selected(client, r)).count() as f64);
                }
            }
            if counts.is_empty() {
                assert!(measured[&length].is_nan());
                continue;
            }
            let mean = counts.iter().sum::<f64>() / counts.len() as f64;
            let square = counts.iter().map(|y| (y - mean).powi(2)).sum::<f64>();
            let sd = (square / counts.len() as f64).sqrt() / f64::from(length);
            assert!((measured[&length] - sd).abs() < 1e-12, "T = {length}");
        }
    }
}

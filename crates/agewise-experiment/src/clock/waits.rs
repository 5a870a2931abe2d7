//! How long clients wait in simulated seconds, and how evenly they work.

use serde::Serialize;

/// The clock of a run, over the rounds behind the warm-up.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct SecondsRecord {
    /// The mean of the seconds between two credits of a client.
    pub mean_interval: Option<f64>,
    /// Their variance.
    pub var_interval: Option<f64>,
    /// The longest of them, or time since the last credit of a client that still waits.
    pub longest_wait: f64,
    /// Jain's index of the seconds that clients worked.
    pub jain: Option<f64>,
}

/// What is counted of each client while rounds are played.
#[derive(Debug)]
pub(crate) struct SecondsWaits {
    now: f64,
    /// Since when each client waits; NaN where it has not joined, or has left.
    since: Vec<f64>,
    /// Whether a client was credited before: time until the first credit is no interval.
    credited: Vec<bool>,
    worked: Vec<f64>,
    intervals: u64,
    /// Mean and sum of squared differences, by Welford's recursion.
    mean: f64,
    squares: f64,
    longest: f64,
}

impl SecondsWaits {
    /// For everyone who will ever join.
    pub(crate) fn new(everyone: usize) -> Self {
        Self {
            now: 0.0,
            since: vec![f64::NAN; everyone],
            credited: vec![false; everyone],
            worked: vec![0.0; everyone],
            intervals: 0,
            mean: 0.0,
            squares: 0.0,
            longest: 0.0,
        }
    }

    /// A client is there from now on.
    pub(crate) fn joins(&mut self, client: u32) {
        self.since[client as usize] = self.now;
    }

    /// A client leaves for good; its last wait counts.
    pub(crate) fn leaves(&mut self, client: u32) {
        let since = std::mem::replace(&mut self.since[client as usize], f64::NAN);
        // It may have left before.
        self.longest = self.longest.max(self.now - since);
    }

    /// The present second.
    pub(crate) fn now(&self) -> f64 {
        self.now
    }

    /// Time passes.
    pub(crate) fn pass(&mut self, seconds: f64) {
        self.now += seconds;
    }

    /// Clients are credited now; their waits are counted if the round is recorded.
    pub(crate) fn credit(&mut self, clients: &[u32], is_recorded: bool) {
        for &client in clients {
            let place = client as usize;
            let gap = self.now - std::mem::replace(&mut self.since[place], self.now);
            let again = std::mem::replace(&mut self.credited[place], true);
            if !is_recorded {
                continue;
            }
            self.longest = self.longest.max(gap);
            if again {
                self.intervals += 1;
                let before = gap - self.mean;
                self.mean += before / self.intervals as f64;
                self.squares += before * (gap - self.mean);
            }
        }
    }

    /// A client has worked.
    pub(crate) fn work(&mut self, client: u32, seconds: f64) {
        self.worked[client as usize] += seconds;
    }

    /// The figures so far.
    pub(crate) fn finish(&self) -> SecondsRecord {
        let waiting = self.since.iter().filter(|since| !since.is_nan());
        let open = waiting.map(|since| self.now - since).fold(self.longest, f64::max);
        let here = || self.since.iter().zip(&self.worked).filter(|(since, _)| !since.is_nan());
        let (sum, squares) = here().fold((0.0, 0.0), |(sum, squares), (_, &seconds)| {
            (sum + seconds, squares + seconds * seconds)
        });
        let count = self.intervals as f64;
        SecondsRecord {
            mean_interval: (self.intervals > 0).then_some(self.mean),
            var_interval: (self.intervals > 0).then(|| self.squares / count),
            longest_wait: open,
            jain: (squares > 0.0).then(|| sum * sum / (here().count() as f64 * squares)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_and_open_waits_are_counted() {
        let mut waits = SecondsWaits::new(3);
        for client in [0, 1] {
            waits.joins(client);
        }
        for (seconds, credited) in [(2.0, vec![0]), (3.0, vec![0, 1]), (5.0, vec![0])] {
            waits.pass(seconds);
            waits.credit(&credited, true);
            for &client in &credited {
                waits.work(client, 1.0);
            }
        }
        waits.joins(2);
        waits.pass(1.0);
        let record = waits.finish();
        // Client 0 after 3 and 5 seconds; client 1 has waited 6 seconds for its second credit.
        assert_eq!((record.mean_interval, record.var_interval), (Some(4.0), Some(1.0)));
        assert_eq!(record.longest_wait, 6.0);
        // Work of 3, 1 and 0 seconds.
        assert_eq!(record.jain, Some(16.0 / 30.0));
        waits.leaves(1);
        waits.pass(100.0);
        assert_eq!(waits.finish().longest_wait, 101.0);
    }
}

//! How long an experiment will still take.
//!
//! Policies differ in what a round costs, and runs are played seed by seed: the mean over the rounds so far would take
//! what began first for what is left. So each variant has its own pace, and one that was not played yet the mean of the
//! others.

use agewise_experiment::RunId;
use std::collections::BTreeMap;
use std::time::Duration;

/// What is known about the pace of each variant.
pub(crate) struct TimeLeft {
    /// Runs that are played at the same time.
    workers: usize,
    variants: Vec<Pace>,
    /// When each run under way had its last round.
    last: BTreeMap<RunId, Duration>,
}

#[derive(Clone, Copy, Default)]
struct Pace {
    /// Rounds that are left, over all seeds.
    left: u64,
    /// Rounds that were timed, and how long they took.
    rounds: u64,
    seconds: f64,
}

impl Pace {
    fn seconds_per_round(&self) -> Option<f64> {
        (self.rounds > 0).then(|| self.seconds / self.rounds as f64)
    }
}

impl TimeLeft {
    /// For so many runs at a time, and the rounds of each variant over all seeds.
    pub(crate) fn new(workers: usize, rounds: Vec<u64>) -> Self {
        let pace = |left| Pace { left, ..Pace::default() };
        let variants = rounds.into_iter().map(pace).collect();
        Self { workers: workers.max(1), variants, last: BTreeMap::new() }
    }

    /// A run begins at a time since the start, behind so many rounds.
    pub(crate) fn begin(&mut self, id: RunId, rounds: u64, now: Duration) {
        self.last.insert(id, now);
        self.forget(id, rounds);
    }

    /// A run has played more rounds.
    pub(crate) fn advance(&mut self, id: RunId, rounds: u64, now: Duration) {
        let before = self.last.insert(id, now).unwrap_or(now);
        self.forget(id, rounds);
        if let Some(pace) = self.variants.get_mut(id.variant) {
            pace.rounds += rounds;
            pace.seconds += now.saturating_sub(before).as_secs_f64();
        }
    }

    /// A run is at its end, and saved so many rounds.
    pub(crate) fn end(&mut self, id: RunId, saved: u64) {
        self.last.remove(&id);
        self.forget(id, saved);
    }

    fn forget(&mut self, id: RunId, rounds: u64) {
        if let Some(pace) = self.variants.get_mut(id.variant) {
            pace.left = pace.left.saturating_sub(rounds);
        }
    }

    /// The seconds that are left, once any round was timed.
    pub(crate) fn seconds(&self) -> Option<f64> {
        let known: Vec<f64> = self.variants.iter().filter_map(Pace::seconds_per_round).collect();
        let usual = known.iter().sum::<f64>() / known.len() as f64;
        let left = |pace: &Pace| pace.left as f64 * pace.seconds_per_round().unwrap_or(usual);
        let work: f64 = self.variants.iter().map(left).sum();
        (!known.is_empty()).then(|| work / self.workers as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays on a clock that is only counted: so many workers take one run after the other, and when fewer runs are left they
    /// share the threads of all workers. Returns at each round the time and the estimate, and last the time of the end.
    fn play(workers: usize, costs: &[f64], seeds: u32, rounds: u64) -> (Vec<(f64, f64)>, f64) {
        let of_variant = u64::from(seeds) * rounds;
        let mut time_left = TimeLeft::new(workers, vec![of_variant; costs.len()]);
        let variants = 0..costs.len();
        let runs = (0..seeds)
            .flat_map(|seed| variants.clone().map(move |variant| RunId { seed, variant }));
        let mut runs = runs.collect::<std::collections::VecDeque<_>>();
        // When each worker has its next round done, of which run, and how many are behind it.
        let mut busy: Vec<(f64, RunId, u64)> = Vec::new();
        let (mut now, mut seen) = (0.0, Vec::new());
        let clock = Duration::from_secs_f64;
        loop {
            while busy.len() < workers
                && let Some(id) = runs.pop_front()
            {
                time_left.begin(id, 0, clock(now));
                busy.push((now + costs[id.variant], id, 0));
            }
            busy.sort_by(|a, b| b.0.total_cmp(&a.0));
            let Some((then, id, behind)) = busy.pop() else {
                return (seen, now);
            };
            now = then;
            time_left.advance(id, 1, clock(now));
            seen.push((now, time_left.seconds().unwrap()));
            if behind + 1 == rounds {
                time_left.end(id, 0);
            } else {
                let share = (busy.len() + 1) as f64 / workers as f64;
                let share = if runs.is_empty() { share } else { 1.0 };
                busy.push((now + share * costs[id.variant], id, behind + 1));
            }
        }
    }

    /// Cheap policies first, and one that costs five times as much last, as in the default comparison.
    #[test]
    fn the_estimate_is_unbiased_though_policies_differ() {
        for workers in [1, 2, 3] {
            let (seen, end) = play(workers, &[1.0, 1.0, 1.2, 1.0, 1.1, 5.0], 12, 20);
            // From the second seed on every policy has been timed; in the last seed workers run empty.
            let known = seen.iter().filter(|(now, _)| (0.1 * end..0.9 * end).contains(now));
            let ratios: Vec<f64> = known.map(|(now, left)| left / (end - now)).collect();
            let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
            assert!((mean - 1.0).abs() < 0.03, "{workers} workers: {mean}");
            assert!(ratios.iter().all(|ratio| (0.85..1.15).contains(ratio)), "{workers} workers");
        }
    }

    #[test]
    fn what_was_played_before_is_neither_left_nor_timed() {
        let mut time_left = TimeLeft::new(1, vec![20]);
        let id = |seed| RunId { seed, variant: 0 };
        time_left.begin(id(0), 6, Duration::ZERO);
        assert_eq!(time_left.seconds(), None);
        time_left.advance(id(0), 2, Duration::from_secs(4));
        assert_eq!(time_left.seconds(), Some(24.0));
        // It ended two rounds early.
        time_left.end(id(0), 2);
        assert_eq!(time_left.seconds(), Some(20.0));
    }
}

//! Clients at work without rounds: an event queue in the order of (time, client).
//!
//! At any moment a fixed number of clients work. When one of them is done, its update goes into a buffer and another
//! client is asked; when the buffer is full, the server makes a step. A client that drops out gives its place to another.
//! Who is asked is the policy's choice; everything else follows from the times of the clients, so that a run is played
//! again from who was asked.

use super::costs::{ClockLog, RoundCosts, Work};
use super::round_clock::RoundClock;
use agewise_core::Result;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeSet, BinaryHeap};

/// The clients as the server meets them.
pub(crate) trait Fleet {
    /// Time goes on to this second, at which others may be online.
    fn go_on(&mut self, now: f64);

    /// Whether anyone can be asked now who is not busy.
    fn is_anyone_free(&self, busy: &BTreeSet<u32>) -> bool;

    /// The next second at which a client may come that is not busy, where that follows the clock.
    fn next_change(&self, busy: &BTreeSet<u32>) -> Option<f64>;

    /// When a client that is online now goes offline, if that is before this second.
    fn offline_before(&self, client: u32, end: f64) -> Option<f64>;

    /// Names clients for so many free places; none of those that are busy.
    fn ask(&mut self, free: usize, busy: &BTreeSet<u32>) -> Result<Answer>;

    /// Whether a client is not there any more.
    fn has_left(&self, client: u32) -> bool;
}

/// Who was asked for a number of free places.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Answer {
    /// The clients, each once, and whether each drops out.
    pub(crate) clients: Vec<(u32, bool)>,
    /// Those of them that have the model, as they were probed.
    pub(crate) probed: BTreeSet<u32>,
    /// How many seconds they have to wait for the answers to probes.
    pub(crate) wait: f64,
}

/// A client at work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AtWork {
    pub(crate) client: u32,
    /// The step of the server when it was asked.
    pub(crate) step: u64,
    has_model: bool,
    begin: f64,
    end: f64,
    delivers: bool,
}

impl Eq for AtWork {}

impl Ord for AtWork {
    fn cmp(&self, other: &Self) -> Ordering {
        self.end.total_cmp(&other.end).then(self.client.cmp(&other.client))
    }
}

impl PartialOrd for AtWork {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// How a step of the server ended.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Step {
    /// The clients whose updates are in the buffer, in increasing order.
    pub(crate) arrived: Vec<AtWork>,
    /// Those that dropped out, in increasing order.
    pub(crate) dropped: Vec<u32>,
    /// What it took: all the work of those that are done, whenever they began.
    pub(crate) clock: ClockLog,
}

/// The clients at work, and the time.
#[derive(Debug)]
pub(crate) struct InFlight {
    /// How many work at any moment.
    places: usize,
    /// How many updates a step takes.
    updates: usize,
    now: f64,
    queue: BinaryHeap<Reverse<AtWork>>,
}

impl InFlight {
    /// So many clients work at any moment, and a step takes so many updates.
    pub(crate) fn new(places: u32, updates: u32) -> Self {
        let (places, updates) = (places as usize, updates as usize);
        Self { places, updates, now: 0.0, queue: BinaryHeap::new() }
    }

    /// The steps in which those were asked that are at work.
    pub(crate) fn steps(&self) -> BTreeSet<u64> {
        self.queue.iter().map(|Reverse(work)| work.step).collect()
    }

    /// The present second.
    pub(crate) fn now(&self) -> f64 {
        self.now
    }

    /// Plays until the buffer is full, or until no client is at work.
    pub(crate) fn step(
        &mut self,
        clock: &RoundClock<'_>,
        step: u64,
        fleet: &mut dyn Fleet,
    ) -> Result<Step> {
        let begin = self.now;
        let (mut arrived, mut dropped) = (Vec::new(), Vec::new());
        while arrived.len() < self.updates {
            if let Some(change) = self.fill(clock, step, fleet, [&arrived, &dropped])? {
                self.now = change;
                continue;
            }
            let Some(Reverse(work)) = self.queue.pop() else {
                break;
            };
            self.now = work.end;
            let delivers = work.delivers && !fleet.has_left(work.client);
            if delivers { arrived.push(work) } else { dropped.push(AtWork { delivers, ..work }) }
        }
        arrived.sort_by_key(|work| work.client);
        let mut done: Vec<AtWork> = arrived.iter().chain(&dropped).copied().collect();
        done.sort_by_key(|work| work.client);
        let costs = RoundCosts { seconds: self.now - begin, ..clock.no_costs() };
        let mut log = ClockLog { costs, worked: Vec::new() };
        for AtWork { client, has_model, begin, end, delivers, .. } in done {
            let work = Work { seconds: end - begin, has_model, counts: delivers };
            clock.add_work(&mut log.costs, client, work);
            log.worked.push(work.seconds as f32);
        }
        let mut dropped: Vec<u32> = dropped.iter().map(|work| work.client).collect();
        dropped.sort_unstable();
        Ok(Step { arrived, dropped, clock: log })
    }

    /// Fills the free places. Those that are done in this step wait for its end, when they are credited or have failed.
    /// Where places stay free, returns when a client may come for them, if no client is done before.
    fn fill(
        &mut self,
        clock: &RoundClock<'_>,
        step: u64,
        fleet: &mut dyn Fleet,
        done: [&[AtWork]; 2],
    ) -> Result<Option<f64>> {
        let free = self.places - self.queue.len();
        if free == 0 {
            return Ok(None);
        }
        fleet.go_on(self.now);
        let at_work = self.queue.iter().map(|Reverse(work)| work);
        let done = done.into_iter().flatten();
        let mut busy: BTreeSet<u32> = at_work.chain(done).map(|work| work.client).collect();
        if fleet.is_anyone_free(&busy) {
            let answer = fleet.ask(free, &busy)?;
            let begin = self.now + answer.wait;
            for (client, drops_out) in answer.clients {
                let (has_model, mut delivers) = (answer.probed.contains(&client), !drops_out);
                let mut end = begin + clock.work_of(step, client, has_model, delivers);
                if let Some(moment) = fleet.offline_before(client, end) {
                    (end, delivers) = (moment.max(begin), false);
                }
                self.queue.push(Reverse(AtWork { client, step, has_model, begin, end, delivers }));
                busy.insert(client);
            }
        }
        let next = self.queue.peek().map_or(f64::INFINITY, |Reverse(work)| work.end);
        let change = if self.queue.len() < self.places { fleet.next_change(&busy) } else { None };
        Ok(change.filter(|change| *change < next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::rates::RateDistribution;
    use crate::clock::{ClientTimes, Schedule};
    use agewise_core::{Draws, Seed, Stream};
    use std::collections::BTreeMap;

    /// Clients that were never asked before, one after the other.
    struct Fresh(u32);

    impl Fleet for Fresh {
        fn go_on(&mut self, _: f64) {}

        fn is_anyone_free(&self, _: &BTreeSet<u32>) -> bool {
            true
        }

        fn next_change(&self, _: &BTreeSet<u32>) -> Option<f64> {
            None
        }

        fn offline_before(&self, _: u32, _: f64) -> Option<f64> {
            None
        }

        fn ask(&mut self, free: usize, _: &BTreeSet<u32>) -> Result<Answer> {
            let clients = (self.0..).take(free).map(|client| (client, false)).collect();
            self.0 += free as u32;
            Ok(Answer { clients, ..Answer::default() })
        }

        fn has_left(&self, _: u32) -> bool {
            false
        }
    }

    /// Mean and standard error, taking blocks of 100 values as independent.
    fn mean(values: &[f64]) -> (f64, f64) {
        let blocks: Vec<f64> =
            values.chunks_exact(100).map(|block| block.iter().sum::<f64>() / 100.0).collect();
        let count = blocks.len() as f64;
        let mean = blocks.iter().sum::<f64>() / count;
        let variance = blocks.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        (mean, (variance / count).sqrt())
    }

    /// With durations that are exponential with mean 1 and independent:
    /// - Little's law: m clients at work and a mean duration of 1 give m updates per second, so that a step of K updates
    ///   takes K/m seconds;
    /// - each of the m clients at work is equally likely to be done next, whatever happened before, so that the number of
    ///   others that are done while a client works is geometric with mean m - 1; the steps among them are (m - 1)/K, as a
    ///   client begins at any place of a buffer with the same chance. For K = 1 the staleness is that number: s with the
    ///   probability (1/m) (1 - 1/m)^s.
    #[test]
    fn throughput_and_staleness_are_those_of_the_closed_forms() {
        const CLIENTS: u32 = 60_000;
        let draws = Draws::new(Seed(9), Stream::custom(903), 0);
        let speed = |client: u32| -1.0 / (1.0 - draws.of(u64::from(client)).unit()).ln();
        let mut columns = BTreeMap::new();
        columns.insert("f.csv:s".to_string(), (0..CLIENTS).map(speed).collect());
        let speeds: RateDistribution = "f.csv:s".parse().unwrap();
        let samples = vec![1; CLIENTS as usize];
        let times = ClientTimes::draw((&speeds, None), &columns, Seed(1), &samples, 0).unwrap();
        for (places, updates) in [(10u32, 1u32), (10, 4), (8, 8), (4, 10)] {
            let of_seed = (Seed(1), &times, &samples[..]);
            let clock =
                RoundClock::new(of_seed, (CLIENTS, places), Schedule::Sync, None, 1).unwrap();
            let (mut in_flight, mut fleet) = (InFlight::new(places, updates), Fresh(0));
            let (mut seconds, mut staleness) = (Vec::new(), Vec::new());
            for step in 0..u64::from((CLIENTS - 100) / updates) {
                let played = in_flight.step(&clock, step, &mut fleet).unwrap();
                assert_eq!(played.arrived.len(), updates as usize);
                seconds.push(played.clock.costs.seconds);
                staleness.extend(played.arrived.iter().map(|work| (step - work.step) as f64));
            }
            let (m, k) = (f64::from(places), f64::from(updates));
            for (values, expected) in [(&seconds, k / m), (&staleness, (m - 1.0) / k)] {
                let (mean, error) = mean(values);
                assert!((mean - expected).abs() < 5.0 * error, "{places}, {updates}: {mean}");
            }
            if updates > 1 {
                continue;
            }
            let (mut expected, mut left) = (1.0 / m, 1.0);
            for steps in 0..40 {
                let is_it = |&found: &f64| f64::from(u8::from(found == f64::from(steps)));
                let (share, error) = mean(&staleness.iter().map(is_it).collect::<Vec<_>>());
                // Of 60,000 some 90 have the last of these, and the share of 41 figures: five errors each.
                assert!((share - expected).abs() < 5.0 * error, "{steps}: {share}, {expected}");
                (left, expected) = (left - share, expected * (1.0 - 1.0 / m));
            }
            // Those that are staler than that: (1 - 1/m)^40, 1.5%.
            assert!((left - expected * m).abs() < 0.005, "{left}");
        }
    }
}

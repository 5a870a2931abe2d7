//! Back-off: when a client that was asked and did not deliver may be asked again.
//!
//! The age of a client that did not report keeps growing, so a policy that follows ages would select a client that never
//! reports in nearly every round. Therefore failures are counted separately from the age, and the wait grows with each
//! consecutive failure. With the target interval X = n/m:
//!
//! ```text
//! failures in a row      1         2           3         4         5 or more
//! rounds to wait         1    ceil(X/4)   ceil(X/2)   ceil(X)      ceil(2X)
//! ```
//!
//! After one failure the client may be asked in the next round, so an accident costs it nothing. A client that always
//! fails is asked once in 2X rounds in the end, half as often as random choice would ask it. A credit clears
//! the failures. The rule has no randomness, so a client that decides alone follows it as the coordinator does.
//!
//! **Turns.** Where the coordinator selects, many dead clients that failed together would come back together, round after
//! round, and healthy clients would wait unevenly. So there the clients that have failed five times in a row or more take
//! turns ([`RetryTurns`]): D of them get D/ceil(2X) places per round, spread evenly, those whose waits ended first before
//! others. So Var\[X\] of healthy clients comes back to the least that is possible for so many places.

use serde::{Deserialize, Serialize};

/// Failures in a row from which the wait does not grow any more.
const LAST_STEP: u32 = 5;

/// The failures of a client since it was last credited, and when it may be asked again.
///
/// ```
/// use agewise_core::Failures;
///
/// // Every client is to take part once in 20 rounds; this one fails whenever it is asked.
/// let mut failures = Failures::NONE;
/// let mut asked = Vec::new();
/// for round in 0..200 {
///     if failures.is_eligible(round) {
///         asked.push(round);
///         failures = failures.and_one_more(round, 20.0);
///     }
/// }
/// assert_eq!(asked, [0, 1, 6, 16, 36, 76, 116, 156, 196]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Failures {
    in_a_row: u32,
    eligible_from: u32,
}

impl Failures {
    /// Of a client that has not failed since it was last credited.
    pub const NONE: Self = Self { in_a_row: 0, eligible_from: 0 };

    /// The rounds after which a client may be asked again that failed so many times in a row, counted from the
    /// round of the last failure. `interval` is the target number of rounds between two credits of the client.
    pub fn wait(in_a_row: u32, interval: f64) -> u64 {
        if in_a_row < 2 {
            return u64::from(in_a_row);
        }
        // From a quarter of the interval to twice the interval.
        let intervals = f64::from(1 << in_a_row.min(LAST_STEP)) / 16.0;
        ((interval * intervals).ceil() as u64).max(1)
    }

    /// How often a client that never delivers is asked at most, in so many rounds from the first time on.
    pub fn most_asks(rounds: u64, interval: f64) -> u64 {
        let (mut asks, mut next) = (0, 0);
        for in_a_row in 1..LAST_STEP {
            if next >= rounds {
                return asks;
            }
            asks += 1;
            next += Self::wait(in_a_row, interval);
        }
        asks + rounds.saturating_sub(next).div_ceil(Self::wait(LAST_STEP, interval))
    }

    /// How often a client that never delivers is asked at most per round in the long run.
    pub fn rate_of_a_dead_client(interval: f64) -> f64 {
        1.0 / Self::wait(LAST_STEP, interval) as f64
    }

    /// The same with one more failure, in this round.
    #[must_use]
    pub fn and_one_more(self, round: u64, interval: f64) -> Self {
        let in_a_row = self.in_a_row.saturating_add(1);
        let eligible_from = round.saturating_add(Self::wait(in_a_row, interval));
        Self { in_a_row, eligible_from: u32::try_from(eligible_from).unwrap_or(u32::MAX) }
    }

    /// How often the client has failed since it was last credited.
    pub fn in_a_row(self) -> u32 {
        self.in_a_row
    }

    /// Whether it has failed so often in a row that its wait does not grow any more.
    pub fn is_at_the_last_step(self) -> bool {
        self.in_a_row >= LAST_STEP
    }

    /// The first round in which the client may be asked again.
    pub fn eligible_from(self) -> u64 {
        u64::from(self.eligible_from)
    }

    /// Whether the client may be asked in this round.
    pub fn is_eligible(self, round: u64) -> bool {
        self.eligible_from() <= round
    }
}

/// The places of a round that go to clients at the last step, where the coordinator selects.
///
/// Each of them counts for one place in ceil(2X) rounds. The places of round t are those whole numbers that the sum of
/// what they count for has passed in round t, so the same clients get the same turns again and again. A single one has
/// none to take turns with, and comes when its wait is over.
///
/// ```
/// use agewise_core::{Failures, RetryTurns};
///
/// // Two clients with X = 2, both at the last step since round 9: each comes once in 4 rounds, and not both at once.
/// let failed_in_9 = (5..10).fold(Failures::NONE, |failures, round| failures.and_one_more(round, 2.0));
/// let mut failures = [failed_in_9; 2];
/// let mut asked = Vec::new();
/// for round in 10..30 {
///     let mut turns = RetryTurns::default();
///     for (client, failures) in (0..).zip(failures) {
///         turns.add(client, failures, 2.0);
///     }
///     for (_, client) in turns.places(round) {
///         failures[client as usize] = failures[client as usize].and_one_more(round, 2.0);
///         asked.push((round, client));
///     }
/// }
/// assert_eq!(asked[..4], [(13, 0), (15, 1), (17, 0), (19, 1)]);
/// ```
#[derive(Debug, Clone, Default)]
pub struct RetryTurns {
    /// Places per round, times 2^48: a sum of whole numbers does not depend on its order.
    share: u128,
    /// The clients, each with the round in which its wait ends.
    waits: Vec<(u64, u32)>,
}

impl RetryTurns {
    /// Adds a client that can be reached, if it is at the last step; whether it is.
    pub fn add(&mut self, client: u32, failures: Failures, interval: f64) -> bool {
        let takes_turns = failures.is_at_the_last_step();
        if takes_turns {
            self.share += (1u128 << SHARE_BITS) / u128::from(Failures::wait(LAST_STEP, interval));
            self.waits.push((failures.eligible_from(), client));
        }
        takes_turns
    }

    /// Adds the clients of another part of the population.
    pub fn merge(&mut self, other: Self) {
        self.share += other.share;
        self.waits.extend(other.waits);
    }

    /// The clients whose turn a round is, those whose waits ended first before others.
    pub fn places(mut self, round: u64) -> Vec<(u64, u32)> {
        let passed = |rounds: u64| (u128::from(rounds) * self.share) >> SHARE_BITS;
        let places = match self.waits.len() {
            1 => 1,
            _ => passed(round.saturating_add(1)) - passed(round),
        };
        self.waits.retain(|&(until, _)| until <= round);
        self.waits.sort_unstable();
        self.waits.truncate(usize::try_from(places).unwrap_or(usize::MAX));
        self.waits
    }
}

/// The binary places of a share.
const SHARE_BITS: u32 = 48;

/// The failures of one client, as they are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedClient {
    /// The client.
    pub client: u32,
    /// How often it has failed since it was last credited.
    pub in_a_row: u32,
    /// The first round in which it may be asked again.
    pub eligible_from: u32,
}

/// The failures of all clients of a population: 8 bytes for each up to the highest number that has failed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FailureTable(Vec<Failures>);

impl FailureTable {
    /// The failures of one client.
    pub(crate) fn of(&self, client: u32) -> Failures {
        self.0.get(client as usize).copied().unwrap_or(Failures::NONE)
    }

    /// Sets the failures of one client.
    pub(crate) fn set(&mut self, client: u32, failures: Failures) {
        let place = client as usize;
        if let Some(known) = self.0.get_mut(place) {
            *known = failures;
        } else if failures != Failures::NONE {
            self.0.resize(place, Failures::NONE);
            self.0.push(failures);
        }
    }

    /// The clients that have failed since they were last credited, in increasing order.
    pub(crate) fn failed(&self) -> impl Iterator<Item = (u32, Failures)> {
        (0..).zip(&self.0).filter(|(_, failures)| failures.in_a_row > 0).map(|(c, f)| (c, *f))
    }

    /// What has to be stored.
    pub(crate) fn state(&self) -> Vec<FailedClient> {
        let stored = |(client, Failures { in_a_row, eligible_from })| FailedClient {
            client,
            in_a_row,
            eligible_from,
        };
        self.failed().map(stored).collect()
    }
}

impl From<FailedClient> for Failures {
    fn from(stored: FailedClient) -> Self {
        Self { in_a_row: stored.in_a_row, eligible_from: stored.eligible_from }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rounds in which a client is asked that always fails and is asked whenever it may be.
    fn asked(interval: f64, rounds: u64) -> Vec<u64> {
        let mut failures = Failures::NONE;
        let mut asked = Vec::new();
        for round in 0..rounds {
            if failures.is_eligible(round) {
                asked.push(round);
                failures = failures.and_one_more(round, interval);
            }
        }
        asked
    }

    #[test]
    fn the_wait_grows_and_is_bounded() {
        for interval in [1.0, 1.5, 4.0, 20.0, 100.0 / 15.0, 1e6] {
            let waits: Vec<u64> = (0..12).map(|k| Failures::wait(k, interval)).collect();
            assert_eq!(waits[..2], [0, 1], "an accident costs nothing");
            assert!(waits.windows(2).all(|pair| pair[0] <= pair[1]), "{waits:?}");
            assert_eq!(waits[5], (2.0 * interval).ceil() as u64);
            assert!(waits[5..].iter().all(|&wait| wait == waits[5]));
            assert_eq!(Failures::wait(u32::MAX, interval), waits[5]);
        }
    }

    #[test]
    fn a_dead_client_is_asked_as_often_as_the_closed_form_says() {
        for interval in [1.0, 1.5, 4.0, 20.0, 100.0 / 15.0] {
            let all = asked(interval, 3_000);
            for rounds in (0..3_000).step_by(7) {
                let within = all.iter().take_while(|&&round| round < rounds).count() as u64;
                assert_eq!(Failures::most_asks(rounds, interval), within, "{interval}, {rounds}");
            }
            let tail: Vec<u64> = all[5..].windows(2).map(|pair| pair[1] - pair[0]).collect();
            let rate = Failures::rate_of_a_dead_client(interval);
            assert!(tail.iter().all(|&gap| gap as f64 * rate == 1.0), "{interval}: {tail:?}");
        }
    }

    #[test]
    fn the_ends_of_the_range_are_safe() {
        let far = Failures { in_a_row: u32::MAX, eligible_from: 0 }.and_one_more(u64::MAX, 1e300);
        assert_eq!((far.in_a_row(), far.eligible_from()), (u32::MAX, u64::from(u32::MAX)));
        assert!(Failures::NONE.is_eligible(0));
    }
}

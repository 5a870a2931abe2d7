//! The ages of a population: A(t+1) = (A(t) + 1)(1 - S(t)), Section III of the paper.
//!
//! Instead of adding one to n numbers in each round, this type keeps the round since which each client
//! waits; a round then costs what its cohort costs. The true count is never lost: a law saturates at
//! its `max_age`, this type does not.

use crate::error::{Error, Result};
use crate::sizes::check_clients;
use serde::{Deserialize, Serialize};

/// The age of every client at the beginning of a round; 4 bytes per client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "StoredAges")]
pub struct Ages {
    round: u32,
    /// The round at which the age was 0 (one after the last credited round), plus [`EPOCH`].
    waiting_since: Vec<u32>,
}

/// Round 0: what lies before it is for first ages, what lies behind it for the rounds to come.
const EPOCH: u32 = 3_000_000_000;
/// First ages above this count as this; a hundred years of rounds of one second.
const OLDEST: u64 = EPOCH as u64;
/// The last round that can be played; forty years of rounds of one second.
const LAST_ROUND: u32 = u32::MAX - EPOCH - 1;

impl Ages {
    /// Ages at the beginning of round 0.
    pub fn new(first: impl IntoIterator<Item = u64>) -> Self {
        let since = |age: u64| EPOCH - age.min(OLDEST) as u32;
        Self { round: 0, waiting_since: first.into_iter().map(since).collect() }
    }

    /// All ages 0 at the beginning of round 0.
    pub fn cold(clients: u32) -> Self {
        Self { round: 0, waiting_since: vec![EPOCH; clients as usize] }
    }

    /// Ages at the beginning of any round, by the round at which each was 0 (negative for one before round 0).
    pub fn resumed(round: u64, waiting_since: impl IntoIterator<Item = i64>) -> Result<Self> {
        let stored = u32::try_from(round).ok().filter(|&round| round <= LAST_ROUND);
        let Some(stored) = stored else {
            return Err(Error::new("round", round, format!("at most {LAST_ROUND}")));
        };
        let mut ages = Self { round: stored, waiting_since: Vec::new() };
        for since in waiting_since {
            if since > i64::from(stored) {
                return Err(Error::new("waiting_since", since, format!("at most {round}")));
            }
            // Not below 0: that would be older than the oldest.
            let since = (i64::from(EPOCH) + since).max(0);
            ages.waiting_since.push(since as u32);
        }
        Ok(ages)
    }

    /// Another client, of this age in the present round. Its number is the number of clients before.
    pub fn admit(&mut self, age: u64) {
        let now = EPOCH + self.round;
        self.waiting_since.push(now - age.min(u64::from(now)) as u32);
    }

    /// Forgets the clients from this number on.
    pub(crate) fn truncate(&mut self, clients: u32) {
        self.waiting_since.truncate(clients as usize);
    }

    /// The round at which the age of a client was 0: its age is the present round minus this.
    pub fn waiting_since(&self, client: u32) -> i64 {
        i64::from(self.waiting_since[client as usize]) - i64::from(EPOCH)
    }

    /// The number of clients.
    pub fn clients(&self) -> u32 {
        self.waiting_since.len() as u32
    }

    /// The round that is about to be played.
    pub fn round(&self) -> u64 {
        u64::from(self.round)
    }

    /// The age of one client: the rounds since it was last credited.
    pub fn of(&self, client: u32) -> u64 {
        u64::from(EPOCH + self.round - self.waiting_since[client as usize])
    }

    /// The ages of all clients, in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.waiting_since.iter().map(|since| u64::from(EPOCH + self.round - since))
    }

    /// Ends the round: the credited clients have age 0 in the next one, all others grow older by one.
    ///
    /// A client that is unknown or credited twice is an error, and the ages are then as they were.
    pub fn advance(&mut self, credited: &[u32]) -> Result<()> {
        if self.round >= LAST_ROUND {
            return Err(Error::new("round", self.round, format!("fewer than {LAST_ROUND} rounds")));
        }
        let next = EPOCH + self.round + 1;
        let mut before = Vec::with_capacity(credited.len());
        for &client in credited {
            let refused = match self.waiting_since.get_mut(client as usize) {
                None => format!("clients from 0 to {}", self.clients().saturating_sub(1)),
                Some(since) if *since == next => "each client at most once".to_string(),
                Some(since) => {
                    before.push(*since);
                    *since = next;
                    continue;
                }
            };
            for (&undone, since) in credited.iter().zip(before) {
                self.waiting_since[undone as usize] = since;
            }
            return Err(Error::new("credited", client, refused));
        }
        self.round += 1;
        Ok(())
    }
}

/// What is stored of [`Ages`]; checked when it is read back.
#[derive(Deserialize)]
struct StoredAges {
    round: u32,
    waiting_since: Vec<u32>,
}

impl TryFrom<StoredAges> for Ages {
    type Error = Error;

    fn try_from(stored: StoredAges) -> Result<Self> {
        let StoredAges { round, waiting_since } = stored;
        check_clients(waiting_since.len() as u64)?;
        if round > LAST_ROUND {
            return Err(Error::new("round", round, format!("at most {LAST_ROUND}")));
        }
        for (client, &since) in waiting_since.iter().enumerate() {
            if since > EPOCH + round {
                let field = format!("waiting_since[{client}]");
                return Err(Error::new(field, since, format!("at most {}", EPOCH + round)));
            }
        }
        Ok(Self { round, waiting_since })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_recursion_of_the_paper() {
        let mut ages = Ages::new([0, 3, 1_000_000]);
        let mut naive = [0u64, 3, 1_000_000];
        for cohort in [vec![0], vec![], vec![2, 1], vec![1], vec![]] {
            ages.advance(&cohort).unwrap();
            for (client, age) in naive.iter_mut().enumerate() {
                let selected = u64::from(cohort.contains(&(client as u32)));
                *age = (*age + 1) * (1 - selected);
            }
            assert_eq!(ages.iter().collect::<Vec<_>>(), naive);
            assert!((0..3).all(|c| ages.of(c) == naive[c as usize]));
        }
        assert_eq!(ages.round(), 5);
    }

    #[test]
    fn the_ends_of_the_range_are_safe() {
        let mut ages = Ages::new([u64::MAX, OLDEST - 1, 0]);
        assert_eq!(ages.iter().collect::<Vec<_>>(), [OLDEST, OLDEST - 1, 0]);
        ages.round = LAST_ROUND;
        assert_eq!(ages.of(0), OLDEST + u64::from(LAST_ROUND));
        assert_eq!(ages.advance(&[0]).unwrap_err().field(), "round");
    }

    #[test]
    fn ages_go_on_from_any_round() {
        let mut ages = Ages::new([4, 0]);
        ages.advance(&[1]).unwrap();
        ages.admit(3);
        let since: Vec<i64> = (0..3).map(|client| ages.waiting_since(client)).collect();
        assert_eq!(since, [-4, 1, -2]);
        assert_eq!(Ages::resumed(1, since).unwrap(), ages);
        assert_eq!(Ages::resumed(1, [i64::MIN]).unwrap().of(0), OLDEST + 1);
        assert_eq!(Ages::resumed(1, [2]).unwrap_err().field(), "waiting_since");
        assert_eq!(Ages::resumed(u64::MAX, [0]).unwrap_err().field(), "round");
        ages.admit(u64::MAX);
        assert_eq!(ages.of(3), OLDEST + 1);
    }

    #[test]
    fn a_refused_credit_changes_nothing() {
        let mut ages = Ages::new([5, 6, 7]);
        let before = ages.clone();
        assert_eq!(ages.advance(&[0, 1, 0]).unwrap_err().value(), "0");
        assert_eq!(ages, before);
        assert_eq!(ages.advance(&[2, 3]).unwrap_err().value(), "3");
        assert_eq!(ages, before);
    }

    #[test]
    fn stored_ages_come_back_or_are_refused() {
        let mut ages = Ages::new([5, 0]);
        ages.advance(&[1]).unwrap();
        let text = serde_json::to_string(&ages).unwrap();
        assert_eq!(serde_json::from_str::<Ages>(&text).unwrap(), ages);
        for bad in [
            r#"{"round":1,"waiting_since":[3000000002]}"#,
            r#"{"round":1,"waiting_since":[-1]}"#,
            r#"{"round":4294967295,"waiting_since":[0]}"#,
            r#"{"round":1,"waiting_since":[]}"#,
        ] {
            assert!(serde_json::from_str::<Ages>(bad).is_err(), "{bad}");
        }
    }
}

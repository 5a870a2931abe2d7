//! The ages of a population: A(t+1) = (A(t) + 1)(1 - S(t)), Section III of the paper.
//!
//! Instead of adding one to n numbers in each round, the book keeps the round since which each client
//! waits; a round then costs what its cohort costs. The true count is never lost: a law saturates at
//! its `max_age`, the book does not.

use crate::error::{Error, Result};
use crate::sizes::check_clients;
use serde::{Deserialize, Serialize};

/// The age of every client at the beginning of a round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "StoredAges")]
pub struct Ages {
    round: u64,
    /// The round at which the age was 0: one after the last credited one, negative for first ages.
    waiting_since: Vec<i64>,
}

/// First ages above this are refused, so that rounds and ages can be added without overflow.
const OLDEST: u64 = 1 << 62;

impl Ages {
    /// Ages at the beginning of round 0.
    pub fn new(first: impl IntoIterator<Item = u64>) -> Self {
        let since = |age: u64| -(age.min(OLDEST) as i64);
        Self { round: 0, waiting_since: first.into_iter().map(since).collect() }
    }

    /// All ages 0 at the beginning of round 0.
    pub fn cold(clients: u32) -> Self {
        Self { round: 0, waiting_since: vec![0; clients as usize] }
    }

    /// The number of clients.
    pub fn clients(&self) -> u32 {
        self.waiting_since.len() as u32
    }

    /// The round that is about to be played.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// The age of one client: the rounds since it was last credited.
    pub fn of(&self, client: u32) -> u64 {
        (self.round as i64 - self.waiting_since[client as usize]) as u64
    }

    /// The ages of all clients, in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.waiting_since.iter().map(|since| (self.round as i64 - since) as u64)
    }

    /// Ends the round: the credited clients have age 0 in the next one, all others grow older by one.
    ///
    /// A client that is unknown or credited twice is an error, and the ages are then as they were.
    pub fn advance(&mut self, credited: &[u32]) -> Result<()> {
        let next = self.round as i64 + 1;
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
    round: u64,
    waiting_since: Vec<i64>,
}

impl TryFrom<StoredAges> for Ages {
    type Error = Error;

    fn try_from(stored: StoredAges) -> Result<Self> {
        let StoredAges { round, waiting_since } = stored;
        check_clients(waiting_since.len() as u64)?;
        if round > OLDEST {
            return Err(Error::new("round", round, format!("at most {OLDEST}")));
        }
        for (client, &since) in waiting_since.iter().enumerate() {
            if since > round as i64 || since < -(OLDEST as i64) {
                let field = format!("waiting_since[{client}]");
                return Err(Error::new(field, since, format!("at most the round, {round}")));
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
            r#"{"round":1,"waiting_since":[2]}"#,
            r#"{"round":1,"waiting_since":[-9223372036854775808]}"#,
            r#"{"round":18446744073709551615,"waiting_since":[0]}"#,
            r#"{"round":1,"waiting_since":[]}"#,
        ] {
            assert!(serde_json::from_str::<Ages>(bad).is_err(), "{bad}");
        }
    }
}

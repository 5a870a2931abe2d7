//! What is wrong with a coordinator at this moment, as the network's side, the driver and its clock see it.
//!
//! The driver records after each piece of work whether it succeeded, and the service does so for each update that it stores.
//! [`Health::stops_the_run`] returns the problems that block the run, as sentences for an operator.

use crate::protocol::State;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// The driver looks around several times per second, and waits ten seconds at most for a locked ledger. Without a sign for this long it
/// hangs.
const STALL: Duration = Duration::from_secs(30);
/// Aggregating and evaluating a large model takes its time.
const LONG_STALL: Duration = Duration::from_secs(600);

#[derive(Debug)]
struct Signs {
    /// When the driver last looked around.
    beat: Instant,
    /// Why the driver cannot go on.
    driver: Option<String>,
    /// Why the last update could not be stored.
    upload: Option<String>,
}

/// The signs of life of a coordinator.
#[derive(Debug)]
pub(crate) struct Health(Mutex<Signs>);

impl Default for Health {
    fn default() -> Self {
        Self(Mutex::new(Signs { beat: Instant::now(), driver: None, upload: None }))
    }
}

impl Health {
    /// The driver looks around; what it did last went well, or why it did not.
    pub(crate) fn beat(&self, trouble: Option<String>) {
        let mut signs = self.0.lock();
        (signs.beat, signs.driver) = (Instant::now(), trouble);
    }

    /// The driver is about to do something that takes long.
    pub(crate) fn still_here(&self) {
        self.0.lock().beat = Instant::now();
    }

    /// An update was stored, or why it could not be.
    pub(crate) fn stored(&self, trouble: Option<String>) {
        self.0.lock().upload = trouble;
    }

    /// How long ago the driver looked around.
    pub(crate) fn silence(&self) -> Duration {
        self.0.lock().beat.elapsed()
    }

    /// Why nothing goes on, in the words for an operator.
    pub(crate) fn stops_the_run(&self, state: State) -> Vec<String> {
        let mut why = Vec::new();
        let silence = self.silence();
        let stall_timeout = if state == State::Aggregating { LONG_STALL } else { STALL };
        if silence > stall_timeout {
            why.push(format!("the round loop has not responded for {} s", silence.as_secs()));
        }
        let signs = self.0.lock();
        if let Some(trouble) = &signs.driver {
            why.push(format!("the disk or the ledger fails: {trouble}"));
        }
        if let Some(trouble) = &signs.upload {
            why.push(format!("updates cannot be stored: {trouble}"));
        }
        why
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_said_until_it_is_over() {
        let health = Health::default();
        let says = |text: &str| {
            let why = health.stops_the_run(State::Training);
            why.iter().any(|why| why.contains(text))
        };
        assert_eq!(health.stops_the_run(State::Training), Vec::<String>::new());
        health.beat(Some("database is locked".to_string()));
        health.stored(Some("no space left".to_string()));
        assert!(says("database is locked") && says("no space left"));
        health.beat(None);
        assert!(!says("database is locked") && says("no space left"));
        health.stored(None);
        assert_eq!(health.stops_the_run(State::Training), Vec::<String>::new());
    }

    #[test]
    fn a_driver_that_does_not_respond_is_noticed_and_one_that_aggregates_has_longer() {
        let Some(past) = Instant::now().checked_sub(STALL + Duration::from_secs(1)) else {
            // The machine was started a moment ago.
            return;
        };
        let health = Health::default();
        health.0.lock().beat = past;
        assert!(health.stops_the_run(State::Joining)[0].contains("has not responded"));
        assert_eq!(health.stops_the_run(State::Aggregating), Vec::<String>::new());
        health.still_here();
        assert_eq!(health.stops_the_run(State::Joining), Vec::<String>::new());
    }
}

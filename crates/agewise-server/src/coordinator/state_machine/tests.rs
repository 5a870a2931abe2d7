//! The driver by itself, at instants that are made up.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure here is a failed test")]

use super::{Driver, POLL_INTERVAL, Phase, SHUTDOWN_GRACE};
use crate::coordinator::shared::Shared;
use crate::coordinator::startup::{StartOptions, prepare};
use crate::crypto::Identity;
use crate::protocol::{Announcement, EnrolRequest};
use crate::test_support::Numbers;
use crate::{AccessParams, CoordinatorParams, RoundParams};
use agewise_train::Threads;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A driver for a run in a folder of its own, which goes with it.
struct Trial {
    driver: Driver,
    folder: PathBuf,
}

impl Trial {
    fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("agewise-driver-{name}-{}", std::process::id()));
        std::fs::remove_dir_all(&folder).ok();
        let params = CoordinatorParams {
            state: folder.clone(),
            serve_after_end: true,
            access: AccessParams { tokens: false },
            // One client is enough for a round.
            round: RoundParams { clients: 1, cohort: 1, ..RoundParams::default() },
            ..CoordinatorParams::default()
        };
        let options = StartOptions {
            threads: Threads::ONE,
            resume: false,
            run: None,
            skips_verification: false,
        };
        let shared = Arc::new(Shared::new(folder.join("ledger.sqlite")));
        let task = Arc::new(Numbers::new(1));
        let config = params.check().unwrap();
        let (driver, _) = prepare(config, task, options, shared, Arc::new(|| 0)).unwrap();
        Self { driver, folder }
    }

    /// Lets the driver do all that is due at an instant; then it has to sleep until a later one, or to end.
    fn sleeps_after(&mut self, now: Instant) {
        while self.driver.step(now).unwrap() {}
        let until = self.driver.next_deadline(now);
        assert!(
            until > now || self.driver.is_over(now),
            "nothing is due, and it wakes again at once: {:?}",
            self.driver.phase
        );
        assert!(until <= now + POLL_INTERVAL, "it looks at the ledger in between");
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

/// Instants around a deadline, and long after it.
fn around(deadline: Instant) -> impl Iterator<Item = Instant> {
    let before =
        [1_000, 1].map(|millis| deadline.checked_sub(Duration::from_millis(millis)).unwrap());
    let after = [0, 1, 1_000, 3_600_000].map(|millis| deadline + Duration::from_millis(millis));
    before.into_iter().chain(after)
}

#[test]
fn a_driver_that_serves_on_after_the_end_sleeps() {
    let mut trial = Trial::new("end");
    let told = Instant::now();
    let since = told + trial.driver.deps.config.drain_window();
    trial.driver.phase = Phase::Finished { since };
    for now in around(since + SHUTDOWN_GRACE) {
        trial.sleeps_after(now);
    }
    // Told to stop during the announcement of the end, when the time for draining is over before that.
    trial.driver.draining = Some(told);
    for now in around(since + SHUTDOWN_GRACE) {
        trial.sleeps_after(now);
    }
}

#[test]
fn a_driver_that_waits_for_clients_to_come_back_sleeps() {
    let mut trial = Trial::new("back");
    for client in 0..2_u8 {
        let key = Identity::from_secret([client; 32]).public();
        let name = format!("client-{client}");
        let request = EnrolRequest { name, samples: 10, ..EnrolRequest::default() };
        assert!(trial.driver.enrol(&request, key).unwrap().is_ok());
    }
    let (_, _heard) = trial.driver.watchers.insert(0, Announcement::default());
    let back = trial.driver.reconnect_deadline.unwrap();
    trial.driver.phase = Phase::Idle { until: Instant::now() };
    assert!(trial.driver.may_begin());
    for now in around(back).take_while(|&now| now < back) {
        trial.sleeps_after(now);
        assert!(matches!(trial.driver.phase, Phase::Idle { .. }), "one is missing");
    }
    trial.sleeps_after(back);
    assert!(matches!(trial.driver.phase, Phase::Joining(_)), "it is waited for long enough");
}

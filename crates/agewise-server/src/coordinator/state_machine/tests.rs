//! The driver by itself, at instants that are made up.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure here is a failed test")]

use super::round::Member;
use super::{Driver, HANG_UP_GRACE, POLL_INTERVAL, Phase, RESUME_GRACE, SHUTDOWN_GRACE};
use crate::coordinator::error::CoordinatorError;
use crate::coordinator::shared::Shared;
use crate::coordinator::startup::{StartOptions, prepare};
use crate::coordinator::storage::ledger::{
    Ledger, NewJoin, Outcome, ReportRow, RoundEnd, RoundOutcome, RoundRow,
};
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

    fn enrol(&mut self, client: u8) {
        let key = Identity::from_secret([client; 32]).public();
        let name = format!("client-{client}");
        let request = EnrolRequest { name, samples: 10, ..EnrolRequest::default() };
        assert!(self.driver.enrol(&request, key).unwrap().is_ok());
    }

    /// An operator asks for the first model.
    fn ask_rollback(&self) {
        let mut other = Ledger::open(&self.folder.join("ledger.sqlite")).unwrap();
        other.ask_rollback(0, 0).unwrap();
        other.commit().unwrap();
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

fn row(round: u64) -> RoundRow {
    RoundRow {
        round,
        settings: 0,
        is_joining: false,
        interval: 1.0,
        clients: 1,
        seed: None,
        model: 0,
        began: 0,
        available: 1,
        forced: false,
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
        trial.enrol(client);
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

#[test]
fn a_rollback_whose_commit_fails_is_done_again() {
    let mut trial = Trial::new("rollback-again");
    trial.ask_rollback();
    let driver = &mut trial.driver;
    driver.refresh().unwrap();
    assert_eq!(driver.deps.ledger.rollbacks().unwrap().len(), 1);
    driver.begin_again(&CoordinatorError::Corrupt("the disk is full".to_string()));
    assert_eq!(driver.deps.ledger.rollbacks().unwrap(), []);
    driver.work(Vec::new()).unwrap();
    assert_eq!(driver.deps.ledger.rollbacks().unwrap().len(), 1);
    let told = driver.warnings.iter().filter(|warning| warning.contains("went on with model 0"));
    assert_eq!(told.count(), 1);
}

#[test]
fn a_rollback_and_other_training_begin_the_bound_on_norms_again() {
    let mut trial = Trial::new("norms");
    trial.enrol(0);
    let ledger = &mut trial.driver.deps.ledger;
    let row = row(0);
    ledger.begin_round(&row, None, std::iter::empty()).unwrap();
    ledger.join(0, 0, &NewJoin::invited(0, 1)).unwrap();
    let report = ReportRow { samples: 10, loss: 1.0, seconds: 1.0, norm: 3.0, sha256: vec![0; 32] };
    ledger.accept(0, 0, &report).unwrap();
    assert_eq!(ledger.last_norms(1, 0, 9).unwrap(), [3.0]);
    assert_eq!(ledger.last_norms(1, 1, 9).unwrap(), [0.0; 0], "it was trained otherwise");
    ledger.commit().unwrap();

    let driver = &mut trial.driver;
    driver.norms.observe(3.0);
    let mut other = Ledger::open(&trial.folder.join("ledger.sqlite")).unwrap();
    other.ask_rollback(0, 0).unwrap();
    other.roll_back_to(0, 1).unwrap();
    assert_eq!(other.last_norms(1, 0, 9).unwrap(), [0.0; 0], "the model was set aside");
    drop(other);
    trial.ask_rollback();
    let driver = &mut trial.driver;
    driver.refresh().unwrap();
    assert_eq!(driver.norms.among(&[]), None);
}

#[test]
fn a_member_that_hangs_up_has_time_to_come_back() {
    let mut trial = Trial::new("hang-up");
    for client in 0..2 {
        trial.enrol(client);
    }
    let driver = &mut trial.driver;
    let now = Instant::now();
    driver.reconnect_deadline = None;
    let (token, _heard) = driver.watchers.insert(0, Announcement::default());
    let (_, _also) = driver.watchers.insert(1, Announcement::default());
    driver.watchers.end_stream(0, token, now);
    assert!(!driver.is_gone(0, now));
    assert!(driver.is_gone(0, now + HANG_UP_GRACE), "also as long as another one is there");
    assert!(!driver.is_gone(1, now + HANG_UP_GRACE));
    let (_, _again) = driver.watchers.insert(0, Announcement::default());
    assert!(!driver.is_gone(0, now + HANG_UP_GRACE), "it came back");
    // One that has not been seen since the start.
    let until = driver.resume_deadline.unwrap();
    assert!(until <= now + RESUME_GRACE);
    assert!(!driver.is_gone(2, now) && driver.is_gone(2, until));
}

#[test]
fn a_round_that_is_given_up_fails_nobody_and_goes_on_as_it_was_announced() {
    let mut trial = Trial::new("given-up");
    trial.enrol(0);
    let driver = &mut trial.driver;
    driver.begin_round(Instant::now()).unwrap();
    driver.deps.ledger.join(0, 0, &NewJoin::invited(0, 1)).unwrap();
    driver.deps.ledger.commit().unwrap();

    // Started again with other settings in the middle of the round.
    let mut params = driver.deps.config.params.clone();
    params.round.suspend_after = 1;
    let options =
        StartOptions { threads: Threads::ONE, resume: true, run: None, skips_verification: false };
    let shared = Arc::new(Shared::new(trial.folder.join("ledger.sqlite")));
    let task = Arc::new(Numbers::new(1));
    let again = prepare(params.check().unwrap(), task, options, shared, Arc::new(|| 0));
    trial.driver = again.unwrap().0;
    let round = trial.driver.phase.round().unwrap();
    assert_eq!((round.suspend_after, round.counts_failures), (8, true));
    assert_eq!(round.members.get(&0), Some(&Member::invited(0, 1)));

    trial.ask_rollback();
    let driver = &mut trial.driver;
    driver.work(Vec::new()).unwrap();
    let (outcome, _) = driver.deps.ledger.outcome(0, 0).unwrap().unwrap();
    assert_eq!(outcome, Outcome::Surplus);
    assert_eq!(driver.selection.failures(0).in_a_row(), 0);
}

#[test]
fn a_model_is_not_compared_with_one_that_a_rollback_has_set_aside() {
    let mut trial = Trial::new("evaluation");
    let ledger = &mut trial.driver.deps.ledger;
    for round in 0..3 {
        ledger.begin_round(&row(round), None, std::iter::empty()).unwrap();
        let end = RoundEnd {
            round,
            outcome: RoundOutcome::Committed,
            seconds: 0.0,
            loss: Some(round as f64),
            accuracy: None,
            weights: Vec::new(),
            unreported: Vec::new(),
            failures: Vec::new(),
            model: None,
            note: None,
        };
        ledger.end_round(&end).unwrap();
    }
    assert_eq!(ledger.last_evaluation(3).unwrap(), Some((2.0, None)));
    ledger.ask_rollback(1, 0).unwrap();
    assert_eq!(ledger.last_evaluation(3).unwrap(), Some((2.0, None)), "not done yet");
    ledger.roll_back_to(1, 3).unwrap();
    assert_eq!(ledger.last_evaluation(4).unwrap(), Some((0.0, None)));
}

//! The driver: one thread that owns the round, the ledger and the model, and answers one question after the other.
//!
//! What it has in memory follows from the ledger. It executes the commands that are waiting, commits once, and only then sends replies and
//! announcements; if the commit fails, no promise was made, and the driver begins again from the ledger.
//!
//! Deadlines are by a clock that does not jump ([`Instant`]); the time of day is written down for people and decides nothing.

mod aggregating;
mod announcements;
mod enrolment;
mod idle;
mod joining;
mod model_check;
mod pace;
mod recovery;
mod replies;
mod rollback;
pub(crate) mod round;
mod suspension;
#[cfg(test)]
mod tests;
mod training;
mod watchers;

pub(crate) use recovery::{params_of, read_settings};

use super::auth::Authenticator;
use super::command::Command;
use super::error::CoordinatorError;
use super::selection::Selection;
use super::shared::{LiveStatus, Shared};
use super::storage::ledger::Ledger;
use super::storage::models::{Global, ModelStore};
use super::storage::sketches::Sketches;
use super::uploads::UpdateStore;
use crate::config::CoordinatorConfig;
use crate::crypto::seed_chain::{RoundSeed, SeedChains, narrow};
use crate::protocol::{Commitment, ParticipationRule, State};
use agewise_core::{Calibrator, Seed};
use agewise_train::aggregation::{Aggregator, NormBound};
use agewise_train::{Task, Threads};
use pace::Pace;
use round::{ActiveRound, Joining, RoundState, Training};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use watchers::Watchers;

/// The most questions that are answered with one commit.
const LARGEST_BATCH: usize = 4_096;
/// How long to wait after something went wrong with the disk.
const RETRY: Duration = Duration::from_millis(500);
/// No version of the ledger: as if another program had written to it.
const NEVER_READ: i64 = -1;
/// How long it takes at most until the driver notices that an operator has written to the ledger.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// How long the end of a run is announced before the coordinator leaves, unless everyone has heard it.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);
/// After a start, how long to wait for clients to come back before the next round goes on with those that are there.
const RECONNECT_GRACE: Duration = Duration::from_secs(10);
/// After a start in the middle of a round, how long its members are waited for: longer than a client pauses between two tries (30 s).
const RESUME_GRACE: Duration = Duration::from_secs(35);
/// How long a member whose stream has ended is waited for: it tries again after a moment.
const HANG_UP_GRACE: Duration = Duration::from_secs(3);

/// Where the run stands.
#[derive(Debug)]
pub(crate) enum Phase {
    /// Between rounds; the next one begins at this instant, if enough clients are here.
    Idle {
        until: Instant,
    },
    Joining(ActiveRound<Joining>),
    Training(ActiveRound<Training>),
    /// All rounds are over, since this instant.
    Finished {
        since: Instant,
    },
}

impl Phase {
    /// The round under way.
    fn round(&self) -> Option<&RoundState> {
        match self {
            Self::Joining(round) => Some(round),
            Self::Training(round) => Some(round),
            Self::Idle { .. } | Self::Finished { .. } => None,
        }
    }

    fn round_mut(&mut self) -> Option<&mut RoundState> {
        match self {
            Self::Joining(round) => Some(round),
            Self::Training(round) => Some(round),
            Self::Idle { .. } | Self::Finished { .. } => None,
        }
    }
}

/// Which clients have to be notified of a change.
#[derive(Debug, Default)]
struct PendingNotifications {
    everyone: bool,
    clients: Vec<u32>,
}

/// A time of day, in Unix milliseconds: for people only.
pub(crate) type WallClock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// Whether joining is over in a round of this number.
pub(crate) type EndJoining = Arc<dyn Fn(u64) -> bool + Send + Sync>;

/// Everything that a driver is made from.
pub(crate) struct DriverDeps {
    pub(crate) config: CoordinatorConfig,
    pub(crate) task: Arc<dyn Task>,
    /// For evaluation.
    pub(crate) threads: Threads,
    pub(crate) ledger: Ledger,
    pub(crate) models: ModelStore,
    pub(crate) updates: UpdateStore,
    pub(crate) run: Vec<u8>,
    pub(crate) auth: Arc<Authenticator>,
    /// The secret from which the seeds of proven draws are derived.
    pub(crate) secret: Option<[u8; 32]>,
    /// The number of the settings in the ledger.
    pub(crate) settings: u32,
    /// The first of them under which clients train as they do now.
    pub(crate) same_training_since: u32,
    /// Whether the draws and ages that clients claim are accepted without a check.
    pub(crate) skips_verification: bool,
    /// Where the policy looks at sketches of updates.
    pub(crate) sketches: Option<Sketches>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) wall_clock: WallClock,
    /// Ends joining before its time, in tests.
    pub(crate) end_joining: Option<EndJoining>,
}

impl DriverDeps {
    /// Whether clients join without being checked. A program without the feature `test-support` has no code for it.
    fn skips_verification(&self) -> bool {
        cfg!(feature = "test-support") && self.skips_verification
    }
}

/// The thread that decides, with all state of the run.
pub(crate) struct Driver {
    deps: DriverDeps,
    selection: Selection,
    calibrator: Option<Calibrator>,
    global: Global,
    aggregator: Box<dyn Aggregator>,
    /// The norms of the last accepted updates, of rounds that are over.
    norms: NormBound,
    /// How long clients take to report, since the start.
    pace: Pace,
    phase: Phase,
    /// The seeds of the rounds, where draws are proven.
    seeds: Option<SeedChains>,
    /// The commitment to them that clients are told.
    commitment: Option<Commitment>,
    /// The interval of the last round that was announced.
    announced_interval: f64,
    /// Changes when another program has written to the ledger.
    ledger_version: i64,
    /// Memory may differ from the ledger: it has to be loaded again before the next reply.
    is_stale: bool,
    /// What was tried last could not be written.
    is_failing: bool,
    watchers: Watchers,
    /// How clients decide, for so many of them and this interval.
    rule: Option<((u32, f64), Arc<ParticipationRule>)>,
    /// Answers and announcements that wait for the commit.
    outbox: Vec<Box<dyn FnOnce() + Send>>,
    notifications: PendingNotifications,
    warnings: Vec<String>,
    /// What was refused in the last rounds.
    refused: Vec<String>,
    /// Clients that have failed too often, with the reasons.
    suspended: BTreeMap<u32, String>,
    /// Rounds since the last one that made a model.
    without_model: u64,
    /// Models were added: old ones can go.
    prune: bool,
    /// Since when the coordinator wants to stop.
    draining: Option<Instant>,
    /// The clients that were told that the run is over.
    notified_end: HashSet<u32>,
    /// Until when clients that were there before a start are waited for.
    reconnect_deadline: Option<Instant>,
    /// Until when members of a round that went on after a start are waited for, if they have not come back yet.
    resume_deadline: Option<Instant>,
}

impl Driver {
    /// Lets joining also end when this says so.
    pub(crate) fn end_joining_when(&mut self, is_over: Option<EndJoining>) {
        self.deps.end_joining = is_over;
    }

    /// Authenticates calls.
    pub(crate) fn auth(&self) -> Arc<Authenticator> {
        self.deps.auth.clone()
    }

    /// Answers until the run is over, or the service is gone, or it was told to stop.
    pub(crate) fn run(mut self, commands: &Receiver<Command>) {
        loop {
            let now = Instant::now();
            let wait = self.next_deadline(now).saturating_duration_since(now);
            let wait = if self.is_failing { wait.max(RETRY) } else { wait };
            let first = match commands.recv_timeout(wait) {
                Ok(command) => Some(command),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let waiting = commands.try_iter().take(LARGEST_BATCH);
            let batch: Vec<Command> = first.into_iter().chain(waiting).collect();
            match self.work(batch) {
                Ok(()) => {
                    self.is_failing = false;
                    self.deps.shared.health.beat(None);
                }
                Err(error) => {
                    if !self.is_failing {
                        tracing::error!(%error, "the disk or the ledger failed, retrying");
                    }
                    self.deps.shared.metrics.storage_failures.inc();
                    self.deps.shared.health.beat(Some(error.to_string()));
                    self.is_failing = true;
                    self.begin_again(&error);
                }
            }
            self.publish();
            if self.is_over(Instant::now()) {
                return;
            }
        }
    }

    /// Executes these commands and what is due, in one transaction.
    fn work(&mut self, batch: Vec<Command>) -> Result<(), CoordinatorError> {
        // These commands promise nothing, so they must not be lost with a commit that fails.
        let (unconditional, questions): (Vec<Command>, Vec<Command>) = batch
            .into_iter()
            .partition(|command| matches!(command, Command::Unwatch { .. } | Command::Drain));
        for command in unconditional {
            self.answer(command, Instant::now())?;
        }
        if self.is_stale {
            self.reload()?;
            self.is_stale = false;
            self.notifications.everyone = true;
        }
        self.refresh()?;
        if self.is_failing {
            // Whether the ledger can be written again is known only by writing to it.
            self.deps.ledger.set_fact("last-failure", &(self.deps.wall_clock)().to_le_bytes())?;
            self.deps.ledger.commit()?;
        }
        for command in questions {
            self.answer(command, Instant::now())?;
        }
        while self.step(Instant::now())? {}
        self.note_refused()?;
        self.deps.ledger.commit()?;
        for send in std::mem::take(&mut self.outbox) {
            send();
        }
        self.notify();
        if std::mem::take(&mut self.prune) {
            self.deps.models.prune(&mut self.deps.ledger)?;
            self.deps.ledger.commit()?;
        }
        Ok(())
    }

    /// Does the next thing that is due; `false` if nothing is.
    pub(super) fn step(&mut self, now: Instant) -> Result<bool, CoordinatorError> {
        // A round that is over is taken out, so that it can go through its phases by value.
        let phase = std::mem::replace(&mut self.phase, Phase::Idle { until: now });
        match phase {
            Phase::Idle { until } if self.is_due(until, now) => {
                self.begin_round(now)?;
                Ok(true)
            }
            Phase::Joining(round) if self.joining_is_over(&round, now) => {
                self.close_joining(round, now)?;
                Ok(true)
            }
            Phase::Training(round) if self.reports_are_over(&round, now) => {
                self.end_round(&round.close(), now)?;
                Ok(true)
            }
            unchanged => {
                self.phase = unchanged;
                Ok(false)
            }
        }
    }

    /// Drops all state that is not in the ledger. A client that waits for a reply sees its call fail, and tries again.
    fn begin_again(&mut self, error: &CoordinatorError) {
        self.outbox.clear();
        // Subscriptions that were not confirmed are dropped.
        self.watchers.retain_open(Instant::now());
        self.deps.ledger.roll_back();
        // What an operator asked for may have been done in what was lost: it is looked for again.
        self.ledger_version = NEVER_READ;
        self.is_stale = true;
        match self.reload() {
            Ok(()) => {
                self.is_stale = false;
                self.notifications.everyone = true;
            }
            // No call is answered before it was tried again.
            Err(again) => tracing::error!(%error, %again, "cannot read the ledger"),
        }
    }

    /// When something happens by itself.
    fn next_deadline(&self, now: Instant) -> Instant {
        let far = now + POLL_INTERVAL;
        let drained = self.draining.map_or(far, |since| since + self.deps.config.drain_window());
        // What nothing is done about must not be waited for: a deadline that has passed would wake the thread again and again.
        let due = match &self.phase {
            Phase::Idle { until } if self.may_begin() => self.earliest_begin(*until),
            Phase::Joining(round) => round.join_until.min(drained),
            Phase::Training(round) => self.report_deadline(round, now).min(drained),
            Phase::Finished { since } if now < *since + SHUTDOWN_GRACE => *since + SHUTDOWN_GRACE,
            Phase::Idle { .. } | Phase::Finished { .. } => far,
        };
        due.min(far).max(now)
    }

    /// Whether the thread can end.
    fn is_over(&self, now: Instant) -> bool {
        match (&self.phase, self.draining) {
            (Phase::Finished { since }, _) => {
                // A client that was disconnected for a moment has to be told, too.
                let all_know = self.notified_end.len() >= self.known_clients() as usize;
                let heard =
                    (all_know && self.watchers.len() == 0) || now >= *since + SHUTDOWN_GRACE;
                heard && (self.draining.is_some() || !self.deps.config.params.serve_after_end)
            }
            (Phase::Idle { .. }, Some(_)) => true,
            (Phase::Joining(round), Some(since)) => {
                round.selected() == 0 || now >= since + self.deps.config.drain_window()
            }
            (Phase::Training(_), Some(since)) => now >= since + self.deps.config.drain_window(),
            (_, None) => false,
        }
    }

    /// The state of the run for status requests.
    fn state(&self) -> State {
        match &self.phase {
            Phase::Finished { .. } => State::Finished,
            _ if self.draining.is_some() => State::Draining,
            _ => self.announced_state(),
        }
    }

    /// The state that clients are told: a round goes on as it was announced, also if the coordinator is about to stop.
    fn announced_state(&self) -> State {
        match &self.phase {
            Phase::Idle { .. } if self.draining.is_some() => State::Draining,
            Phase::Idle { .. } => State::Waiting,
            Phase::Joining(_) => State::Joining,
            Phase::Training(_) => State::Training,
            Phase::Finished { .. } => State::Finished,
        }
    }

    /// The round that is played, or the next one.
    fn round_number(&self) -> u64 {
        self.selection.round()
    }

    /// Clients that may come.
    fn known_clients(&self) -> u32 {
        self.selection.clients().saturating_sub(self.deps.auth.revoked())
    }

    /// The interval of the age laws.
    fn interval(&self) -> f64 {
        let config = &self.deps.config.params.round;
        // A client that was revoked does not come back.
        let known = self.selection.clients().max(config.clients as u32);
        let believed = f64::from(known.saturating_sub(self.deps.auth.revoked())).max(1.0);
        let ratio = believed / config.cohort as f64;
        self.calibrator.as_ref().map_or(ratio, Calibrator::interval)
    }

    /// The seed of the coordinator's own random numbers in a round.
    fn core_seed(&self, seed: Option<&RoundSeed>) -> Seed {
        seed.map_or(self.deps.config.seed(), narrow)
    }

    /// Publishes the state of the run for the page and for metrics.
    fn publish(&self) {
        let (selected, reported) = self.cohort_so_far();
        self.publish_as(self.state(), selected, reported);
    }

    /// How many have joined the round under way, and how many have reported.
    fn cohort_so_far(&self) -> (usize, usize) {
        self.phase.round().map_or((0, 0), |round| (round.selected(), round.reported()))
    }

    fn publish_as(&self, state: State, selected: usize, reported: usize) {
        let params = &self.deps.config.params;
        let live = LiveStatus {
            state,
            round: self.round_number(),
            rounds: params.round.rounds,
            policy: self.deps.config.variant.name().to_string(),
            enrolled: self.selection.clients(),
            connected: self.watchers.len() as u32,
            target: params.round.cohort as u32,
            selected: selected as u32,
            reported: reported as u32,
            interval: self.interval(),
            without_model: self.without_model,
            warnings: self.all_warnings(),
        };
        self.deps.shared.publish(live);
    }
}

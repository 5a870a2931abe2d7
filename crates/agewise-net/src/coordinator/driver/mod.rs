//! The driver: one thread that owns the round, the ledger and the model, and answers one question after the other.
//!
//! What it has in memory follows from the ledger. It handles the questions that are waiting, commits once, and only then sends answers and
//! announcements; if the commit fails, nobody was promised anything, and the driver begins again from the ledger.
//!
//! Deadlines are by a clock that does not jump ([`Instant`]); the time of day is written down for people and decides nothing.

mod access;
mod answers;
mod recover;
mod rounds;

pub(crate) use recover::read_settings;

use super::command::Command;
use super::gate::Gate;
use super::intake::Spool;
use super::ledger::Ledger;
use super::models::{Global, ModelStore};
use super::population::Population;
use super::round::{Course, Joining, Round, Training};
use super::shared::{Live, Shared};
use super::sketches::Sketches;
use super::trouble::Trouble;
use crate::config::CoordinatorConfig;
use crate::honesty::seeds::SeedChains;
use crate::model::GlobalModel;
use crate::proto::{Announcement, Commitment, State};
use agewise_core::Calibrator;
use agewise_learn::aggregate::Server;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The most questions that are answered with one commit.
const LARGEST_BATCH: usize = 4_096;
/// How long to wait after something went wrong with the disk.
const RETRY: Duration = Duration::from_millis(500);
/// How long it takes at most until something is noticed that nobody tells: that an operator has written to the ledger.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// How long the end of a run is announced before the coordinator leaves, unless everyone has heard it.
const FAREWELL: Duration = Duration::from_secs(5);
/// After a start, how long to wait for clients to come back before the next round goes on with those that are there.
const REUNION: Duration = Duration::from_secs(10);

/// Where the run stands.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Between rounds; the next one begins at this instant, if enough clients are here.
    Waiting {
        until: Instant,
    },
    Joining(Round<Joining>),
    Training(Round<Training>),
    /// All rounds are over, since this instant.
    Finished {
        since: Instant,
    },
}

impl Stage {
    /// The round under way.
    fn course(&self) -> Option<&Course> {
        match self {
            Self::Joining(round) => Some(round),
            Self::Training(round) => Some(round),
            Self::Waiting { .. } | Self::Finished { .. } => None,
        }
    }

    fn course_mut(&mut self) -> Option<&mut Course> {
        match self {
            Self::Joining(round) => Some(round),
            Self::Training(round) => Some(round),
            Self::Waiting { .. } | Self::Finished { .. } => None,
        }
    }
}

/// A client that listens.
#[derive(Debug)]
struct Watcher {
    token: u64,
    sender: watch::Sender<Announcement>,
}

/// Who has to hear that something changed.
#[derive(Debug, Default)]
struct News {
    everyone: bool,
    clients: Vec<u32>,
}

/// A time of day, in Unix milliseconds: for people only.
pub(crate) type WallClock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// Everything that a driver is made from.
pub(crate) struct Parts {
    pub(crate) config: CoordinatorConfig,
    pub(crate) model: Box<dyn GlobalModel>,
    pub(crate) ledger: Ledger,
    pub(crate) models: ModelStore,
    pub(crate) spool: Spool,
    pub(crate) run: Vec<u8>,
    pub(crate) gate: Arc<Gate>,
    /// What the seeds of proven lots follow from.
    pub(crate) secret: Option<[u8; 32]>,
    /// The number of the settings in the ledger.
    pub(crate) settings: u32,
    /// Whether clients are believed about lots and ages.
    pub(crate) is_gullible: bool,
    /// Where the policy looks at sketches of updates.
    pub(crate) sketches: Option<Sketches>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) wall_clock: WallClock,
}

/// The one who decides.
pub(crate) struct Driver {
    parts: Parts,
    population: Population,
    calibrator: Option<Calibrator>,
    global: Global,
    server: Server,
    stage: Stage,
    /// The seeds of the rounds, where lots are proven.
    seeds: Option<SeedChains>,
    /// What clients are told about them.
    commitment: Option<Commitment>,
    /// The interval of the last round that was announced.
    announced_interval: f64,
    /// Changes when somebody else has written to the ledger.
    ledger_version: i64,
    /// What is in memory may not be in the ledger: it has to be read again before anything is answered.
    is_stale: bool,
    watchers: HashMap<u32, Watcher>,
    next_token: u64,
    /// Answers and announcements that wait for the commit.
    outbox: Vec<Box<dyn FnOnce() + Send>>,
    news: News,
    warnings: Vec<String>,
    /// Models were added: old ones can go.
    prune: bool,
    /// Since when the coordinator wants to stop.
    draining: Option<Instant>,
    /// Who has been told that the run is over.
    told_end: HashSet<u32>,
    /// Until when clients that were there before a start are waited for.
    reunion: Option<Instant>,
}

impl Driver {
    /// Who may call.
    pub(crate) fn gate(&self) -> Arc<Gate> {
        self.parts.gate.clone()
    }

    /// Answers until the run is over, or nobody is there to ask, or it was told to stop.
    pub(crate) fn run(mut self, commands: &Receiver<Command>) {
        let mut failed = false;
        loop {
            let now = Instant::now();
            let wait = self.next_deadline(now).saturating_duration_since(now);
            let wait = if failed { wait.max(RETRY) } else { wait };
            let first = match commands.recv_timeout(wait) {
                Ok(command) => Some(command),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let waiting = commands.try_iter().take(LARGEST_BATCH);
            let batch: Vec<Command> = first.into_iter().chain(waiting).collect();
            match self.work(batch) {
                Ok(()) => failed = false,
                Err(trouble) => {
                    if !failed {
                        tracing::error!(%trouble, "cannot go on, trying again");
                    }
                    self.parts.shared.metrics.troubles.inc();
                    failed = true;
                    self.begin_again(&trouble);
                }
            }
            self.publish();
            if self.is_over(Instant::now()) {
                return;
            }
        }
    }

    /// Answers these questions and does what is due; all of it, or nothing.
    fn work(&mut self, batch: Vec<Command>) -> Result<(), Trouble> {
        // What promises nothing must not be lost with a commit that fails.
        let (unconditional, questions): (Vec<Command>, Vec<Command>) = batch
            .into_iter()
            .partition(|command| matches!(command, Command::Unwatch { .. } | Command::Drain));
        for command in unconditional {
            self.answer(command, Instant::now())?;
        }
        if self.is_stale {
            self.reload()?;
            self.is_stale = false;
            self.news.everyone = true;
        }
        self.refresh()?;
        for command in questions {
            self.answer(command, Instant::now())?;
        }
        while self.step(Instant::now())? {}
        self.note_refused()?;
        self.parts.ledger.commit()?;
        for send in std::mem::take(&mut self.outbox) {
            send();
        }
        self.spread_news();
        if std::mem::take(&mut self.prune) {
            self.parts.models.prune(&mut self.parts.ledger)?;
            self.parts.ledger.commit()?;
        }
        Ok(())
    }

    /// Forgets everything that is not in the ledger. Who waits for an answer sees its connection fail, and asks again.
    fn begin_again(&mut self, trouble: &Trouble) {
        self.outbox.clear();
        // Who wanted to listen, and got no answer, does not.
        self.watchers.retain(|_, watcher| !watcher.sender.is_closed());
        self.parts.ledger.roll_back();
        self.is_stale = true;
        match self.reload() {
            Ok(()) => {
                self.is_stale = false;
                self.news.everyone = true;
            }
            // Nobody is answered before it was tried again.
            Err(again) => tracing::error!(%trouble, %again, "cannot read the ledger"),
        }
    }

    /// When something happens by itself.
    fn next_deadline(&self, now: Instant) -> Instant {
        let far = now + LOOK_AGAIN;
        let due = match &self.stage {
            Stage::Waiting { until } if self.may_begin() => *until,
            Stage::Waiting { .. } => far,
            Stage::Joining(round) => round.join_until,
            Stage::Training(round) => round.report_until,
            Stage::Finished { since } => *since + FAREWELL,
        };
        let drained = self.draining.map_or(far, |since| since + self.parts.config.drain_window());
        due.min(drained).min(far).max(now)
    }

    /// Whether the thread can end.
    fn is_over(&self, now: Instant) -> bool {
        match (&self.stage, self.draining) {
            (Stage::Finished { since }, _) => {
                // Who was away for a moment shall hear it, too.
                let all_know = self.told_end.len() >= self.known_clients() as usize;
                let heard = (all_know && self.watchers.is_empty()) || now >= *since + FAREWELL;
                heard && (self.draining.is_some() || !self.parts.config.params.serve_after_end)
            }
            (Stage::Waiting { .. }, Some(_)) => true,
            (Stage::Joining(round), Some(since)) => {
                round.selected() == 0 || now >= since + self.parts.config.drain_window()
            }
            (Stage::Training(_), Some(since)) => now >= since + self.parts.config.drain_window(),
            (_, None) => false,
        }
    }

    /// Where the run stands, for those who look at it.
    fn state(&self) -> State {
        match &self.stage {
            Stage::Finished { .. } => State::Finished,
            _ if self.draining.is_some() => State::Draining,
            _ => self.announced_state(),
        }
    }

    /// What clients are told: a round goes on as it was announced, also if the coordinator is about to stop.
    fn announced_state(&self) -> State {
        match &self.stage {
            Stage::Waiting { .. } if self.draining.is_some() => State::Draining,
            Stage::Waiting { .. } => State::Waiting,
            Stage::Joining(_) => State::Joining,
            Stage::Training(_) => State::Training,
            Stage::Finished { .. } => State::Finished,
        }
    }

    /// The round that is played, or the next one.
    fn round_number(&self) -> u64 {
        self.population.ages().round()
    }

    /// Clients that may come.
    fn known_clients(&self) -> u32 {
        self.population.len().saturating_sub(self.parts.gate.revoked())
    }

    /// The interval of the age laws.
    fn interval(&self) -> f64 {
        let config = &self.parts.config.params.round;
        // Who was revoked does not come any more.
        let known = self.population.len().max(config.clients as u32);
        let believed = f64::from(known.saturating_sub(self.parts.gate.revoked())).max(1.0);
        let ratio = believed / config.cohort as f64;
        self.calibrator.as_ref().map_or(ratio, Calibrator::interval)
    }

    /// Shows where the run stands to everyone who looks without asking.
    fn publish(&self) {
        let (selected, reported) = self.cohort_so_far();
        self.publish_as(self.state(), selected, reported);
    }

    /// How many have joined the round under way, and how many have reported.
    fn cohort_so_far(&self) -> (usize, usize) {
        self.stage.course().map_or((0, 0), |course| (course.selected(), course.reported()))
    }

    fn publish_as(&self, state: State, selected: usize, reported: usize) {
        let params = &self.parts.config.params;
        let live = Live {
            state,
            round: self.round_number(),
            rounds: params.round.rounds,
            policy: self.parts.config.policy.to_string(),
            enrolled: self.population.len(),
            connected: self.watchers.len() as u32,
            target: params.round.cohort as u32,
            selected: selected as u32,
            reported: reported as u32,
            interval: self.interval(),
            warnings: self.warnings.clone(),
        };
        self.parts.shared.publish(live);
    }
}

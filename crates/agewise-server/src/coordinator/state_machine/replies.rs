//! Replies to the commands of clients and operators.

use super::round::Member;
use super::{Driver, Phase, RECONNECT_GRACE};
use crate::config::DrawSource;
use crate::coordinator::command::{Command, Subscription};
use crate::coordinator::error::CoordinatorError;
use crate::coordinator::refusal::{CallError, Reason, Refusal};
use crate::coordinator::storage::ledger::RoundOutcome;
use crate::coordinator::storage::models::Global;
use crate::native;
use crate::protocol::{
    self, AgeCount, FetchModelRequest, RoundSummary, StatusReply, TaskSpec, WatchRequest,
    max_age_to_wire,
};
use agewise_core::Error;
use data_encoding::HEXLOWER;
use std::time::Instant;
use tokio::sync::oneshot;

/// The most samples that a client may claim: a float counts exactly up to here.
pub(super) const MOST_SAMPLES: u64 = 1 << 53;
/// How often a client may fetch the model of a round: connections break now and then.
const MOST_FETCHES: u32 = 16;
/// The rounds that a status is about.
pub(super) const STATUS_ROUNDS: u32 = 20;

/// The outer error is the coordinator's, the inner one the client's.
pub(super) type Answer<T> = Result<Result<T, CallError>, CoordinatorError>;

impl Driver {
    /// Executes one command.
    pub(super) fn answer(
        &mut self,
        command: Command,
        now: Instant,
    ) -> Result<(), CoordinatorError> {
        match command {
            Command::Enrol { request, key, reply } => {
                let answer = self.enrol(&request, key)?;
                self.send(reply, answer);
            }
            Command::Watch { request, reply } => {
                let answer = self.watch(&request, now);
                self.send(reply, answer);
            }
            Command::Unwatch { client, token } => {
                self.watchers.end_stream(client, token, now);
                if self.watchers.len() == 0 && self.phase.round().is_some() {
                    // All of them at once: more likely the network than each of them. They may come back as after a start.
                    self.reconnect_deadline = Some(now + RECONNECT_GRACE);
                }
            }
            Command::Join { request, drawn, reply } => {
                let answer = self.join(&request, drawn, now)?;
                self.send(reply, answer);
            }
            Command::Fetch { request, reply } => {
                let answer = self.fetch(&request);
                self.send(reply, answer);
            }
            Command::BeginReport { header, reply } => {
                let answer = self.begin_report(&header, now)?;
                self.send(reply, answer);
            }
            Command::EndReport { header, taken, reply } => {
                let answer = self.end_report(&header, taken, now)?;
                self.send(reply, answer);
            }
            Command::Status { reply } => {
                let answer = self.status()?;
                self.send(reply, answer);
            }
            Command::RefreshAccess { reply } => self.send(reply, ()),
            Command::Revoke { who, reply } => {
                let answer = self.revoke(&who)?;
                self.send(reply, answer);
            }
            Command::Drain => {
                if self.draining.is_none() {
                    tracing::info!("draining");
                    self.draining = Some(now);
                }
            }
        }
        Ok(())
    }

    /// Sends an answer after the commit.
    fn send<T: Send + 'static>(&mut self, reply: oneshot::Sender<T>, answer: T) {
        // The receiver may have hung up.
        self.outbox.push(Box::new(move || drop(reply.send(answer))));
    }

    /// The task that clients train.
    pub(super) fn task_spec(&self) -> Result<TaskSpec, CoordinatorError> {
        let config = &self.deps.config;
        let training = toml::to_string(config.training.params())?;
        let mut spec = TaskSpec {
            parameters: self.deps.task.parameters() as u64,
            training,
            policy: config.policy_text(),
            coordinator_selects: !config.clients_decide,
            max_age: max_age_to_wire(config.params.round.max_age),
            draws: match config.params.round.draws {
                DrawSource::Proven => protocol::DrawSource::Proven.into(),
                DrawSource::Seeded => protocol::DrawSource::Seeded.into(),
            },
            ..TaskSpec::default()
        };
        native::describe(&*self.deps.task, &mut spec);
        Ok(spec)
    }

    fn watch(&mut self, request: &WatchRequest, now: Instant) -> Result<Subscription, CallError> {
        self.check_client(request.client, &request.run)?;
        let client = request.client;
        if self.watchers.is_listening(client) {
            tracing::warn!(
                client,
                "the client opened a second announcement stream: do two clients share a name?"
            );
            let error = Error::new("stream", client, "a client that does not listen already");
            return Err(CallError::AlreadyWatching(error));
        }
        let (token, announcements) = self.watchers.insert(client, self.announcement(client, now));
        if matches!(self.phase, Phase::Finished { .. }) {
            self.notified_end.insert(client);
        }
        Ok(Subscription { announcements, token })
    }

    pub(super) fn check_client(&self, client: u32, run: &[u8]) -> Result<(), CallError> {
        if run != self.deps.run {
            let expected = format!("{}: enrol again", self.run_name());
            let error = Error::new("run", HEXLOWER.encode(&run[..run.len().min(16)]), expected);
            return Err(CallError::NotEnrolled(error));
        }
        if !self.selection.knows(client) {
            let error = Error::new("client", client, "a client that has enrolled");
            return Err(CallError::NotEnrolled(error));
        }
        // The authenticator has checked this already; since then an operator may have written to the ledger.
        if self.deps.auth.is_revoked(client) {
            let refusal = Refusal::new(Reason::Revoked, "this client was revoked");
            self.deps.auth.note(Some(client), &refusal, None);
            let error = Error::new("revoked", client, "a client that was not revoked");
            return Err(CallError::Revoked(error));
        }
        Ok(())
    }

    pub(super) fn run_name(&self) -> String {
        HEXLOWER.encode(&self.deps.run)
    }

    /// The member of the round under way.
    pub(super) fn member(&self, client: u32) -> Option<&Member> {
        self.phase.round().and_then(|round| round.members.get(&client))
    }

    /// The round since which a client waits; one that has reported in this round waits from the next one on.
    pub(super) fn waiting_since(&self, client: u32) -> i64 {
        let credited = self.member(client).is_some_and(|member| member.report.is_some());
        if credited {
            self.round_number() as i64 + 1
        } else {
            self.selection.ages().waiting_since(client)
        }
    }

    /// Counts a refusal in the ledger and in metrics.
    pub(super) fn refuse(
        &mut self,
        round: u64,
        client: u32,
        refusal: &Refusal,
    ) -> Result<(), CoordinatorError> {
        tracing::debug!(round, client, %refusal, "refused");
        self.deps.shared.metrics.refuse(refusal.reason.name(), 1);
        // A report about a future round must not create rows for that round.
        let round = round.min(self.round_number());
        let Refusal { reason, detail } = refusal;
        self.deps.ledger.refuse(round, i64::from(client), reason.name(), detail, 1)?;
        Ok(())
    }

    fn fetch(&mut self, request: &FetchModelRequest) -> Result<Global, CallError> {
        self.check_client(request.client, &request.run)?;
        let is_now = request.round == self.round_number();
        let round = self.phase.round_mut().filter(|_| is_now);
        let member = round.and_then(|round| round.members.get_mut(&request.client));
        if let Some(member) = member.filter(|member| member.joined) {
            member.fetches += 1;
            if member.fetches > MOST_FETCHES {
                let expected = format!("at most {MOST_FETCHES} times in a round");
                let error = Error::new("fetches", member.fetches, expected);
                return Err(CallError::TooManyFetches(error));
            }
            return Ok(self.global.clone());
        }
        let refusal = Refusal::new(Reason::Cohort, "wants the model of a round that it is not in");
        self.deps.auth.note(Some(request.client), &refusal, None);
        let expected = format!(
            "a round under way ({}) that client {} has joined",
            self.round_number(),
            request.client
        );
        Err(CallError::NotInRound(Error::new("round", request.round, expected)))
    }

    fn status(&self) -> Result<StatusReply, CoordinatorError> {
        let history = self.deps.ledger.history(STATUS_ROUNDS)?.into_iter();
        let (selected, reported) = self.cohort_so_far();
        let params = &self.deps.config.params.round;
        let ages = self.selection.age_counts();
        Ok(StatusReply {
            run: self.deps.run.clone(),
            state: self.state().into(),
            round: self.round_number(),
            rounds: params.rounds,
            policy: self.deps.config.variant.name().to_string(),
            enrolled: self.selection.clients(),
            connected: self.watchers.len() as u32,
            target: params.cohort as u32,
            selected: selected as u32,
            reported: reported as u32,
            interval: self.interval(),
            history: history
                .map(|row| RoundSummary {
                    round: row.round,
                    committed: row.outcome == RoundOutcome::Committed,
                    available: row.available,
                    selected: row.selected,
                    reported: row.reported,
                    late: row.late,
                    refused: row.refused,
                    forced: row.forced,
                    accuracy: row.accuracy,
                    loss: row.loss,
                    seconds: row.seconds,
                    outcome: row.outcome.name().to_string(),
                    note: row.note.unwrap_or_default(),
                })
                .collect(),
            ages: ages.map(|(age, clients)| AgeCount { age, clients }).collect(),
            warnings: {
                let mut all = self.deps.shared.health.stops_the_run(self.state());
                all.append(&mut self.all_warnings());
                all
            },
            sessions_taken_over: self.deps.shared.metrics.sessions_taken_over.get(),
        })
    }
}

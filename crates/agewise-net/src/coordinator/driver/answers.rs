//! What clients ask, and what they are told.

use super::{Driver, Stage, Watcher};
use crate::config::LotSource;
use crate::coordinator::command::{Command, Entrance, Watching};
use crate::coordinator::intake::Expected;
use crate::coordinator::ledger::{NewJoin, Outcome, ReportRow};
use crate::coordinator::models::Global;
use crate::coordinator::refusal::{Reason, Refusal};
use crate::coordinator::round::{Course, Member};
use crate::coordinator::trouble::Trouble;
use crate::hex::hex;
use crate::proto::{
    AgeCount, FetchModelRequest, JoinReply, JoinRequest, Lots, ReportHeader, ReportReply,
    RoundSummary, StatusReply, Task, WatchRequest, join_reply, report_reply,
};
use crate::rule::seeded_lot;
use agewise_core::{Error, Lot};
use std::time::Instant;
use tokio::sync::{oneshot, watch};

/// The most samples that a client may claim: what a float can count.
pub(super) const MOST_SAMPLES: u64 = 1 << 53;
/// How often a client may fetch the model of a round: connections break now and then.
const MOST_FETCHES: u32 = 16;
/// Rounds in a status.
const STATUS_ROUNDS: u32 = 20;

pub(super) type Answer<T> = Result<Result<T, Error>, Trouble>;

impl Driver {
    /// Answers one question.
    pub(super) fn answer(&mut self, command: Command, now: Instant) -> Result<(), Trouble> {
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
                if self.watchers.get(&client).is_some_and(|watcher| watcher.token == token) {
                    self.watchers.remove(&client);
                }
            }
            Command::Join { request, lot, reply } => {
                let answer = self.join(&request, lot, now)?;
                self.send(reply, answer);
            }
            Command::Fetch { request, reply } => {
                let answer = self.fetch(&request);
                self.send(reply, answer);
            }
            Command::BeginReport { header, reply } => {
                let answer = self.begin_report(&header)?;
                self.send(reply, answer);
            }
            Command::EndReport { header, taken, reply } => {
                let answer = self.end_report(&header, taken)?;
                self.send(reply, answer);
            }
            Command::Status { reply } => {
                let answer = self.status()?;
                self.send(reply, answer);
            }
            Command::LookAgain { reply } => self.send(reply, ()),
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
        // Who has hung up does not get it.
        self.outbox.push(Box::new(move || drop(reply.send(answer))));
    }

    /// What clients train.
    pub(super) fn task(&self) -> Result<Task, Trouble> {
        let config = &self.parts.config;
        let training = toml::to_string(config.training.params());
        let training = training.map_err(|error| {
            Trouble::Broken(format!("training: expected settings that can be sent ({error})"))
        })?;
        let mut task = Task {
            parameters: self.parts.model.parameters() as u64,
            training,
            policy: config.policy.to_string(),
            max_age: config.params.round.max_age as u32,
            lots: match config.params.round.lots {
                LotSource::Proven => Lots::Proven.into(),
                LotSource::Seeded => Lots::Seeded.into(),
            },
            ..Task::default()
        };
        self.parts.model.describe(&mut task);
        Ok(task)
    }

    fn watch(&mut self, request: &WatchRequest, now: Instant) -> Result<Watching, Error> {
        self.check_client(request.client, &request.run)?;
        let client = request.client;
        if self.watchers.get(&client).is_some_and(|watcher| !watcher.sender.is_closed()) {
            tracing::warn!(client, "wants to listen twice: do two clients have one name?");
            return Err(Error::new("stream", client, "a client that does not listen already"));
        }
        let token = self.next_token;
        self.next_token += 1;
        let (sender, announcements) = watch::channel(self.announcement(client, now));
        self.watchers.insert(client, Watcher { token, sender });
        if matches!(self.stage, Stage::Finished { .. }) {
            self.told_end.insert(client);
        }
        Ok(Watching { announcements, token })
    }

    fn check_client(&self, client: u32, run: &[u8]) -> Result<(), Error> {
        if run != self.parts.run {
            return Err(Error::new(
                "run",
                hex(&run[..run.len().min(16)]),
                format!("{}: enrol again", self.run_name()),
            ));
        }
        if !self.population.knows(client) {
            return Err(Error::new("client", client, "a client that has enrolled"));
        }
        // The gate has looked already; since then an operator may have written to the ledger.
        if self.parts.gate.is_revoked(client) {
            let refusal = Refusal::new(Reason::Revoked, "this client was revoked");
            self.parts.gate.note(Some(client), &refusal, None);
            return Err(Error::new("revoked", client, "a client that was not revoked"));
        }
        Ok(())
    }

    pub(super) fn run_name(&self) -> String {
        hex(&self.parts.run)
    }

    /// The member of the round under way.
    fn member(&self, client: u32) -> Option<&Member> {
        self.stage.course().and_then(|course| course.members.get(&client))
    }

    /// Since when a client waits; who has reported in this round waits from the next one on.
    pub(super) fn waiting_since(&self, client: u32) -> i64 {
        let credited = self.member(client).is_some_and(|member| member.report.is_some());
        if credited {
            self.round_number() as i64 + 1
        } else {
            self.population.ages().waiting_since(client)
        }
    }

    fn join(&mut self, request: &JoinRequest, lot: Option<Lot>, now: Instant) -> Answer<JoinReply> {
        use join_reply::Outcome as Told;
        let &JoinRequest { client, round, age, .. } = request;
        if let Err(error) = self.check_client(client, &request.run) {
            return Ok(Err(error));
        }
        let mut reply =
            JoinReply { waiting_since: self.waiting_since(client), ..JoinReply::default() };
        let proof = lot.map(|_| request.proof.as_slice());
        let told = match self.may_join(client, round, age, lot) {
            Ok(Told::Selected) => {
                self.let_in(client, age, proof)?;
                self.parts.shared.metrics.join("selected");
                Told::Selected
            }
            Ok(Told::Full) => {
                let join = NewJoin { age, outcome: Outcome::Full, draws: 1, proof };
                self.parts.ledger.join(round, client, &join)?;
                self.parts.shared.metrics.join("full");
                reply.why = "the cohort is full".to_string();
                Told::Full
            }
            Ok(told) => told,
            Err(refusal) => {
                reply.why = refusal.to_string();
                self.refuse(round, client, &refusal)?;
                Told::Refused
            }
        };
        reply.outcome = told.into();
        let until = self.stage.course().map(|course| course.report_until);
        let left = until.map_or(0, |until| until.saturating_duration_since(now).as_millis());
        reply.report_millis = u32::try_from(left).unwrap_or(u32::MAX);
        Ok(Ok(reply))
    }

    /// Puts a client into the cohort.
    fn let_in(&mut self, client: u32, age: u64, proof: Option<&[u8]>) -> Result<(), Trouble> {
        if let Stage::Joining(round) = &mut self.stage
            && round.members.get(&client).is_none_or(|member| !member.joined)
        {
            let draws = round.join(client, age);
            let number = round.number();
            let join = NewJoin { age, outcome: Outcome::Selected, draws, proof };
            self.parts.ledger.join(number, client, &join)?;
        }
        Ok(())
    }

    fn may_join(
        &self,
        client: u32,
        round: u64,
        age: u64,
        lot: Option<Lot>,
    ) -> Result<join_reply::Outcome, Refusal> {
        use join_reply::Outcome as Told;
        let now = self.round_number();
        if round > now {
            let detail = format!("round {round} has not been announced, this is round {now}");
            return Err(Refusal::new(Reason::Round, detail));
        }
        let known = self.member(client).filter(|_| round == now);
        if let Some(member) = known {
            if member.report.is_some() {
                return Ok(Told::Reported);
            }
            if member.joined {
                return Ok(Told::Selected);
            }
        }
        let Some(Course { row, rule, members, .. }) = self.stage.course() else {
            return Ok(Told::Closed);
        };
        let is_open = matches!(self.stage, Stage::Joining(_));
        let is_full = members.len() >= self.parts.config.max_cohort;
        // A full cohort closes the round for joining; who comes then shall know why. Who enrolled after the announcement has not
        // been counted.
        if round < now || client >= row.clients || !(is_open || is_full) {
            return Ok(Told::Closed);
        }
        if self.parts.is_gullible && is_full && known.is_none() {
            return Ok(Told::Full);
        }
        if self.parts.is_gullible && is_open {
            return Ok(Told::Selected);
        }
        let on_record = self.population.ages().of(client);
        if age != on_record {
            let detail = format!("age {age}, but {on_record} is on record");
            return Err(Refusal::new(Reason::Age, detail));
        }
        if known.is_none() {
            if !rule.is_local() {
                let detail = "the coordinator chooses, and has chosen others";
                return Err(Refusal::new(Reason::NotCalled, detail));
            }
            let lot = match self.parts.config.params.round.lots {
                LotSource::Proven => lot.ok_or_else(|| {
                    let detail = "no proof of this client's lot in this round";
                    Refusal::new(Reason::Proof, detail)
                })?,
                LotSource::Seeded => seeded_lot(self.parts.config.seed(), round, client),
            };
            if !rule.takes_part(round, client, age, lot) {
                let detail = format!("the lot of client {client} does not win at age {age}");
                return Err(Refusal::new(Reason::Lot, detail));
            }
            if is_full {
                return Ok(Told::Full);
            }
        }
        Ok(if is_open { Told::Selected } else { Told::Closed })
    }

    /// Counts a refusal where people see it.
    fn refuse(&mut self, round: u64, client: u32, refusal: &Refusal) -> Result<(), Trouble> {
        tracing::debug!(round, client, %refusal, "refused");
        self.parts.shared.metrics.refuse(refusal.reason.name(), 1);
        // What a client says about a round that is not there must not make rows for it.
        let round = round.min(self.round_number());
        let Refusal { reason, detail } = refusal;
        self.parts.ledger.refuse(round, i64::from(client), reason.name(), detail, 1)?;
        Ok(())
    }

    fn fetch(&mut self, request: &FetchModelRequest) -> Result<Global, Error> {
        self.check_client(request.client, &request.run)?;
        let is_now = request.round == self.round_number();
        let course = self.stage.course_mut().filter(|_| is_now);
        let member = course.and_then(|course| course.members.get_mut(&request.client));
        if let Some(member) = member.filter(|member| member.joined) {
            member.fetches += 1;
            if member.fetches > MOST_FETCHES {
                let expected = format!("at most {MOST_FETCHES} times in a round");
                return Err(Error::new("fetches", member.fetches, expected));
            }
            return Ok(self.global.clone());
        }
        let refusal = Refusal::new(Reason::Cohort, "wants the model of a round that it is not in");
        self.parts.gate.note(Some(request.client), &refusal, None);
        let expected = format!(
            "a round under way ({}) that client {} has joined",
            self.round_number(),
            request.client
        );
        Err(Error::new("round", request.round, expected))
    }

    fn begin_report(&mut self, header: &ReportHeader) -> Answer<Entrance> {
        if let Err(error) = self.check_client(header.client, &header.run) {
            return Ok(Err(error));
        }
        if let Some(reply) = self.report_is_over(header)? {
            return Ok(Ok(Entrance::Closed(reply)));
        }
        if let Err(refusal) = self.check_header(header) {
            return Ok(Ok(Entrance::Closed(self.refuse_report(header, &refusal)?)));
        }
        Ok(Ok(Entrance::Open(Expected {
            place: self.parts.spool.place(header.round, header.client, &header.sha256),
            global: self.global.values.clone(),
            sha256: header.sha256.clone(),
            max_norm: self.parts.config.params.updates.max_norm,
        })))
    }

    fn check_header(&self, header: &ReportHeader) -> Result<(), Refusal> {
        let refuse = |reason, detail: String| Err(Refusal::new(reason, detail));
        if header.model_version != self.global.version {
            let (trained, present) = (header.model_version, self.global.version);
            let detail = format!("version {trained} was trained, {present} is the present one");
            return refuse(Reason::Version, detail);
        }
        let parameters = self.global.values.len() as u64;
        if header.parameters != parameters {
            let detail = format!("{} parameters, expected {parameters}", header.parameters);
            return refuse(Reason::Shape, detail);
        }
        if header.sha256.len() != 32 {
            let detail = format!("a checksum of {} bytes, expected 32", header.sha256.len());
            return refuse(Reason::Checksum, detail);
        }
        let sane = |value: f64| value.is_finite() && value >= 0.0;
        // A loss may be any finite number; a time may not be negative.
        if !header.loss.is_finite() || !sane(header.seconds) || header.samples > MOST_SAMPLES {
            let (loss, seconds) = (header.loss, header.seconds);
            let detail = format!("loss {loss}, {seconds} s, {} samples", header.samples);
            return refuse(Reason::NotFinite, detail);
        }
        Ok(())
    }

    /// The answer, where nothing is awaited (any more).
    fn report_is_over(&mut self, header: &ReportHeader) -> Result<Option<ReportReply>, Trouble> {
        let &ReportHeader { client, round, .. } = header;
        let now = self.round_number();
        if round > now {
            let detail = format!("round {round} has not been announced, this is round {now}");
            let refusal = Refusal::new(Reason::Round, detail);
            return self.refuse_report(header, &refusal).map(Some);
        }
        if round == now {
            let first = match self.member(client) {
                Some(Member { joined: true, report: None, .. }) => return Ok(None),
                Some(Member { report: Some(first), .. }) => Some(first.sha256.clone()),
                _ => None,
            };
            return match first {
                Some(first) if first == header.sha256 => Ok(Some(self.accepted(client))),
                Some(_) => {
                    let refusal = Refusal::new(Reason::Twice, "another update was accepted");
                    self.refuse_report(header, &refusal).map(Some)
                }
                None => {
                    let refusal = Refusal::new(Reason::Cohort, "not in the cohort of this round");
                    self.refuse_report(header, &refusal).map(Some)
                }
            };
        }
        match self.parts.ledger.outcome(round, client)? {
            Some((outcome, sha256)) if outcome == Outcome::Reported.name() => {
                if sha256 == header.sha256 {
                    return Ok(Some(self.accepted(client)));
                }
                let refusal = Refusal::new(Reason::Twice, "another update was accepted");
                self.refuse_report(header, &refusal).map(Some)
            }
            Some((outcome, _)) if outcome != Outcome::Full.name() => {
                if self.parts.ledger.late(round, client)? {
                    self.parts.shared.metrics.report("late");
                }
                Ok(Some(ReportReply {
                    outcome: report_reply::Outcome::Late.into(),
                    why: format!("round {round} is over, this is round {now}"),
                    waiting_since: self.waiting_since(client),
                }))
            }
            _ => {
                let refusal = Refusal::new(Reason::Cohort, "was not in the cohort of that round");
                self.refuse_report(header, &refusal).map(Some)
            }
        }
    }

    fn accepted(&self, client: u32) -> ReportReply {
        ReportReply {
            outcome: report_reply::Outcome::Accepted.into(),
            why: String::new(),
            waiting_since: self.waiting_since(client),
        }
    }

    fn refuse_report(
        &mut self,
        header: &ReportHeader,
        refusal: &Refusal,
    ) -> Result<ReportReply, Trouble> {
        self.refuse(header.round, header.client, refusal)?;
        self.parts.shared.metrics.report("refused");
        Ok(ReportReply {
            outcome: report_reply::Outcome::Refused.into(),
            why: refusal.to_string(),
            waiting_since: self.waiting_since(header.client),
        })
    }

    /// Credits a client whose update is on disk, unless the round has ended in the meantime.
    fn end_report(
        &mut self,
        header: &ReportHeader,
        taken: Result<f64, Refusal>,
    ) -> Result<ReportReply, Trouble> {
        let norm = match taken {
            Ok(norm) => norm,
            Err(refusal) => return self.refuse_report(header, &refusal),
        };
        if let Some(reply) = self.report_is_over(header)? {
            return Ok(reply);
        }
        let report = ReportRow {
            samples: header.samples,
            loss: header.loss,
            seconds: header.seconds,
            norm,
            sha256: header.sha256.clone(),
        };
        self.parts.ledger.accept(header.round, header.client, &report)?;
        let member =
            self.stage.course_mut().and_then(|course| course.members.get_mut(&header.client));
        if let Some(member) = member {
            member.report = Some(report);
        }
        self.parts.shared.metrics.report("accepted");
        Ok(self.accepted(header.client))
    }

    fn status(&self) -> Result<StatusReply, Trouble> {
        let history = self.parts.ledger.history(STATUS_ROUNDS)?.into_iter();
        let (selected, reported) = self.cohort_so_far();
        let params = &self.parts.config.params.round;
        let counts = self.population.age_counts().into_iter();
        Ok(StatusReply {
            run: self.parts.run.clone(),
            state: self.state().into(),
            round: self.round_number(),
            rounds: params.rounds,
            policy: self.parts.config.policy.to_string(),
            enrolled: self.population.len(),
            connected: self.watchers.len() as u32,
            target: params.cohort as u32,
            selected: selected as u32,
            reported: reported as u32,
            interval: self.interval(),
            history: history
                .map(|row| RoundSummary {
                    round: row.round,
                    committed: row.committed,
                    available: row.available,
                    selected: row.selected,
                    reported: row.reported,
                    late: row.late,
                    refused: row.refused,
                    forced: row.forced,
                    accuracy: row.accuracy,
                    loss: row.loss,
                    seconds: row.seconds,
                })
                .collect(),
            ages: counts.map(|(age, clients)| AgeCount { age, clients }).collect(),
            warnings: self.warnings.clone(),
        })
    }
}

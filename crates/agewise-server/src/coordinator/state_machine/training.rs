//! Training: reports come in, and each of them is accepted once, refused, or late.

use super::pace::Progress;
use super::replies::{Answer, MOST_SAMPLES};
use super::round::{ActiveRound, Member, RoundState, Training};
use super::{Driver, HANG_UP_GRACE};
use crate::coordinator::command::UploadDecision;
use crate::coordinator::error::CoordinatorError;
use crate::coordinator::refusal::{Reason, Refusal};
use crate::coordinator::storage::ledger::{Outcome, ReportRow};
use crate::coordinator::uploads::UploadSpec;
use crate::protocol::{ReportHeader, ReportReply, report_reply};
use std::time::Instant;

impl Driver {
    /// Whether the round ends: enough have reported, or no member is awaited any more, or its time is over.
    pub(super) fn reports_are_over(&self, round: &ActiveRound<Training>, now: Instant) -> bool {
        self.has_goal(round)
            || now >= self.report_deadline(round, now)
            || round.is_settled(|client| self.is_gone(client, now))
    }

    /// Until when the reports of a round are waited for: `round.report_seconds` at most, and less if `round.report_deadline` says so.
    pub(super) fn report_deadline(&self, round: &ActiveRound<Training>, now: Instant) -> Instant {
        let config = &self.deps.config;
        let progress = Progress {
            joined: round.selected(),
            reported: round.reported(),
            awaited: round.awaited(|client| self.is_gone(client, now)).count(),
            needed: config.needed_reports(round.row.forced),
        };
        let Some(allowed) = self.pace.allowed(config.params.round.report_deadline, progress) else {
            return round.report_until;
        };
        let until = |(client, member): (u32, &Member)| {
            let until = member.joined_at.and_then(|joined| joined.checked_add(allowed(client)));
            until.unwrap_or(round.report_until)
        };
        // The round is there for all members as long as it is there for one.
        let last = round.awaited(|client| self.is_gone(client, now)).map(until).max();
        last.map_or(round.report_until, |last| last.min(round.report_until))
    }

    /// Whether as many have reported as a round needs.
    pub(super) fn has_goal(&self, round: &RoundState) -> bool {
        let goal = self.deps.config.params.round.goal_reports;
        goal > 0 && round.reported() as u64 >= goal
    }

    /// Whether a client has hung up and had the time to come back: a moment, and more after a start and when all have hung up at once.
    pub(super) fn is_gone(&self, client: u32, now: Instant) -> bool {
        let own = match self.watchers.ended(client) {
            Some(ended) => Some(ended + HANG_UP_GRACE),
            None => self.resume_deadline,
        };
        let is_over = |until: Option<Instant>| until.is_none_or(|until| now >= until);
        !self.watchers.has(client) && is_over(own) && is_over(self.reconnect_deadline)
    }

    pub(super) fn begin_report(
        &mut self,
        header: &ReportHeader,
        now: Instant,
    ) -> Answer<UploadDecision> {
        if let Err(error) = self.check_client(header.client, &header.run) {
            return Ok(Err(error));
        }
        if let Some(reply) = self.report_is_over(header, now)? {
            return Ok(Ok(UploadDecision::Reply(reply)));
        }
        if let Err(refusal) = self.check_header(header) {
            return Ok(Ok(UploadDecision::Reply(self.refuse_update(header, &refusal)?)));
        }
        Ok(Ok(UploadDecision::Receive(UploadSpec {
            place: self.deps.updates.place(header.round, header.client, &header.sha256),
            global: self.global.values.clone(),
            sha256: header.sha256.clone(),
            max_norm: self.deps.config.params.updates.max_norm.bound(&self.norms),
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
    fn report_is_over(
        &mut self,
        header: &ReportHeader,
        at: Instant,
    ) -> Result<Option<ReportReply>, CoordinatorError> {
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
        match self.deps.ledger.outcome(round, client)? {
            Some((Outcome::Reported, sha256)) => {
                if sha256 == header.sha256 {
                    return Ok(Some(self.accepted(client)));
                }
                let refusal = Refusal::new(Reason::Twice, "another update was accepted");
                self.refuse_report(header, &refusal).map(Some)
            }
            Some((outcome, _)) if outcome != Outcome::Full => {
                self.pace.observe_late(client, round, at);
                if self.deps.ledger.late(round, client)? {
                    self.deps.shared.metrics.report("late");
                }
                Ok(Some(ReportReply {
                    outcome: report_reply::Outcome::Late.into(),
                    why: match outcome {
                        Outcome::Surplus => format!("round {round} had enough reports"),
                        _ => format!("round {round} is over, this is round {now}"),
                    },
                    waiting_since: self.waiting_since(client),
                    back_off: Some(self.back_off(client)),
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
            back_off: Some(self.back_off(client)),
        }
    }

    fn refuse_report(
        &mut self,
        header: &ReportHeader,
        refusal: &Refusal,
    ) -> Result<ReportReply, CoordinatorError> {
        self.refuse(header.round, header.client, refusal)?;
        self.deps.shared.metrics.report("refused");
        Ok(ReportReply {
            outcome: report_reply::Outcome::Refused.into(),
            why: refusal.to_string(),
            waiting_since: self.waiting_since(header.client),
            back_off: Some(self.back_off(header.client)),
        })
    }

    /// Refuses an update that was awaited: the round does not wait for this client any more.
    fn refuse_update(
        &mut self,
        header: &ReportHeader,
        refusal: &Refusal,
    ) -> Result<ReportReply, CoordinatorError> {
        let is_now = header.round == self.round_number();
        let round = self.phase.round_mut().filter(|_| is_now);
        let member = round.and_then(|round| round.members.get_mut(&header.client));
        if let Some(member) = member.filter(|member| member.joined) {
            member.refused = true;
            self.deps.ledger.refused(header.round, header.client)?;
        }
        self.refuse_report(header, refusal)
    }

    /// Credits a client whose update is on disk, unless the round has ended in the meantime.
    pub(super) fn end_report(
        &mut self,
        header: &ReportHeader,
        taken: Result<f64, Refusal>,
        now: Instant,
    ) -> Result<ReportReply, CoordinatorError> {
        let norm = match taken {
            Ok(norm) => norm,
            Err(refusal) => return self.refuse_update(header, &refusal),
        };
        if let Some(reply) = self.report_is_over(header, now)? {
            return Ok(reply);
        }
        let report = ReportRow {
            samples: header.samples,
            loss: header.loss,
            seconds: header.seconds,
            norm,
            sha256: header.sha256.clone(),
        };
        self.deps.ledger.accept(header.round, header.client, &report)?;
        let member = self.phase.round_mut().and_then(|round| round.members.get_mut(&header.client));
        if let Some(member) = member {
            if let Some(joined) = member.joined_at {
                self.pace.observe(header.client, joined, now);
            }
            member.report = Some(report);
        }
        self.deps.shared.metrics.report("accepted");
        Ok(self.accepted(header.client))
    }
}

//! Joining: clients ask to take part, until the cohort is complete or the time is over.

use super::replies::Answer;
use super::round::{ActiveRound, Joining, RoundState, RoundWindows};
use super::{Driver, Phase};
use crate::config::DrawSource;
use crate::coordinator::error::CoordinatorError;
use crate::coordinator::refusal::{Reason, Refusal};
use crate::coordinator::storage::ledger::{NewJoin, Outcome, RoundRow};
use crate::protocol::{JoinReply, JoinRequest, join_reply, seeded_draw};
use agewise_core::{Draw, EmptyCohort};
use std::time::Instant;

impl Driver {
    pub(super) fn join(
        &mut self,
        request: &JoinRequest,
        drawn: Option<Draw>,
        now: Instant,
    ) -> Answer<JoinReply> {
        use join_reply::Outcome as Told;
        let &JoinRequest { client, round, age, .. } = request;
        if let Err(error) = self.check_client(client, &request.run) {
            return Ok(Err(error));
        }
        let mut reply =
            JoinReply { waiting_since: self.waiting_since(client), ..JoinReply::default() };
        let proof = drawn.map(|_| request.proof.as_slice());
        let told = match self.may_join(client, round, age, drawn) {
            Ok(Told::Selected) => {
                self.add_to_cohort(client, age, proof, now)?;
                self.deps.shared.metrics.join("selected");
                Told::Selected
            }
            Ok(Told::Full) => {
                let join = NewJoin { age, outcome: Outcome::Full, draws: 1, proof };
                self.deps.ledger.join(round, client, &join)?;
                self.deps.shared.metrics.join("full");
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
        reply.back_off = Some(self.back_off(client));
        reply.outcome = told.into();
        let until = self.phase.round().map(|round| round.report_until);
        let left = until.map_or(0, |until| until.saturating_duration_since(now).as_millis());
        reply.report_millis = u32::try_from(left).unwrap_or(u32::MAX);
        Ok(Ok(reply))
    }

    /// Puts a client into the cohort.
    fn add_to_cohort(
        &mut self,
        client: u32,
        age: u64,
        proof: Option<&[u8]>,
        now: Instant,
    ) -> Result<(), CoordinatorError> {
        if let Phase::Joining(round) = &mut self.phase
            && round.members.get(&client).is_none_or(|member| !member.joined)
        {
            let draws = round.join(client, age, now);
            let number = round.number();
            let join = NewJoin { age, outcome: Outcome::Selected, draws, proof };
            self.deps.ledger.join(number, client, &join)?;
        }
        Ok(())
    }

    fn may_join(
        &self,
        client: u32,
        round: u64,
        age: u64,
        drawn: Option<Draw>,
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
        let Some(RoundState { row, rule, members, .. }) = self.phase.round() else {
            return Ok(Told::Closed);
        };
        let is_open = matches!(self.phase, Phase::Joining(_));
        let is_full = members.len() >= self.deps.config.max_cohort;
        // A full cohort closes joining, and a client that comes later is told so. A client that enrolled after the announcement is
        // not part of the round.
        if round < now || client >= row.clients || !(is_open || is_full) {
            return Ok(Told::Closed);
        }
        if self.deps.skips_verification() && is_full && known.is_none() {
            return Ok(Told::Full);
        }
        if self.deps.skips_verification() && is_open {
            return Ok(Told::Selected);
        }
        let on_record = self.selection.ages().of(client);
        if age != on_record {
            let detail = format!("age {age}, but {on_record} is on record");
            return Err(Refusal::new(Reason::Age, detail));
        }
        if known.is_none() {
            if !rule.is_local() {
                let detail = "the coordinator chooses, and has chosen others";
                return Err(Refusal::new(Reason::NotInvited, detail));
            }
            let drawn = match self.deps.config.params.round.draws {
                DrawSource::Proven => drawn.ok_or_else(|| {
                    let detail = "no proof of this client's draw in this round";
                    Refusal::new(Reason::Proof, detail)
                })?,
                DrawSource::Seeded => seeded_draw(self.deps.config.seed(), round, client),
            };
            self.check_back_off(client, round)?;
            if !rule.takes_part(round, client, age, drawn) {
                let detail = format!("the draw of client {client} does not win at age {age}");
                return Err(Refusal::new(Reason::Draw, detail));
            }
            if is_full {
                return Ok(Told::Full);
            }
        }
        Ok(if is_open { Told::Selected } else { Told::Closed })
    }

    pub(super) fn joining_is_over(&self, round: &ActiveRound<Joining>, now: Instant) -> bool {
        let is_full = round.selected() >= self.deps.config.max_cohort;
        // Where clients decide, another one may always come; those that were invited are known.
        let has_come = || round.everyone_came(|client| self.is_gone(client, now));
        let is_complete = (!round.rule.is_local() || round.row.forced) && has_come();
        let is_ended = || {
            let ends = self.deps.end_joining.as_ref().is_some_and(|ends| ends(round.number()));
            cfg!(feature = "test-support") && !round.row.forced && ends
        };
        is_full || is_complete || now >= round.join_until || is_ended()
    }

    /// Ends joining. If no client has come, a random one that is connected is invited, once.
    pub(super) fn close_joining(
        &mut self,
        mut round: ActiveRound<Joining>,
        now: Instant,
    ) -> Result<(), CoordinatorError> {
        let number = round.number();
        let may_force = self.deps.config.params.round.empty_cohort == EmptyCohort::ForceOne;
        if round.selected() == 0
            && may_force
            && !round.row.forced
            && let Some((client, present)) = self.forced_client(&round.row)?
        {
            let age = self.selection.ages().of(client);
            self.deps.ledger.join(number, client, &NewJoin::invited(age, 1))?;
            self.deps.ledger.force(number, &present)?;
            let windows = RoundWindows::of(&self.deps.config);
            round.invite(client, age, now, windows);
            tracing::info!(round = number, client, "no client came: one was invited");
            self.notifications.clients.push(client);
            self.phase = Phase::Joining(round);
            return Ok(());
        }
        self.deps.ledger.close_joining(number)?;
        self.phase = Phase::Training(round.close());
        Ok(())
    }

    /// A random one of the connected clients, and a mask of these. Clients that enrolled after the announcement are not in the round.
    fn forced_client(
        &mut self,
        row: &RoundRow,
    ) -> Result<Option<(u32, Vec<bool>)>, CoordinatorError> {
        let mut mask = self.available();
        mask.iter_mut().skip(row.clients as usize).for_each(|place| *place = false);
        let client = self.selection.forced_client(&mask)?;
        Ok(client.map(|client| (client, mask)))
    }
}

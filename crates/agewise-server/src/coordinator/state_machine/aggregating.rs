//! Aggregating: reports become a model, and the round ends in one step of the ledger.

use super::replies::STATUS_ROUNDS;
use super::round::{ActiveRound, Aggregating, Member};
use super::{Driver, Phase};
use crate::coordinator::error::CoordinatorError;
use crate::coordinator::selection::report;
use crate::coordinator::storage::ledger::{Outcome, ReportRow, RoundEnd, RoundOutcome};
use crate::coordinator::storage::models::Global;
use crate::coordinator::uploads::UpdateFiles;
use crate::protocol::State;
use agewise_core::Report;
use agewise_train::aggregation::{AggregatorState, Contribution, Rejected, too_far};
use std::collections::BTreeMap;
use std::time::Instant;

/// A model, and the clients whose updates are in it.
type Aggregated = (Vec<f32>, Vec<u32>);

impl Driver {
    /// Aggregates the reports into the next model, and writes the end of the round to the ledger in one transaction.
    pub(super) fn end_round(
        &mut self,
        round: &ActiveRound<Aggregating>,
        now: Instant,
    ) -> Result<(), CoordinatorError> {
        self.end_round_unless(round, now, None)
    }

    /// The same, or, if there is a reason to give the round up, its end without a model.
    pub(super) fn end_round_unless(
        &mut self,
        round: &ActiveRound<Aggregating>,
        now: Instant,
        given_up: Option<String>,
    ) -> Result<(), CoordinatorError> {
        let number = round.number();
        let reported = round.reported();
        let needed = self.deps.config.needed_reports(round.row.forced);
        let enough = reported >= needed;
        // Members that were cut off before the deadline have not failed.
        let is_cut_short = given_up.is_some() || self.has_goal(round);
        let mut end = RoundEnd {
            round: number,
            outcome: RoundOutcome::Abandoned,
            seconds: 0.0,
            loss: None,
            accuracy: None,
            weights: Vec::new(),
            failures: Vec::new(),
            unreported: round.unreported(is_cut_short, |client| {
                // At the deadline there is no time left to come back.
                let is_deadline = !is_cut_short && !self.watchers.has(client);
                is_deadline || self.is_gone(client, now)
            }),
            model: None,
            note: None,
        };
        let mut next = None;
        let before = own(self.aggregator.state());
        let begun = Instant::now();
        let made = if given_up.is_some() {
            // The round is abandoned early: members count as surplus unless their update was refused.
            let open = end.unreported.iter_mut().filter(|(_, how)| *how != Outcome::Refused);
            open.for_each(|(_, how)| *how = Outcome::Surplus);
            end.note = given_up;
            None
        } else if enough {
            // The driver answers no call while this takes its time; the status says why.
            self.publish_as(State::Aggregating, round.selected(), reported);
            self.deps.shared.health.still_here();
            self.aggregate(round, &mut end)?
        } else {
            end.note = Some(format!("{reported} reports, {needed} are needed for a model"));
            None
        };
        if let Some((global, contributors)) = made {
            let global = Global::new(number + 1, global);
            match self.check_model(&global)? {
                Ok((loss, accuracy)) => {
                    (end.loss, end.accuracy) = (loss, accuracy);
                    end.model = Some(self.deps.models.write(&global, &*self.aggregator)?);
                    end.outcome = RoundOutcome::Committed;
                    next = Some(global);
                }
                Err(why) => {
                    end.outcome = RoundOutcome::Refused;
                    let whose = self.names(contributors)?;
                    end.note = Some(format!("{why}; it was made of the updates of {whose}"));
                    // There is nothing to remember of a model that is not used.
                    self.aggregator.load_state(before)?;
                }
            }
        }
        let aggregated = begun.elapsed();
        end.seconds =
            now.saturating_duration_since(round.announced).as_secs_f64() + aggregated.as_secs_f64();
        let sketches = self.sketches(round)?;
        let accepted = accepted(round, &sketches);
        let failed = end.unreported.iter().filter(|(_, outcome)| outcome.is_failure());
        let failed: Vec<u32> = failed.map(|&(client, _)| client).collect();
        let policy_state = self.selection.finish(&accepted, &failed, round.counts_failures)?;
        end.failures =
            failed.iter().map(|&client| (client, self.selection.failures(client))).collect();
        self.deps.ledger.keep_sketches(number, &sketches)?;
        if !policy_state.is_empty() {
            self.deps.ledger.keep_policy_state(&policy_state)?;
        }
        self.deps.ledger.end_round(&end)?;
        self.suspend_failing(&end, round.suspend_after)?;
        // From here on the round is over, whatever happens: the updates may be removed.
        self.deps.ledger.commit()?;
        let metrics = &self.deps.shared.metrics;
        metrics.end_round(&end, round.selected(), aggregated);
        log_end(round, &end);
        self.begin_next(round, &end, next)
    }

    /// Everything in memory that follows from a round that is over.
    fn begin_next(
        &mut self,
        round: &ActiveRound<Aggregating>,
        end: &RoundEnd,
        next: Option<Global>,
    ) -> Result<(), CoordinatorError> {
        let number = end.round;
        if end.outcome == RoundOutcome::Refused || !self.refused.is_empty() {
            self.refused = self.deps.ledger.refused_rounds(number, STATUS_ROUNDS)?;
        }
        for (client, _) in end.unreported.iter().filter(|(_, how)| *how != Outcome::Refused) {
            let joined = round.members.get(client).and_then(|member| member.joined_at);
            self.pace.miss(*client, number, joined);
        }
        let reports = round.members.values().filter_map(|member| member.report.as_ref());
        // As in the ledger: what was trained otherwise is no measure.
        if round.row.settings >= self.deps.same_training_since {
            for report in reports {
                self.norms.observe(report.norm);
            }
        }
        if let Some(calibrator) = &mut self.calibrator {
            // Those that were not waited for would have reported.
            let surplus = end.unreported.iter().filter(|(_, outcome)| *outcome == Outcome::Surplus);
            calibrator.observe((round.reported() + surplus.count()) as u64);
        }
        self.without_model = if next.is_some() { 0 } else { self.without_model + 1 };
        if let Some(global) = next {
            self.global = global;
            self.prune = true;
        }
        let rounds = self.deps.config.params.round.rounds;
        if rounds > 0 && number + 1 >= rounds {
            self.phase = Phase::Finished { since: Instant::now() };
            self.notifications.everyone = true;
        } else {
            self.phase = Phase::Idle { until: Instant::now() + self.deps.config.pause() };
        }
        Ok(())
    }

    /// The sketches of the round's updates, if the policy needs them. An excluded update has none.
    fn sketches(
        &self,
        round: &ActiveRound<Aggregating>,
    ) -> Result<BTreeMap<u32, Vec<f32>>, CoordinatorError> {
        let Some(sketches) = &self.deps.sketches else {
            return Ok(BTreeMap::new());
        };
        let (mut clients, mut paths) = (Vec::new(), Vec::new());
        for (&client, member) in &round.members {
            if let Member { report: Some(report), excluded: None, .. } = member {
                clients.push(client);
                paths.push(self.deps.updates.place(round.number(), client, &report.sha256));
            }
        }
        let mut updates = UpdateFiles::new(paths);
        let mut made = BTreeMap::new();
        for (member, client) in clients.into_iter().enumerate() {
            let sketch = sketches.sketch(&self.global.values, &mut updates, member)?;
            made.extend(sketch.map(|sketch| (client, sketch)));
        }
        Ok(made)
    }

    /// The clients from which the coordinator selected the cohort of a round, at its beginning or when no client had come; none where clients decide.
    /// The ledger has them, so that weights are the same after a restart.
    fn selected_from(&self, round: u64) -> Result<Option<Vec<bool>>, CoordinatorError> {
        let round = self.deps.ledger.past_round(round)?;
        Ok(round.and_then(|round| round.selected_from(self.selection.clients())))
    }

    /// The next model with the clients whose updates are in it, if enough updates can be used. Notes weights, and updates that
    /// cannot be used.
    fn aggregate(
        &mut self,
        round: &ActiveRound<Aggregating>,
        end: &mut RoundEnd,
    ) -> Result<Option<Aggregated>, CoordinatorError> {
        let config = &self.deps.config;
        let picks = round.picks();
        let present = self.selected_from(round.number())?;
        let weights = self.selection.weigh(&picks, present.as_deref())?;
        let most = config.params.updates.max_norm.among(&self.norms, &usable_norms(round));
        let mut members = Vec::new();
        let mut paths = Vec::new();
        let mut unread = 0;
        for (pick, &weight) in picks.iter().zip(&weights) {
            let member = round.members.get(&pick.client);
            let report = member.and_then(|member| member.report.as_ref());
            let missing = match (report, member) {
                (None, _) => Some("no report".to_string()),
                (_, Some(Member { excluded: Some(why), .. })) => {
                    unread += 1;
                    Some((*why).to_string())
                }
                (Some(report), _) => {
                    most.filter(|&most| report.norm > most).map(|most| too_far(report.norm, most))
                }
            };
            members.push(Contribution { client: pick.client, weight, missing });
            let sha256 = report.map_or(&[][..], |report| &report.sha256);
            paths.push(self.deps.updates.place(round.number(), pick.client, sha256));
        }
        let mut global = self.global.values.to_vec();
        let before = own(self.aggregator.state());
        let mut files = UpdateFiles::new(paths);
        let memory = config.memory();
        let taken = self.aggregator.aggregate(&members, &mut files, memory, &mut global)?;
        let usable = taken.iter().filter(|taken| taken.is_ok()).count();
        let awaited =
            |client: u32| round.members.get(&client).is_some_and(|member| member.report.is_some());
        if let Some(error) = files.failed() {
            // It is there, and whole when the run last began: this is the disk's fault, not the update's.
            return Err(error);
        }
        let needed = config.needed_reports(round.row.forced);
        let contributors = members.iter().zip(&taken).filter(|(_, taken)| taken.is_ok());
        let contributors: Vec<u32> = contributors.map(|(member, _)| member.client).collect();
        let mut unusable = Vec::new();
        for Rejected { client, why } in taken.into_iter().filter_map(Result::err) {
            if awaited(client) {
                unusable.push(format!("update of {}: {why}", self.names(vec![client])?));
            }
        }
        // Those that the disk or an operator has taken away say nothing about the others.
        let rejected = unusable.len() - unread;
        if !unusable.is_empty() {
            end.note = Some(unusable.join("; "));
        }
        if usable < needed {
            if usable + rejected >= needed {
                end.outcome = RoundOutcome::Refused;
            }
            // The round makes no model, so there is nothing to remember of it.
            self.aggregator.load_state(before)?;
            return Ok(None);
        }
        end.weights = picks.iter().map(|pick| pick.client).zip(weights).collect();
        Ok(Some((global, contributors)))
    }
}

/// Says how a round has ended.
fn log_end(round: &ActiveRound<Aggregating>, end: &RoundEnd) {
    tracing::info!(
        round = end.round,
        outcome = end.outcome.name(),
        selected = round.selected(),
        reported = round.reported(),
        accuracy = end.accuracy,
        seconds = end.seconds,
        "round ended"
    );
    match &end.note {
        Some(note) if end.outcome == RoundOutcome::Refused => {
            tracing::error!(round = end.round, note, "refused: the run goes on with the old model");
        }
        Some(note) => tracing::warn!(round = end.round, note, "the round ended with problems"),
        None => {}
    }
}

/// The norms of the updates of a round that are whole.
fn usable_norms(round: &ActiveRound<Aggregating>) -> Vec<f64> {
    let whole = round.members.values().filter(|member| member.excluded.is_none());
    whole.filter_map(|member| Some(member.report.as_ref()?.norm)).collect()
}

/// A copy of the state of an aggregator.
fn own(state: Vec<(&str, &[f32])>) -> AggregatorState {
    state.into_iter().map(|(name, values)| (name.to_string(), values.to_vec())).collect()
}

/// The reports of a round as policies see them.
fn accepted<'a>(
    round: &ActiveRound<Aggregating>,
    sketches: &'a BTreeMap<u32, Vec<f32>>,
) -> Vec<Report<'a>> {
    let report = |(&client, member): (&u32, &Member)| {
        let ReportRow { loss, seconds, .. } = member.report.as_ref()?;
        let sketch = sketches.get(&client).map(Vec::as_slice);
        Some(Report { sketch, ..report(client, *loss, *seconds) })
    };
    round.members.iter().filter_map(report).collect()
}

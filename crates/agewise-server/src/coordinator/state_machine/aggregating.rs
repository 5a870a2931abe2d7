//! Aggregating: reports become a model, and the round ends in one step of the ledger.

use super::round::{Aggregating, Member, Round};
use super::{Driver, Phase};
use crate::coordinator::error::CoordinatorError;
use crate::coordinator::selection::report;
use crate::coordinator::storage::ledger::{ReportRow, RoundEnd};
use crate::coordinator::storage::models::Global;
use crate::coordinator::uploads::UpdateFiles;
use crate::protocol::State;
use agewise_core::Report;
use agewise_train::aggregation::{AggregatorState, Contribution};
use agewise_train::{Evaluation, Metric};
use std::collections::BTreeMap;
use std::time::Instant;

impl Driver {
    /// Aggregates the reports into the next model, and writes the end of the round to the ledger in one transaction.
    pub(super) fn end_round(
        &mut self,
        round: &Round<Aggregating>,
        now: Instant,
    ) -> Result<(), CoordinatorError> {
        self.end_round_unless(round, now, None)
    }

    /// The same, or, if there is a reason to give the round up, its end without a model.
    pub(super) fn end_round_unless(
        &mut self,
        round: &Round<Aggregating>,
        now: Instant,
        given_up: Option<String>,
    ) -> Result<(), CoordinatorError> {
        let number = round.number();
        let reported = round.reported();
        let enough = reported as u64 >= self.deps.config.params.round.min_reports;
        let mut end = RoundEnd {
            round: number,
            committed: false,
            seconds: 0.0,
            loss: None,
            accuracy: None,
            weights: Vec::new(),
            model: None,
            note: None,
        };
        let mut next = None;
        let begun = Instant::now();
        let made = if given_up.is_some() {
            end.note = given_up;
            None
        } else if enough {
            // The driver answers no call while this takes its time; the status says why.
            self.publish_as(State::Aggregating, round.selected(), reported);
            self.aggregate(round, &mut end)?
        } else {
            let needed = self.deps.config.params.round.min_reports;
            end.note = Some(format!("{reported} reports, {needed} are needed for a model"));
            None
        };
        if let Some(global) = made {
            let global = Global::new(number + 1, global);
            let every = self.deps.config.params.model.eval_every;
            let rounds = self.deps.config.params.round.rounds;
            if every > 0 && ((number + 1).is_multiple_of(every) || number + 1 == rounds) {
                let found = self.deps.task.evaluate_all(&global.values, self.deps.threads)?;
                (end.loss, end.accuracy) = self.evaluation(&found);
            }
            end.model = Some(self.deps.models.write(&global, &*self.aggregator)?);
            end.committed = true;
            next = Some(global);
        }
        let aggregated = begun.elapsed();
        end.seconds =
            now.saturating_duration_since(round.announced).as_secs_f64() + aggregated.as_secs_f64();
        let sketches = self.sketches(round)?;
        let accepted = accepted(round, &sketches);
        let policy_state = self.selection.finish(&accepted)?;
        self.deps.ledger.keep_sketches(number, &sketches)?;
        if !policy_state.is_empty() {
            self.deps.ledger.keep_policy_state(&policy_state)?;
        }
        self.deps.ledger.end_round(&end)?;
        // From here on the round is over, whatever happens: the updates may be removed.
        self.deps.ledger.commit()?;
        let metrics = &self.deps.shared.metrics;
        metrics.end_round(&end, round.selected(), aggregated);
        tracing::info!(
            round = number,
            committed = end.committed,
            selected = round.selected(),
            reported,
            accuracy = end.accuracy,
            seconds = end.seconds,
            "over"
        );
        if let Some(note) = &end.note {
            tracing::warn!(round = number, note, "not as it should be");
        }
        if let Some(calibrator) = &mut self.calibrator {
            calibrator.observe(reported as u64);
        }
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

    /// Loss and accuracy, as far as the task has them.
    fn evaluation(&self, found: &Evaluation) -> (Option<f64>, Option<f64>) {
        let has_accuracy = self.deps.task.metric() == Metric::Accuracy;
        let accuracy = has_accuracy.then(|| found.accuracy());
        (
            Some(found.loss()).filter(|loss| loss.is_finite()),
            accuracy.filter(|found| found.is_finite()),
        )
    }

    /// The sketches of the round's updates, if the policy needs them. An excluded update has none.
    fn sketches(
        &self,
        round: &Round<Aggregating>,
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

    /// The next model, if enough updates can be used. Notes weights, and updates that cannot be used.
    fn aggregate(
        &mut self,
        round: &Round<Aggregating>,
        end: &mut RoundEnd,
    ) -> Result<Option<Vec<f32>>, CoordinatorError> {
        let config = &self.deps.config;
        let picks = round.picks();
        let present = self.selected_from(round.number())?;
        let weights = self.selection.weigh(&picks, present.as_deref())?;
        let mut members = Vec::new();
        let mut paths = Vec::new();
        for (pick, &weight) in picks.iter().zip(&weights) {
            let member = round.members.get(&pick.client);
            let report = member.and_then(|member| member.report.as_ref());
            let missing = match (report, member) {
                (None, _) => Some("no report".to_string()),
                (_, Some(Member { excluded: Some(why), .. })) => Some((*why).to_string()),
                _ => None,
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
        let unusable = taken.into_iter().filter_map(Result::err);
        let unusable: Vec<String> =
            unusable.filter(|why| awaited(why.client)).map(|why| why.to_string()).collect();
        if !unusable.is_empty() {
            end.note = Some(unusable.join("; "));
        }
        if (usable as u64) < config.params.round.min_reports {
            // The round makes no model, so there is nothing to remember of it.
            self.aggregator.load_state(before)?;
            return Ok(None);
        }
        end.weights = picks.iter().map(|pick| pick.client).zip(weights).collect();
        Ok(Some(global))
    }
}

/// A copy of the state of an aggregator.
fn own(state: Vec<(&str, &[f32])>) -> AggregatorState {
    state.into_iter().map(|(name, values)| (name.to_string(), values.to_vec())).collect()
}

/// The reports of a round as policies see them.
fn accepted<'a>(
    round: &Round<Aggregating>,
    sketches: &'a BTreeMap<u32, Vec<f32>>,
) -> Vec<Report<'a>> {
    let report = |(&client, member): (&u32, &Member)| {
        let ReportRow { loss, seconds, .. } = member.report.as_ref()?;
        let sketch = sketches.get(&client).map(Vec::as_slice);
        Some(Report { sketch, ..report(client, *loss, *seconds) })
    };
    round.members.iter().filter_map(report).collect()
}

//! The checks of what rounds made: weights, the models that are kept, and their evaluations.

use super::replay::Replay;
use super::{AuditOptions, Finding};
use crate::coordinator::LEDGER;
use crate::coordinator::error::CoordinatorError;
use crate::coordinator::selection::Selection;
use crate::coordinator::storage::ledger::{Ledger, ModelRow, PastJoin, PastRound};
use crate::coordinator::storage::models::{FOLDER, is_as_written};
use agewise_core::Pick;
use agewise_train::Metric;
use agewise_train::checkpoint::read_model;
use std::fs;
use std::path::Path;

/// How far a weight may be from the one that is computed again. Both are 64-bit floats from the same sums; processors and libraries may
/// differ in their last digits.
const WEIGHT_TOLERANCE: f64 = 1e-9;
/// The same for the loss of a model, which is a mean over test samples of what 32-bit kernels compute: those of another processor add
/// in another order.
const LOSS_TOLERANCE: f64 = 1e-3;
/// The same for its accuracy: a sample between two classes may fall on the other side.
const ACCURACY_TOLERANCE: f64 = 2e-3;

/// The clients of a round that was committed, and how much each of them counted.
fn weighed(joins: &[PastJoin]) -> (Vec<Pick>, Vec<f64>) {
    let weighed = joins
        .iter()
        .filter_map(|join| Some((Pick { client: join.client, draws: join.draws }, join.weight?)));
    weighed.unzip()
}

impl Replay {
    /// The weights of a round that made a model: by the policy, the ages and the sizes as they were at its end.
    pub(super) fn check_weights(
        &mut self,
        round: &PastRound,
        joins: &[PastJoin],
        selection: &Selection,
    ) -> Result<(), CoordinatorError> {
        if !round.committed {
            return Ok(());
        }
        let number = round.round;
        for join in joins.iter().filter(|join| join.report.is_some() && join.weight.is_none()) {
            self.find(Some(number), Some(join.client), "it reported, and has no weight");
        }
        let (picks, written) = weighed(joins);
        if self.chose_by_sketches(self.config(round.settings)) || picks.is_empty() {
            return Ok(());
        }
        if picks.iter().any(|pick| !selection.knows(pick.client)) {
            return Ok(());
        }
        let present = round.selected_from(selection.clients());
        let expected = selection.weigh(&picks, present.as_deref())?;
        let is_near = |(written, expected): (&f64, &f64)| {
            (written - expected).abs() <= WEIGHT_TOLERANCE * expected.abs().max(1.0)
        };
        let wrong = written.iter().zip(&expected).position(|pair| !is_near(pair));
        let Some(place) = wrong else {
            self.counts.weights += written.len() as u64;
            return Ok(());
        };
        // A coordinator that was started again with other settings weighs by those, and a client that was revoked in the middle of the
        // round was not there any more when it ended: neither can be told from the ledger for sure.
        let is_other = self.settings_change_after(number) || self.someone_leaves_after(number);
        if !is_other {
            let (written, expected) = (written[place], expected[place]);
            let what = format!("its weight is {written}, expected {expected}");
            self.find(Some(number), Some(picks[place].client), what);
        }
        Ok(())
    }

    /// The model that a round trained: the newest one, unless that was found to be damaged.
    pub(super) fn check_trained(&mut self, round: &PastRound) {
        while let Some(rollback) =
            self.rollbacks.front().filter(|rollback| rollback.round <= round.round)
        {
            if rollback.version > rollback.round {
                let what = format!(
                    "the run went back to model {}, which was not made yet",
                    rollback.version
                );
                self.findings.push(Finding { round: Some(rollback.round), client: None, what });
            }
            // Those after it are set aside; it may have been one of them.
            drop(self.made.split_off(&rollback.version));
            self.made.insert(rollback.version);
            self.rollbacks.pop_front();
        }
        let newest = self.made.last().copied().unwrap_or_default();
        let is_there = |version: &&u64| **version == round.model || !self.damaged.contains(version);
        if self.made.iter().rev().find(is_there) != Some(&round.model) {
            let what = format!("it trained model {}, expected {newest}", round.model);
            self.find(Some(round.round), None, what);
        }
        if round.committed {
            self.made.insert(round.round + 1);
        }
    }

    /// Every model that is kept has the bytes that were written and, if there is a task, the loss and the accuracy that are on record.
    pub(super) fn check_models(
        &mut self,
        ledger: &Ledger,
        state: &Path,
        options: &AuditOptions<'_>,
    ) -> Result<(), CoordinatorError> {
        let folder = state.join(FOLDER);
        if !folder.is_dir() {
            // A ledger alone, as an operator may hand it to an auditor.
            return Ok(());
        }
        for row in ledger.models()? {
            let path = folder.join(&row.file);
            let round = row.version.checked_sub(1);
            let bytes = match fs::read(&path) {
                Ok(bytes) => bytes,
                Err(error) => {
                    if is_kept_now(state, &row)? {
                        let what = format!("model {} cannot be read: {error}", row.version);
                        self.find(round, None, what);
                    }
                    continue;
                }
            };
            if !is_as_written(&path, &bytes, &row.sha256) {
                let what = format!("model {} has other bytes than were written", row.version);
                self.find(round, None, what);
                continue;
            }
            self.counts.models += 1;
            self.check_evaluation(ledger, row.version, &bytes, options)?;
        }
        Ok(())
    }

    /// Loss and accuracy of a model, as its round has them.
    fn check_evaluation(
        &mut self,
        ledger: &Ledger,
        version: u64,
        bytes: &[u8],
        options: &AuditOptions<'_>,
    ) -> Result<(), CoordinatorError> {
        let Some((task, threads)) = options.task else { return Ok(()) };
        let round =
            version.checked_sub(1).map(|round| ledger.past_round(round)).transpose()?.flatten();
        let Some(PastRound { round, loss, accuracy, .. }) = round.filter(PastRound::is_evaluated)
        else {
            return Ok(());
        };
        let parameters = match read_model(bytes, &task.tensors()) {
            Ok(parameters) => parameters,
            Err(error) => {
                self.find(
                    Some(round),
                    None,
                    format!("model {version} is not one of this run: {error}"),
                );
                return Ok(());
            }
        };
        self.counts.evaluations += 1;
        let found = task.evaluate_all(&parameters, threads)?;
        let has_accuracy = task.metric() == Metric::Accuracy;
        for (name, written, found, tolerance) in [
            ("loss", loss, Some(found.loss()), LOSS_TOLERANCE),
            ("accuracy", accuracy, has_accuracy.then(|| found.accuracy()), ACCURACY_TOLERANCE),
        ] {
            let Some((written, found)) = written.zip(found) else { continue };
            // A loss that is not a number is near nothing.
            let is_near = (written - found).abs() <= tolerance * found.abs().max(1.0);
            if !is_near {
                let what =
                    format!("the {name} of model {version} is {found}, and {written} on record");
                self.find(Some(round), None, what);
            }
        }
        Ok(())
    }
}

/// Whether a model is still one that is kept: a run that goes on removes old ones while it is audited.
fn is_kept_now(state: &Path, row: &ModelRow) -> Result<bool, CoordinatorError> {
    Ok(Ledger::open_to_read(&state.join(LEDGER))?.models()?.contains(row))
}

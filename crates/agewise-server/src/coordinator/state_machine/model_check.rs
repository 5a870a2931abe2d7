//! Whether a new model is one to go on with: every parameter is finite, and where it is evaluated, it has not collapsed.

use super::Driver;
use crate::coordinator::error::CoordinatorError;
use crate::coordinator::storage::models::Global;
use agewise_train::Metric;

/// From so many rounds in a row on that made no model, the operator should look.
const MANY_WITHOUT_MODEL: u64 = 3;

/// Test loss and test accuracy, as far as the task has them and the model was evaluated.
type Evaluated = (Option<f64>, Option<f64>);

impl Driver {
    /// Loss and accuracy of a new model, or why it is not one to go on with.
    pub(super) fn check_model(
        &self,
        model: &Global,
    ) -> Result<Result<Evaluated, String>, CoordinatorError> {
        if !model.values.iter().all(|value| value.is_finite()) {
            return Ok(Err("a parameter of the model is infinite or not a number".to_string()));
        }
        let every = self.deps.config.params.model.eval_every;
        let rounds = self.deps.config.params.round.rounds;
        if every == 0 || !(model.version.is_multiple_of(every) || model.version == rounds) {
            return Ok(Ok((None, None)));
        }
        let found = self.deps.task.evaluate_all(&model.values, self.deps.threads)?;
        if found.samples == 0 {
            return Ok(Ok((None, None)));
        }
        let loss = found.loss();
        let has_accuracy = self.deps.task.metric() == Metric::Accuracy;
        let accuracy = Some(found.accuracy()).filter(|found| has_accuracy && found.is_finite());
        if !loss.is_finite() {
            return Ok(Err(format!("the test loss of the model is {loss}")));
        }
        let before = self.deps.ledger.last_evaluation(self.global.version)?;
        if let Some(why) = self.collapse((loss, accuracy), before) {
            return Ok(Err(why));
        }
        Ok(Ok((Some(loss), accuracy)))
    }

    /// Whether a model is so much worse than the one before that its updates are more likely to blame than their data.
    fn collapse(
        &self,
        (loss, accuracy): (f64, Option<f64>),
        before: Option<(f64, Option<f64>)>,
    ) -> Option<String> {
        let share = self.deps.config.params.model.collapse;
        let (loss_before, accuracy_before) = before.filter(|_| share > 0.0)?;
        match (accuracy, accuracy_before) {
            (Some(now), Some(before)) => (now < share * before).then(|| {
                let least = share * before;
                format!("its test accuracy is {now:.4} after {before:.4}, at least {least:.4} is expected")
            }),
            // The loss of a classifier has no scale; that of other tasks is all there is.
            (None, None) => (loss_before > 0.0 && share * loss > loss_before).then(|| {
                let most = loss_before / share;
                format!("its test loss is {loss:.4} after {loss_before:.4}, at most {most:.4} is expected")
            }),
            _ => None,
        }
    }

    /// Clients by their names, as people read them.
    pub(super) fn names(&self, clients: Vec<u32>) -> Result<String, CoordinatorError> {
        let mut names = Vec::new();
        for client in clients {
            names.push(self.deps.ledger.client_name(client)?);
        }
        Ok(names.join(", "))
    }

    /// What the operator should know: found at a start, and refused in the last rounds.
    pub(super) fn all_warnings(&self) -> Vec<String> {
        let mut all: Vec<String> = self.warnings.iter().chain(&self.refused).cloned().collect();
        all.append(&mut self.suspensions());
        if self.without_model >= MANY_WITHOUT_MODEL {
            let rounds = self.without_model;
            all.push(format!("the last {rounds} rounds have made no model: see their notes"));
        }
        all
    }
}

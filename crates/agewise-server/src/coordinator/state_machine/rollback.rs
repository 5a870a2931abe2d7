//! Going back to the model of an earlier round, because an operator asks for it.
//!
//! The model is the only thing that goes back. What was promised stays: ages, credits and rounds are not undone, the next round has the next
//! number and the next seed, and the ledger has the rollback beside the rounds.

use super::recovery::load_model;
use super::round::{ActiveRound, Aggregating};
use super::{Driver, Phase};
use crate::coordinator::error::CoordinatorError;
use agewise_train::aggregation::NormBound;
use std::time::Instant;

impl Driver {
    /// Goes back, if that was asked for and was not done yet.
    pub(super) fn roll_back(&mut self) -> Result<(), CoordinatorError> {
        let Some((version, model)) = self.deps.ledger.asked_rollback()? else {
            return Ok(());
        };
        // The run goes on as it is, if there is nothing to go back to.
        let unusable = match &model {
            None => Some("it is not kept".to_string()),
            Some(model) => self.deps.models.read(model).err().map(|error| error.to_string()),
        };
        if let Some(why) = unusable {
            let what = format!("the run does not go back to model {version}: {why}");
            tracing::error!("{what}");
            self.deps.ledger.refuse_rollback(&why)?;
            self.warnings.push(what);
            return Ok(());
        }
        // Its clients have trained another model than the one that comes now.
        let now = Instant::now();
        match std::mem::replace(&mut self.phase, Phase::Idle { until: now }) {
            Phase::Joining(round) => self.give_up(&round.close().close(), version, now)?,
            Phase::Training(round) => self.give_up(&round.close(), version, now)?,
            other => self.phase = other,
        }
        let round = self.round_number();
        self.deps.ledger.roll_back_to(version, round)?;
        let mut warnings = Vec::new();
        (self.global, self.aggregator) = load_model(&mut self.deps, &mut warnings)?;
        // Updates to the model that was set aside say nothing about those to this one.
        self.norms = NormBound::default();
        warnings.push(format!("from round {round} on the run went on with model {version} again"));
        // It may be done for the second time, if the first one was not committed.
        warnings.retain(|warning| !self.warnings.contains(warning));
        self.warnings.append(&mut warnings);
        tracing::warn!(round, version, "went back to an earlier model, as the operator asked");
        self.notifications.everyone = true;
        Ok(())
    }

    /// Ends a round without a model. Clients that have reported in it are credited all the same.
    fn give_up(
        &mut self,
        round: &ActiveRound<Aggregating>,
        version: u64,
        now: Instant,
    ) -> Result<(), CoordinatorError> {
        let note = format!("given up, as the run goes back to model {version}");
        self.end_round_unless(round, now, Some(note))
    }
}

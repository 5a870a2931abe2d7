//! The audit of a run: the ledger is replayed, and everything that should follow from something else is computed again.
//!
//! For every round: its seed is the link of the chain that was committed to; its interval follows from the population or from the
//! reports before; every age follows from enrolment and credits, and every wait after failures from the rounds before; everyone in it either
//! has a proof under its registered key of a draw that wins at its age, or was selected by the policy, or was invited because no client had
//! come, and both of these follow from the seed.
//! The weights with which updates became a model are computed again; the models that are kept have the bytes that were written, and the
//! round trained the newest of them; with the task of the run they are evaluated again.
//!
//! A policy that looks at sketches of updates cannot be asked again, as they are not in the ledger: the audit says so, in a finding, and
//! checks that the selected clients were connected, and not more than the cohort.
//!
//! docs/security.md lists what an audit cannot see: clients that were not told about a round, and clients that had a winning draw and
//! did not join.

mod checks;
mod models;
mod replay;

use super::LEDGER;
use super::error::CoordinatorError;
use super::startup::open_ledger_to_read;
use super::state_machine::{params_of, read_settings};
use super::storage::ledger::Ledger;
use crate::config::{CoordinatorConfig, CoordinatorParams};
use agewise_core::PolicyVariant;
use agewise_train::{Task, Threads};
use data_encoding::HEXLOWER;
use replay::Replay;
use serde::Serialize;
use std::fmt;
use std::path::Path;

/// What an audit has checked, and its findings.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Audit {
    /// The run, as digits.
    pub run: String,
    /// The policy.
    pub policy: String,
    /// Where draws came from: proven or seeded.
    pub draws: String,
    /// Rounds that were announced.
    pub rounds: u64,
    /// Clients that have enrolled.
    pub clients: u64,
    /// Clients in rounds.
    pub joins: u64,
    /// Proofs that were checked.
    pub proofs: u64,
    /// Clients that the coordinator selected or invited, for which that was computed again.
    pub invited: u64,
    /// Rounds in which one was invited because, as the coordinator says, no client had come.
    pub fallbacks: u64,
    /// Rounds whose cohorts cannot be checked: the policy looks at sketches of updates, and only the last ones are kept.
    /// If there are any, a finding says so.
    pub unchecked: u64,
    /// Rollbacks, in order.
    pub rollbacks: Vec<RolledBack>,
    /// Weights that were computed again.
    pub weights: u64,
    /// Models that are kept, and have the bytes that were written.
    pub models: u64,
    /// Of these, models that were evaluated again: that needs the test samples.
    pub evaluations: u64,
    /// Refusals during the run, by reason.
    pub refused: Vec<(String, u64)>,
    /// Everything that does not follow from law, ages and seeds.
    pub findings: Vec<Finding>,
}

/// The run went back to an earlier model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RolledBack {
    /// The first round after it.
    pub round: u64,
    /// The model with which it went on.
    pub model: u64,
}

/// Something that should not be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// In which round; `None` if it is about the whole run.
    pub round: Option<u64>,
    /// About which client.
    pub client: Option<u32>,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(round) = self.round {
            write!(f, "round {round}: ")?;
        }
        if let Some(client) = self.client {
            write!(f, "client {client}: ")?;
        }
        f.write_str(&self.what)
    }
}

/// What an audit is given beside the state folder.
#[derive(Default, Clone, Copy)]
pub struct AuditOptions<'a> {
    /// The policy, if it is one of your own.
    pub policy: Option<&'a PolicyVariant>,
    /// The task of the run, to evaluate kept models again, and on how many threads.
    pub task: Option<(&'a dyn Task, Threads)>,
}

/// Audits the run in a state folder. `progress` hears how many rounds of how many are done.
pub fn audit(state: &Path, progress: impl FnMut(u64, u64)) -> Result<Audit, CoordinatorError> {
    audit_with(state, &AuditOptions::default(), progress)
}

/// The settings with which the run in a state folder goes on: what its task can be made from.
pub fn settings(state: &Path) -> Result<CoordinatorParams, CoordinatorError> {
    let texts = open_ledger_to_read(&state.join(LEDGER))?.settings()?;
    params_of(texts.last().ok_or_else(no_settings)?)
}

/// Audits the run in a state folder, with what the ledger does not have.
pub fn audit_with(
    state: &Path,
    options: &AuditOptions<'_>,
    mut progress: impl FnMut(u64, u64),
) -> Result<Audit, CoordinatorError> {
    let path = state.join(LEDGER);
    let ledger = open_ledger_to_read(&path)?;
    let Some(run) = ledger.fact("id")? else {
        let expected = "a folder with a run that has begun";
        return Err(agewise_core::Error::new("state", state.display(), expected).into());
    };
    // All questions are about one moment, also if the run goes on.
    ledger.at_one_moment(|ledger| {
        let configs = configs(ledger, options.policy)?;
        let text = |key: &str| -> Result<String, CoordinatorError> {
            let value = ledger.fact(key)?.unwrap_or_default();
            Ok(String::from_utf8_lossy(&value).into_owned())
        };
        let rounds = ledger.announced()?;
        let rollbacks = ledger.rollbacks()?.into_iter();
        let rolled_back =
            rollbacks.map(|back| RolledBack { round: back.round, model: back.version });
        let mut replay = Replay::new(ledger, &run, configs)?;
        for round in 0..rounds {
            replay.play(ledger, round)?;
            progress(round + 1, rounds);
        }
        replay.compare_clients();
        replay.check_models(ledger, state, options)?;
        replay.state_limits();
        let (counts, findings) = replay.finish();
        Ok(Audit {
            run: HEXLOWER.encode(&run),
            policy: text("round.policy")?,
            draws: text("round.draws")?,
            rounds,
            clients: counts.clients,
            joins: counts.joins,
            proofs: counts.proofs,
            invited: counts.invited,
            fallbacks: counts.fallbacks,
            unchecked: counts.unchecked,
            rollbacks: rolled_back.collect(),
            weights: counts.weights,
            models: counts.models,
            evaluations: counts.evaluations,
            refused: ledger.refusal_counts()?,
            findings,
        })
    })
}

/// The settings of the run, by number.
fn configs(
    ledger: &Ledger,
    policy: Option<&PolicyVariant>,
) -> Result<Vec<CoordinatorConfig>, CoordinatorError> {
    let texts = ledger.settings()?;
    if texts.is_empty() {
        return Err(no_settings());
    }
    texts.iter().map(|text| read_settings(text, policy)).collect()
}

fn no_settings() -> CoordinatorError {
    CoordinatorError::Corrupt("the ledger has no settings of this run".to_string())
}

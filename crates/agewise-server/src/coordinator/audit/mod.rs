//! The audit of a run: the ledger is replayed, and everything that should follow from something else is computed again.
//!
//! For every round: its seed is the link of the chain that was committed to; its interval follows from the population or from the
//! reports before; every age follows from enrolment and credits; everyone in it either has a proof under its registered key of a draw
//! that wins at its age, or was selected by the policy, or was invited because no client had come, and both of these follow from the seed.
//!
//! A policy that looks at sketches of updates cannot be asked again, as they are not in the ledger: the audit says so, in a finding, and
//! checks that the selected clients were connected, and not more than the cohort.
//!
//! docs/security.md lists what an audit cannot see: clients that were not told about a round, and clients that had a winning draw and
//! did not join.

mod checks;
mod replay;

use super::LEDGER;
use super::error::CoordinatorError;
use super::startup::open_ledger_to_read;
use super::state_machine::read_settings;
use super::storage::ledger::Ledger;
use crate::config::CoordinatorConfig;
use agewise_core::PolicyVariant;
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
    /// Refusals during the run, by reason.
    pub refused: Vec<(String, u64)>,
    /// Everything that does not follow from law, ages and seeds.
    pub findings: Vec<Finding>,
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

/// Audits the run in a state folder. `progress` hears how many rounds of how many are done.
pub fn audit(state: &Path, progress: impl FnMut(u64, u64)) -> Result<Audit, CoordinatorError> {
    audit_with(state, None, progress)
}

/// Audits the run in a state folder, whose policy may be one of your own.
pub fn audit_with(
    state: &Path,
    policy: Option<&PolicyVariant>,
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
        let configs = configs(ledger, policy)?;
        let text = |key: &str| -> Result<String, CoordinatorError> {
            let value = ledger.fact(key)?.unwrap_or_default();
            Ok(String::from_utf8_lossy(&value).into_owned())
        };
        let rounds = ledger.announced()?;
        let mut replay = Replay::new(ledger, &run, configs)?;
        for round in 0..rounds {
            replay.play(ledger, round)?;
            progress(round + 1, rounds);
        }
        replay.compare_ages();
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
        return Err(CoordinatorError::Corrupt(
            "the ledger has no settings of this run".to_string(),
        ));
    }
    texts.iter().map(|text| read_settings(text, policy)).collect()
}

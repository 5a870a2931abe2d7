//! The audit of a run: the ledger is replayed, and everything that should follow from something else is computed again.
//!
//! For every round: its seed is the link of the chain that was committed to; its interval follows from the population or from the
//! reports before; every age follows from enrolment and credits; everyone in it either has a proof under its registered key of a lot that
//! wins at its age, or was chosen by the policy, or was called because nobody had come, and both of these follow from the seed.
//!
//! A policy that looks at sketches of updates cannot be asked again, as they are not in the ledger: the audit says so, in a finding, and
//! checks that those who were chosen were connected, and no more than they should be.
//!
//! What an audit cannot see is in docs/security.md: who was not told about a round, and who had a lot that wins and kept quiet.

mod replay;

use super::driver::read_settings;
use super::ledger::Ledger;
use super::trouble::Trouble;
use super::{LEDGER, open_ledger_to_read};
use crate::config::CoordinatorConfig;
use crate::hex::hex;
use replay::Replay;
use std::fmt;
use std::path::Path;

/// What an audit has looked at, and what it has found.
#[derive(Debug, Clone, PartialEq)]
pub struct Audit {
    /// The run, as digits.
    pub run: String,
    /// The policy.
    pub policy: String,
    /// Where lots came from: proven or seeded.
    pub lots: String,
    /// Rounds that were announced.
    pub rounds: u64,
    /// Clients that have enrolled.
    pub clients: u64,
    /// Clients in rounds.
    pub joins: u64,
    /// Proofs that were checked.
    pub proofs: u64,
    /// Clients that the coordinator chose or called, for which that was computed again.
    pub called: u64,
    /// Rounds in which one was called because, as the coordinator says, nobody had come.
    pub recalled: u64,
    /// Rounds of which nobody can tell whether their cohorts are the policy's: it looks at sketches of updates, and only the last ones are kept.
    /// If there are any, a finding says so.
    pub unchecked: u64,
    /// What was refused during the run, by reason.
    pub refused: Vec<(String, u64)>,
    /// What does not follow from law, ages and seeds.
    pub findings: Vec<Finding>,
}

/// Something that should not be.
#[derive(Debug, Clone, PartialEq, Eq)]
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
pub fn audit(state: &Path, mut progress: impl FnMut(u64, u64)) -> Result<Audit, Trouble> {
    let path = state.join(LEDGER);
    let ledger = open_ledger_to_read(&path)?;
    let Some(run) = ledger.fact("id")? else {
        let expected = "a folder with a run that has begun";
        return Err(agewise_core::Error::new("state", state.display(), expected).into());
    };
    // All questions are about one moment, also if the run goes on.
    ledger.at_one_moment(|ledger| {
        let configs = configs(ledger)?;
        let text = |key: &str| -> Result<String, Trouble> {
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
        replay.admit_limits();
        let (counts, findings) = replay.finish();
        Ok(Audit {
            run: hex(&run),
            policy: text("round.policy")?,
            lots: text("round.lots")?,
            rounds,
            clients: counts.clients,
            joins: counts.joins,
            proofs: counts.proofs,
            called: counts.called,
            recalled: counts.recalled,
            unchecked: counts.unchecked,
            refused: ledger.refusal_counts()?,
            findings,
        })
    })
}

/// The settings of the run, by number.
fn configs(ledger: &Ledger) -> Result<Vec<CoordinatorConfig>, Trouble> {
    let texts = ledger.settings()?;
    if texts.is_empty() {
        return Err(Trouble::Broken("the ledger has no settings of this run".to_string()));
    }
    texts.iter().map(|text| read_settings(text)).collect()
}

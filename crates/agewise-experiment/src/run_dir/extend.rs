//! More of a run than it was asked for at first.

use super::{CHECKPOINTS, DERIVED, LOGS, RunDir};
use crate::error::ExperimentError;
use crate::params::{Difference, ExperimentParams};
use agewise_core::Error;

/// Asks for more seeds, more rounds or more policies of a run, finished or not: from then on its configuration is the
/// new one, and [`crate::play`] plays what is missing and nothing else. It ends with the bytes of a run that had asked
/// for all at once. Until then there are no tables, figures and reports.
///
/// A training run goes on from its last checkpoint, which is kept when it has ended (without it, it is played again). A
/// run without a task is played again where it needs more rounds; where clients join, more rounds mean more clients to
/// share the data, so that everything is played again. The caller holds the lock of the directory ([`RunDir::lock`]) from
/// before it read the configuration until the run has ended.
pub fn extend(dir: &RunDir, params: &ExperimentParams) -> Result<(), ExperimentError> {
    let before = dir.read_config()?;
    check(&before, params)?;
    // Until the run is finished again nothing may look as if it were.
    DERIVED.iter().try_for_each(|name| dir.remove(name))?;
    if params.rounds != before.rounds && params.world.join > 0.0 {
        dir.remove(LOGS)?;
        dir.remove(CHECKPOINTS)?;
    }
    dir.write_config(params)
}

/// Checks that nothing but more is asked for.
fn check(before: &ExperimentParams, params: &ExperimentParams) -> Result<(), Error> {
    let more = [
        ("rounds", before.rounds, params.rounds),
        ("seeds", u64::from(before.seeds), u64::from(params.seeds)),
    ];
    for (field, before, now) in more {
        if now < before {
            return Err(Error::new(field, now, format!("at least the {before} of the run")));
        }
    }
    if !params.policies.starts_with(&before.policies) {
        let expected = format!("the policies of the run first: {}", before.policies.join(", "));
        return Err(Error::new("policies", params.policies.join(", "), expected));
    }
    let otherwise = ExperimentParams {
        rounds: params.rounds,
        seeds: params.seeds,
        policies: params.policies.clone(),
        baseline: params.baseline.clone(),
        ..before.clone()
    };
    // Data may have been moved: they are known by their checksums.
    match otherwise.difference(&params.with_files_of(before))? {
        None => Ok(()),
        Some(Difference { key, before, now }) => {
            let expected =
                format!("{before}, as in the run: only seeds, rounds and policies can be more");
            Err(Error::new(key, now, expected))
        }
    }
}

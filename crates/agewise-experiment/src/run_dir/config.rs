//! `config.toml`: the parameters of a run, and which of them its bytes depend on.

use super::{CONFIG, RunDir};
use crate::clock::Unit;
use crate::error::ExperimentError;
use crate::params::{ClockParams, ExperimentParams, TrainingParams, read_params};
use std::fs::File;
use std::path::Path;

/// The text of `config.toml`.
pub fn config_text(params: &ExperimentParams) -> Result<String, ExperimentError> {
    let text = toml::to_string(params);
    text.map_err(|error| ExperimentError::Unreadable(format!("cannot write {CONFIG}: {error}")))
}

impl RunDir {
    /// Makes the directory of a new run ([`Self::create`]) and stores its parameters. With `force` a run in it is cleared,
    /// unless another process is working on it. Also returns its lock ([`Self::lock`]), to be held until the run has ended.
    pub fn begin(
        out: Option<&Path>,
        name: &str,
        force: bool,
        params: &ExperimentParams,
    ) -> Result<(Self, File), ExperimentError> {
        let dir = Self::create(out, name, force)?;
        dir.check_foreign()?;
        let lock = dir.lock()?;
        dir.clear()?;
        dir.write_config(params)?;
        Ok((dir, lock))
    }

    /// Stores the parameters; the first thing that is written, so that a directory that cannot be written to is noticed
    /// before the work.
    pub fn write_config(&self, params: &ExperimentParams) -> Result<(), ExperimentError> {
        Ok(self.write(CONFIG, config_text(params)?.as_bytes())?)
    }

    /// The parameters that [`Self::write_config`] stored.
    pub fn read_config(&self) -> Result<ExperimentParams, ExperimentError> {
        let text = self.read(CONFIG)?.unwrap_or_default();
        let params = read_params(&text, None).map_err(|error| {
            let path = self.path().join(CONFIG);
            ExperimentError::Unreadable(format!("{}: {error}", path.display()))
        })?;
        Ok(params)
    }
}

/// A number that stands for everything in the parameters that the bytes of a single run depend on, and for this version
/// of the program: what was stored under another one is not taken over. Seeds, rounds and policies are not in it, so
/// that a run can be asked for more of them; the header of a log names its own. Where clients join, the number of rounds
/// decides how many clients share the data, and counts too. (FNV-1a, which is the same on every machine.)
pub(crate) fn fingerprint(params: &ExperimentParams) -> Result<u64, ExperimentError> {
    // Files of one's own count by their contents, wherever they are.
    let nowhere = ExperimentParams { training: Some(TrainingParams::default()), ..params.clone() };
    let params = &params.with_files_of(&nowhere);
    // In which unit a run is told changes nothing of it.
    let clock = params.clock.clone().map(|clock| ClockParams { unit: Unit::Rounds, ..clock });
    let own = ExperimentParams {
        clock,
        seeds: 0,
        rounds: if params.world.join > 0.0 { params.rounds } else { 0 },
        policies: Vec::new(),
        baseline: None,
        ..params.clone()
    };
    let text = config_text(&own)?;
    let bytes = text.bytes().chain(env!("CARGO_PKG_VERSION").bytes());
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    Ok(bytes.fold(0xcbf2_9ce4_8422_2325, step))
}

//! The files of a comparison that is under way: a log for each run, and its last model.
//!
//! A round is first appended to the log, then its model is written over the last but one: two files take turns, so one
//! of them is always whole, and writing over a file costs a tenth of making a new one. Whatever is cut off in between is
//! seen when the run goes on: the log counts up to the model, a line whose checksum is wrong counts as not written, and a run
//! without a model begins anew. None of that changes the result, as a round gives the same bytes whenever it is played.

use super::CompareError;
use super::checkpoint::{decode, encode};
use crate::run_folder::RunFolder;
use crate::sim::study::{Checkpoint, RoundLog, RunId, Study, TrainingRun};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Seek as _, Write as _};

/// The folder of the logs; they stay, a report is drawn from them.
pub(super) const LOGS: &str = "log";
/// The folder of the models of runs that are not finished.
pub(super) const CHECKPOINTS: &str = "checkpoints";
/// The folder of the last models, one for each policy, from the first seed.
pub(super) const MODELS: &str = "models";

/// The first line of a log.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Header {
    policy: String,
    seed: u64,
    /// The fingerprint of the configuration, in hexadecimal.
    config: String,
}

/// Where the runs of a study are kept.
pub(super) struct Store<'a> {
    study: &'a Study,
    folder: &'a RunFolder,
    fingerprint: u64,
}

/// The open files of a run, and a buffer for its models.
pub(super) struct OpenRun {
    log: File,
    models: [File; 2],
    buffer: Vec<u8>,
}

impl<'a> Store<'a> {
    pub(super) fn new(study: &'a Study, folder: &'a RunFolder, fingerprint: u64) -> Self {
        Self { study, folder, fingerprint }
    }

    pub(super) fn make_folders(&self) -> Result<(), CompareError> {
        for name in [LOGS, CHECKPOINTS, MODELS] {
            self.folder.make(name)?;
        }
        Ok(())
    }

    /// The policy and the seed of a run.
    pub(super) fn names(&self, id: RunId) -> (&str, u64) {
        (&self.study.contenders()[id.contender].label, self.study.seed(id.seed).0)
    }

    fn header(&self, id: RunId) -> Header {
        let (policy, seed) = self.names(id);
        Header { policy: policy.to_string(), seed, config: format!("{:016x}", self.fingerprint) }
    }

    /// The rounds of a run that are on disk.
    pub(super) fn logs(&self, id: RunId) -> Result<Vec<RoundLog>, CompareError> {
        let name = log_name(id);
        let Some(bytes) = self.folder.read_bytes(&name)? else {
            return Ok(Vec::new());
        };
        let mut lines = bytes.split_inclusive(|&byte| byte == b'\n');
        match lines.next().and_then(read_line::<Header>) {
            None => return Ok(Vec::new()),
            Some(header) if header == self.header(id) => {}
            Some(header) => {
                return Err(CompareError::Unreadable(format!(
                    "{name}: belongs to policy {}, seed {} of another configuration or version; expected the log of \
                     policy {}, seed {} (start again with --force, or in another folder)",
                    header.policy,
                    header.seed,
                    self.header(id).policy,
                    self.header(id).seed
                )));
            }
        }
        let rounds = lines.map_while(read_line);
        let in_order = |(index, log): (usize, RoundLog)| (log.round == index as u64).then_some(log);
        Ok(rounds.enumerate().map_while(in_order).collect())
    }

    /// The newest model of a run that is whole and not ahead of the log.
    pub(super) fn checkpoint(
        &self,
        id: RunId,
        logs: &[RoundLog],
    ) -> Result<Option<Checkpoint>, CompareError> {
        let rule = self.study.params().server;
        let mut newest: Option<Checkpoint> = None;
        for turn in [0, 1] {
            let bytes = self.folder.read_bytes(&checkpoint_name(id, turn))?;
            let found = bytes.and_then(|bytes| decode(&bytes, self.fingerprint, rule));
            let found = found.filter(|found| found.rounds <= logs.len() as u64);
            if found.as_ref().map(|found| found.rounds) > newest.as_ref().map(|known| known.rounds)
            {
                newest = found;
            }
        }
        Ok(newest)
    }

    /// Opens the log behind these rounds.
    pub(super) fn open(&self, id: RunId, logs: &[RoundLog]) -> Result<OpenRun, CompareError> {
        let name = log_name(id);
        let mut text = line(&self.header(id))?;
        for log in logs {
            text.extend(line(log)?);
        }
        // Only where something was cut off there is anything to write.
        if self.folder.read_bytes(&name)?.as_ref() != Some(&text) {
            self.folder.write(&name, &text)?;
        }
        let model = |turn| self.folder.overwrite(&checkpoint_name(id, turn));
        let models = [model(0)?, model(1)?];
        Ok(OpenRun { log: self.folder.append(&name)?, models, buffer: Vec::new() })
    }

    /// Keeps the last round of a run.
    pub(super) fn keep(
        &self,
        id: RunId,
        open: &mut OpenRun,
        run: &TrainingRun<'_>,
    ) -> Result<(), CompareError> {
        if let Some(log) = run.logs().last() {
            let written = open.log.write_all(&line(log)?);
            written.map_err(|error| self.folder.trouble(&log_name(id), error))?;
        }
        let rounds = run.logs().len() as u64;
        let sketches = run.sketches();
        let (global, server) = (run.global(), run.server());
        encode(&mut open.buffer, self.fingerprint, rounds, global, server, &sketches);
        let turn = (rounds % 2) as usize;
        let file = &mut open.models[turn];
        // Sketches are few at first: where a run begins anew, nothing of a longer file may stay behind.
        let written = file
            .rewind()
            .and_then(|()| file.write_all(&open.buffer))
            .and_then(|()| file.set_len(open.buffer.len() as u64));
        written.map_err(|error| self.folder.trouble(&checkpoint_name(id, turn), error))?;
        Ok(())
    }

    /// The file of a policy's model, if this run is the one whose model is kept.
    fn model_name(&self, id: RunId) -> Option<String> {
        let name = format!("{MODELS}/{}.safetensors", slug(self.study, id.contender));
        (id.seed == 0).then_some(name)
    }

    /// Whether a run's model is to be kept and is not there.
    pub(super) fn lacks_model(&self, id: RunId) -> bool {
        self.model_name(id).is_some_and(|name| !self.folder.path().join(name).is_file())
    }

    /// Keeps the model of a finished run, if it is the one that stands for its policy.
    pub(super) fn finish(
        &self,
        id: RunId,
        run: Option<&TrainingRun<'_>>,
    ) -> Result<(), CompareError> {
        if let (Some(name), Some(run)) = (self.model_name(id), run) {
            let file = self.study.trainer().model().to_safetensors(run.global())?;
            self.folder.write(&name, &file)?;
        }
        for turn in [0, 1] {
            self.folder.remove(&checkpoint_name(id, turn))?;
        }
        Ok(())
    }
}

/// A JSON object on a line of its own, with a checksum of what is before it as its last field.
fn line(value: &impl Serialize) -> Result<Vec<u8>, CompareError> {
    let text = serde_json::to_vec(value);
    let mut text = text.map_err(|error| CompareError::Unreadable(format!("log: {error}")))?;
    // The closing bracket moves behind the checksum.
    text.pop();
    let checksum = crc32c::crc32c(&text);
    text.extend_from_slice(format!("{CHECKSUM}{checksum:08x}\"}}\n").as_bytes());
    Ok(text)
}

/// How the checksum of a line begins, and how long the end of a line is.
const CHECKSUM: &str = ",\"crc32c\":\"";
const LINE_END: usize = CHECKSUM.len() + 8 + 3;

/// Reads a line; nothing if it is not whole, or not as it was written.
fn read_line<T: DeserializeOwned>(line: &[u8]) -> Option<T> {
    let (text, end) = line.split_at_checked(line.len().checked_sub(LINE_END)?)?;
    let expected = format!("{CHECKSUM}{:08x}\"}}\n", crc32c::crc32c(text));
    if end != expected.as_bytes() {
        return None;
    }
    serde_json::from_slice(line).ok()
}

fn log_name(id: RunId) -> String {
    format!("{LOGS}/{:03}-{:05}.jsonl", id.contender, id.seed)
}

fn checkpoint_name(id: RunId, turn: usize) -> String {
    format!("{CHECKPOINTS}/{:03}-{:05}-{turn}.model", id.contender, id.seed)
}

/// A policy's label as the name of a file: unlike all others.
pub(super) fn slug(study: &Study, contender: usize) -> String {
    let plain = |label: &str| {
        let keep = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        label.chars().map(keep).collect::<String>().trim_matches('_').to_string()
    };
    let labels: Vec<String> = study.contenders().iter().map(|c| plain(&c.label)).collect();
    let label = &labels[contender];
    let same = labels[..contender].iter().filter(|other| *other == label).count();
    if same == 0 { label.clone() } else { format!("{label}-{}", same + 1) }
}

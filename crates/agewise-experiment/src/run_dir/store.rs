//! The runs of an experiment on disk.
//!
//! A run without a task has one line, with its record, when it is finished. A run of training has a line for every round,
//! and a checkpoint: a round is first appended to the log, then its state is written over the last but one. Two files
//! take turns, so one of them is always whole, and writing over a file costs a tenth of making a new one. Whatever is cut
//! off in between is seen when the run goes on: the log counts up to the checkpoint, and a run without one begins anew.
//! None of that changes the result, as a round gives the same bytes whenever it is played.
//!
//! When a run has ended its last checkpoint stays, so that it can be asked for more rounds. Removing `checkpoints/` is
//! safe: such a run is then played again from its beginning, with the same bytes.

use super::config::fingerprint;
use super::jsonl::{line, read_line};
use super::{CHECKPOINTS, CONFIG, LOGS, MODELS, RunDir};
use crate::clock::Schedule;
use crate::error::ExperimentError;
use crate::experiment::{Experiment, Variant};
use crate::log::RoundLog;
use crate::record::{LoadRecord, RoundRecord, RunId};
use agewise_core::{Error, Start, Weighting};
use agewise_train::checkpoint::{Checkpoint, Metadata};
use serde::{Deserialize, Serialize};

type Result<T> = std::result::Result<T, ExperimentError>;

/// The first line of a log.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Header {
    policy: String,
    seed: u64,
    /// The rule of aggregation, the first ages and the weights, which need not be those of the configuration. Logs of
    /// earlier versions do not say them.
    #[serde(default)]
    aggregation: String,
    #[serde(default)]
    start: Option<Start>,
    #[serde(default)]
    weighting: Option<Weighting>,
    /// The schedule, where it is not the synchronous one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    schedule: Option<String>,
    /// The fingerprint of the configuration, in hexadecimal.
    config: String,
}

/// A finished run without a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SelectionResult {
    pub(crate) rounds: Vec<RoundRecord>,
    pub(crate) load: LoadRecord,
}

/// Where the runs of an experiment are kept.
pub(crate) struct Store<'a> {
    experiment: &'a Experiment,
    dir: &'a RunDir,
    fingerprint: u64,
}

impl<'a> Store<'a> {
    /// The runs in a directory.
    pub(crate) fn new(experiment: &'a Experiment, dir: &'a RunDir) -> Result<Self> {
        check_log_names(experiment, dir)?;
        Ok(Self { experiment, dir, fingerprint: fingerprint(experiment.params())? })
    }

    fn header(&self, id: RunId) -> Result<Header> {
        let variant = self.experiment.variant(id)?;
        Ok(Header {
            policy: variant.name().to_string(),
            seed: self.experiment.seed(id.seed).0,
            aggregation: variant.aggregation().name().to_string(),
            start: Some(variant.policy().start()),
            weighting: Some(variant.policy().weighting()),
            schedule: Some(variant.schedule())
                .filter(|schedule| *schedule != Schedule::Sync)
                .map(|schedule| schedule.to_string()),
            config: format!("{:016x}", self.fingerprint),
        })
    }

    /// The lines of a log behind its header.
    fn lines(&self, id: RunId) -> Result<Vec<Vec<u8>>> {
        let name = log_name(id);
        let Some(bytes) = self.dir.read_bytes(&name)? else {
            return Ok(Vec::new());
        };
        let mut lines = bytes.split_inclusive(|&byte| byte == b'\n');
        let expected = self.header(id)?;
        match lines.next().and_then(read_line::<Header>) {
            None => Ok(Vec::new()),
            Some(header) if header == expected => Ok(lines.map(<[u8]>::to_vec).collect()),
            Some(Header { policy, seed, .. }) => Err(ExperimentError::Unreadable(format!(
                "{}: is of policy {policy}, seed {seed} under another configuration, or of another version; expected the \
                 log of policy {}, seed {} under {CONFIG} (start again with --force, or in another folder)",
                self.dir.path().join(name).display(),
                expected.policy,
                expected.seed
            ))),
        }
    }

    /// A run without a task, if it is there with as many rounds as are asked for.
    pub(crate) fn selection(&self, id: RunId) -> Result<Option<SelectionResult>> {
        let lines = self.lines(id)?;
        let stored: Option<SelectionResult> = lines.first().and_then(|line| read_line(line));
        self.check_rounds(id, stored.as_ref().map_or(0, |stored| stored.rounds.len()))?;
        let rounds = self.experiment.params().rounds;
        Ok(stored.filter(|stored| stored.rounds.len() as u64 == rounds))
    }

    /// Refuses a log with more rounds than are asked for: they were changed by hand, and nothing may be lost.
    fn check_rounds(&self, id: RunId, stored: usize) -> Result<()> {
        let rounds = self.experiment.params().rounds;
        if stored as u64 <= self.experiment.steps_of(self.experiment.variant(id)?) {
            return Ok(());
        }
        let expected = format!("at least {stored}, the rounds of {} ({CHANGED})", log_name(id));
        Err(Error::new("rounds", rounds, expected).into())
    }

    /// Keeps a finished run without a task.
    pub(crate) fn keep_selection(&self, id: RunId, result: &SelectionResult) -> Result<()> {
        let mut text = line(&self.header(id)?)?;
        text.extend(line(result)?);
        Ok(self.dir.write(&log_name(id), &text)?)
    }

    /// The rounds of a training run that are on disk.
    pub(crate) fn logs(&self, id: RunId) -> Result<Vec<RoundLog>> {
        let lines = self.lines(id)?;
        let rounds = lines.iter().map_while(|line| read_line::<RoundLog>(line));
        let in_order = |(round, log): (u64, RoundLog)| (log.round == round).then_some(log);
        let mut logs: Vec<RoundLog> = (0..).zip(rounds).map_while(in_order).collect();
        self.check_rounds(id, logs.len())?;
        self.forget_end(self.experiment.variant(id)?, &mut logs);
        Ok(logs)
    }

    /// The rounds of a training run that are on disk, and the newest checkpoint that is whole and not ahead of them.
    pub(crate) fn training(&self, id: RunId) -> Result<(Vec<RoundLog>, Option<Checkpoint>)> {
        let logs = self.logs(id)?;
        let mut newest: Option<Checkpoint> = None;
        for turn in [0, 1] {
            let found = self.checkpoint(id, &checkpoint_name(id, turn))?;
            let found = found.filter(|found| found.metadata.round <= logs.len() as u64);
            let round = |checkpoint: &Option<Checkpoint>| Some(checkpoint.as_ref()?.metadata.round);
            if round(&found) > round(&newest) {
                newest = found;
            }
        }
        Ok((logs, newest))
    }

    /// Takes back what was written because a round was the last, where the run has been asked for more rounds since.
    fn forget_end(&self, variant: &Variant, logs: &mut [RoundLog]) {
        if let Some(last) = logs.last_mut()
            && !self.experiment.evaluates(variant, last.round)
        {
            last.test = None;
        }
        if !self.experiment.is_finished(variant, logs)
            && let Some(last) = logs.last_mut()
        {
            last.final_losses = None;
        }
    }

    /// A file with a model of a run; nothing if it is damaged or belongs to another configuration.
    fn checkpoint(&self, id: RunId, name: &str) -> Result<Option<Checkpoint>> {
        let Some(bytes) = self.dir.read_bytes(name)? else {
            return Ok(None);
        };
        let found = Checkpoint::decode(&bytes, &self.experiment.required_task()?.tensors());
        let found = found.ok().filter(|found| {
            let round = found.metadata.round;
            self.metadata(id, round).is_ok_and(|expected| expected == found.metadata)
        });
        Ok(found)
    }

    /// What a file with a model of a run says about itself.
    pub(super) fn metadata(&self, id: RunId, round: u64) -> Result<Metadata> {
        let variant = self.experiment.variant(id)?;
        let mut task = self.experiment.required_task()?.describe();
        // These are not in the file.
        (task.test_samples, task.test_classes) = (0, Vec::new());
        Ok(Metadata {
            round,
            seed: self.experiment.seed(id.seed).0,
            policy: variant.policy().name().to_string(),
            aggregation: variant.aggregation().name().to_string(),
            fingerprint: self.fingerprint,
            task,
        })
    }

    /// The file of a variant's model, if this run is the one whose model is kept.
    pub(super) fn model_name(&self, id: RunId) -> Option<String> {
        let name = format!("{MODELS}/{}.safetensors", self.experiment.slug(id.variant));
        (id.seed == 0).then_some(name)
    }

    /// Whether a finished run has left everything behind that it leaves: its model, if that is kept, and its last
    /// checkpoint or none. A model of fewer rounds is from before the run was asked for more of them; a checkpoint file
    /// that is there and cannot be used is damaged.
    pub(crate) fn is_complete(
        &self,
        id: RunId,
        rounds: u64,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<bool> {
        let whole = match checkpoint {
            Some(checkpoint) => checkpoint.metadata.round == rounds,
            None => !self.dir.path().join(checkpoint_name(id, rounds)).exists(),
        };
        if !whole {
            return Ok(false);
        }
        let Some(name) = self.model_name(id) else {
            return Ok(true);
        };
        Ok(self.checkpoint(id, &name)?.is_some_and(|model| model.metadata.round == rounds))
    }

    /// Removes the last checkpoint but one, which a finished run does not need.
    pub(crate) fn remove_surplus(&self, id: RunId, rounds: u64) -> Result<()> {
        Ok(self.dir.remove(&checkpoint_name(id, rounds + 1))?)
    }

    /// The text of a log: its header and these rounds.
    pub(super) fn log_text(&self, id: RunId, logs: &[RoundLog]) -> Result<Vec<u8>> {
        let mut text = line(&self.header(id)?)?;
        for log in logs {
            text.extend(line(log)?);
        }
        Ok(text)
    }

    pub(super) fn experiment(&self) -> &'a Experiment {
        self.experiment
    }

    pub(super) fn dir(&self) -> &'a RunDir {
        self.dir
    }
}

/// What to do about logs of more than is asked for.
const CHANGED: &str = "its config.toml was changed by hand: a run can be asked for more with --extend, and not for less";

/// Refuses logs of seeds and policies that are not asked for: they were changed by hand, and nothing may be lost.
fn check_log_names(experiment: &Experiment, dir: &RunDir) -> Result<()> {
    let params = experiment.params();
    let (seeds, policies) = (params.seeds as usize, params.policies.len());
    for name in dir.names(LOGS)? {
        let numbers = name.strip_suffix(".jsonl").and_then(|name| name.split_once('-'));
        let numbers =
            numbers.and_then(|(variant, seed)| Some((variant.parse().ok()?, seed.parse().ok()?)));
        let Some((variant, seed)): Option<(usize, usize)> = numbers else {
            continue;
        };
        for (field, asked, number) in [("seeds", seeds, seed), ("policies", policies, variant)] {
            if number >= asked {
                let expected =
                    format!("at least {}, as there is {LOGS}/{name} ({CHANGED})", number + 1);
                return Err(Error::new(field, asked, expected).into());
            }
        }
    }
    Ok(())
}

pub(super) fn log_name(id: RunId) -> String {
    format!("{LOGS}/{:03}-{:05}.jsonl", id.variant, id.seed)
}

/// The states of a run take turns in two files.
pub(super) fn checkpoint_name(id: RunId, turn: u64) -> String {
    format!("{CHECKPOINTS}/{:03}-{:05}-{}.safetensors", id.variant, id.seed, turn % 2)
}

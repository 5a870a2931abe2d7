//! The files of a training run while it is played.

use super::jsonl::line;
use super::store::{Store, checkpoint_name, log_name};
use super::timing::{RoundTimes, Timing};
use super::{CHECKPOINTS, LOGS, TIMING};
use crate::error::ExperimentError;
use crate::record::RunId;
use crate::run::TrainingRun;
use agewise_train::checkpoint::CheckpointView;
use agewise_train::model::Tensor;
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::time::Instant;

type Result<T> = std::result::Result<T, ExperimentError>;

/// The open files of a run, and a buffer for its checkpoints.
pub(crate) struct RunWriter<'a> {
    store: &'a Store<'a>,
    timing: &'a Timing,
    id: RunId,
    tensors: Vec<Tensor>,
    log: File,
    checkpoints: [File; 2],
    buffer: Vec<u8>,
    /// When the present round began.
    since: Instant,
}

impl<'a> RunWriter<'a> {
    /// Opens the files of a run behind the rounds that it has.
    pub(crate) fn open(
        store: &'a Store<'a>,
        timing: &'a Timing,
        id: RunId,
        run: &TrainingRun<'_>,
    ) -> Result<Self> {
        let (dir, name) = (store.dir(), log_name(id));
        [LOGS, CHECKPOINTS].iter().try_for_each(|name| dir.make(name))?;
        let text = store.log_text(id, run.logs())?;
        // Only where something was cut off there is anything to write.
        if dir.read_bytes(&name)?.as_ref() != Some(&text) {
            dir.write(&name, &text)?;
        }
        let checkpoint = |turn| dir.overwrite(&checkpoint_name(id, turn));
        Ok(Self {
            tensors: store.experiment().required_task()?.tensors(),
            log: dir.append(&name)?,
            checkpoints: [checkpoint(0)?, checkpoint(1)?],
            buffer: Vec::new(),
            since: Instant::now(),
            store,
            timing,
            id,
        })
    }

    /// Keeps the last round of the run.
    pub(crate) fn keep(&mut self, run: &TrainingRun<'_>) -> Result<()> {
        let (dir, id) = (self.store.dir(), self.id);
        let (round, begin) = (self.since.elapsed(), Instant::now());
        if let Some(log) = run.logs().last() {
            let written = self.log.write_all(&line(log)?);
            written.map_err(|error| dir.failed(&log_name(id), error))?;
        }
        let rounds = run.logs().len() as u64;
        self.encode(run, true)?;
        let file = &mut self.checkpoints[(rounds % 2) as usize];
        // Sketches are few at first: where a run begins anew, nothing of a longer file may stay behind.
        let written = file
            .rewind()
            .and_then(|()| file.write_all(&self.buffer))
            .and_then(|()| file.set_len(self.buffer.len() as u64));
        written.map_err(|error| dir.failed(&checkpoint_name(id, rounds), error))?;
        self.since = Instant::now();
        let times =
            RoundTimes { round, checkpoint: self.since - begin, selection: run.selecting_time() };
        let policy = self.store.experiment().variant(id)?.name();
        let seed = self.store.experiment().seed(id.seed).0;
        let written = self.timing.note((id.variant, policy), seed, rounds, times);
        Ok(written.map_err(|error| dir.failed(TIMING, error))?)
    }

    /// Writes the state of a run into the buffer, or its model alone.
    fn encode(&mut self, run: &TrainingRun<'_>, state: bool) -> Result<()> {
        let metadata = self.store.metadata(self.id, run.logs().len() as u64)?;
        let mut view = CheckpointView::model(&metadata, &self.tensors, run.global());
        let (sketched, sketches) = if state { run.sketches() } else { Default::default() };
        (view.sketched, view.sketches) = (&sketched, &sketches);
        view.server = if state { run.server_state() } else { Vec::new() };
        Ok(view.encode_into(&mut self.buffer)?)
    }

    /// Ends a finished run: its last checkpoint stays, and its model is kept if it is the one that stands for its variant.
    pub(crate) fn finish(mut self, run: &TrainingRun<'_>) -> Result<()> {
        if let Some(name) = self.store.model_name(self.id) {
            self.encode(run, false)?;
            self.store.dir().write(&name, &self.buffer)?;
        }
        self.store.remove_surplus(self.id, run.logs().len() as u64)
    }
}

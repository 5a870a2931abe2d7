//! Sketches of updates, for policies that look at them.
//!
//! Clients send whole models, so the coordinator makes the sketches by itself: when a round ends, from the updates that lie on disk. Policies
//! see what a round brings only after it, and a coordinator that was stopped on the way makes the same sketches as one that was not.

use super::ledger::Ledger;
use crate::coordinator::error::CoordinatorError;
use crate::coordinator::uploads::UpdateFiles;
use agewise_core::Seed;
use agewise_train::Task;
use agewise_train::sketch::Sketcher;
use std::ops::Range;

/// Makes the sketches of a run.
#[derive(Debug)]
pub(crate) struct Sketches {
    layer: Range<usize>,
    /// Of the layer alone: the rest of an update need not be read.
    sketcher: Sketcher,
}

impl Sketches {
    /// For the updates of a task; the seed is that of the run, as in the simulator.
    pub(crate) fn new(task: &dyn Task, seed: Seed) -> Result<Self, CoordinatorError> {
        let layer = task.sketch_range();
        let sketcher = Sketcher::of_range(0..layer.len(), Sketcher::WIDTH, seed)?;
        Ok(Self { layer, sketcher })
    }

    /// The sketch of a stored update of this model; nothing if its changes are too large for it.
    pub(crate) fn sketch(
        &self,
        global: &[f32],
        updates: &mut UpdateFiles,
        member: usize,
    ) -> Result<Option<Vec<f32>>, CoordinatorError> {
        let before = global.get(self.layer.clone()).unwrap_or_default();
        let after = updates.part(member, self.layer.start, before.len())?;
        Ok(self.sketcher.sketch(before, &after))
    }

    /// The last sketch of each of these clients. One that cannot be used is left out with a warning, as that client will report again.
    pub(crate) fn load(
        &self,
        ledger: &Ledger,
        clients: usize,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<(u32, Vec<f32>)>, CoordinatorError> {
        let mut sketches = ledger.sketches()?;
        sketches.retain(|(client, sketch)| {
            let is_whole = sketch.len() == self.sketcher.width()
                && sketch.iter().all(|number| number.is_finite())
                && (*client as usize) < clients;
            if !is_whole {
                warnings.push(format!("the sketch of client {client} is damaged: it is left out"));
            }
            is_whole
        });
        Ok(sketches)
    }
}

//! Our aggregators: clipping, then a rule that combines updates, of which few go only a part of the way, then a step of the
//! server.

use super::clip::{Clip, shorten};
use super::server_optimizer::ServerOptimizer;
use super::updates::{NOT_FINITE, Updates};
use super::{Aggregator, AggregatorState, Contribution, Rejected, UpdateSource, Verdict};
use agewise_core::{Error, Result};
use agewise_kernels::all_finite;
use std::fmt::Debug;

/// How updates become one model, which may remember buffers but nothing else.
pub(super) trait Combine: Debug + Send {
    /// The combination of the updates that can be used; nothing if there is none, or if they weigh nothing. Rejects those
    /// that cannot be used. An error means that nothing can be combined in this memory.
    fn combine(&mut self, updates: &mut Updates<'_>) -> Result<Option<&[f32]>>;
}

/// Clipping, a rule and a server.
#[derive(Debug)]
pub(super) struct Pipeline {
    pub(super) clip: Clip,
    pub(super) rule: Box<dyn Combine>,
    /// From so many updates on the model goes all the way.
    pub(super) full_reports: u64,
    /// Where fewer of them bring the model.
    pub(super) damped: Vec<f32>,
    pub(super) server: ServerOptimizer,
}

impl Aggregator for Pipeline {
    fn aggregate(
        &mut self,
        cohort: &[Contribution],
        updates: &mut dyn UpdateSource,
        memory: usize,
        global: &mut [f32],
    ) -> Result<Vec<Verdict>> {
        self.server.check(global.len())?;
        let mut updates = Updates::new(cohort, updates, global, self.clip, memory);
        let combination = self.rule.combine(&mut updates)?;
        let mut verdicts = updates.verdicts;
        let moved = match combination {
            Some(average) if !all_finite(average) => {
                Err(Error::new("average", NOT_FINITE, "weights that keep every parameter finite"))
            }
            Some(average) => {
                let taken = verdicts.iter().filter(|verdict| verdict.is_ok()).count() as u64;
                let average = if taken < self.full_reports {
                    let share = taken as f64 / self.full_reports as f64;
                    self.damped.clear();
                    self.damped.extend_from_slice(average);
                    shorten(&mut self.damped, global, share);
                    &self.damped
                } else {
                    average
                };
                self.server.apply(average, global)
            }
            None => Ok(()),
        };
        if let Err(error) = moved {
            // Each update was finite, and together they are not: none is taken.
            for (verdict, &Contribution { client, .. }) in verdicts.iter_mut().zip(cohort) {
                *verdict = Err(Rejected { client, why: error.to_string() });
            }
        }
        Ok(verdicts)
    }

    fn state(&self) -> Vec<(&'static str, &[f32])> {
        self.server.state()
    }

    fn load_state(&mut self, state: AggregatorState) -> Result<()> {
        self.server.load_state(state)
    }
}

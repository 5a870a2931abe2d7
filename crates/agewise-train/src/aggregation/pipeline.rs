//! Our aggregators: a bound on norms, clipping, a rule that combines the updates (few updates move the model by their
//! share only), and a step of the server.

use super::clip::{Clip, shorten};
use super::server_optimizer::ServerOptimizer;
use super::updates::{NOT_FINITE, Updates};
use super::{
    Aggregator, AggregatorState, Contribution, MaxNorm, NormBound, Rejected, UpdateSource, Verdict,
};
use agewise_core::{Error, Result};
use agewise_kernels::all_finite;
use std::fmt::Debug;

/// How updates become one model, which may remember buffers but nothing else.
pub(super) trait Combine: Debug + Send {
    /// The combination of the updates that can be used; nothing if there is none, or if they weigh nothing. Rejects those
    /// that cannot be used. An error means that nothing can be combined in this memory.
    fn combine(&mut self, updates: &mut Updates<'_>) -> Result<Option<&[f32]>>;
}

/// The name of the norms of the last updates in the state.
const NORMS: &str = "norms";

/// A bound on norms, clipping, a rule and a server.
#[derive(Debug)]
pub(super) struct Pipeline {
    /// An update that is farther than this from the global model is rejected.
    pub(super) max_norm: MaxNorm,
    pub(super) norms: KnownNorms,
    pub(super) clip: Clip,
    pub(super) rule: Box<dyn Combine>,
    /// From so many updates on the model goes all the way.
    pub(super) full_reports: u64,
    /// Where fewer of them bring the model.
    pub(super) damped: Vec<f32>,
    pub(super) server: ServerOptimizer,
}

/// The norms of the last updates that were taken, with their form in files.
#[derive(Debug, Default)]
pub(super) struct KnownNorms {
    bound: NormBound,
    floats: Vec<f32>,
}

impl KnownNorms {
    fn new(bound: NormBound) -> Self {
        Self { floats: bound.to_floats(), bound }
    }

    /// Takes in the norms of a round.
    fn observe(&mut self, mut norms: Vec<(u32, f64)>) {
        norms.sort_unstable_by_key(|&(client, _)| client);
        for (_, norm) in norms {
            self.bound.observe(norm);
        }
        self.floats = self.bound.to_floats();
    }
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
        if !self.max_norm.is_off() {
            let known = &self.norms.bound;
            let mut most = self.max_norm.bound(known);
            updates.bound_norms(most);
            if self.max_norm == MaxNorm::Auto && most.is_none() {
                let round = updates.measure_all()?;
                most = self.max_norm.among(known, &round);
                updates.bound_norms(most);
            }
        }
        let combination = self.rule.combine(&mut updates)?;
        let (mut verdicts, norms) = updates.into_verdicts();
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
        if self.max_norm == MaxNorm::Auto {
            // As in a deployment: what was left out in the warm-up had come, and counts.
            self.norms.observe(norms);
        }
        Ok(verdicts)
    }

    fn state(&self) -> Vec<(&'static str, &[f32])> {
        let mut state = self.server.state();
        if !self.norms.floats.is_empty() {
            state.push((NORMS, &self.norms.floats));
        }
        state
    }

    fn load_state(&mut self, state: AggregatorState) -> Result<()> {
        let bounds = self.max_norm == MaxNorm::Auto;
        let (norms, server): (AggregatorState, AggregatorState) =
            state.into_iter().partition(|(name, _)| bounds && name == NORMS);
        let norms = norms
            .first()
            .map_or(Ok(NormBound::default()), |(_, floats)| NormBound::from_floats(floats))?;
        self.server.load_state(server)?;
        self.norms = KnownNorms::new(norms);
        Ok(())
    }
}

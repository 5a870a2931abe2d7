//! Aggregation: the updates of a cohort become the next global model.
//!
//! An [`Aggregator`] reads updates from an [`UpdateSource`], which may be memory (the simulator) or files (the
//! deployment), and gives the same bits for both. The rules, one in each file:
//!
//! - `mean`: the weighted mean, FedAvg (McMahan et al., 2017);
//! - `trimmed_mean`, `median`: by coordinate (Yin et al., 2018); a few hostile clients cannot move them far;
//! - `clip`: an update that is far from the global model is shortened, before any of these;
//! - `norm_bound`: how far is too far, from the updates that were accepted before: what is farther is left out, by the
//!   deployment when it comes, in a simulation by `max_norm`;
//! - `server_optimizer`: momentum (FedAvgM; Hsu et al., 2019) and Adam (FedAdam; Reddi et al., 2021), after any of these.
//!
//! Fewer updates than `full_reports` move the model by their share only, whichever rule combines them.
//!
//! [`AggregationParams`] choose among them, in a configuration or as text such as `median(clip_norm=5)+momentum(beta=0.9)`.
//! A rule of your own implements [`Aggregator`] and is named by [`Aggregation::new`].
//!
//! Every update is looked through before any of it is used, so that a bad one leaves no trace.

mod clip;
mod max_norm;
mod mean;
mod median;
mod norm_bound;
mod params;
mod pipeline;
mod server_optimizer;
mod sorted_columns;
mod trimmed_mean;
mod updates;

pub use max_norm::MaxNorm;
pub use norm_bound::{NormBound, WARM_UP, WINDOW, too_far};
pub use params::{AggregationParams, AggregationRule};
pub use server_optimizer::ServerRule;

use agewise_core::{Cohort, Error, Result};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A member of the cohort, in the order of the sum.
#[derive(Debug, Clone, PartialEq)]
pub struct Contribution {
    /// The client.
    pub client: u32,
    /// What its update counts for.
    pub weight: f64,
    /// Why its update did not come, if it did not.
    pub missing: Option<String>,
}

impl Contribution {
    /// A client whose update has come, or will.
    pub fn new(client: u32, weight: f64) -> Self {
        Self { client, weight, missing: None }
    }

    /// The members of a cohort.
    pub fn of_cohort(cohort: &Cohort) -> Vec<Self> {
        let members = cohort.clients.iter().zip(&cohort.weights);
        members.map(|(&client, &weight)| Self::new(client, weight)).collect()
    }
}

/// Why an update was not taken.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("update of client {client}: {why}")]
pub struct Rejected {
    /// Whose it was.
    pub client: u32,
    /// What was wrong with it.
    pub why: String,
}

/// Whether an update was taken.
pub type Verdict = std::result::Result<(), Rejected>;

/// The updates of a cohort, whose members are counted in its order: the parameters that clients came back with. They may
/// be asked for more than once and are then the same. An error means that the update cannot be used.
pub trait UpdateSource {
    /// Fills the target with the parameters from `first` on of a member.
    fn read(&mut self, member: usize, first: usize, target: &mut [f32]) -> Result<()>;

    /// All parameters of a member, if they lie in memory; waits until they are there.
    fn whole(&mut self, _member: usize) -> Option<Result<&[f32]>> {
        None
    }

    /// Says that the parameters of a member are not needed any more.
    fn release(&mut self, _member: usize) {}
}

/// Updates that lie in memory.
#[derive(Debug, Clone, Copy)]
pub struct MemoryUpdates<'a, U>(pub &'a [U]);

impl<U: AsRef<[f32]>> UpdateSource for MemoryUpdates<'_, U> {
    fn read(&mut self, member: usize, first: usize, target: &mut [f32]) -> Result<()> {
        read_part(self.0[member].as_ref(), first, target)
    }

    fn whole(&mut self, member: usize) -> Option<Result<&[f32]>> {
        Some(Ok(self.0[member].as_ref()))
    }
}

/// Copies the parameters from `first` on.
pub(crate) fn read_part(update: &[f32], first: usize, target: &mut [f32]) -> Result<()> {
    let Some(values) = update.get(first..first + target.len()) else {
        let expected = format!("at least {}", first + target.len());
        return Err(Error::new("parameters", update.len(), expected));
    };
    target.copy_from_slice(values);
    Ok(())
}

/// The state of an aggregator by name, as it is kept in files.
pub type AggregatorState = Vec<(String, Vec<f32>)>;

/// How the updates of a cohort move the global model.
pub trait Aggregator: fmt::Debug + Send {
    /// Moves the global model, and returns for each member whether its update was taken. Beside a few slices as long as the
    /// model, buffers take at most `memory` bytes. If no update can be taken the model stays.
    fn aggregate(
        &mut self,
        cohort: &[Contribution],
        updates: &mut dyn UpdateSource,
        memory: usize,
        global: &mut [f32],
    ) -> Result<Vec<Verdict>>;

    /// What it remembers from round to round, by name: all that is needed to continue a run exactly.
    fn state(&self) -> Vec<(&'static str, &[f32])> {
        Vec::new()
    }

    /// Takes back what it remembered.
    fn load_state(&mut self, state: AggregatorState) -> Result<()> {
        match state.first() {
            None => Ok(()),
            Some((name, _)) => {
                Err(Error::new("aggregation state", name, "none: this rule remembers nothing"))
            }
        }
    }
}

type Factory = dyn Fn(usize) -> Result<Box<dyn Aggregator>> + Send + Sync;

/// A rule of aggregation with its name: ours from [`AggregationParams`] or text, or one of your own.
#[derive(Clone)]
pub struct Aggregation {
    name: String,
    params: Option<AggregationParams>,
    factory: Arc<Factory>,
}

impl Aggregation {
    /// A rule of your own; the factory makes an aggregator for models of so many parameters.
    pub fn new(
        name: impl Into<String>,
        factory: impl Fn(usize) -> Result<Box<dyn Aggregator>> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), params: None, factory: Arc::new(factory) }
    }

    /// One of our rules.
    pub fn from_params(params: AggregationParams) -> Result<Self> {
        params.check()?;
        Ok(Self::ours(params))
    }

    fn ours(params: AggregationParams) -> Self {
        let factory = move |parameters| params.build(parameters);
        Self { params: Some(params), ..Self::new(params.to_string(), factory) }
    }

    /// Its name: for our rules the text that they are made from.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The parameters, if it is one of our rules.
    pub fn params(&self) -> Option<&AggregationParams> {
        self.params.as_ref()
    }

    /// An aggregator for models of so many parameters.
    pub fn build(&self, parameters: usize) -> Result<Box<dyn Aggregator>> {
        (self.factory)(parameters)
    }
}

impl Default for Aggregation {
    /// FedAvg: the weighted mean.
    fn default() -> Self {
        Self::ours(AggregationParams::default())
    }
}

impl fmt::Debug for Aggregation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Aggregation").field(&self.name).finish()
    }
}

impl FromStr for Aggregation {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::from_params(text.parse()?)
    }
}

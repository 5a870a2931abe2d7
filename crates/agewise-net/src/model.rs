//! What a coordinator has to know about what is trained: how many numbers it has, how it is kept, how good it is.

use crate::proto::Task;
use agewise_core::{Result, Seed};
use agewise_learn::Evaluation;
use std::ops::Range;

/// The model of a run, on the coordinator's side. Ours is [`crate::native::NativeModel`]; another engine implements this and
/// [`crate::participant::LocalLearner`].
pub trait GlobalModel: Send {
    /// The number of parameters.
    fn parameters(&self) -> usize;

    /// The first model of a run.
    fn initial(&self, seed: Seed) -> Vec<f32>;

    /// The parameters as a file that people can use.
    fn encode(&self, parameters: &[f32]) -> Result<Vec<u8>>;

    /// The parameters from such a file.
    fn decode(&self, file: &[u8]) -> Result<Vec<f32>>;

    /// How good the parameters are, where that can be told.
    fn evaluate(&mut self, parameters: &[f32]) -> Result<Option<Evaluation>>;

    /// The parameters that make scores from the last features, of which updates are sketched for policies that look at that; all of them,
    /// for an engine that does not say.
    fn output_layer(&self) -> Range<usize> {
        0..self.parameters()
    }

    /// Tells clients what to train.
    fn describe(&self, task: &mut Task);
}

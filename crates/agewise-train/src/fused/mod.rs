//! What a model computes with: each fused layer is one or several layers that are computed together.
//!
//! A fused layer knows where its parameters lie in the model's one slice, and keeps what its backward pass needs in a
//! [`Scratch`] of its own. Nothing is allocated after that was made.

mod convolution;
mod dense;
mod relu;
mod sparse;

pub(crate) use convolution::{ConvolutionLayer, PoolLayer};
pub(crate) use dense::DenseLayer;
pub(crate) use relu::ReluLayer;

use agewise_kernels::{Aligned, WinogradScratch, blend};
use sparse::SparseGradient;
use std::fmt::Debug;
use std::ops::Range;

/// One step of the forward and backward pass.
pub(crate) trait FusedLayer: Debug + Send + Sync {
    /// Floats of one input.
    fn input_len(&self) -> usize;

    /// Floats of one output.
    fn output_len(&self) -> usize;

    /// What the layer keeps for batches of up to so many inputs.
    fn scratch(&self, batch: usize) -> Scratch;

    /// Has to be called before [`Self::forward`] whenever the parameters or the purpose have changed.
    fn prepare(&self, _purpose: Purpose, _parameters: &[f32], _scratch: &mut Scratch) {}

    /// The outputs of so many inputs.
    fn forward(
        &self,
        purpose: Purpose,
        count: usize,
        parameters: &[f32],
        input: &Aligned,
        output: &mut Aligned,
        scratch: &mut Scratch,
    );

    /// The gradients, from the one of the outputs: that of the inputs, where it is needed, and that of the
    /// parameters, which goes where `update` says. May overwrite the gradient of the outputs.
    fn backward(&self, count: usize, update: &mut Update<'_>, flow: Flow<'_>);

    /// Multiply-adds of the forward pass for one input, as they are executed.
    fn multiply_adds(&self, purpose: Purpose) -> u64;
}

/// What a forward pass is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A backward pass follows.
    Training,
    /// Only the scores are needed.
    Evaluation,
}

/// What goes through a layer on the way back.
#[derive(Debug)]
pub(crate) struct Flow<'a> {
    pub(crate) input: &'a Aligned,
    pub(crate) output: &'a Aligned,
    pub(crate) output_gradient: &'a mut Aligned,
    pub(crate) input_gradient: Option<&'a mut Aligned>,
    pub(crate) scratch: &'a mut Scratch,
}

/// What a layer keeps; each uses what it needs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scratch {
    /// Weights as the forward pass reads them, and as the backward pass does.
    packed: Aligned,
    weights: Aligned,
    /// The same for a convolution by tiles, for training and for evaluation.
    tiles: [WinogradScratch; 2],
    /// Outputs of one image, or of a few, before they are pooled.
    planes: Aligned,
    /// For every output of the batch the position that won it.
    winners: Vec<u32>,
    /// The gradient of the parameters.
    gradient: Aligned,
    sparse: SparseGradient,
    /// Multiply-adds of all backward passes so far.
    pub(crate) backward_multiply_adds: u64,
}

/// Where gradients of parameters go: `target = keep * target + scale * gradient`, the target being the parameters
/// themselves or something beside them. So a step of plain SGD needs no gradient in memory.
#[derive(Debug)]
pub(crate) struct Update<'a> {
    pub(crate) parameters: &'a mut [f32],
    /// `None`: the parameters.
    pub(crate) beside: Option<&'a mut [f32]>,
    pub(crate) keep: f32,
    pub(crate) scale: f32,
}

impl Update<'_> {
    /// The target of some parameters. A layer asks for it after it has used the parameters for the last time.
    fn target(&mut self, range: Range<usize>) -> &mut [f32] {
        match &mut self.beside {
            Some(beside) => &mut beside[range],
            None => &mut self.parameters[range],
        }
    }

    /// Brings a whole gradient to its target.
    fn apply(&mut self, range: Range<usize>, gradient: &[f32]) {
        let (keep, scale) = (self.keep, self.scale);
        blend(self.target(range), keep, scale, gradient);
    }
}

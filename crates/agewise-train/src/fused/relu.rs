//! A ReLU that follows neither a convolution nor a dense layer.

use super::{Flow, FusedLayer, Purpose, Scratch, Update};
use agewise_kernels::Aligned;

/// max(0, x) of every float.
#[derive(Debug)]
pub(crate) struct ReluLayer {
    len: usize,
}

impl ReluLayer {
    /// For inputs of so many floats.
    pub(crate) fn new(len: usize) -> Self {
        Self { len }
    }
}

impl FusedLayer for ReluLayer {
    fn input_len(&self) -> usize {
        self.len
    }

    fn output_len(&self) -> usize {
        self.len
    }

    fn scratch(&self, _batch: usize) -> Scratch {
        Scratch::default()
    }

    fn forward(
        &self,
        _purpose: Purpose,
        count: usize,
        _parameters: &[f32],
        input: &Aligned,
        output: &mut Aligned,
        _scratch: &mut Scratch,
    ) {
        let len = count * self.len;
        output[..len].copy_from_slice(&input[..len]);
        apply_relu(&mut output[..len]);
    }

    fn backward(&self, count: usize, _update: &mut Update<'_>, flow: Flow<'_>) {
        let len = count * self.len;
        mask_gradient(&mut flow.output_gradient[..len], &flow.output[..len]);
        if let Some(input_gradient) = flow.input_gradient {
            input_gradient[..len].copy_from_slice(&flow.output_gradient[..len]);
        }
    }

    fn multiply_adds(&self, _purpose: Purpose) -> u64 {
        0
    }
}

/// Replaces what is below zero, but not what is no number: that must not be hidden.
pub(super) fn apply_relu(values: &mut [f32]) {
    for value in values {
        *value = if *value < 0.0 { 0.0 } else { *value };
    }
}

/// Keeps the gradients of outputs that are not zero.
pub(super) fn mask_gradient(gradients: &mut [f32], outputs: &[f32]) {
    for (gradient, &output) in gradients.iter_mut().zip(outputs) {
        *gradient = if output == 0.0 { 0.0 } else { *gradient };
    }
}

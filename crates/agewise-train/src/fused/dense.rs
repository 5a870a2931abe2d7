//! A dense layer, with the ReLU if one follows.

use super::relu::{apply_relu, mask_gradient};
use super::{Flow, FusedLayer, Purpose, Scratch, Update};
use agewise_kernels::{Aligned, Backend, Dense};
use std::ops::Range;

/// Outputs = inputs times weights + biases.
#[derive(Debug)]
pub(crate) struct DenseLayer {
    backend: Backend,
    inputs: usize,
    outputs: usize,
    relu: bool,
    /// Output by output.
    weights: Range<usize>,
    biases: Range<usize>,
}

impl DenseLayer {
    /// The weights begin at `first_parameter`, the biases follow.
    pub(crate) fn new(
        backend: Backend,
        inputs: usize,
        outputs: usize,
        relu: bool,
        first_parameter: usize,
    ) -> Self {
        let biases = first_parameter + inputs * outputs;
        Self {
            backend,
            inputs,
            outputs,
            relu,
            weights: first_parameter..biases,
            biases: biases..biases + outputs,
        }
    }

    fn kernel(&self, count: usize) -> Dense {
        Dense { backend: self.backend, count, inputs: self.inputs, outputs: self.outputs }
    }
}

impl FusedLayer for DenseLayer {
    fn input_len(&self) -> usize {
        self.inputs
    }

    fn output_len(&self) -> usize {
        self.outputs
    }

    fn scratch(&self, _batch: usize) -> Scratch {
        Scratch { gradient: Aligned::zeros(self.outputs), ..Scratch::default() }
    }

    fn forward(
        &self,
        _purpose: Purpose,
        count: usize,
        parameters: &[f32],
        input: &Aligned,
        output: &mut Aligned,
        _scratch: &mut Scratch,
    ) {
        let biases = &parameters[self.biases.clone()];
        for row in output[..count * self.outputs].chunks_exact_mut(self.outputs) {
            row.copy_from_slice(biases);
        }
        self.kernel(count).forward(input, &parameters[self.weights.clone()], output);
        if self.relu {
            apply_relu(&mut output[..count * self.outputs]);
        }
    }

    fn backward(&self, count: usize, update: &mut Update<'_>, flow: Flow<'_>) {
        let len = count * self.outputs;
        if self.relu {
            mask_gradient(&mut flow.output_gradient[..len], &flow.output[..len]);
        }
        let kernel = self.kernel(count);
        let mut products = 1;
        // Before the weights change.
        if let Some(input_gradient) = flow.input_gradient {
            let weights = &update.parameters[self.weights.clone()];
            kernel.input_gradient(flow.output_gradient, weights, input_gradient);
            products += 1;
        }
        let factors = (update.keep, update.scale);
        let target = update.target(self.weights.clone());
        kernel.weight_gradient(flow.output_gradient, flow.input, factors, target);
        let sums = &mut flow.scratch.gradient;
        sums.fill(0.0);
        for row in flow.output_gradient[..len].chunks_exact(self.outputs) {
            for (sum, gradient) in sums.iter_mut().zip(row) {
                *sum += gradient;
            }
        }
        flow.scratch.backward_multiply_adds += products * (count * self.weights.len()) as u64;
        update.apply(self.biases.clone(), &flow.scratch.gradient);
    }

    fn multiply_adds(&self, _purpose: Purpose) -> u64 {
        self.weights.len() as u64
    }
}

//! A dense layer, with the rectifier if one follows.

use super::rectifier::{mask, rectify};
use super::{Flow, Purpose, Scratch, Stage, Update};
use crate::kernel::{Aligned, Dense, Path};
use std::ops::Range;

/// Outputs = inputs times weights + biases.
#[derive(Debug)]
pub(crate) struct DenseStage {
    path: Path,
    inputs: usize,
    outputs: usize,
    rectify: bool,
    /// Output by output.
    weights: Range<usize>,
    biases: Range<usize>,
}

impl DenseStage {
    /// The weights begin at `first_parameter`, the biases follow.
    pub(crate) fn new(
        path: Path,
        inputs: usize,
        outputs: usize,
        rectify: bool,
        first_parameter: usize,
    ) -> Self {
        let biases = first_parameter + inputs * outputs;
        Self {
            path,
            inputs,
            outputs,
            rectify,
            weights: first_parameter..biases,
            biases: biases..biases + outputs,
        }
    }

    fn kernel(&self, count: usize) -> Dense {
        Dense { path: self.path, count, inputs: self.inputs, outputs: self.outputs }
    }
}

impl Stage for DenseStage {
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
        if self.rectify {
            rectify(&mut output[..count * self.outputs]);
        }
    }

    fn backward(&self, count: usize, update: &mut Update<'_>, flow: Flow<'_>) {
        let len = count * self.outputs;
        if self.rectify {
            mask(&mut flow.output_gradient[..len], &flow.output[..len]);
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

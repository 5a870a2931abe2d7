//! A dense layer, with the rectifier if one follows.

use super::rectifier::{mask, rectify};
use super::{Flow, Scratch, Stage, Update};
use crate::kernel::{Aligned, Matrix, MatrixMut, product};
use std::ops::Range;

/// Outputs = inputs times weights + biases.
#[derive(Debug)]
pub(crate) struct DenseStage {
    inputs: usize,
    outputs: usize,
    rectify: bool,
    /// Output by output.
    weights: Range<usize>,
    biases: Range<usize>,
}

impl DenseStage {
    /// The weights begin at `first_parameter`, the biases follow.
    pub(crate) fn new(inputs: usize, outputs: usize, rectify: bool, first_parameter: usize) -> Self {
        let biases = first_parameter + inputs * outputs;
        Self {
            inputs,
            outputs,
            rectify,
            weights: first_parameter..biases,
            biases: biases..biases + outputs,
        }
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
        let weights = Matrix::new(&parameters[self.weights.clone()], self.outputs, self.inputs);
        let input = Matrix::new(input, count, self.inputs);
        let mut target = MatrixMut::new(output, count, self.outputs);
        product(&mut target, 1.0, 1.0, input, weights.transposed());
        if self.rectify {
            rectify(&mut output[..count * self.outputs]);
        }
    }

    fn backward(&self, count: usize, update: &mut Update<'_>, flow: Flow<'_>) {
        let len = count * self.outputs;
        if self.rectify {
            mask(&mut flow.output_gradient[..len], &flow.output[..len]);
        }
        let gradients = Matrix::new(flow.output_gradient, count, self.outputs);
        let mut products = 1;
        // Before the weights change.
        if let Some(input_gradient) = flow.input_gradient {
            let weights = &update.parameters[self.weights.clone()];
            let weights = Matrix::new(weights, self.outputs, self.inputs);
            let mut target = MatrixMut::new(input_gradient, count, self.inputs);
            product(&mut target, 0.0, 1.0, gradients, weights);
            products += 1;
        }
        let (keep, scale) = (update.keep, update.scale);
        let input = Matrix::new(flow.input, count, self.inputs);
        let target = update.target(self.weights.clone());
        let mut target = MatrixMut::new(target, self.outputs, self.inputs);
        product(&mut target, keep, scale, gradients.transposed(), input);
        let sums = &mut flow.scratch.gradient;
        sums.fill(0.0);
        for row in flow.output_gradient[..len].chunks_exact(self.outputs) {
            for (sum, gradient) in sums.iter_mut().zip(row) {
                *sum += gradient;
            }
        }
        flow.scratch.backward_multiply_adds += products * count as u64 * self.multiply_adds();
        update.apply(self.biases.clone(), &flow.scratch.gradient);
    }

    fn multiply_adds(&self) -> u64 {
        (self.inputs * self.outputs) as u64
    }
}

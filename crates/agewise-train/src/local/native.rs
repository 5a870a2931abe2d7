//! Our own engine.

use super::batch::{BatchLabels, Batches, View, write_sample};
use super::{LocalReport, LocalTask, Samples};
use crate::evaluation::Evaluation;
use crate::fused::{Flow, Purpose, Scratch, Update};
use crate::loss::BatchLoss;
use crate::model::Model;
use agewise_core::{Error, Result, Seed};
use agewise_kernels::{Aligned, add_scaled};
use std::ops::Range;
use std::sync::Arc;

/// Images that are evaluated at once: enough for full tiles, few enough to stay in the cache.
const EVALUATION_BATCH: usize = 60;

/// Trains a [`Model`].
#[derive(Debug, Clone)]
pub struct Trainer {
    model: Arc<Model>,
}

impl Trainer {
    /// A trainer of this model.
    pub fn new(model: Model) -> Self {
        Self { model: Arc::new(model) }
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The number of parameters.
    pub fn parameters(&self) -> usize {
        self.model.parameters()
    }

    /// The first model of a run.
    pub fn initial(&self, seed: Seed) -> Vec<f32> {
        self.model.initial(seed)
    }

    /// The parameters that make scores from the last features.
    pub fn output_layer(&self) -> Range<usize> {
        // Weights and biases in turn, layer by layer.
        let weights = self.model.tensors().iter().rev().nth(1);
        weights.map_or(0, |tensor| tensor.offset)..self.model.parameters()
    }

    /// What one thread needs to train and evaluate.
    pub fn worker(&self) -> NativeWorker {
        NativeWorker {
            model: Arc::clone(&self.model),
            buffers: Buffers::new(&self.model, 0),
            order: Vec::new(),
            momentum: Vec::new(),
            global: Vec::new(),
            multiply_adds: 0,
        }
    }
}

/// One thread's part of a [`Trainer`]. The same job gives the same bytes, whatever was done before.
#[derive(Debug)]
pub struct NativeWorker {
    model: Arc<Model>,
    buffers: Buffers,
    order: Vec<u32>,
    momentum: Vec<f32>,
    /// The model that the round began with, for the proximal term.
    global: Vec<f32>,
    /// Of all forward passes, and of backward passes with buffers that are gone.
    multiply_adds: u64,
}

/// Everything between the layers, for batches of a size.
#[derive(Debug)]
struct Buffers {
    batch: usize,
    /// Before, between and behind the layers.
    values: Vec<Aligned>,
    gradients: Vec<Aligned>,
    scratch: Vec<Scratch>,
    labels: BatchLabels,
}

impl Buffers {
    fn new(model: &Model, batch: usize) -> Self {
        let first = model.layers.first().map_or(0, |layer| layer.input_len());
        let lens = model.layers.iter().map(|layer| layer.output_len());
        let lens: Vec<usize> = std::iter::once(first).chain(lens).collect();
        let make = || lens.iter().map(|len| Aligned::zeros(batch * len)).collect();
        Self {
            batch,
            values: make(),
            gradients: make(),
            scratch: model.layers.iter().map(|layer| layer.scratch(batch)).collect(),
            labels: BatchLabels::with_capacity(batch),
        }
    }
}

impl NativeWorker {
    /// Multiply-adds of everything that was trained and evaluated so far.
    pub fn multiply_adds(&self) -> u64 {
        let backward = self.buffers.scratch.iter().map(|scratch| scratch.backward_multiply_adds);
        self.multiply_adds + backward.sum::<u64>()
    }

    /// The scores of samples, one row of classes for each.
    pub fn scores(&mut self, parameters: &[f32], samples: &Samples<'_>) -> Result<Vec<f32>> {
        let mut all = Vec::with_capacity(samples.len() * self.model.classes());
        self.each_batch(parameters, samples, |scores, _| all.extend_from_slice(scores))?;
        Ok(all)
    }

    /// The mean loss of samples, and its gradient, as one batch.
    pub fn gradient(
        &mut self,
        parameters: &[f32],
        samples: &Samples<'_>,
    ) -> Result<(f32, Vec<f32>)> {
        self.model.check_parameters(parameters)?;
        samples.check(&self.model)?;
        if samples.is_empty() {
            return Err(Error::new("samples", 0, "at least one"));
        }
        self.make_room(samples.len());
        self.prepare(Purpose::Training, parameters);
        self.write_middle(samples, 0..samples.len());
        let mut parameters = parameters.to_vec();
        let mut gradient = vec![0.0; parameters.len()];
        let mut update = Update {
            parameters: &mut parameters,
            beside: Some(&mut gradient),
            keep: 0.0,
            scale: 1.0,
        };
        let loss = self.step(samples.len(), &mut update);
        Ok((loss.mean, gradient))
    }

    fn make_room(&mut self, batch: usize) {
        if self.buffers.batch < batch {
            self.multiply_adds = self.multiply_adds();
            self.buffers = Buffers::new(&self.model, batch);
        }
    }

    fn prepare(&mut self, purpose: Purpose, parameters: &[f32]) {
        for (layer, scratch) in self.model.layers.iter().zip(&mut self.buffers.scratch) {
            layer.prepare(purpose, parameters, scratch);
        }
    }

    /// Fills the first buffer with the middle of images.
    fn write_middle(&mut self, samples: &Samples<'_>, range: Range<usize>) {
        let field = self.model.field();
        let view = View::centre(samples, field);
        let backend = self.model.backend();
        self.buffers.labels.clear();
        for (at, sample) in range.enumerate() {
            let index = samples.index(sample);
            let batch = &mut self.buffers.values[0];
            write_sample(backend, samples, index, view, field, batch, at);
            self.buffers.labels.push(samples, index);
        }
    }

    fn forward(&mut self, purpose: Purpose, count: usize, parameters: &[f32]) {
        let Buffers { values, scratch, .. } = &mut self.buffers;
        for (index, layer) in self.model.layers.iter().enumerate() {
            let (before, behind) = values.split_at_mut(index + 1);
            let (input, output) = (&before[index], &mut behind[0]);
            layer.forward(purpose, count, parameters, input, output, &mut scratch[index]);
        }
        self.multiply_adds += count as u64 * self.model.multiply_adds(purpose);
    }

    /// Forward and backward through the batch in the buffers.
    fn step(&mut self, count: usize, update: &mut Update<'_>) -> BatchLoss {
        self.forward(Purpose::Training, count, update.parameters);
        let Buffers { values, gradients, scratch, labels, .. } = &mut self.buffers;
        let last = self.model.layers.len();
        let len = count * self.model.classes();
        gradients[last][..len].copy_from_slice(&values[last][..len]);
        let loss = labels.gradient(&mut gradients[last][..len]);
        for (index, layer) in self.model.layers.iter().enumerate().rev() {
            let (before, behind) = gradients.split_at_mut(index + 1);
            let flow = Flow {
                input: &values[index],
                output: &values[index + 1],
                output_gradient: &mut behind[0],
                // The gradient of pixels is not needed.
                input_gradient: (index > 0).then(|| &mut before[index]),
                scratch: &mut scratch[index],
            };
            layer.backward(count, update, flow);
        }
        loss
    }

    /// Hands the scores of one batch after the other to `visit`, with the labels.
    fn each_batch(
        &mut self,
        parameters: &[f32],
        samples: &Samples<'_>,
        mut visit: impl FnMut(&[f32], &BatchLabels),
    ) -> Result<()> {
        self.model.check_parameters(parameters)?;
        samples.check(&self.model)?;
        self.make_room(EVALUATION_BATCH.min(samples.len()));
        self.prepare(Purpose::Evaluation, parameters);
        for begin in (0..samples.len()).step_by(EVALUATION_BATCH) {
            let end = samples.len().min(begin + EVALUATION_BATCH);
            self.write_middle(samples, begin..end);
            self.forward(Purpose::Evaluation, end - begin, parameters);
            let scores = &self.buffers.values[self.model.layers.len()];
            visit(&scores[..(end - begin) * self.model.classes()], &self.buffers.labels);
        }
        Ok(())
    }
}

impl NativeWorker {
    /// Trains a client, beginning with these parameters and leaving them changed.
    pub fn train(&mut self, task: &LocalTask<'_>, parameters: &mut [f32]) -> Result<LocalReport> {
        let samples = &task.samples;
        self.model.check_parameters(parameters)?;
        samples.check(&self.model)?;
        if samples.is_empty() {
            return Err(Error::new(
                format!("samples of client {}", task.client),
                0,
                "at least one",
            ));
        }
        let params = *task.training.params();
        let size = (params.batch as usize).min(samples.len());
        let rate = task.training.learning_rate(task.round);
        let (backend, field) = (self.model.backend(), self.model.field());
        self.make_room(size);
        if params.momentum > 0.0 {
            self.momentum.clear();
            self.momentum.resize(parameters.len(), 0.0);
        }
        if params.proximal > 0.0 {
            self.global.clear();
            self.global.extend_from_slice(parameters);
        }
        let order = std::mem::take(&mut self.order);
        let mut batches = Batches::new(task.seed, task.round, task.client, order);
        let steps = task.training.steps(samples.len());
        let mut report = LocalReport { steps, samples: 0, loss: 0.0, mean_square: 0.0 };
        for _ in 0..steps {
            let range = batches.next(samples.len(), size);
            let count = range.len();
            self.buffers.labels.clear();
            for (at, sample) in range.enumerate() {
                let index = samples.index(batches.sample(sample));
                let view = batches.view(samples, field, params.augment);
                let batch = &mut self.buffers.values[0];
                write_sample(backend, samples, index, view, field, batch, at);
                self.buffers.labels.push(samples, index);
            }
            self.prepare(Purpose::Training, parameters);
            let loss = self.descend(count, rate, &params, parameters);
            report.loss += f64::from(loss.mean);
            report.mean_square += f64::from(loss.mean_square) * count as f64;
            report.samples += count as u64;
        }
        report.loss /= steps as f64;
        report.mean_square /= report.samples as f64;
        self.order = batches.into_order();
        Ok(report)
    }

    /// How well the parameters do on samples.
    pub fn evaluate(&mut self, parameters: &[f32], samples: &Samples<'_>) -> Result<Evaluation> {
        let mut evaluation =
            Evaluation::new(if samples.classes() == 0 { 0 } else { self.model.classes() });
        self.each_batch(parameters, samples, |scores, labels| {
            labels.record(scores, &mut evaluation);
        })?;
        Ok(evaluation)
    }

    /// One step of SGD on the batch in the buffers. With g the gradient, d weight decay, p the proximal factor and w0
    /// the global model: w - rate (g + d w + p (w - w0)), or the same with momentum.
    fn descend(
        &mut self,
        count: usize,
        rate: f32,
        params: &super::LocalTrainingParams,
        parameters: &mut [f32],
    ) -> BatchLoss {
        let pull = params.weight_decay + params.proximal;
        if params.momentum == 0.0 {
            // Straight into the parameters: they shrink a little, and the gradient is taken from them.
            let mut update =
                Update { parameters, beside: None, keep: 1.0 - rate * pull, scale: -rate };
            let loss = self.step(count, &mut update);
            if params.proximal > 0.0 {
                add_scaled(parameters, rate * params.proximal, &self.global);
            }
            return loss;
        }
        let mut momentum = std::mem::take(&mut self.momentum);
        let mut update =
            Update { parameters, beside: Some(&mut momentum), keep: params.momentum, scale: 1.0 };
        let loss = self.step(count, &mut update);
        if pull > 0.0 {
            add_scaled(&mut momentum, pull, parameters);
        }
        if params.proximal > 0.0 {
            add_scaled(&mut momentum, -params.proximal, &self.global);
        }
        add_scaled(parameters, -rate, &momentum);
        self.momentum = momentum;
        loss
    }
}

//! Local training once more: the documented order of samples, and SGD from its definition.

use super::{Batch, Named, Network};
use agewise_core::{Draws, Stream};
use agewise_train::local::{LocalTask, LocalWork};
use agewise_train::model::Model;
use rand_core::Rng;

/// What came of it.
pub(crate) struct Trained {
    pub(crate) network: Network,
    pub(crate) steps: u64,
    pub(crate) samples: u64,
    pub(crate) loss: f64,
    /// Of the losses of single samples, each before the step that it is part of.
    pub(crate) mean_square: f64,
}

/// Trains like a worker: w moves by -rate v, where v = momentum v + g + decay w + proximal (w - w0).
pub(crate) fn train(model: &Model, task: &LocalTask<'_>, parameters: &[f32]) -> Trained {
    let params = task.training.params();
    let rate = f64::from(params.learning_rate) * params.decay.powi(task.round as i32);
    let momentum = f64::from(params.momentum);
    let (pull, proximal) = (f64::from(params.weight_decay), f64::from(params.proximal));
    let mut network = Network::new(model, parameters);
    let first = network.tensors.clone();
    let mut velocity: Vec<Named> = first.clone();
    for tensor in &mut velocity {
        tensor.values.fill(0.0);
    }
    let (mut steps, mut samples, mut losses, mut squares) = (0, 0, 0.0, 0.0);
    each_batch(model, task, |batch| {
        squares += network.losses(batch).iter().map(|loss| loss * loss).sum::<f64>();
        let (loss, gradient) = network.gradient(batch);
        for (t, tensor) in network.tensors.iter_mut().enumerate() {
            for (i, w) in tensor.values.iter_mut().enumerate() {
                let g = gradient[t].values[i] + pull * *w + proximal * (*w - first[t].values[i]);
                let v = &mut velocity[t].values[i];
                *v = momentum * *v + g;
                *w -= rate * *v;
            }
        }
        steps += 1;
        samples += batch.labels.len() as u64;
        losses += loss;
    });
    let (loss, mean_square) = (losses / steps as f64, squares / samples as f64);
    Trained { network, steps, samples, loss, mean_square }
}

/// The batches of a task: of a new order for each epoch, the last of an epoch as small as it comes.
fn each_batch(model: &Model, task: &LocalTask<'_>, mut visit: impl FnMut(&Batch)) {
    let params = task.training.params();
    let (mut epochs, mut steps) = match params.work {
        LocalWork::Epochs(epochs) => (epochs, u32::MAX),
        LocalWork::Steps(steps) => (u32::MAX, steps),
    };
    let draws = Draws::new(task.seed, Stream::custom(201), task.round);
    let mut numbers = draws.sequence(u64::from(task.client));
    let (have, want) = (task.samples.shape(), model.input());
    let room = (have.height - want.height, have.width - want.width);
    while epochs > 0 && steps > 0 {
        epochs -= 1;
        let mut order: Vec<usize> = (0..task.samples.len()).collect();
        for last in (1..order.len()).rev() {
            let product = u128::from(numbers.next_u64()) * (last as u128 + 1);
            order.swap(last, (product >> 64) as usize);
        }
        for chunk in order.chunks(params.batch as usize) {
            if steps == 0 {
                return;
            }
            steps -= 1;
            let mut batch = Batch::default();
            for &sample in chunk {
                let mut view = ((room.0 / 2, room.1 / 2), false);
                if params.augment {
                    // The high 32 bits of a number, as a fraction of what there is room for.
                    let mut below =
                        |n: u32| (((numbers.next_u64() >> 32) * u64::from(n)) >> 32) as u32;
                    view = ((below(room.0 + 1), below(room.1 + 1)), below(2) == 1);
                }
                batch.push(model, &task.samples, sample, view.0, view.1);
            }
            visit(&batch);
        }
    }
}

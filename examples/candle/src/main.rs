//! A model of candle as a task of agewise: who should train next?
//!
//! `cargo run --release` in this folder. Each client has points around two of three centres; the model is a small
//! network of candle, trained with candle's optimiser.

use agewise::prelude::*;
use candle_core::{DType, Device, Tensor, Var};
use candle_nn::{Optimizer, SGD, loss, ops};

const CLIENTS: u32 = 20;
const SAMPLES: usize = 24;
const HIDDEN: usize = 16;
/// The shapes of the weights and biases of two layers.
const SHAPES: [&[usize]; 4] = [&[HIDDEN, 2], &[HIDDEN], &[3, HIDDEN], &[3]];

/// Errors of candle as those of agewise, which names what was asked for.
fn failed(error: candle_core::Error) -> Error {
    Error::new("candle", error, "tensors that fit together")
}

/// The points of clients, as tensors.
struct Clouds {
    clients: Vec<(Tensor, Tensor)>,
}

impl Clouds {
    fn new() -> candle_core::Result<Self> {
        let client = |client: u32| {
            let (mut points, mut labels) = (Vec::new(), Vec::new());
            for sample in 0..SAMPLES as u32 {
                let class = (client + sample % 2) % 3;
                let angle = f64::from(class) * std::f64::consts::TAU / 3.0;
                // A spiral of small steps around the centre instead of noise.
                let (turn, radius) = (f64::from(sample) * 2.4, 0.05 * f64::from(sample));
                points.push((2.0 * angle.cos() + radius * turn.cos()) as f32);
                points.push((2.0 * angle.sin() + radius * turn.sin()) as f32);
                labels.push(class);
            }
            let points = Tensor::from_vec(points, (SAMPLES, 2), &Device::Cpu)?;
            Ok((points, Tensor::from_vec(labels, SAMPLES, &Device::Cpu)?))
        };
        let clients = (0..CLIENTS).map(client).collect::<candle_core::Result<_>>()?;
        Ok(Self { clients })
    }

    /// The variables of candle with the numbers of a model.
    fn variables(model: &[f32]) -> candle_core::Result<Vec<Var>> {
        let mut rest = model;
        let variable = |shape: &&[usize]| {
            let (own, others) = rest.split_at(shape.iter().product());
            rest = others;
            Var::from_tensor(&Tensor::from_slice(own, *shape, &Device::Cpu)?)
        };
        SHAPES.iter().map(variable).collect()
    }

    fn outputs(layers: &[Var], points: &Tensor) -> candle_core::Result<Tensor> {
        let hidden = points.matmul(&layers[0].t()?)?.broadcast_add(&layers[1])?.relu()?;
        hidden.matmul(&layers[2].t()?)?.broadcast_add(&layers[3])
    }

    /// Ten steps of gradient descent; gives the mean loss before the first.
    fn descend(&self, client: usize, model: &mut [f32]) -> candle_core::Result<f64> {
        let (layers, (points, labels)) = (Self::variables(model)?, &self.clients[client]);
        let mut optimiser = SGD::new(layers.clone(), 0.2)?;
        let mut first = None;
        for _ in 0..10 {
            let loss = loss::cross_entropy(&Self::outputs(&layers, points)?, labels)?;
            first.get_or_insert(f64::from(loss.to_scalar::<f32>()?));
            optimiser.backward_step(&loss)?;
        }
        let mut place = 0;
        for layer in &layers {
            let numbers = layer.flatten_all()?.to_vec1::<f32>()?;
            model[place..place + numbers.len()].copy_from_slice(&numbers);
            place += numbers.len();
        }
        Ok(first.unwrap_or_default())
    }

    /// Samples, the sum of their losses, and by class all samples and the correct ones.
    fn score(&self, model: &[f32]) -> candle_core::Result<Evaluation> {
        let layers = Self::variables(model)?;
        let (mut loss_sum, mut samples, mut right) = (0.0, vec![0; 3], vec![0; 3]);
        for (points, labels) in &self.clients {
            let outputs = Self::outputs(&layers, points)?;
            loss_sum += f64::from(loss::cross_entropy(&outputs, labels)?.to_scalar::<f32>()?)
                * SAMPLES as f64;
            let guesses = ops::softmax(&outputs, 1)?.argmax(1)?.to_dtype(DType::U32)?;
            for (guess, label) in
                guesses.to_vec1::<u32>()?.into_iter().zip(labels.to_vec1::<u32>()?)
            {
                samples[label as usize] += 1;
                right[label as usize] += u64::from(guess == label);
            }
        }
        let all = samples.iter().sum();
        Ok(Evaluation { samples: all, loss_sum, class_samples: samples, class_correct: right })
    }
}

impl Task for Clouds {
    fn parameters(&self) -> usize {
        SHAPES.iter().map(|shape| shape.iter().product::<usize>()).sum()
    }

    fn initial(&self, seed: Seed) -> Result<Vec<f32>> {
        // Numbers between -0.5 and 0.5 that follow from the seed.
        let draw = |place: usize| {
            let turned = (seed.0 as f64 + 1.0) * (place as f64 + 1.0) * 0.618_033_988_749_894_9;
            (turned.fract() - 0.5) as f32
        };
        Ok((0..self.parameters()).map(draw).collect())
    }

    fn sizes(&self, key: PartitionKey) -> Result<Vec<u64>> {
        Ok(vec![SAMPLES as u64; key.clients as usize])
    }

    fn train(&self, job: &TrainJob, model: &mut [f32]) -> Result<LocalReport> {
        let loss = self.descend(job.client as usize, model).map_err(failed)?;
        Ok(LocalReport { steps: 10, samples: 10 * SAMPLES as u64, loss, mean_square: loss * loss })
    }

    fn evaluate(&self, model: &[f32], _piece: usize) -> Result<Evaluation> {
        self.score(model).map_err(failed)
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let experiment = Experiment::builder()
        .task(Clouds::new()?)
        .change(|params| params.policies = vec!["random".into(), "oldest-first".into()])
        .clients(u64::from(CLIENTS))
        .cohort(4)
        .rounds(15)
        .seeds(3)
        .targets([0.8])
        .build()?;
    let summary = play(&experiment, None, 2, &NoCallbacks, &AtomicBool::default())?.summary()?;
    for policy in &summary.policies {
        println!("{}: rounds to 80%: {:?}", policy.policy, policy.rounds_to[0].rounds.median);
    }
    Ok(())
}

//! The constants of Theorem 1 for a problem with real data.
//!
//! Smoothness and convexity hold everywhere. The bounds on stochastic gradients cannot (they grow with the parameters),
//! so they are those at the first model, at the optimum, and at further models that the caller names, for example
//! those that a run has visited. They are exact there: with b of n samples drawn at once, the squared distance of the
//! batch's gradient from the client's is (n - b) / (b (n - 1)) times that of a single sample on average, and the
//! gradient of a sample is (p - y)(x, 1)'. A smaller last batch of an epoch is not counted.

use super::convex::{ClientObjective, ConvexProblem};
use super::curvature::Inputs;
use super::minimise::dot;
use agewise_core::math::square;
use agewise_core::theory::{BoundConstants, ObjectiveConstants};
use agewise_core::{Error, Result};
use agewise_train::local::NativeWorker;
use serde::{Deserialize, Serialize};

/// What Theorem 1 asks of a problem, whatever the policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProblemConstants {
    /// Those of the local objectives. G and sigma hold at the models that were looked at, and what rounding leaves of Gamma
    /// below 0 is cut off.
    #[serde(flatten)]
    pub objectives: ObjectiveConstants,
    /// F*.
    pub optimum_value: f64,
    /// The true F* is at most this much lower.
    pub optimum_error: f64,
    /// F_k* of every client.
    pub local_optimum_values: Vec<f64>,
    /// The true F_k* of every client is at most this much lower.
    pub local_optimum_error: f64,
    /// theta*.
    #[serde(skip)]
    pub optimum: Vec<f32>,
}

impl ProblemConstants {
    /// Learning rate and offset of Theorem 1 for K local steps, as local training takes them: 1/(mu gamma) and
    /// gamma = 4K(K+1)L/mu, so that the rate of round t is 1/(mu (t + gamma)).
    pub fn theorem_schedule(&self, local_steps: u32) -> (f64, f64) {
        let k = f64::from(local_steps);
        let offset = 4.0 * k * (k + 1.0) * self.objectives.smoothness / self.objectives.convexity;
        (1.0 / (self.objectives.convexity * offset), offset)
    }

    /// The constants of the bound, with what depends on the policy: Sigma, and the smallest and largest skew.
    pub fn with_policy(
        &self,
        local_steps: u32,
        cohort: u32,
        sigma: f64,
        (skew_min, skew_max): (f64, f64),
    ) -> BoundConstants {
        BoundConstants {
            objectives: self.objectives,
            local_steps,
            cohort,
            sigma,
            skew_min,
            skew_max,
        }
    }
}

/// The mean squares of stochastic gradients of a client at one model.
struct GradientSquares {
    norm: f64,
    distance: f64,
}

impl ConvexProblem<'_> {
    /// The constants of Theorem 1, for shares q, the first model theta0, and stochastic gradients of `batch` samples at
    /// theta0, theta* and `models`.
    pub fn constants(
        &self,
        shares: &[f64],
        start: &[f32],
        models: &[&[f32]],
        batch: u32,
    ) -> Result<ProblemConstants> {
        if batch == 0 {
            return Err(Error::new("batch", batch, "at least 1"));
        }
        let optimum = self.optimum(start, shares)?;
        // Near everyone's own optimum already, compared with the first model.
        let local = self.local_optima(&optimum.parameters)?;
        let Self { clients, input, weight_decay, .. } = self;
        let (input, mu) = (*input, *weight_decay);
        let inputs = self.threads.map(clients.len(), |client| {
            let data = &clients[client];
            Ok(Inputs::new(&data.all(), &data.indices, input))
        })?;
        let models: Vec<&[f32]> =
            [start, &optimum.parameters].into_iter().chain(models.iter().copied()).collect();
        let squares = self.each(clients.len() * models.len(), |worker, task| {
            let (client, model) = (task % clients.len(), models[task / clients.len()]);
            gradient_squares(worker, &clients[client], &inputs[client], model, mu, batch)
        })?;
        let largest = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
        let least_local: f64 =
            local.iter().zip(shares).map(|(optimum, share)| share * optimum.value).sum();
        let apart = start.iter().zip(&optimum.parameters);
        let apart = apart.map(|(&one, &two)| square(f64::from(one) - f64::from(two)));
        let error = |gradient_norm: f64| square(gradient_norm) / (2.0 * mu);
        Ok(ProblemConstants {
            objectives: ObjectiveConstants {
                smoothness: mu + largest(&mut inputs.iter().map(|inputs| inputs.largest)) / 2.0,
                convexity: mu,
                gradient_bound: largest(&mut squares.iter().map(|square| square.norm)).sqrt(),
                gradient_sd: largest(&mut squares.iter().map(|square| square.distance)).sqrt(),
                objective_gap: (optimum.value - least_local).max(0.0),
                initial_distance: apart.sum::<f64>().sqrt(),
            },
            optimum_value: optimum.value,
            optimum_error: error(optimum.gradient_norm),
            local_optimum_error: error(largest(&mut local.iter().map(|o| o.gradient_norm))),
            local_optimum_values: local.iter().map(|optimum| optimum.value).collect(),
            optimum: optimum.parameters,
        })
    }
}

fn gradient_squares(
    worker: &mut NativeWorker,
    client: &ClientObjective<'_>,
    inputs: &Inputs,
    model: &[f32],
    mu: f64,
    batch: u32,
) -> Result<GradientSquares> {
    let (_, entropy_gradient) = client.cross_entropy(worker, model)?;
    let samples = client.all();
    let scores = worker.scores(model, &samples)?;
    let classes = scores.len() / client.indices.len();
    let rows = scores.chunks_exact(classes).zip(client.indices.iter()).zip(&inputs.squares);
    let single = rows.map(|((scores, &index), square)| {
        square * score_gradient_square(scores, samples.class_of(index as usize).unwrap_or(0))
    });
    let count = client.indices.len() as f64;
    let spread = (single.sum::<f64>() / count - dot(&entropy_gradient, &entropy_gradient)).max(0.0);
    let batch = f64::from(batch).min(count);
    // A batch of all samples is the client's gradient itself.
    let distance =
        if batch < count { spread * (count - batch) / (batch * (count - 1.0)) } else { 0.0 };
    let slopes = entropy_gradient.iter().zip(model);
    let whole: f64 = slopes.map(|(slope, &at)| square(slope + mu * f64::from(at))).sum();
    Ok(GradientSquares { norm: whole + distance, distance })
}

/// |p - y|^2 for the softmax p of scores and the one-hot y of a label.
fn score_gradient_square(scores: &[f32], label: u8) -> f64 {
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let shares: Vec<f64> =
        scores.iter().map(|&score| libm::exp(f64::from(score - largest))).collect();
    let total: f64 = shares.iter().sum();
    let square = |(class, share): (usize, &f64)| {
        square(share / total - f64::from(u8::from(class == usize::from(label))))
    };
    shares.iter().enumerate().map(square).sum()
}

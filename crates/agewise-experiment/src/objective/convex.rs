//! One dense layer with weight decay: strongly convex, so that optima can be found and not only approached.

use super::minimise::{Place, add, minimise, norm};
use super::{check_client, penalty};
use agewise_core::{Error, Result};
use agewise_train::data::ImageShape;
use agewise_train::local::{NativeWorker, Samples};
use agewise_train::model::{Layer, Model};
use agewise_train::{NativeTask, Threads};
use std::borrow::Cow;
use std::ops::Range;

/// The norm of a gradient at which an optimum counts as found: near what gradients of 32 bits can tell.
const TOLERANCE: f64 = 1e-5;
/// Samples whose gradient is one sum in 32 bits.
const PIECE: usize = 500;
/// Sums of a global gradient that are made apart from each other. Fixed, so that the result does not depend on the
/// number of threads.
const GROUPS: usize = 64;

/// Whether a model with this weight decay has strongly convex objectives: one dense layer and a penalty.
pub fn is_strongly_convex(model: &Model, weight_decay: f32) -> bool {
    matches!(model.spec().layers[..], [Layer::Dense { .. }])
        && weight_decay.is_finite()
        && weight_decay > 0.0
}

/// The objectives of clients that share one dense layer with weight decay.
#[derive(Debug)]
pub struct ConvexProblem<'a> {
    pub(super) task: &'a NativeTask,
    pub(super) threads: Threads,
    pub(super) clients: Vec<ClientObjective<'a>>,
    pub(super) weight_decay: f64,
    pub(super) input: ImageShape,
    pieces: Vec<Piece>,
}

/// A client's data, by the numbers of its images.
#[derive(Debug)]
pub(super) struct ClientObjective<'a> {
    samples: Samples<'a>,
    pub(super) indices: Cow<'a, [u32]>,
}

/// Some samples of a client.
#[derive(Debug)]
struct Piece {
    client: usize,
    range: Range<usize>,
}

impl ClientObjective<'_> {
    /// Some of its samples.
    pub(super) fn part(&self, range: Range<usize>) -> Samples<'_> {
        Samples { indices: Some(&self.indices[range]), ..self.samples }
    }

    /// All its samples.
    pub(super) fn all(&self) -> Samples<'_> {
        self.part(0..self.indices.len())
    }

    fn pieces(&self) -> impl Iterator<Item = Range<usize>> {
        let len = self.indices.len();
        (0..len).step_by(PIECE).map(move |begin| begin..len.min(begin + PIECE))
    }

    /// Adds `share` times the gradient of the samples' mean cross-entropy, counting them as their part of the
    /// client's. Returns what they add to the value.
    fn add_gradient(
        &self,
        worker: &mut NativeWorker,
        parameters: &[f32],
        range: Range<usize>,
        share: f64,
        gradient: &mut [f64],
    ) -> Result<f64> {
        let share = share * range.len() as f64 / self.indices.len() as f64;
        let (loss, slopes) = worker.gradient(parameters, &self.part(range))?;
        for (sum, slope) in gradient.iter_mut().zip(slopes) {
            *sum += share * f64::from(slope);
        }
        Ok(share * f64::from(loss))
    }

    /// The mean cross-entropy and its gradient.
    pub(super) fn cross_entropy(
        &self,
        worker: &mut NativeWorker,
        parameters: &[f32],
    ) -> Result<(f64, Vec<f64>)> {
        let mut gradient = vec![0.0; parameters.len()];
        let mut value = 0.0;
        for range in self.pieces() {
            value += self.add_gradient(worker, parameters, range, 1.0, &mut gradient)?;
        }
        Ok((value, gradient))
    }
}

/// Where an objective is least.
#[derive(Debug, Clone, PartialEq)]
pub struct Optimum {
    /// The parameters.
    pub parameters: Vec<f32>,
    /// The objective there.
    pub value: f64,
    /// The norm of the gradient there: the true least value is below `value` by at most its square / (2 mu).
    pub gradient_norm: f64,
}

impl From<Place> for Optimum {
    fn from(place: Place) -> Self {
        let gradient_norm = norm(&place.gradient);
        Self { parameters: place.parameters, value: place.value, gradient_norm }
    }
}

impl<'a> ConvexProblem<'a> {
    /// The objectives of these clients. The model must be one dense layer, and the weight decay above 0.
    pub fn new(
        task: &'a NativeTask,
        clients: &[Samples<'a>],
        weight_decay: f32,
        threads: Threads,
    ) -> Result<Self> {
        let model = task.trainer().model();
        if !(weight_decay.is_finite() && weight_decay > 0.0) {
            return Err(Error::new("weight-decay", weight_decay, "a number above 0"));
        }
        if !is_strongly_convex(model, weight_decay) {
            let expected = "softmax: only one dense layer is convex";
            return Err(Error::new("model", &model.spec().name, expected));
        }
        if clients.is_empty() {
            return Err(Error::new("clients", 0, "at least 1"));
        }
        if clients.iter().any(|samples| samples.classes() == 0) {
            return Err(Error::new("loss", "squared", "cross-entropy: samples with classes"));
        }
        let mut known = Vec::with_capacity(clients.len());
        for (client, samples) in clients.iter().enumerate() {
            check_client(client, samples)?;
            let indices = match samples.indices {
                Some(indices) => Cow::Borrowed(indices),
                None => Cow::Owned((0..samples.len() as u32).collect()),
            };
            known.push(ClientObjective { samples: *samples, indices });
        }
        let pieces = known.iter().enumerate().flat_map(|(client, data)| {
            data.pieces().map(move |range| Piece { client, range }).collect::<Vec<_>>()
        });
        let problem = Self {
            task,
            threads,
            pieces: pieces.collect(),
            clients: known,
            weight_decay: f64::from(weight_decay),
            input: model.input(),
        };
        problem.check_images()?;
        Ok(problem)
    }

    /// Lets the engine check all images, so that their pixels can be read later without a check.
    fn check_images(&self) -> Result<()> {
        let zero = vec![0.0; self.task.trainer().model().parameters()];
        let look = |worker: &mut NativeWorker, client: usize| {
            worker.scores(&zero, &self.clients[client].all()).map(drop)
        };
        self.each(self.clients.len(), look).map(drop)
    }

    /// Does jobs on all threads, each with a worker; the results do not depend on which thread did what.
    pub(super) fn each<T: Send>(
        &self,
        jobs: usize,
        job: impl Fn(&mut NativeWorker, usize) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        self.threads.map(jobs, |index| self.task.with_worker(|worker| job(worker, index)))
    }

    /// The global objective sum q_k F_k with these shares q, and its gradient.
    pub fn objective(&self, parameters: &[f32], shares: &[f64]) -> Result<(f64, Vec<f64>)> {
        self.check_shares(shares)?;
        let Self { clients, pieces, .. } = self;
        let groups: Vec<&[Piece]> = pieces.chunks(pieces.len().div_ceil(GROUPS)).collect();
        let sums = self.each(groups.len(), |worker, group| {
            let mut gradient = vec![0.0; parameters.len()];
            let mut value = 0.0;
            for Piece { client, range } in groups[group] {
                let (data, range) = (&clients[*client], range.clone());
                let share = shares[*client];
                if share == 0.0 {
                    continue;
                }
                value += data.add_gradient(worker, parameters, range, share, &mut gradient)?;
            }
            Ok((value, gradient))
        })?;
        let mut gradient = vec![0.0; parameters.len()];
        let mut value = 0.0;
        for (part, slopes) in sums {
            value += part;
            add(&mut gradient, 1.0, &slopes);
        }
        Ok(penalised(parameters, self.weight_decay, (value, gradient)))
    }

    /// Where the global objective with these shares is least, sought from `start`.
    pub fn optimum(&self, start: &[f32], shares: &[f64]) -> Result<Optimum> {
        minimise(start, TOLERANCE, |at| self.objective(at, shares)).map(Optimum::from)
    }

    /// Where each client's own objective is least, sought from `start`.
    pub fn local_optima(&self, start: &[f32]) -> Result<Vec<Optimum>> {
        let Self { clients, weight_decay, .. } = self;
        self.each(clients.len(), |worker, client| {
            let objective = |at: &[f32]| {
                let entropy = clients[client].cross_entropy(worker, at)?;
                Ok(penalised(at, *weight_decay, entropy))
            };
            minimise(start, TOLERANCE, objective).map(Optimum::from)
        })
    }

    /// One share of at least 0 for each client, with the sum 1.
    fn check_shares(&self, shares: &[f64]) -> Result<()> {
        if shares.len() != self.clients.len() {
            let value = format!("a list of {}", shares.len());
            let expected = format!("one share for each of {} clients", self.clients.len());
            return Err(Error::new("shares", value, expected));
        }
        if let Some(wrong) = shares.iter().find(|share| !(0.0..=1.0).contains(*share)) {
            return Err(Error::new("shares", wrong, "numbers from 0 to 1"));
        }
        let sum: f64 = shares.iter().sum();
        if (sum - 1.0).abs() > 1e-6 {
            return Err(Error::new("shares", format!("a sum of {sum}"), "a sum of 1"));
        }
        Ok(())
    }
}

/// A mean cross-entropy and its gradient with the penalty added to both.
fn penalised(
    parameters: &[f32],
    weight_decay: f64,
    (value, mut gradient): (f64, Vec<f64>),
) -> (f64, Vec<f64>) {
    for (slope, &parameter) in gradient.iter_mut().zip(parameters) {
        *slope += weight_decay * f64::from(parameter);
    }
    (value + penalty(parameters, weight_decay), gradient)
}

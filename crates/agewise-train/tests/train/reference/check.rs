//! The engine beside the reference.

use super::{Batch, Named, Network, distance, first_difference, norm, tensors};
use agewise_train::Backend;
use agewise_train::local::{Samples, Trainer};
use agewise_train::model::{Model, ModelSpec};

/// Of a tensor's norm: sums of some thousand 32-bit products are right to about 1e-6, convolutions by way of
/// polynomials to 1e-5, and a wrong index, mask or factor is off by orders of magnitude more.
pub(crate) const TOLERANCE: f64 = 1e-4;

/// Gradient and scores of samples by every backend: they have to be those of the reference, and the backends have to agree
/// with each other.
pub(crate) fn check_paths(
    spec: &ModelSpec,
    network: &Network,
    parameters: &[f32],
    samples: &Samples<'_>,
    (loss, expected): &(f64, Vec<Named>),
) -> Result<(), String> {
    let model = Model::new(spec.clone()).unwrap();
    let batch = Batch::middle(&model, samples);
    let all_scores: Vec<Vec<f64>> =
        batch.images.iter().map(|image| network.scores(image)).collect();
    let mut first: Option<Vec<Named>> = None;
    for backend in Backend::available() {
        let trainer = Trainer::new(Model::with_backend(spec.clone(), backend).unwrap());
        let mut worker = trainer.worker();
        // Twice: the second time, buffers are full of what the first has left.
        for time in ["first", "second"] {
            let context =
                || format!("{} by {backend}, batch of {}, {time}", spec.name, samples.len());
            let (found_loss, found) = worker.gradient(parameters, samples).unwrap();
            let far = (f64::from(found_loss) - loss).abs();
            if far.is_nan() || far > 1e-5 * (1.0 + loss) {
                return Err(format!("{}: loss {found_loss}, expected {loss}", context()));
            }
            let found = tensors(trainer.model(), &found);
            if let Some(difference) = first_difference(&found, expected, TOLERANCE) {
                return Err(format!("{}: {difference}", context()));
            }
            let first = first.get_or_insert_with(|| found.clone());
            if let Some(difference) = first_difference(&found, first, TOLERANCE) {
                return Err(format!("{}, against the fastest backend: {difference}", context()));
            }
            // Evaluation has kernels of its own.
            let scores = worker.scores(parameters, samples).unwrap();
            for (scores, expected) in scores.chunks_exact(model.classes()).zip(&all_scores) {
                let found: Vec<f64> = scores.iter().copied().map(f64::from).collect();
                let far = distance(&found, expected);
                if far.is_nan() || far > TOLERANCE * norm(expected) {
                    return Err(format!("{}: scores {far:e} away from {expected:?}", context()));
                }
            }
        }
    }
    Ok(())
}

//! Cross-entropy of softmax scores and squared errors, and what they say about a model.

use crate::evaluation::Evaluation;

/// The losses of a batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BatchLoss {
    pub(crate) mean: f32,
    pub(crate) mean_square: f32,
}

/// Replaces scores by the gradient of the mean loss: softmax minus one at the label, over the number of samples.
pub(crate) fn softmax_gradient(scores: &mut [f32], labels: &[u8]) -> BatchLoss {
    let classes = scores.len() / labels.len();
    let share = 1.0 / labels.len() as f32;
    let mut batch = BatchLoss { mean: 0.0, mean_square: 0.0 };
    for (row, &label) in scores.chunks_exact_mut(classes).zip(labels) {
        let score = row[usize::from(label)];
        let (largest, total) = exponentials(row);
        let loss = libm::logf(total) + largest - score;
        batch.mean += loss * share;
        batch.mean_square += loss * loss * share;
        for power in row.iter_mut() {
            *power *= share / total;
        }
        row[usize::from(label)] -= share;
    }
    batch
}

/// Replaces predictions by the gradient of the mean squared error.
pub(crate) fn squared_gradient(predictions: &mut [f32], numbers: &[f32]) -> BatchLoss {
    let share = 1.0 / numbers.len() as f32;
    let mut batch = BatchLoss { mean: 0.0, mean_square: 0.0 };
    for (prediction, &number) in predictions.iter_mut().zip(numbers) {
        let error = *prediction - number;
        let loss = error * error;
        batch.mean += loss * share;
        batch.mean_square += loss * loss * share;
        *prediction = 2.0 * share * error;
    }
    batch
}

/// Adds the squared errors of predictions to an evaluation.
pub(crate) fn record_errors(predictions: &[f32], numbers: &[f32], evaluation: &mut Evaluation) {
    for (&prediction, &number) in predictions.iter().zip(numbers) {
        evaluation.samples += 1;
        let error = f64::from(prediction - number);
        evaluation.loss_sum += error * error;
    }
}

/// Adds the losses and hits of scores to an evaluation.
pub(crate) fn record_scores(scores: &[f32], labels: &[u8], evaluation: &mut Evaluation) {
    let classes = scores.len() / labels.len();
    for (row, &label) in scores.chunks_exact(classes).zip(labels) {
        let largest = largest_of(row);
        let label_score = row[usize::from(label)];
        // A tie is no hit for the later class, and a score that is no number is never one.
        let first = row.iter().position(|&score| score == largest);
        evaluation.samples += 1;
        evaluation.class_samples[usize::from(label)] += 1;
        evaluation.class_correct[usize::from(label)] +=
            u64::from(first == Some(usize::from(label)) && !label_score.is_nan());
        evaluation.loss_sum += f64::from(loss_of(row, label, largest));
    }
}

/// The largest score that is a number. A comparison is faster than `f32::max`, which has to tell numbers from others.
fn largest_of(scores: &[f32]) -> f32 {
    scores.iter().fold(f32::NEG_INFINITY, |most, &score| if score > most { score } else { most })
}

/// Replaces scores by exp(score - largest), and returns the largest and the sum: so nothing overflows.
fn exponentials(scores: &mut [f32]) -> (f32, f32) {
    let largest = largest_of(scores);
    let mut total = 0.0;
    for score in scores {
        *score = libm::expf(*score - largest);
        total += *score;
    }
    (largest, total)
}

/// log(sum of exp(scores)) - score of the label: the same operations without the exponentials themselves.
fn loss_of(scores: &[f32], label: u8, largest: f32) -> f32 {
    let total = scores.iter().fold(0.0, |total, score| total + libm::expf(score - largest));
    libm::logf(total) + largest - scores[usize::from(label)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradient_is_the_slope_of_the_loss() {
        let scores = [0.3f32, -1.0, 2.0, 0.0, 0.5, 100.0];
        let labels = [2, 1];
        let mean_loss = |scores: &[f32]| {
            let mut evaluation = Evaluation::new(3);
            record_scores(scores, &labels, &mut evaluation);
            evaluation.loss()
        };
        let mut gradient = scores;
        let loss = softmax_gradient(&mut gradient, &labels).mean;
        assert!((f64::from(loss) - mean_loss(&scores)).abs() < 1e-5);
        for index in 0..3 {
            let mut moved = [scores; 2];
            moved[0][index] -= 0.01;
            moved[1][index] += 0.01;
            let slope = (mean_loss(&moved[1]) - mean_loss(&moved[0])) / 0.02;
            assert!((slope - f64::from(gradient[index])).abs() < 1e-4);
        }
        assert!((gradient[4] + 0.5).abs() < 1e-6 && (gradient[5] - 0.5).abs() < 1e-6);
    }

    #[test]
    fn the_gradient_of_squared_errors_is_their_slope() {
        let (predictions, numbers) = ([0.5f32, -1.0, 3.0], [1.0f32, 1.0, 2.5]);
        let mut evaluation = Evaluation::new(0);
        record_errors(&predictions, &numbers, &mut evaluation);
        assert_eq!((evaluation.samples, evaluation.loss()), (3, 1.5));
        assert!(evaluation.accuracy().is_nan());
        let mut gradient = predictions;
        let loss = squared_gradient(&mut gradient, &numbers);
        assert!((loss.mean - 1.5).abs() < 1e-6 && (loss.mean_square - 16.125 / 3.0).abs() < 1e-5);
        for (slope, error) in gradient.iter().zip([-0.5f32, -2.0, 0.5]) {
            assert!((slope - 2.0 * error / 3.0).abs() < 1e-6);
        }
    }

    #[test]
    fn counts_by_class() {
        let mut evaluation = Evaluation::new(2);
        record_scores(
            &[1.0, 2.0, 2.0, 1.0, 1.0, 1.0, f32::NAN, 1.0],
            &[1, 1, 1, 0],
            &mut evaluation,
        );
        assert_eq!(evaluation.class_samples, [1, 3]);
        assert_eq!(evaluation.class_correct, [0, 1]);
        let mut twice = evaluation.clone();
        twice.merge(&evaluation);
        assert_eq!(twice.samples, 8);
        assert_eq!(evaluation.class_accuracy()[0], 0.0);
    }
}

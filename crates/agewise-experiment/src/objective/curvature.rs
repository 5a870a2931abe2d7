//! How curved a client's cross-entropy can be at most, from its pixels alone.
//!
//! The second derivative by the scores of one sample, diag(p) - p p', has no eigenvalue above 1/2. So the Hessian of
//! the mean is at most 1/2 times the second moment of (x, 1), for all parameters.

use super::minimise::{dot, norm, scale_by};
use agewise_core::math;
use agewise_core::{Draws, Seed, Stream};
use agewise_train::data::ImageShape;
use agewise_train::local::Samples;

/// The first direction of the power iteration.
const FIRST_DIRECTION: Stream = Stream::custom(300);
/// The power iteration ends when the residual is this much of the eigenvalue, ...
const RESIDUAL: f64 = 1e-4;
/// ... or after so many steps; what is missing is added, so that the result errs upwards.
const MOST_STEPS: usize = 500;
/// Sums that are kept apart, so that they can be added at once.
const LANES: usize = 8;

/// What a client's pixels say.
pub(super) struct Inputs {
    /// The largest eigenvalue of the second moment of (x, 1).
    pub(super) largest: f64,
    /// |(x, 1)|^2 of each sample.
    pub(super) squares: Vec<f64>,
}

impl Inputs {
    /// Of the middle of images, as a model with this input sees them. The caller has checked that they are as large.
    pub(super) fn new(samples: &Samples<'_>, indices: &[u32], input: ImageShape) -> Self {
        // The 1 for the bias is followed by zeros, which change no sum.
        let width = (input.len() + 1).next_multiple_of(LANES);
        let mut rows = vec![0.0f32; indices.len() * width];
        for (row, &index) in rows.chunks_exact_mut(width).zip(indices) {
            samples.write_middle(index as usize, input, &mut row[..input.len()]);
            row[input.len()] = 1.0;
        }
        let square = |row: &[f32]| row.iter().map(|&value| math::square(f64::from(value))).sum();
        let squares = rows.chunks_exact(width).map(square).collect();
        Self { largest: largest_eigenvalue(&rows, width), squares }
    }
}

/// The largest eigenvalue of the mean of r r' over the rows r, by power iteration; errs upwards.
fn largest_eigenvalue(rows: &[f32], width: usize) -> f64 {
    let draws = Draws::new(Seed(0), FIRST_DIRECTION, 0);
    let mut way: Vec<f64> = (0..width as u64).map(|index| draws.of(index).unit() - 0.5).collect();
    let mut found = 0.0;
    scale_to_one(&mut way);
    for _ in 0..MOST_STEPS {
        let image = times_second_moment(rows, width, &way);
        let value = dot(&image, &way);
        let rest = image.iter().zip(&way).map(|(image, way)| math::square(image - value * way));
        let residual = rest.sum::<f64>().sqrt();
        found = value + residual;
        if residual <= RESIDUAL * value {
            break;
        }
        way = image;
        scale_to_one(&mut way);
    }
    found
}

fn times_second_moment(rows: &[f32], width: usize, way: &[f64]) -> Vec<f64> {
    let mut sum = vec![0.0; width];
    let share = 1.0 / (rows.len() / width) as f64;
    for row in rows.chunks_exact(width) {
        let mut lanes = [0.0; LANES];
        for (row, way) in row.chunks_exact(LANES).zip(way.chunks_exact(LANES)) {
            for lane in 0..LANES {
                lanes[lane] += f64::from(row[lane]) * way[lane];
            }
        }
        let product = share * lanes.iter().sum::<f64>();
        for (sum, &value) in sum.iter_mut().zip(row) {
            *sum += product * f64::from(value);
        }
    }
    sum
}

fn scale_to_one(values: &mut [f64]) {
    let length = norm(values);
    if length > 0.0 {
        scale_by(values, 1.0 / length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agewise_train::data::{Images, PixelNormalization, PixelScale};

    #[test]
    fn eigenvalue_of_a_known_matrix() {
        // Rows (2, 0), (0, 1): second moment diag(2, 1/2).
        let mut rows = vec![0.0; 2 * LANES];
        (rows[0], rows[LANES + 1]) = (2.0, 1.0);
        let found = largest_eigenvalue(&rows, LANES);
        assert!((2.0..2.001).contains(&found), "{found}");
        // Two equal eigenvalues have no leading direction, but their value is found all the same.
        rows[LANES + 1] = 2.0;
        let found = largest_eigenvalue(&rows, LANES);
        assert!((2.0..2.001).contains(&found), "{found}");
        assert_eq!(largest_eigenvalue(&[0.0; LANES], LANES), 0.0);
    }

    #[test]
    fn inputs_are_the_middle_of_images() {
        // 2 channels, 3 x 3 pixels, of which the model sees the one in the middle.
        let shape = ImageShape::new(2, 3, 3);
        let pixels: Vec<u8> = (0..18).map(|place| if place / 2 == 4 { 255 } else { 0 }).collect();
        let images = Images::new(shape, 1, pixels, vec![0]).unwrap();
        let table = PixelNormalization::new(PixelScale::Unit, &images);
        let samples = Samples::all(&images, &table);
        let inputs = Inputs::new(&samples, &[0], ImageShape::new(2, 1, 1));
        assert_eq!(inputs.squares, [3.0]);
        assert!((3.0..3.001).contains(&inputs.largest), "{}", inputs.largest);
    }
}

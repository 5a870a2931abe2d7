//! Data and figures that the benchmarks of choosing share.

use agewise_learn::data::{Dataset, ImageShape, Images};

const TEST_IMAGES: usize = 10_000;

/// So many training images, with labels that can be learned from one pixel.
pub(crate) fn data(train: usize) -> agewise_core::Result<Dataset> {
    let shape = ImageShape { channels: 1, height: 28, width: 28 };
    let make = |count: usize| {
        let labels: Vec<u8> = (0..count).map(|index| (index % 10) as u8).collect();
        let mut pixels = vec![0u8; count * 784];
        for (image, &label) in pixels.chunks_exact_mut(784).zip(&labels) {
            image[usize::from(label) * 70] = 255;
        }
        Images::new(shape, 10, pixels, labels)
    };
    let (train, test) = (make(train)?, make(TEST_IMAGES)?);
    Ok(Dataset { name: "made-up".to_string(), train, test })
}

/// The median of some times.
pub(crate) fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

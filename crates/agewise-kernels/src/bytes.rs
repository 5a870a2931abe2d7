//! From bytes to floats.

use crate::Backend;
use crate::backend::Kernel;
use crate::vector::Vector;

/// `floats = bytes * factor + summand`, in doubles that are rounded after each step, and to floats at last.
///
/// # Panics
/// If the slices differ in length.
pub fn scale_bytes(
    backend: Backend,
    bytes: &[u8],
    (factor, summand): (f64, f64),
    floats: &mut [f32],
) {
    assert_eq!(bytes.len(), floats.len());
    // SAFETY: the kernel has no pointers.
    unsafe { backend.run(ScaleBytes { bytes, factor, summand, floats }) }
}

/// Plain code, of which the compiler makes vectors.
struct ScaleBytes<'a> {
    bytes: &'a [u8],
    factor: f64,
    summand: f64,
    floats: &'a mut [f32],
}

impl Kernel for ScaleBytes<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        for (float, &byte) in self.floats.iter_mut().zip(self.bytes) {
            *float = (f64::from(byte) * self.factor + self.summand) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_backend_gives_the_same_floats() {
        let bytes: Vec<u8> = (0..=255).collect();
        for (factor, summand) in [(1.0 / 255.0, 0.0), (0.013, -0.42), (-1e-30, 7.0)] {
            let line = |byte: &u8| (f64::from(*byte) * factor + summand) as f32;
            let expected: Vec<f32> = bytes.iter().map(line).collect();
            for backend in Backend::available() {
                for len in [0, 1, 28, 255, 256] {
                    let mut floats = vec![f32::NAN; len];
                    scale_bytes(backend, &bytes[..len], (factor, summand), &mut floats);
                    assert_eq!(floats, expected[..len], "{backend}");
                }
            }
        }
    }
}

//! Loops over whole parameter slices. Plain code: they are bound by memory, and the compiler makes vectors of them.

/// `sum += factor * values`.
///
/// # Panics
/// If the slices differ in length.
pub fn add_scaled(sum: &mut [f32], factor: f32, values: &[f32]) {
    assert_eq!(sum.len(), values.len());
    for (sum, value) in sum.iter_mut().zip(values) {
        *sum += factor * value;
    }
}

/// `target = keep * target + scale * values`; what is kept by 0 is not even read.
///
/// # Panics
/// If the slices differ in length.
pub fn blend(target: &mut [f32], keep: f32, scale: f32, values: &[f32]) {
    assert_eq!(target.len(), values.len());
    if keep == 0.0 {
        for (target, value) in target.iter_mut().zip(values) {
            *target = scale * value;
        }
    } else {
        for (target, value) in target.iter_mut().zip(values) {
            *target = keep * *target + scale * value;
        }
    }
}

/// Whether no value is infinite or not a number.
pub fn all_finite(values: &[f32]) -> bool {
    // The exponent of such values is all ones. A sum of flags per block has no branch for each value.
    const EXPONENT: u32 = 0x7F80_0000;
    let is_bad = |value: &f32| u32::from(value.to_bits() & EXPONENT == EXPONENT);
    values.chunks(4096).all(|block| block.iter().map(is_bad).sum::<u32>() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_one_bad_value() {
        let mut values = vec![f32::MAX; 10_000];
        assert!(all_finite(&values));
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            values[9_999] = bad;
            assert!(!all_finite(&values));
        }
    }

    #[test]
    fn blends() {
        let mut target = [f32::NAN, 2.0];
        blend(&mut target, 0.0, 2.0, &[1.0, 3.0]);
        blend(&mut target, 0.5, 1.0, &[1.0, 1.0]);
        assert_eq!(target, [2.0, 4.0]);
        add_scaled(&mut target, -1.0, &[1.0, 1.0]);
        assert_eq!(target, [1.0, 3.0]);
    }
}

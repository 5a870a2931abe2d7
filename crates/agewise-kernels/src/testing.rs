//! What the tests of the kernels share.

/// Numbers between -1 and 1 that look random.
pub(crate) fn numbers(len: usize, step: f32) -> Vec<f32> {
    (0..len).map(|index| (index as f32 * step).sin()).collect()
}

/// Zeros of either sign differ, numbers that are none do not.
pub(crate) fn assert_same_bits(values: &[f32], expected: &[f32], what: &str) {
    assert_eq!(values.len(), expected.len(), "{what}");
    for (at, (value, expected)) in values.iter().zip(expected).enumerate() {
        let same = value.to_bits() == expected.to_bits() || value.is_nan() && expected.is_nan();
        assert!(same, "{what} at {at}: {value:e}, not {expected:e}");
    }
}

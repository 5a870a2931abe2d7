//! Several comparisons at once: the more of them, the more would be found by luck alone.

/// The p-values adjusted for their number by Holm's method, in the order given.
///
/// Rejecting where the adjusted value is at most 0.05 finds anything that is not there in at most 5% of cases,
/// however the comparisons depend on each other. What is not a number counts as 1.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let counted = |p: f64| if p.is_nan() { 1.0 } else { p.clamp(0.0, 1.0) };
    let mut ordered: Vec<(usize, f64)> = p_values.iter().map(|&p| counted(p)).enumerate().collect();
    ordered.sort_by(|(_, one), (_, other)| one.total_cmp(other));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut largest: f64 = 0.0;
    for (rank, (index, p)) in ordered.into_iter().enumerate() {
        // Each one that came before is one less to guard against.
        largest = largest.max((p_values.len() - rank) as f64 * p).min(1.0);
        adjusted[index] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use agewise_core::{Draws, Seed, Stream};

    #[test]
    fn a_worked_example() {
        // Sorted 0.005, 0.01, 0.03, 0.04: times 4, 3, 2, 1 that is 0.02, 0.03, 0.06, 0.04, and none below the last.
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (adjusted, expected) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((adjusted - expected).abs() < 1e-15, "{adjusted}");
        }
        assert!(holm(&[]).is_empty());
        assert_eq!(holm(&[0.2]), [0.2]);
        assert_eq!(holm(&[0.7, 0.0, 0.7]), [1.0, 0.0, 1.0]);
        // Not a number is no evidence, but it is one of the comparisons.
        assert_eq!(holm(&[f64::NAN, 0.25, -f64::NAN]), [1.0, 0.75, 1.0]);
    }

    #[test]
    fn adjusted_values_keep_the_order_and_never_fall() {
        for round in 0..500 {
            let draws = Draws::new(Seed(4), Stream::custom(902), round);
            let raw: Vec<f64> =
                (0..round % 12).map(|index| draws.of(index).unit().powi(3)).collect();
            let adjusted = holm(&raw);
            let smallest = raw.iter().copied().fold(1.0, f64::min);
            for (index, (&raw_here, &here)) in raw.iter().zip(&adjusted).enumerate() {
                assert!((raw_here..=1.0).contains(&here), "{raw:?}: {adjusted:?}");
                for other in 0..raw.len() {
                    assert!(raw[other] < raw[index] || adjusted[other] >= here, "{raw:?}");
                }
                // Bonferroni's bound is reached by the smallest.
                if raw_here == smallest {
                    assert_eq!(here, (raw.len() as f64 * raw_here).min(1.0));
                }
            }
        }
    }
}

use super::*;
use crate::random::Seed;
use crate::sizes::SizeDistribution;

/// Theorem 3 as the paper writes it: every subset, one by one.
fn enumerated(sizes: &[f64], cohort: u32) -> f64 {
    let n = sizes.len();
    let mut subsets = 0.0;
    let mut square = 0.0;
    let mut mean = vec![0.0; n];
    for subset in 0u32..1 << n {
        if subset.count_ones() != cohort {
            continue;
        }
        subsets += 1.0;
        let members = (0..n).filter(|i| subset >> i & 1 == 1);
        let total: f64 = members.clone().map(|i| sizes[i]).sum();
        for i in members {
            let weight = if total > 0.0 { sizes[i] / total } else { 1.0 / f64::from(cohort) };
            square += weight * weight;
            mean[i] += weight;
        }
    }
    square / subsets - mean.iter().map(|w| (w / subsets).powi(2)).sum::<f64>()
}

fn assert_agrees(sizes: &[f64], cohort: u32) {
    let exact = enumerated(sizes, cohort);
    let computed = random_sigma(&Sizes::new(sizes.to_vec()).unwrap(), cohort);
    assert!(computed.exact);
    let error = (computed.value - exact).abs();
    assert!(error < 1e-10, "{sizes:?}, m = {cohort}: {} not {exact}", computed.value);
}

#[test]
fn agrees_with_enumeration_for_every_n_up_to_12() {
    for n in 1..=12u32 {
        for cohort in 1..=n {
            let zipf = SizeDistribution::Zipf(2.0).draw(n, Seed(u64::from(n))).unwrap();
            let normal = SizeDistribution::LogNormal(1.5).draw(n, Seed(u64::from(cohort))).unwrap();
            assert_agrees(&(0..n).map(|c| zipf.of(c)).collect::<Vec<_>>(), cohort);
            assert_agrees(&(0..n).map(|c| normal.of(c)).collect::<Vec<_>>(), cohort);
            assert_agrees(&vec![3.0; n as usize], cohort);
        }
    }
}

#[test]
fn extreme_and_missing_sizes_agree_with_enumeration() {
    for cohort in 1..=6 {
        assert_agrees(&[1e-9, 1.0, 1e9, 1e3, 1e-3, 7.0], cohort);
        assert_agrees(&[0.0, 0.0, 0.0, 1.0, 5.0, 2.0], cohort);
        assert_agrees(&[0.0, 0.0, 0.0, 0.0, 0.0, 2.0], cohort);
    }
}

/// A seeded simulation of 200,000 cohorts: the estimate of E[sum w^2] has a standard error that is taken
/// from the sample itself; 5 of them are allowed.
#[test]
fn agrees_with_simulation_at_100_clients() {
    use crate::random::{Draws, Stream};
    let sizes = SizeDistribution::Zipf(2.0).draw(100, Seed(6)).unwrap();
    let rounds = 200_000u64;
    let (mut first, mut second) = (0.0, 0.0);
    let mut mean = [0.0; 100];
    for round in 0..rounds {
        let draws = Draws::new(Seed(1), Stream::DRAW, round);
        let mut order: Vec<u32> = (0..100).collect();
        order.select_nth_unstable_by_key(15, |&c| draws.of(u64::from(c)));
        let total: f64 = order[..15].iter().map(|&c| sizes.of(c)).sum();
        let mut square = 0.0;
        for &client in &order[..15] {
            let weight = sizes.of(client) / total;
            square += weight * weight;
            mean[client as usize] += weight / rounds as f64;
        }
        first += square;
        second += square * square;
    }
    let average = first / rounds as f64;
    let error = ((second / rounds as f64 - average * average) / rounds as f64).sqrt();
    let simulated = average - mean.iter().map(|w| w * w).sum::<f64>();
    let exact = random_sigma(&sizes, 15).value;
    assert!((simulated - exact).abs() < 5.0 * error + 1e-4, "{simulated}, {exact}, {error}");
}

#[test]
fn gathering_many_sizes_costs_few_digits() {
    let sizes = SizeDistribution::LogNormal(1.0).draw(3_000, Seed(2)).unwrap();
    let exact = random_sigma(&sizes, 100);
    let all: Vec<SizeClass> = sizes
        .classes()
        .into_iter()
        .map(|(size, count)| SizeClass { size, rate: 0.0, count })
        .collect();
    // Repeat the same sizes until there are too many classes, by moving each a little.
    let crowd: Vec<SizeClass> = all
        .iter()
        .flat_map(|class| {
            (0..7).map(|k| SizeClass { size: class.size * (1.0 + 1e-12 * f64::from(k)), ..*class })
        })
        .collect();
    let (gathered, untouched) = gather(crowd);
    assert!(!untouched && gathered.len() <= GATHERED_CLASSES);
    assert!(gathered.iter().all(|class| class.count.is_multiple_of(7)));
    let seventh: Vec<SizeClass> =
        gathered.into_iter().map(|class| SizeClass { count: class.count / 7, ..class }).collect();
    let moments = FixedCohort::new(&seventh, 100).moments();
    let means = seventh.iter().zip(&moments.mean_weights);
    let mean_square: f64 = means.map(|(class, w)| f64::from(class.count) * w * w).sum();
    let gathered = moments.square - mean_square;
    assert!((gathered / exact.value - 1.0).abs() < 1e-4, "{gathered}, {exact:?}");
}

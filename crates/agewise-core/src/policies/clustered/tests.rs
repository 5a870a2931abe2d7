//! Row and column sums, weights by enumeration, and groups that are what they should be.

use super::super::test_support::{TestRound, vector};
use super::Clustered;
use super::allocation::Distributions;
use super::groups::MOST_LEAVES;
use crate::policy::Policy;

fn distributions(setup: &TestRound, by_similarity: bool) -> Distributions {
    Clustered { by_similarity }.distributions(&setup.round(3)).unwrap()
}

/// The shares of the available clients.
fn shares(setup: &TestRound) -> Vec<f64> {
    let sizes = setup.setting.sizes();
    let size = |client: u32| if setup.mask[client as usize] { sizes.of(client) } else { 0.0 };
    let total: f64 = (0..sizes.clients()).map(size).sum();
    (0..sizes.clients()).map(|client| size(client) / total).collect()
}

/// Sketches of a few kinds, and of a third of the clients none.
fn with_sketches(setup: TestRound) -> TestRound {
    let kind = |client: u32| vector(7, client % 5, 24);
    setup.sketches(|client| {
        let own = vector(8, client, 24);
        let near = kind(client).into_iter().zip(own).map(|(kind, own)| kind + 0.2 * own);
        (client % 3 != 1).then(|| near.collect())
    })
}

fn scenes() -> Vec<TestRound> {
    let whole = |n: u32| (0..n).map(|client| f64::from(client * 7 % 13 + 1)).collect();
    let broken = (0..40).map(|client| 0.01 + f64::from(client * 17 % 29) / 7.0).collect();
    let mut with_giants: Vec<f64> = (0..30).map(f64::from).collect();
    with_giants[4] = 2_000.0;
    with_giants[9] = 900.0;
    let extremes = (0..20).map(|client| 10f64.powi(client * 10 - 100)).collect();
    [
        TestRound::new(100, 5),
        TestRound::new(100, 15),
        TestRound::new(7, 7),
        TestRound::new(1, 1),
        TestRound::sized(whole(50), 8),
        TestRound::sized(whole(50), 8).without(&[0, 3, 17, 49]),
        TestRound::sized(broken, 9),
        TestRound::sized(with_giants.clone(), 6),
        TestRound::sized(with_giants, 6).without(&[4, 5, 6, 7, 8]),
        TestRound::sized(extremes, 5),
        TestRound::sized(whole(MOST_LEAVES as u32 + 300), 20),
    ]
    .into_iter()
    .flat_map(|setup| {
        let mask = setup.mask.clone();
        let bare = TestRound { mask, setting: setup.setting.clone(), ..TestRound::new(1, 1) };
        let ages = crate::ages::Ages::cold(bare.setting.clients());
        [TestRound { ages, ..bare }, with_sketches(setup)]
    })
    .collect()
}

#[test]
fn rows_add_up_to_one_and_columns_to_the_shares() {
    for setup in scenes() {
        let m = f64::from(setup.setting.cohort());
        let shares = shares(&setup);
        for by_similarity in [false, true] {
            let rows: Vec<_> = distributions(&setup, by_similarity).probabilities().collect();
            assert_eq!(rows.len(), setup.setting.cohort() as usize);
            let mut columns = vec![0.0; shares.len()];
            for row in rows {
                assert!((row.iter().map(|(_, p)| p).sum::<f64>() - 1.0).abs() < 1e-12);
                for (client, p) in row {
                    columns[client as usize] += p;
                }
            }
            for (column, share) in columns.iter().zip(&shares) {
                assert!((column - m * share).abs() < 1e-9, "{column}, not {}", m * share);
            }
        }
    }
}

/// The variance of a weight is sum r(1 - r)/m^2; that of m draws from the shares is p(1 - p)/m. And nobody's
/// chance to be drawn at all gets lower: the paper's claims.
#[test]
fn weights_vary_less_and_more_clients_are_heard_than_with_draws_from_the_shares() {
    for setup in scenes() {
        let m = f64::from(setup.setting.cohort());
        for by_similarity in [false, true] {
            let mut variances = vec![0.0; setup.mask.len()];
            for row in distributions(&setup, by_similarity).probabilities() {
                for (client, p) in row {
                    variances[client as usize] += p * (1.0 - p) / (m * m);
                }
            }
            let clients: Vec<u32> = (0..setup.setting.clients()).collect();
            let chances = Clustered { by_similarity }.inclusion(&setup.round(3), &clients);
            for (client, share) in shares(&setup).into_iter().enumerate() {
                assert!(variances[client] <= share * (1.0 - share) / m + 1e-12);
                assert!(chances[client] >= 1.0 - (1.0 - share).powf(m) - 1e-9);
            }
        }
    }
}

/// All ways in which three distributions can draw, with their probabilities: the mean of draws/m is the share.
#[test]
fn the_mean_weight_is_the_share_by_enumeration() {
    let setup = TestRound::sized(vec![5.0, 1.0, 3.0, 2.0, 9.0], 3);
    let setup = setup.sketches(|client| Some(vector(1, client / 2, 4)));
    for by_similarity in [false, true] {
        let rows: Vec<_> = distributions(&setup, by_similarity).probabilities().collect();
        let mut means = [0.0; 5];
        for a in &rows[0] {
            for b in &rows[1] {
                for c in &rows[2] {
                    for drawn in [a, b, c] {
                        means[drawn.0 as usize] += a.1 * b.1 * c.1 / 3.0;
                    }
                }
            }
        }
        for (mean, share) in means.iter().zip(shares(&setup)) {
            assert!((mean - share).abs() < 1e-12, "{mean}, not {share}");
        }
    }
}

/// 20,000 seeds: a share has a deviation of at most 0.0036, and 5 of them are allowed.
#[test]
fn draws_follow_the_distributions() {
    let setup = with_sketches(TestRound::sized(vec![5.0, 1.0, 3.0, 2.0, 9.0, 0.0, 2.5], 3));
    for policy in ["clustered", "clustered(by=2)"] {
        let clients: Vec<u32> = (0..7).collect();
        let expected = setup.policy(policy).inclusion(&setup.round(0), &clients);
        let seen = setup.shares(policy, 20_000);
        for (seen, expected) in seen.iter().zip(&expected) {
            assert!((seen - expected).abs() < 0.018, "{policy}: {seen}, not {expected}");
        }
        assert_eq!((seen[5], expected[5]), (0.0, 0.0));
    }
    let draws = |seed| setup.policy("clustered").select(&setup.round(seed));
    assert!((0..50).all(|seed| draws(seed).iter().map(|pick| pick.draws).sum::<u32>() == 3));
    assert!((0..50).any(|seed| draws(seed).iter().any(|pick| pick.draws > 1)));
}

#[test]
fn each_kind_of_client_is_drawn_once() {
    let kind = |client: u32| client * 7 % 5;
    let like = |client: u32| {
        let (own, kind) = (vector(3, client, 16), vector(4, kind(client), 16));
        // Lengths differ, and only directions count.
        let length = 1.0 + client as f32;
        kind.into_iter().zip(own).map(|(kind, own)| length * (kind + 0.1 * own)).collect()
    };
    for clients in [50, 3 * MOST_LEAVES as u32] {
        let setup = TestRound::new(clients, 5).sketches(|client| Some(like(client)));
        for seed in 0..5 {
            let cohort = setup.cohort("clustered(by=2)", seed);
            let mut kinds: Vec<u32> = cohort.into_iter().map(kind).collect();
            kinds.sort_unstable();
            assert_eq!(kinds, [0, 1, 2, 3, 4], "{clients} clients");
        }
    }
}

/// Those who were never heard are in distributions of their own as far as possible.
#[test]
fn unknown_clients_are_grouped_with_each_other() {
    let known = |client: u32| client.is_multiple_of(2);
    let setup =
        TestRound::new(40, 4).sketches(|client| known(client).then(|| vector(5, client, 8)));
    let rows: Vec<_> = distributions(&setup, true).probabilities().collect();
    let unknown = |row: &Vec<(u32, f64)>| {
        row.iter().filter(|(client, _)| !known(*client)).map(|(_, p)| p).sum::<f64>()
    };
    let pure = rows.iter().filter(|row| unknown(row) > 1.0 - 1e-9).count();
    assert!(pure >= 1, "{rows:?}");
}

#[test]
fn nobody_with_data_means_nobody() {
    let setup = TestRound::sized(vec![0.0, 0.0, 4.0], 2).without(&[2]);
    for policy in ["clustered(by=1)", "clustered(by=2)"] {
        assert!(setup.cohort(policy, 1).is_empty());
        assert_eq!(setup.policy(policy).inclusion(&setup.round(1), &[0]), [0.5]);
    }
    for wrong in ["0", "3", "1.5"] {
        let spec = format!("clustered(by={wrong})").parse().unwrap();
        assert!(super::super::build(&spec, &setup.setting).is_err());
    }
    assert!(setup.policy("clustered(by=2)").needs().update_sketches);
    assert!(!setup.policy("clustered").needs().update_sketches);
}

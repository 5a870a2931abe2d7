//! Partitions: every image once, sizes as asked, and as skewed as the distribution says.

use agewise_core::{Seed, SizeDistribution};
use agewise_train::data::{
    ImageShape, Images, Partition, PartitionDistribution, PartitionParams, embedded_digits,
};
use proptest::prelude::*;

/// Images of one pixel with these labels.
fn labelled(classes: u32, labels: Vec<u8>) -> Images {
    Images::new(ImageShape::new(1, 1, 1), classes, vec![0; labels.len()], labels).unwrap()
}

fn balanced(classes: u8, each: usize) -> Images {
    labelled(u32::from(classes), (0..classes).flat_map(|class| vec![class; each]).collect())
}

fn split(images: &Images, distribution: &str, sizes: &str, clients: u64, seed: u64) -> Partition {
    let (distribution, sizes) = (distribution.parse().unwrap(), sizes.parse().unwrap());
    let params = PartitionParams { distribution, sizes, clients, least: 1, seed: Seed(seed) };
    params.check(images).unwrap().split()
}

fn all_images(partition: &Partition) -> Vec<u32> {
    let mut all: Vec<u32> =
        (0..partition.clients()).flat_map(|client| partition.of(client).to_vec()).collect();
    all.sort_unstable();
    all
}

fn distribution() -> impl Strategy<Value = PartitionDistribution> {
    prop_oneof![
        Just(PartitionDistribution::Iid),
        (-6.0..6.0f64).prop_map(|power| PartitionDistribution::Dirichlet(10f64.powf(power))),
        (1..6u32).prop_map(PartitionDistribution::Shards),
    ]
}

fn sizes() -> impl Strategy<Value = SizeDistribution> {
    prop_oneof![
        Just(SizeDistribution::Equal),
        (1.01..4.0f64).prop_map(SizeDistribution::Zipf),
        (0.0..30.0f64).prop_map(SizeDistribution::LogNormal),
    ]
}

proptest! {
    #[test]
    fn every_image_goes_to_one_client(
        labels in proptest::collection::vec(0..7u8, 1..400),
        distribution in distribution(),
        sizes in sizes(),
        clients in 1..40u64,
        least in 1..20u64,
        seed in any::<u64>(),
    ) {
        let images = labelled(8, labels);
        let params = PartitionParams { distribution, sizes, clients, least, seed: Seed(seed) };
        let checked = match params.check(&images) {
            Ok(checked) => checked,
            Err(error) => {
                // The only two reasons: too many clients, or more shards than images.
                let many = clients * least > images.len() as u64 && ["clients", "batch"].contains(&error.field());
                let shards = matches!(distribution, PartitionDistribution::Shards(k) if u64::from(k) > least);
                prop_assert!(many || shards && error.field() == "partition", "{}", error);
                return Ok(());
            }
        };
        let partition = checked.split();
        prop_assert_eq!(partition.clients() as u64, clients);
        prop_assert_eq!(all_images(&partition), (0..images.len() as u32).collect::<Vec<_>>());
        prop_assert!(partition.sizes().iter().all(|&size| size as u64 >= least));
        for (client, histogram) in partition.histograms().iter().enumerate() {
            for (class, &count) in histogram.iter().enumerate() {
                let own = partition.of(client).iter();
                let there = own.filter(|&&i| usize::from(images.label(i as usize)) == class).count();
                prop_assert_eq!(there, count as usize);
            }
        }
        prop_assert_eq!(&checked.split(), &partition);
        prop_assert!((0.0..=1.0).contains(&partition.summary().mean_distance));
    }
}

#[test]
fn equal_sizes_differ_by_at_most_one() {
    let images = balanced(10, 101);
    for distribution in ["iid", "dirichlet:0.1", "shards:2"] {
        let sizes = split(&images, distribution, "equal", 7, 1).sizes();
        assert!(sizes.iter().all(|size| (144..=145).contains(size)), "{distribution}: {sizes:?}");
    }
}

/// The sizes are those that the distribution draws, in proportion, but for rounding to whole images.
#[test]
fn sizes_follow_their_law() {
    let images = balanced(10, 1_000);
    let drawn = SizeDistribution::LogNormal(0.5).draw(20, Seed(3)).unwrap();
    for distribution in ["iid", "dirichlet:0.3", "shards:2"] {
        let sizes = split(&images, distribution, "lognormal:0.5", 20, 3).sizes();
        for (client, &size) in (0..).zip(&sizes) {
            assert!(
                (size as f64 - 10_000.0 * drawn.share(client)).abs() < 1.0,
                "{distribution}: {sizes:?}"
            );
        }
    }
}

#[test]
fn seeds_differ_and_repeat() {
    let images = balanced(10, 50);
    for distribution in ["iid", "dirichlet:0.3", "shards:2"] {
        assert_eq!(
            split(&images, distribution, "zipf:2", 10, 5),
            split(&images, distribution, "zipf:2", 10, 5)
        );
        assert_ne!(
            split(&images, distribution, "equal", 10, 5),
            split(&images, distribution, "equal", 10, 6)
        );
    }
}

/// Each client has two runs of sorted labels. A run of 25 of 50 images a class lies within one class, as no border is
/// crossed: at most two classes, and a distance of at least 0.8 to ten equal classes.
#[test]
fn shards_hold_few_classes() {
    let partition = split(&balanced(10, 50), "shards:2", "equal", 10, 1);
    let summary = partition.summary();
    assert!(summary.classes.max <= 2.0, "{summary:?}");
    assert!(summary.mean_distance > 0.8 - 1e-9, "{summary:?}");
    // Larger clients have larger shards, still two of them.
    let unequal = split(&balanced(10, 50), "shards:2", "lognormal:1", 10, 1);
    assert_eq!(unequal.summary().images, 500);
}

/// For Dirichlet(a) with 10 classes a share is Beta(a, 9a), with mean 0.1. At 0.3 its mean absolute deviation is
/// 0.109, so the expected distance is 5 x 0.109 = 0.544, and used-up classes lower it a little; at 100 it is 0.0076,
/// distance 0.04, to which 100 images add sampling noise of 5 sqrt(2/pi 0.09 / 100) = 0.12. The distance of a client
/// has a deviation of about 0.12: 0.012 for the mean of 100.
#[test]
fn a_smaller_alpha_is_more_skewed() {
    let images = balanced(10, 1_000);
    let distance =
        |distribution: &str| split(&images, distribution, "equal", 100, 7).summary().mean_distance;
    let (skewed, even, iid) =
        (distance("dirichlet:0.3"), distance("dirichlet:100"), distance("iid"));
    assert!((0.544 - 0.06..0.544 + 0.04).contains(&skewed), "{skewed}");
    assert!((even - 0.125).abs() < 0.04, "{even}");
    assert!((iid - 0.12).abs() < 0.03 && iid < skewed, "{iid}");
    // With almost all weight on one class, clients have one class until classes are used up.
    assert!(distance("dirichlet:0.000001") > skewed);
}

/// Who comes late in the list is not left with the remains: first and second half are equally skewed.
#[test]
fn nobody_is_left_with_the_remains() {
    let partition = split(&balanced(10, 1_000), "dirichlet:0.3", "equal", 200, 9);
    let classes = |client: usize| partition.histograms()[client].iter().filter(|&&c| c > 0).count();
    let first = (0..100).map(classes).sum::<usize>() as f64 / 100.0;
    let second = (100..200).map(classes).sum::<usize>() as f64 / 100.0;
    // The number of classes of a client has a deviation of about 1.5: 0.2 for the difference of two means of 100.
    assert!((first - second).abs() < 1.0, "{first} and {second}");
}

#[test]
fn impossible_partitions_are_named() {
    let images = balanced(10, 10);
    let error = |clients, least, distribution: &str| {
        let params = PartitionParams {
            distribution: distribution.parse().unwrap(),
            clients,
            least,
            ..PartitionParams::default()
        };
        params.check(&images).unwrap_err()
    };
    let many = error(11, 10, "iid");
    assert_eq!((many.field(), many.value()), ("clients", "11"));
    assert!(many.expected().contains("from 1 to 10: 100 samples, at least 10"), "{many}");
    assert_eq!(error(0, 1, "iid").field(), "clients");
    assert_eq!(error(u64::MAX, 1, "iid").field(), "clients");
    assert_eq!(error(1, u64::MAX, "iid").field(), "batch");
    assert_eq!(error(1, 0, "iid").field(), "batch");
    let shards = error(10, 1, "shards:11");
    assert_eq!((shards.field(), shards.value()), ("partition", "shards:11"));
    let distribution = PartitionDistribution::Dirichlet(f64::NAN);
    let params = PartitionParams { distribution, clients: 2, ..PartitionParams::default() };
    assert_eq!(params.check(&images).unwrap_err().field(), "partition");
}

#[test]
fn laws_parse_and_print_the_same_text() {
    for text in ["iid", "dirichlet:0.3", "dirichlet:100", "shards:2"] {
        let distribution: PartitionDistribution = text.parse().unwrap();
        assert_eq!(distribution.to_string(), text);
        let json = serde_json::to_string(&distribution).unwrap();
        assert_eq!(json, format!("\"{text}\""));
        assert_eq!(serde_json::from_str::<PartitionDistribution>(&json).unwrap(), distribution);
    }
    for text in [
        "",
        "iid:",
        "iid:1",
        "dirichlet",
        "dirichlet:",
        "dirichlet:0",
        "dirichlet:-1",
        "dirichlet:nan",
        "dirichlet:inf",
        "shards",
        "shards:0",
        "shards:-1",
        "shards:1.5",
        "shards:4294967296",
        "IID",
        " iid",
    ] {
        let error = text.parse::<PartitionDistribution>().unwrap_err();
        assert_eq!((error.field(), error.value()), ("partition", text));
    }
}

/// The embedded digits among 20 clients: as in the docs.
#[test]
fn digits_are_shared() {
    let digits = embedded_digits().unwrap();
    let partition = split(&digits.train, "dirichlet:0.3", "zipf:2", 20, 0);
    assert_eq!(partition.summary().images, 6_000);
    assert_eq!(partition.sizes().iter().sum::<usize>(), 6_000);
}

//! Any text as a partition law; and any law shares any labels so that every image goes to one client.
#![no_main]

use agewise_core::{Seed, SizeLaw};
use agewise_learn::data::{ImageShape, Images, PartitionLaw, PartitionParams};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &str, &[u8], u8, u8, u64)| {
    let (law, sizes, labels, clients, least, seed) = input;
    let Ok(law) = law.parse::<PartitionLaw>() else {
        return;
    };
    assert_eq!(law.to_string().parse(), Ok(law));
    let sizes = sizes.parse::<SizeLaw>().unwrap_or_default();
    let images =
        Images::new(ImageShape::new(1, 1, 1), 256, vec![0; labels.len()], labels.to_vec()).unwrap();
    let (clients, least) = (u64::from(clients), u64::from(least));
    let params = PartitionParams { law, sizes, clients, least, seed: Seed(seed) };
    let Ok(checked) = params.check(&images) else {
        return;
    };
    let partition = checked.split();
    let mut seen = vec![false; labels.len()];
    for client in 0..partition.clients() {
        assert!(partition.of(client).len() as u64 >= least);
        for &image in partition.of(client) {
            assert!(!std::mem::replace(&mut seen[image as usize], true));
        }
    }
    assert!(seen.into_iter().all(|seen| seen));
    assert!((0.0..=1.0).contains(&partition.summary().mean_distance));
});

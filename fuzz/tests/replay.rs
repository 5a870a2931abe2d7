//! Plays the seeds of every target, and a few thousand seeded mutations of it.

use agewise_core::{Draws, Seed, Stream};
use agewise_fuzz::{TARGETS, is_read, npy_of, npz_of, small_model};
use agewise_train::checkpoint::Checkpoint;
use std::fs;
use std::path::Path;

/// How often each file is changed and played once more.
const MUTATIONS: u64 = 500;

#[test]
fn the_seeds_break_nothing() {
    for (name, target) in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(name);
        let mut files: Vec<_> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert!(files.len() >= 2, "{name} has {} seeds", files.len());
        for (number, file) in (0..).zip(files) {
            let bytes = fs::read(file).unwrap();
            target(&bytes);
            for mutation in 0..MUTATIONS {
                target(&mutated(
                    &bytes,
                    Draws::new(Seed(number), Stream::custom(1 << 16), mutation),
                ));
            }
        }
    }
}

/// A target that refuses everything would search nothing.
#[test]
fn the_first_seeds_can_be_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let seed = |name: &str| fs::read(folder.join(name)).unwrap();
    assert!(is_read(&seed("csv/classes"), Some("who")));
    assert!(is_read(&seed("csv/numbers"), None));
    assert!(is_read(&seed("npz/stored"), Some("client")));
    assert!(is_read(&seed("npz/deflated"), None));
    let (samples, names) = (npy_of("<f4", "2", &[0; 8]), seed("npy/names"));
    let archive = npz_of([("x", &samples), ("y", &names), ("client", &names)]);
    assert!(is_read(&archive, Some("client")));
    for name in ["checkpoint/model", "checkpoint/checkpoint"] {
        Checkpoint::decode(&seed(name), small_model().tensors()).unwrap();
    }
}

/// The bytes with a few of them changed, cut off somewhere in one case of four.
fn mutated(bytes: &[u8], draws: Draws) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let draw = |number: u64| draws.of(number).bits() as usize;
    for change in 0..=draw(0) as u64 % 4 {
        if !bytes.is_empty() {
            let place = draw(2 * change + 1) % bytes.len();
            bytes[place] = draw(2 * change + 2) as u8;
        }
    }
    if draw(100).is_multiple_of(4) {
        bytes.truncate(draw(101) % (bytes.len() + 1));
    }
    bytes
}

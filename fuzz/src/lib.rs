//! What must hold for any bytes from outside: no panic, and the properties that are asserted here.
//!
//! `fuzz_targets/` searches for bytes that break one of them; `tests/replay.rs` plays the seeds in every
//! test run, with a stable compiler.

#![allow(clippy::missing_panics_doc, reason = "a panic is what a target is for")]
#![allow(clippy::unwrap_used, reason = "a panic is what a target is for")]

use agewise_core::Seed;
use agewise_train::data::cifar::{Labels, SHAPE, read_cifar};
use agewise_train::data::idx::{read_idx, read_idx_of};
use agewise_train::data::{ImageShape, Images, PartitionParams};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write as _;

/// The most values that a file may hold here.
const MOST: u64 = 1 << 12;

/// A target: its name, which is that of its folder of seeds, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 4] =
    [("idx", idx), ("idx_gzip", idx_gzip), ("cifar", cifar), ("partition", partition)];

/// Any bytes as an idx file: a result, and never more values than allowed.
pub fn idx(bytes: &[u8]) {
    if let Ok(idx) = read_idx(bytes, MOST) {
        assert!(idx.values.len() as u64 <= MOST);
        let product: u64 = idx.dimensions.iter().map(|&size| u64::from(size)).product();
        assert_eq!(idx.values.len() as u64, product);
        assert_eq!(read_idx_of(bytes, &idx.dimensions), Ok(idx.values));
    }
}

/// Any bytes as a gzip stream that may hold an idx file; and any file gives the same result plain and packed.
pub fn idx_gzip(bytes: &[u8]) {
    // A gzip header without name, time and flags, so that the search gets to what is behind it.
    let header = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    if let Ok(idx) = read_idx(&[&header[..], bytes].concat()[..], MOST) {
        assert!(idx.values.len() as u64 <= MOST);
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let packed = encoder.write_all(bytes).and_then(|()| encoder.finish());
    // Bytes that are gzip themselves would be unpacked once only.
    if let (Ok(packed), false) = (packed, bytes.starts_with(&header[..2])) {
        assert_eq!(read_idx(&packed[..], MOST).ok(), read_idx(bytes, MOST).ok());
    }
}

/// Any bytes as records of CIFAR-10 and of CIFAR-100, plain and as gzip.
pub fn cifar(bytes: &[u8]) {
    for labels in [Labels::Ten, Labels::Hundred] {
        for images in [0, 1, 2] {
            if let Ok(records) = read_cifar(bytes, labels, images) {
                assert_eq!(records.labels.len(), images as usize);
                assert_eq!(records.pixels.len(), images as usize * SHAPE.len());
                assert!(records.labels.iter().all(|&label| u32::from(label) < labels.classes()));
            }
        }
    }
    // A record made of these bytes is read back, plane by plane.
    let mut record: Vec<u8> = bytes.iter().copied().cycle().take(Labels::Ten.record()).collect();
    if record.len() == Labels::Ten.record() {
        record[0] %= 10;
        // A first byte below 10 is no gzip.
        let records = read_cifar(&record[..], Labels::Ten, 1).unwrap();
        let plane = SHAPE.len() / 3;
        for pixel in 0..plane {
            for color in 0..3 {
                assert_eq!(records.pixels[3 * pixel + color], record[1 + color * plane + pixel]);
            }
        }
    }
}

/// Two lines of text as the distributions of labels and of sizes, and labels behind them: every image goes to one
/// client, and every client has its least number of images.
pub fn partition(bytes: &[u8]) {
    let mut parts = bytes.splitn(3, |&byte| byte == b'\n');
    let mut text = || parts.next().and_then(|part| std::str::from_utf8(part).ok()).unwrap_or("");
    let (distribution, sizes) = (text().parse(), text().parse());
    let (Ok(distribution), [clients, least, labels @ ..]) =
        (distribution, parts.next().unwrap_or_default())
    else {
        return;
    };
    let sizes = sizes.unwrap_or_default();
    let images =
        Images::new(ImageShape::new(1, 1, 1), 256, vec![0; labels.len()], labels.to_vec()).unwrap();
    let (clients, least) = (u64::from(*clients), u64::from(*least));
    let params = PartitionParams { distribution, sizes, clients, least, seed: Seed(clients) };
    assert_eq!(params.distribution.to_string().parse(), Ok(distribution));
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
}

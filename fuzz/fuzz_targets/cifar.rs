//! Any bytes as records of CIFAR-10 and of CIFAR-100, plain and as gzip.
#![no_main]

use agewise_learn::data::cifar::{Labels, SHAPE, read_cifar};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
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
});

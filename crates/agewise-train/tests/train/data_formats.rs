//! The file formats, good and bad: every bad file is an error that says what was found, in bounded memory.

use agewise_train::data::cifar::{CifarLabels, SHAPE, read_cifar};
use agewise_train::data::idx::{Idx, read_idx, read_idx_of};
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use std::io::{self, Read, Write};

fn idx(dimensions: &[u32], values: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, dimensions.len() as u8];
    for size in dimensions {
        bytes.extend(size.to_be_bytes());
    }
    bytes.extend(values);
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn flaw(bytes: &[u8], most: u64) -> String {
    read_idx(bytes, most).unwrap_err().to_string()
}

/// Bytes without end, of which it counts how many were taken.
struct Endless {
    first: io::Cursor<Vec<u8>>,
    taken: u64,
}

impl Endless {
    fn after(first: Vec<u8>) -> Self {
        Self { first: io::Cursor::new(first), taken: 0 }
    }
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = match self.first.read(buffer)? {
            0 => {
                buffer.fill(0);
                buffer.len()
            }
            count => count,
        };
        self.taken += count as u64;
        Ok(count)
    }
}

#[test]
fn idx_is_read_plain_and_packed() {
    let bytes = idx(&[2, 3], &[1, 2, 3, 4, 5, 6]);
    let right = Idx { dimensions: vec![2, 3], values: vec![1, 2, 3, 4, 5, 6] };
    assert_eq!(read_idx(&bytes[..], 6).unwrap(), right);
    assert_eq!(read_idx(&gzip(&bytes)[..], 6).unwrap(), right);
    // Two gzip members after one another are one file.
    let (begin, end) = bytes.split_at(9);
    assert_eq!(read_idx(&[gzip(begin), gzip(end)].concat()[..], 6).unwrap(), right);
    assert!(read_idx(&idx(&[0, 28, 28], &[])[..], 0).unwrap().values.is_empty());
}

#[test]
fn idx_of_other_dimensions_is_refused() {
    let bytes = idx(&[2, 3], &[0; 6]);
    assert_eq!(read_idx_of(&bytes[..], &[2, 3]).unwrap(), [0; 6]);
    let error = read_idx_of(&bytes[..], &[3, 2]).unwrap_err().to_string();
    assert_eq!(error, "found 2 x 3 values; expected 3 x 2");
}

#[test]
fn empty_and_cut_headers_are_named() {
    let bytes = idx(&[2, 3], &[0; 6]);
    for length in 0..12 {
        assert!(flaw(&bytes[..length], 6).contains("ends within its header"), "{length}");
    }
    assert!(flaw(&gzip(&[]), 6).contains("ends within its header"));
}

#[test]
fn a_wrong_magic_is_named() {
    assert!(flaw(b"PNG\n........", 100).contains("first bytes 50 4e 47 0a"));
    assert!(flaw(&[0, 0, 0x0d, 1, 0, 0, 0, 0], 100).contains("00 00 0d 01"), "floats");
    assert!(flaw(&[0, 0, 8, 0], 100).contains("00 00 08 00"), "no dimensions");
    assert!(flaw(&[0, 0, 8, 255], 100).contains("00 00 08 ff"), "too many dimensions");
}

#[test]
fn too_few_and_too_many_values_are_named() {
    let (short, long) = (idx(&[2, 3], &[0; 5]), idx(&[2, 3], &[0; 7]));
    for (short, long) in [(short.clone(), long.clone()), (gzip(&short), gzip(&long))] {
        assert!(flaw(&short, 6).contains("found 5 values"), "{}", flaw(&short, 6));
        assert!(flaw(&long, 6).contains("found more than 6 values"), "{}", flaw(&long, 6));
    }
}

#[test]
fn damaged_gzip_is_named() {
    let whole = gzip(&idx(&[40, 3], &(0..120).collect::<Vec<u8>>()));
    // Cut anywhere: within the gzip header, the data and the checksum at the end.
    for length in 2..whole.len() {
        read_idx(&whole[..length], 120).unwrap_err();
    }
    let mut damaged = whole.clone();
    let checksum = damaged.len() - 6;
    damaged[checksum] ^= 1;
    assert!(flaw(&damaged, 120).contains("cannot be read"), "{}", flaw(&damaged, 120));
    let trailing = [whole, b"more".to_vec()].concat();
    assert!(flaw(&trailing, 120).contains("cannot be read"), "{}", flaw(&trailing, 120));
}

/// A header may announce anything: nothing is allocated for it, and nothing is read.
#[test]
fn a_header_that_announces_billions_costs_nothing() {
    let mut source = Endless::after(idx(&[u32::MAX, u32::MAX, u32::MAX, u32::MAX], &[]));
    let error = read_idx(&mut source, 47_040_000).unwrap_err().to_string();
    assert!(error.contains("announces 4294967295 x 4294967295"), "{error}");
    assert!(source.taken < 100, "{}", source.taken);
}

/// A source without end is read up to one byte more than what may be there.
#[test]
fn an_endless_source_is_left_in_time() {
    let mut source = Endless::after(idx(&[1_000], &[]));
    assert!(read_idx(&mut source, 1_000).is_err());
    assert!(source.taken <= 8 + 1_001, "{}", source.taken);
}

/// A gzip of 64 MB of zeros is 64 kB: it is inflated no further than what may be there.
#[test]
fn a_gzip_bomb_is_left_in_time() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&idx(&[1_000], &[])).unwrap();
    let zeros = vec![0; 1 << 20];
    for _ in 0..64 {
        encoder.write_all(&zeros).unwrap();
    }
    let bomb = encoder.finish().unwrap();
    let mut source = io::Cursor::new(&bomb);
    let error = read_idx(&mut source, 1_000).unwrap_err().to_string();
    assert!(error.contains("more than 1000 values"), "{error}");
    // The decoder reads ahead by one buffer, and no more.
    assert!(source.position() <= (1 << 15) + 2, "{}", source.position());
}

/// Three planes become pixels of three bytes, and of CIFAR-100's two labels the second counts.
#[test]
fn cifar_planes_become_pixels() {
    let plane = SHAPE.len() / 3;
    let pixels: Vec<u8> = [vec![1; plane], vec![2; plane], vec![3; plane]].concat();
    let ten = [&[7][..], &pixels, &[9], &pixels].concat();
    let records = read_cifar(&ten[..], CifarLabels::Ten, 2).unwrap();
    assert_eq!(records.labels, [7, 9]);
    assert_eq!(records.pixels, [1, 2, 3].repeat(2 * plane));
    assert_eq!(read_cifar(&gzip(&ten)[..], CifarLabels::Ten, 2).unwrap(), records);
    let hundred = [&[19, 99][..], &pixels].concat();
    assert_eq!(read_cifar(&hundred[..], CifarLabels::Hundred, 1).unwrap().labels, [99]);
}

#[test]
fn bad_cifar_files_are_named() {
    let flaw = |bytes: &[u8], labels| read_cifar(bytes, labels, 2).unwrap_err().to_string();
    let record = CifarLabels::Ten.record();
    assert!(flaw(&[], CifarLabels::Ten).contains("found 0 bytes"));
    assert!(flaw(&vec![0; 2 * record - 1], CifarLabels::Ten).contains("found 6145 bytes"));
    assert!(flaw(&vec![0; 2 * record + 1], CifarLabels::Ten).contains("more than 6146 bytes"));
    assert!(flaw(&vec![0; record], CifarLabels::Ten).contains("2 records of 3073"));
    assert!(flaw(&vec![10; 2 * record], CifarLabels::Ten).contains("label 10 in record 0"));
    let two = vec![100; 2 * CifarLabels::Hundred.record()];
    assert!(flaw(&two, CifarLabels::Hundred).contains("a label from 0 to 99"));
    let mut endless = Endless::after(Vec::new());
    assert!(read_cifar(&mut endless, CifarLabels::Ten, 2).is_err());
    assert!(endless.taken <= 2 * record as u64 + 1);
}

proptest! {
    /// Whatever the bytes are: a result, no panic, and never more values than allowed.
    #[test]
    fn any_bytes_give_a_result(bytes in proptest::collection::vec(any::<u8>(), 0..200), most in 0u64..300) {
        for bytes in [bytes.clone(), gzip(&bytes), [&[0x1f, 0x8b][..], &bytes].concat()] {
            if let Ok(idx) = read_idx(&bytes[..], most) {
                prop_assert!(idx.values.len() as u64 <= most);
            }
            let _ = read_cifar(&bytes[..], CifarLabels::Ten, (most % 3) as u32);
            let _ = read_cifar(&bytes[..], CifarLabels::Hundred, (most % 3) as u32);
        }
    }

    /// What was written is what is read.
    #[test]
    fn idx_comes_back(values in proptest::collection::vec(any::<u8>(), 0..200)) {
        let bytes = idx(&[values.len() as u32], &values);
        prop_assert_eq!(read_idx(&bytes[..], 200).unwrap().values, values.clone());
        prop_assert_eq!(read_idx(&gzip(&bytes)[..], 200).unwrap().values, values);
    }
}

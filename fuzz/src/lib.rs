//! What must hold for any bytes from outside: no panic, and the properties that are asserted here.
//!
//! `fuzz_targets/` searches for bytes that break one of them; `tests/replay.rs` plays the seeds in every
//! test run, with a stable compiler.

#![forbid(unsafe_code)]
#![allow(clippy::missing_panics_doc, reason = "a panic is what a target is for")]
#![allow(clippy::unwrap_used, reason = "a panic is what a target is for")]

use agewise_core::Seed;
use agewise_train::checkpoint::{Checkpoint, CheckpointView, read_model};
use agewise_train::data::cifar::{CifarLabels, SHAPE, read_cifar};
use agewise_train::data::idx::{read_idx, read_idx_of};
use agewise_train::data::{ImageShape, Images, Loss, OwnData, OwnDataParams, PartitionParams};
use agewise_train::model::{Model, ModelSpec};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs;
use std::io::Write as _;
use std::path::Path;

/// The most values that a file may hold here.
const MOST: u64 = 1 << 12;

/// A target: its name, which is that of its folder of seeds, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 8] = [
    ("idx", idx),
    ("idx_gzip", idx_gzip),
    ("cifar", cifar),
    ("partition", partition),
    ("csv", csv),
    ("npz", npz),
    ("npy", npy),
    ("checkpoint", checkpoint),
];

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
    for labels in [CifarLabels::Ten, CifarLabels::Hundred] {
        for images in [0, 1, 2] {
            if let Ok(records) = read_cifar(bytes, labels, images) {
                assert_eq!(records.labels.len(), images as usize);
                assert_eq!(records.pixels.len(), images as usize * SHAPE.len());
                assert!(records.labels.iter().all(|&label| u32::from(label) < labels.classes()));
            }
        }
    }
    // A record made of these bytes is read back, plane by plane.
    let mut record: Vec<u8> =
        bytes.iter().copied().cycle().take(CifarLabels::Ten.record()).collect();
    if record.len() == CifarLabels::Ten.record() {
        record[0] %= 10;
        // A first byte below 10 is no gzip.
        let records = read_cifar(&record[..], CifarLabels::Ten, 1).unwrap();
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

/// Any bytes as a table of text with a label and, where there is such a column, clients.
pub fn csv(bytes: &[u8]) {
    for client in [None, Some("who".to_string())] {
        for loss in [Loss::Auto, Loss::Squared] {
            own_data(
                bytes,
                OwnDataParams { client: client.clone(), loss, ..OwnDataParams::default() },
            );
        }
    }
}

/// Any bytes as an archive of arrays.
pub fn npz(bytes: &[u8]) {
    own_data(bytes, OwnDataParams::default());
    own_data(
        bytes,
        OwnDataParams { client: Some("client".to_string()), ..OwnDataParams::default() },
    );
}

/// Any bytes as an array that is samples, labels or names of clients in an archive whose other two arrays are good.
pub fn npy(bytes: &[u8]) {
    let ones = npy_of("|u1", "2", &[1, 1]);
    let names = ["x", "y", "client"];
    for place in 0..names.len() {
        let array = |index: usize| if index == place { bytes } else { &ones[..] };
        npz(&npz_of([0, 1, 2].map(|index| (names[index], array(index)))));
    }
}

/// Reads data of one's own from a file with these bytes: everything in them fits together.
fn own_data(bytes: &[u8], params: OwnDataParams) -> Option<OwnData> {
    // In memory where there is such a folder: thousands of files are written.
    let folder = Path::new("/dev/shm");
    let folder = if folder.is_dir() { folder.to_path_buf() } else { std::env::temp_dir() };
    let file = tempfile::NamedTempFile::new_in(folder).unwrap();
    fs::write(&file, bytes).unwrap();
    let own = OwnDataParams { data: file.path().to_path_buf(), ..params }.load().ok()?;
    let train = &own.data.train;
    assert!(train.shape().len() * train.len() <= bytes.len() * 1024, "more than was there");
    assert!(train.class_labels().is_none_or(|labels| labels.len() == train.len()));
    assert_eq!(
        own.data.clients.as_ref().map_or(train.len(), |who| who.owners().len()),
        train.len()
    );
    assert!(
        own.data.feature_names.is_empty() || own.data.feature_names.len() == train.shape().len()
    );
    Some(own)
}

/// An array as NumPy writes it.
pub fn npy_of(kind: &str, shape: &str, bytes: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape},), }}\n");
    let len = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &len[..], header.as_bytes(), bytes].concat()
}

/// An archive of arrays that are not packed.
pub fn npz_of(arrays: [(&str, &[u8]); 3]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, array) in arrays {
        let name = format!("{name}.npy");
        let (offset, len) = (file.len() as u32, (array.len() as u32).to_le_bytes());
        let mut common = vec![20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        common.extend([len, len].concat());
        common.extend((name.len() as u16).to_le_bytes());
        file.extend([b"PK\x03\x04", &common[..], &[0, 0], name.as_bytes(), array].concat());
        directory.extend([b"PK\x01\x02\x14\x00", &common[..], &[0; 12]].concat());
        directory.extend([&offset.to_le_bytes(), name.as_bytes()].concat());
    }
    let (count, begin) = (arrays.len() as u16, file.len() as u32);
    let mut end = [b"PK\x05\x06", &[0; 4][..], &count.to_le_bytes(), &count.to_le_bytes()].concat();
    end.extend([(directory.len() as u32).to_le_bytes(), begin.to_le_bytes()].concat());
    end.extend([0, 0]);
    [file, directory, end].concat()
}

/// Any bytes as a model or a checkpoint, with the checksum that they have and with the one that they should have; one that
/// can be read has the same bytes when it is written again and read once more.
pub fn checkpoint(bytes: &[u8]) {
    let tensors = small_model();
    if let Ok(parameters) = read_model(bytes, tensors.tensors()) {
        assert!(parameters.iter().all(|value| value.is_finite()));
        assert_eq!(parameters.len(), tensors.parameters());
    }
    for bytes in [bytes.to_vec(), with_checksum(bytes)] {
        let Ok(read) = Checkpoint::decode(&bytes, tensors.tensors()) else { continue };
        let view = CheckpointView {
            metadata: &read.metadata,
            tensors: tensors.tensors(),
            parameters: &read.parameters,
            server: read.server.iter().map(|(name, values)| (name.as_str(), &values[..])).collect(),
            sketched: &read.sketched,
            sketches: &read.sketches,
        };
        // Only what was written by us can be written again: sketches of clients all have one width.
        let Ok(written) = view.encode() else { continue };
        let again = Checkpoint::decode(&written, tensors.tensors()).unwrap();
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&again.parameters), bits(&read.parameters));
        assert_eq!(again.sketched, read.sketched);
    }
}

/// A model of one dense layer: nine parameters.
pub fn small_model() -> Model {
    Model::new(ModelSpec::named("softmax", ImageShape::flat(2), 3).unwrap()).unwrap()
}

/// The bytes with the checksum that they should have, at the place where one stands.
fn with_checksum(bytes: &[u8]) -> Vec<u8> {
    const BEGINNING: &[u8] = br#"{"__metadata__":{"crc32c":""#;
    let place = 8 + BEGINNING.len()..16 + BEGINNING.len();
    let mut bytes = bytes.to_vec();
    if bytes.len() >= place.end {
        bytes[place.clone()].copy_from_slice(b"00000000");
        let checksum = crc32c::crc32c(&bytes);
        bytes[place].copy_from_slice(format!("{checksum:08x}").as_bytes());
    }
    bytes
}

/// Whether bytes are data of one's own that can be read: a target that refuses all of its seeds would search nothing.
pub fn is_read(bytes: &[u8], client: Option<&str>) -> bool {
    let client = client.map(str::to_string);
    own_data(bytes, OwnDataParams { client, ..OwnDataParams::default() }).is_some()
}

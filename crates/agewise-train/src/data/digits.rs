//! The embedded digits: 6,000 training and 1,000 test images of MNIST, for a first look and for tests.

use super::catalogue::find;
use super::error::DataError;
use super::images::Dataset;
use super::load::dataset_from_idx;
use std::path::PathBuf;

/// The files of the embedded digits, by name.
const FILES: [(&str, &[u8]); 4] = [
    ("train-images-idx3-ubyte", include_bytes!("../../data/train-images-idx3-ubyte.gz")),
    ("train-labels-idx1-ubyte", include_bytes!("../../data/train-labels-idx1-ubyte.gz")),
    ("t10k-images-idx3-ubyte", include_bytes!("../../data/t10k-images-idx3-ubyte.gz")),
    ("t10k-labels-idx1-ubyte", include_bytes!("../../data/t10k-labels-idx1-ubyte.gz")),
];

/// The bytes of one embedded file, as gzip.
pub(crate) fn embedded_file(name: &str) -> Option<&'static [u8]> {
    FILES.iter().find(|(known, _)| *known == name).map(|(_, bytes)| *bytes)
}

/// Whose the training images of a data set are, as gzip, where that is inside the program: the writers of MNIST.
pub(crate) fn embedded_owners(name: &str) -> Option<&'static [u8]> {
    const WRITERS: &[u8] = include_bytes!("../../data/mnist-train-writers.txt.gz");
    (name == "mnist").then_some(WRITERS)
}

/// 6,000 training and 1,000 test images of MNIST, as many of each digit.
///
/// They are inside the program; an error here means that the program was built from damaged files.
pub fn embedded_digits() -> Result<Dataset, DataError> {
    let entry = find("digits")?;
    dataset_from_idx(entry, |file| {
        let bytes = embedded_file(file.name).unwrap_or_default();
        Ok((PathBuf::from(format!("embedded {}", file.name)), bytes))
    })
}

#[cfg(test)]
mod tests {
    use super::embedded_owners;
    use std::collections::BTreeMap;
    use std::io::Read;

    /// The figures of data/README.md and docs/data.md.
    #[test]
    fn every_image_of_mnist_has_one_of_539_writers() {
        let mut text = String::new();
        let packed = embedded_owners("mnist").unwrap();
        flate2::read::GzDecoder::new(packed).read_to_string(&mut text).unwrap();
        let mut images = BTreeMap::new();
        for writer in text.lines() {
            *images.entry(writer).or_insert(0) += 1;
        }
        assert_eq!(text.lines().count(), 60_000);
        assert_eq!(images.len(), 539);
        assert_eq!(images.values().min(), Some(&19));
        assert_eq!(images.values().max(), Some(&131));
        assert!(embedded_owners("fashion-mnist").is_none());
    }
}

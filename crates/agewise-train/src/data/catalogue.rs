//! Which data sets there are, where they are published, and what the right files are.
//!
//! Checksums of the published files are SHA-256. Those of MNIST and CIFAR-10 were compared with data at hand (the
//! unpacked files byte for byte); those of the packed files and of Fashion-MNIST and CIFAR-100 are the ones that
//! several independent projects check downloads against. Where no checksum of unpacked contents is certain there is
//! none.

use super::checksum::Checksum;
use super::images::ImageShape;
use agewise_core::{Error, Result};

/// How the files of a data set are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Idx files inside the program.
    Embedded,
    /// Idx files of images and of labels, plain or gzip.
    Idx,
    /// Records of labels and three planes of colour, as files or in a `.tar.gz`.
    Cifar,
}

/// Which images a file is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// Those to learn from.
    Train,
    /// Those to be tested on.
    Test,
}

/// What a file says about its images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// The pixels.
    Pixels,
    /// The labels.
    Labels,
    /// Both, in records.
    Records,
    /// Whose each image is.
    Owners,
}

/// A file of a data set, unpacked.
#[derive(Debug, Clone, Copy)]
pub struct ContentFile {
    /// Its name, without `.gz`.
    pub name: &'static str,
    /// Which images it is about.
    pub split: Split,
    /// What it says about them.
    pub holds: Holds,
    /// How many images that are.
    pub images: u32,
    /// Its size in bytes.
    pub bytes: u64,
    /// The checksum of the unpacked bytes, where it is certain.
    pub checksum: Option<Checksum>,
}

/// A file as it is published.
#[derive(Debug, Clone, Copy)]
pub struct PublishedFile {
    /// Its name, also at the end of its addresses.
    pub name: &'static str,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its checksum.
    pub checksum: Checksum,
}

/// A data set that agewise knows.
#[derive(Debug, Clone, Copy)]
pub struct CatalogueEntry {
    /// What it is called on the command line.
    pub name: &'static str,
    /// The size of its images.
    pub shape: ImageShape,
    /// Its classes.
    pub classes: u32,
    /// How its files are laid out.
    pub layout: Layout,
    /// Its files, unpacked.
    pub content: &'static [ContentFile],
    /// Its files, as they are published.
    pub published: &'static [PublishedFile],
    /// Where the published files are: addresses that end before the file's name, the first one is tried first.
    pub mirrors: &'static [&'static str],
    /// The subfolders in which its files may be, before the folder itself.
    pub subfolders: &'static [&'static str],
    /// The licence, in a few words.
    pub licence: &'static str,
    /// Where it comes from and under which terms.
    pub source: &'static str,
}

impl CatalogueEntry {
    /// How many images a split has.
    pub fn images(&self, split: Split) -> u32 {
        let files = self.content.iter().filter(|file| file.split == split);
        let pictures = files.filter(|file| matches!(file.holds, Holds::Pixels | Holds::Records));
        pictures.map(|file| file.images).sum()
    }
}

/// What a user can do who does not have the files of a data set.
pub(crate) fn how_to_get(name: &str) -> String {
    let is_unpublished = |entry: &CatalogueEntry| entry.name == name && entry.mirrors.is_empty();
    if CATALOGUE.iter().any(is_unpublished) {
        "it cannot be downloaded, see docs/data.md".to_string()
    } else {
        format!("`agewise data fetch {name}` downloads it")
    }
}

/// The data set of this name.
pub(crate) fn find(name: &str) -> Result<&'static CatalogueEntry> {
    let names = CATALOGUE.iter().map(|entry| entry.name);
    let entry = CATALOGUE.iter().find(|entry| entry.name == name);
    entry.ok_or_else(|| Error::unknown("dataset", name, names))
}

const MNIST_SHAPE: ImageShape = ImageShape::new(1, 28, 28);
const CIFAR_SHAPE: ImageShape = ImageShape::new(3, 32, 32);

/// The four files of a set in idx format, with the checksums of the unpacked bytes.
const fn idx_files(train: u32, test: u32, checksums: [Option<Checksum>; 4]) -> [ContentFile; 4] {
    const fn pixels(name: &'static str, split: Split, images: u32) -> ContentFile {
        let bytes = 16 + images as u64 * MNIST_SHAPE.len() as u64;
        ContentFile { name, split, holds: Holds::Pixels, images, bytes, checksum: None }
    }
    const fn labels(name: &'static str, split: Split, images: u32) -> ContentFile {
        let bytes = 8 + images as u64;
        ContentFile { name, split, holds: Holds::Labels, images, bytes, checksum: None }
    }
    let mut files = [
        pixels("train-images-idx3-ubyte", Split::Train, train),
        labels("train-labels-idx1-ubyte", Split::Train, train),
        pixels("t10k-images-idx3-ubyte", Split::Test, test),
        labels("t10k-labels-idx1-ubyte", Split::Test, test),
    ];
    let mut file = 0;
    while file < files.len() {
        files[file].checksum = checksums[file];
        file += 1;
    }
    files
}

/// A file of records of one or two labels and 3 x 32 x 32 pixels.
const fn records(
    name: &'static str,
    split: Split,
    images: u32,
    labels: u64,
    checksum: Option<Checksum>,
) -> ContentFile {
    let bytes = images as u64 * (labels + CIFAR_SHAPE.len() as u64);
    ContentFile { name, split, holds: Holds::Records, images, bytes, checksum }
}

const fn published(name: &'static str, bytes: u64, checksum: &'static str) -> PublishedFile {
    PublishedFile { name, bytes, checksum: Checksum(checksum) }
}

/// All data sets.
pub const CATALOGUE: &[CatalogueEntry] = &[
    CatalogueEntry {
        name: "digits",
        shape: MNIST_SHAPE,
        classes: 10,
        layout: Layout::Embedded,
        content: &idx_files(
            6_000,
            1_000,
            [
                Some(Checksum("5e70119ad8ca01350c1b2fd3f58eb4c0617afdc0fa8945a3d63e6a33daeba69d")),
                Some(Checksum("ff4542eef991f0408428561f51d3e426698657dd02a35148555c89a37d2df31b")),
                Some(Checksum("b97c8bfeb834d8e7999eaa2d69239abe06653dc09c1e5d7eb0c974c5965bc6a9")),
                Some(Checksum("41cf2f530031915ba9fbb241407c369dba1acd7515053edff48cebeee8b260f4")),
            ],
        ),
        published: &[],
        mirrors: &[],
        subfolders: &[],
        licence: "CC BY-SA 3.0",
        source: "a part of MNIST (Y. LeCun, C. Cortes, C. Burges; derived from NIST), inside the program",
    },
    CatalogueEntry {
        name: "mnist",
        shape: MNIST_SHAPE,
        classes: 10,
        layout: Layout::Idx,
        content: &idx_files(
            60_000,
            10_000,
            [
                Some(Checksum("ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db")),
                Some(Checksum("65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5")),
                Some(Checksum("0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7")),
                Some(Checksum("ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2")),
            ],
        ),
        published: &[
            published(
                "train-images-idx3-ubyte.gz",
                9_912_422,
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            ),
            published(
                "train-labels-idx1-ubyte.gz",
                28_881,
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            ),
            published(
                "t10k-images-idx3-ubyte.gz",
                1_648_877,
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            ),
            published(
                "t10k-labels-idx1-ubyte.gz",
                4_542,
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ),
        ],
        mirrors: &[
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ],
        subfolders: &["mnist", "MNIST/raw", "MNIST", "raw"],
        licence: "CC BY-SA 3.0",
        source: "Y. LeCun, C. Cortes, C. Burges: The MNIST database of handwritten digits; derived from NIST",
    },
    CatalogueEntry {
        name: "fashion-mnist",
        shape: MNIST_SHAPE,
        classes: 10,
        layout: Layout::Idx,
        content: &idx_files(60_000, 10_000, [None; 4]),
        published: &[
            published(
                "train-images-idx3-ubyte.gz",
                26_421_880,
                "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            ),
            published(
                "train-labels-idx1-ubyte.gz",
                29_515,
                "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            ),
            published(
                "t10k-images-idx3-ubyte.gz",
                4_422_102,
                "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            ),
            published(
                "t10k-labels-idx1-ubyte.gz",
                5_148,
                "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            ),
        ],
        mirrors: &[
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        ],
        subfolders: &["fashion-mnist", "fashion_mnist", "FashionMNIST/raw", "FashionMNIST", "raw"],
        licence: "MIT",
        source: "H. Xiao, K. Rasul, R. Vollgraf (Zalando): Fashion-MNIST, arXiv 1708.07747",
    },
    CatalogueEntry {
        name: "cifar-10",
        shape: CIFAR_SHAPE,
        classes: 10,
        layout: Layout::Cifar,
        content: &[
            records(
                "data_batch_1.bin",
                Split::Train,
                10_000,
                1,
                Some(Checksum("cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5")),
            ),
            records(
                "data_batch_2.bin",
                Split::Train,
                10_000,
                1,
                Some(Checksum("a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed")),
            ),
            records(
                "data_batch_3.bin",
                Split::Train,
                10_000,
                1,
                Some(Checksum("bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67")),
            ),
            records(
                "data_batch_4.bin",
                Split::Train,
                10_000,
                1,
                Some(Checksum("014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48")),
            ),
            records(
                "data_batch_5.bin",
                Split::Train,
                10_000,
                1,
                Some(Checksum("755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add")),
            ),
            records(
                "test_batch.bin",
                Split::Test,
                10_000,
                1,
                Some(Checksum("8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b")),
            ),
        ],
        published: &[published(
            "cifar-10-binary.tar.gz",
            170_052_171,
            "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        )],
        mirrors: &[
            "https://www.cs.toronto.edu/~kriz/",
            "https://storage.googleapis.com/s4tf-hosted-binaries/datasets/CIFAR10/",
        ],
        subfolders: &["cifar-10", "cifar-10/cifar-10-batches-bin", "cifar-10-batches-bin"],
        licence: "none stated",
        source: "A. Krizhevsky: Learning Multiple Layers of Features from Tiny Images, 2009",
    },
    CatalogueEntry {
        name: "cifar-100",
        shape: CIFAR_SHAPE,
        classes: 100,
        layout: Layout::Cifar,
        content: &[
            records("train.bin", Split::Train, 50_000, 2, None),
            records("test.bin", Split::Test, 10_000, 2, None),
        ],
        published: &[published(
            "cifar-100-binary.tar.gz",
            168_513_733,
            "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
        )],
        mirrors: &["https://www.cs.toronto.edu/~kriz/"],
        subfolders: &["cifar-100", "cifar-100/cifar-100-binary", "cifar-100-binary"],
        licence: "none stated",
        source: "A. Krizhevsky: Learning Multiple Layers of Features from Tiny Images, 2009",
    },
    CatalogueEntry {
        name: "audiomnist",
        shape: MNIST_SHAPE,
        classes: 10,
        layout: Layout::Idx,
        content: &[
            ContentFile {
                name: "images-idx3-ubyte",
                split: Split::Train,
                holds: Holds::Pixels,
                images: 30_000,
                bytes: 16 + 30_000 * MNIST_SHAPE.len() as u64,
                checksum: Some(Checksum(
                    "cbf10b43b91b06aa0dfc3ef107f6385ad0836ce8155e93a5cd9fb5b6eeb105ff",
                )),
            },
            ContentFile {
                name: "labels-idx1-ubyte",
                split: Split::Train,
                holds: Holds::Labels,
                images: 30_000,
                bytes: 8 + 30_000,
                checksum: Some(Checksum(
                    "27f531842f8543344a71149f1e755a59455278edc3ed5e7993e8fdbf97f5be09",
                )),
            },
            ContentFile {
                name: "speakers-idx1-ubyte",
                split: Split::Train,
                holds: Holds::Owners,
                images: 30_000,
                bytes: 8 + 30_000,
                checksum: Some(Checksum(
                    "359c8cc2f613e6e7d18149cd75a73ef92a715fa4cf5a5425355e0cdb25651f53",
                )),
            },
        ],
        published: &[],
        mirrors: &[],
        subfolders: &["audiomnist", "AudioMNIST"],
        licence: "MIT",
        source: "S. Becker et al.: AudioMNIST, arXiv 1807.03418; spoken digits of 60 speakers as log-mel pictures",
    },
];

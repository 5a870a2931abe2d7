//! Samples, where they come from, and how clients share them.
//!
//! - [`Images`], [`Dataset`]: pixels and labels in memory, cheap to clone.
//! - [`Table`], [`Data`]: numbers, and any data set with the clients that it may have.
//! - [`OwnDataParams`]: data of one's own, from files.
//! - [`PixelScale`], [`PixelNormalization`]: from bytes to the numbers a model sees.
//! - [`embedded_digits`]: a small part of MNIST that is always there; [`CATALOGUE`], [`load`]: the others, from files.
//! - [`PartitionParams`], [`Partition`]: which client has which images.
//! - [`idx`], [`cifar`]: the file formats, as functions over bytes that may be anything.
//!
//! ```
//! use agewise_train::data::{PartitionParams, embedded_digits};
//!
//! let digits = embedded_digits()?;
//! let params = PartitionParams { distribution: "dirichlet:0.3".parse()?, clients: 20, ..PartitionParams::default() };
//! let partition = params.check(&digits.train)?.split();
//! assert_eq!(partition.sizes(), vec![300; 20]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod catalogue;
mod checksum;
pub mod cifar;
mod digits;
mod error;
mod fetch;
mod gzip;
pub mod idx;
mod images;
mod load;
mod locate;
mod own;
mod partition;
mod pixels;
mod set;
mod table;

pub use catalogue::{CATALOGUE, CatalogueEntry, ContentFile, Holds, Layout, PublishedFile, Split};
pub use checksum::{AlteredFile, Checksum, Integrity, digest_of};
pub use digits::embedded_digits;
pub use error::{DataError, FormatError};
pub use fetch::{FetchError, FetchStep, Fetched, fetch};
pub use images::{Dataset, ImageShape, Images};
pub use load::{is_known, load};
pub use locate::{DATA_VARIABLE, DatasetFiles, default_folder, folders};
pub use own::{Loss, OwnData, OwnDataParams};
pub use partition::{
    CheckedPartition, Divisible, MinMedianMax, Partition, PartitionDistribution, PartitionParams,
    PartitionSummary,
};
pub use pixels::{PixelNormalization, PixelScale};
pub use set::{Data, NaturalClients, SampleSet};
pub use table::{FeatureScale, Labels, Scaling, Table};

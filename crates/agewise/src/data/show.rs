//! `agewise data show`: samples of a data set and its labels by client, as files.

use super::pictures;
use crate::learn::data::{Dataset, Partition, PartitionParams, PartitionSummary};
use crate::report::{DrawError, Figure};
use crate::run_folder::{FolderError, RunFolder};
use serde::Serialize;

/// What is written to `summary.json`.
#[derive(Debug, Clone, Serialize)]
pub struct ShownSummary {
    /// The data set.
    pub dataset: String,
    /// How labels are spread.
    pub partition: String,
    /// How sizes are spread.
    pub sizes: String,
    /// The images that each client has at least.
    pub batch: u64,
    /// The seed.
    pub seed: u64,
    /// What came out, in a few numbers.
    pub summary: PartitionSummary,
    /// How many images of each class each client has.
    pub histograms: Vec<Vec<u32>>,
}

/// A data set and a partition of it, with their figures.
#[derive(Debug)]
pub struct Shown {
    /// The summary.
    pub summary: ShownSummary,
    /// The figures, by file name without extension.
    pub figures: Vec<(&'static str, Figure)>,
}

/// Draws a data set and a partition of its training images.
pub fn show(dataset: &Dataset, params: &PartitionParams, partition: &Partition) -> Shown {
    let summary = ShownSummary {
        dataset: dataset.name.clone(),
        partition: params.law.to_string(),
        sizes: params.sizes.to_string(),
        batch: params.least,
        seed: params.seed.0,
        summary: partition.summary(),
        histograms: partition.histograms().to_vec(),
    };
    let title = format!("{} among {} clients", dataset.name, partition.clients());
    let caption = format!(
        "Partition {}, sizes {}, at least {} images each, seed {}. Mean total variation distance to all labels: {:.3}.",
        summary.partition,
        summary.sizes,
        summary.batch,
        summary.seed,
        summary.summary.mean_distance
    );
    let figures = vec![
        ("samples", pictures::samples(&dataset.name, &dataset.train)),
        ("labels", pictures::labels(&title, &caption, partition)),
    ];
    Shown { summary, figures }
}

/// Why what is shown cannot be written.
#[derive(Debug)]
pub enum ShowError {
    /// A file cannot be written.
    Folder(FolderError),
    /// A picture cannot be drawn.
    Draw(DrawError),
    /// The summary cannot be turned into text.
    Text(serde_json::Error),
}

impl Shown {
    /// The summary as one JSON document.
    pub fn json(&self) -> Result<String, ShowError> {
        serde_json::to_string_pretty(&self.summary).map(|text| text + "\n").map_err(ShowError::Text)
    }

    /// Writes the pictures as SVG and PNG, and the summary.
    pub fn write(&self, folder: &RunFolder) -> Result<(), ShowError> {
        let write = |name: &str, bytes: &[u8]| folder.write(name, bytes).map_err(ShowError::Folder);
        for (name, figure) in &self.figures {
            write(&format!("{name}.svg"), figure.to_svg().as_bytes())?;
            write(&format!("{name}.png"), &figure.to_png(2.0).map_err(ShowError::Draw)?)?;
        }
        write("summary.json", self.json()?.as_bytes())
    }
}

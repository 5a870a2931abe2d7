//! `agewise data show`: samples of a data set and its labels by client, as figures and files.

use crate::section::ReportError;
use agewise_core::{Error, Result};
use agewise_experiment::RunDir;
use agewise_experiment::run_dir::SUMMARY;
use agewise_plot::{Axis, Figure, HeatMap, Panel, Series, SeriesStyle};
use agewise_train::data::{Dataset, Images, Partition, PartitionParams, PartitionSummary};
use serde::Serialize;
use std::fmt::Write as _;

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
        partition: params.distribution.to_string(),
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
        ("samples", samples(&dataset.name, &dataset.train)),
        ("labels", labels(&title, &caption, partition)),
    ];
    Shown { summary, figures }
}

impl Shown {
    /// The summary as one JSON document.
    pub fn json(&self) -> Result<String> {
        let text = serde_json::to_string_pretty(&self.summary);
        let text = text.map_err(|error| Error::new("summary", error, "numbers that JSON holds"))?;
        Ok(text + "\n")
    }

    /// Writes the pictures as SVG and PNG, and the summary.
    pub fn write(&self, dir: &RunDir) -> std::result::Result<(), ReportError> {
        for (name, figure) in &self.figures {
            dir.write(&format!("{name}.svg"), figure.to_svg().as_bytes())?;
            dir.write(&format!("{name}.png"), &figure.to_png(2.0)?)?;
        }
        Ok(dir.write(SUMMARY, self.json()?.as_bytes())?)
    }
}

/// A heat map shows no more columns and rows than this one by one.
const COLUMNS: u32 = 300;
const ROWS: u32 = 160;

/// The most classes of which samples are shown.
const MOST_CLASSES: u32 = 10;

/// The first images of each class, as a grid.
fn samples(name: &str, images: &Images) -> Figure {
    let shape = images.shape();
    let per_class = (COLUMNS / shape.width).clamp(1, 10);
    let per_panel = (ROWS / shape.height).clamp(1, 5);
    let classes = images.classes().min(MOST_CLASSES);
    let what = if shape.channels == 1 { "brightness" } else { "brightness (mean of the colours)" };
    let mut caption = format!(
        "The first {per_class} training images of each class, {} x {} pixels.",
        shape.height, shape.width
    );
    if classes < images.classes() {
        // Writing to a string cannot fail.
        let _ = write!(caption, " Classes 0 to {} of {}.", classes - 1, images.classes());
    }
    let mut figure = Figure::new(format!("Samples of {name}"))
        .caption(caption)
        .columns(1)
        .width(980.0)
        .panel_height(500.0);
    for first in (0..classes).step_by(per_panel as usize) {
        let last = (first + per_panel).min(classes);
        let map = HeatMap::new(
            format!("Classes {first} to {}", last - 1),
            Axis::linear("sample").integer_ticks(),
            Axis::linear("class").integer_ticks(),
            Axis::linear(what).range(0.0, 255.0),
        )
        .rows(rows(images, first..last, per_class as usize))
        .extent((0.5, f64::from(per_class) + 0.5), (f64::from(first) - 0.5, f64::from(last) - 0.5));
        figure = figure.panel(map);
    }
    figure
}

/// The brightness of the samples, row by row from the bottom: class by class, each upside down.
fn rows(images: &Images, classes: std::ops::Range<u32>, per_class: usize) -> Vec<Vec<f64>> {
    let shape = images.shape();
    let (height, width) = (shape.height as usize, shape.width as usize);
    let channels = shape.channels as usize;
    let mut rows = Vec::new();
    for class in classes {
        let of_class = (0..images.len()).filter(|&i| u32::from(images.label(i)) == class);
        let chosen: Vec<&[u8]> = of_class.take(per_class).map(|i| images.image(i)).collect();
        for row in (0..height).rev() {
            let mut values = Vec::with_capacity(per_class * width);
            for image in &chosen {
                let pixels = image[row * width * channels..][..width * channels].chunks(channels);
                values.extend(pixels.map(|pixel| {
                    pixel.iter().map(|&byte| f64::from(byte)).sum::<f64>() / channels as f64
                }));
            }
            rows.push(values);
        }
    }
    rows
}

/// The labels of each client, and its number of images.
fn labels(title: &str, caption: &str, partition: &Partition) -> Figure {
    let clients = partition.clients();
    let sizes = partition.sizes();
    let share = |class: usize| {
        let of_client = |(client, &size): (usize, &usize)| {
            f64::from(partition.histograms()[client][class]) / size as f64
        };
        sizes.iter().enumerate().map(of_client).collect::<Vec<f64>>()
    };
    let rows: Vec<Vec<f64>> = (0..partition.class_counts().len()).map(share).collect();
    // From nothing to the largest share, so that even mixtures are not all dark.
    let largest = rows.iter().flatten().copied().fold(0.2, f64::max);
    let shares = HeatMap::new(
        "Labels of each client",
        Axis::linear("client").integer_ticks(),
        Axis::linear("class").integer_ticks(),
        Axis::linear("share of the client's images").range(0.0, largest),
    )
    .rows(rows);
    let bars = Panel::new(
        "Images of each client",
        Axis::linear("client").integer_ticks().range(-0.5, clients as f64 - 0.5),
        Axis::linear("images").integer_ticks(),
    )
    .series(Series::new(
        "",
        SeriesStyle::Bars,
        sizes.iter().enumerate().map(|(client, &size)| (client as f64, size as f64)),
    ));
    Figure::new(title).caption(caption).columns(1).width(960.0).panel(shares).panel(bars)
}

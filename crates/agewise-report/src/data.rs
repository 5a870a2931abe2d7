//! `agewise data show`: samples of a data set and its labels by client, as figures and files.

use crate::section::ReportError;
use agewise_core::{Error, Result};
use agewise_experiment::RunDir;
use agewise_experiment::run_dir::SUMMARY;
use agewise_plot::{Axis, Figure, HeatMap, Panel, Series, SeriesStyle};
use agewise_train::data::{
    Data, Images, Labels, Partition, PartitionDistribution, PartitionParams, PartitionSummary,
    SampleSet, Scaling, Table,
};
use serde::Serialize;
use std::fmt::Write as _;

/// What is written to `summary.json`.
#[derive(Debug, Clone, Serialize)]
pub struct ShownSummary {
    /// The data set.
    pub dataset: String,
    /// Training samples.
    pub train: usize,
    /// Test samples.
    pub test: usize,
    /// The shape of a sample: rows x columns x channels, or the number of features.
    pub shape: String,
    /// The names of the features; empty where they have none.
    pub features: Vec<String>,
    /// How many samples each class has; empty where numbers are predicted.
    pub classes: Vec<ShownClass>,
    /// How labels are spread.
    pub partition: String,
    /// How sizes are spread.
    pub sizes: String,
    /// The samples that each client has at least.
    pub batch: u64,
    /// The seed.
    pub seed: u64,
    /// What came out, in a few numbers.
    pub summary: PartitionSummary,
    /// The names of the clients; empty where they are only numbers.
    pub clients: Vec<String>,
    /// How many samples each client has.
    pub client_sizes: Vec<usize>,
    /// How many samples of each class each client has.
    pub histograms: Vec<Vec<u32>>,
}

/// A class of a data set.
#[derive(Debug, Clone, Serialize)]
pub struct ShownClass {
    /// Its name, or its number.
    pub name: String,
    /// Its training samples.
    pub train: u32,
    /// Its test samples.
    pub test: u32,
}

impl ShownSummary {
    /// What is in the data, in a sentence.
    pub fn contents(&self) -> String {
        let Self { dataset, train, test, shape, features, classes, .. } = self;
        let samples = match features.len() {
            0 => format!("samples of {shape}"),
            count => format!("samples of {count} features"),
        };
        let labels = match classes.len() {
            0 => "labels that are numbers".to_string(),
            count => format!("{count} classes"),
        };
        format!("{dataset}: {train} training and {test} test {samples}, {labels}")
    }

    /// Which clients have the fewest and the most samples, where clients have names.
    pub fn extreme_clients(&self) -> Option<String> {
        let pairs = || self.clients.iter().zip(&self.client_sizes);
        // The first of those that are alike.
        let least = pairs().min_by_key(|(_, size)| **size)?;
        let most = pairs().rev().max_by_key(|(_, size)| **size)?;
        Some(format!(
            "Fewest: client {} with {}; most: client {} with {}",
            least.0, least.1, most.0, most.1
        ))
    }
}

/// A data set and a partition of it, with their figures.
#[derive(Debug)]
pub struct Shown {
    /// The summary.
    pub summary: ShownSummary,
    /// The figures, by file name without extension.
    pub figures: Vec<(&'static str, Figure)>,
}

/// Draws a data set and a partition of its training samples.
pub fn show(data: &Data, params: &PartitionParams, partition: &Partition) -> Shown {
    let counts = data.train.class_counts().into_iter().zip(data.test.class_counts());
    let class = |(number, (train, test)): (usize, (u32, u32))| {
        let name = data.class_names.get(number).cloned().unwrap_or_else(|| number.to_string());
        ShownClass { name, train, test }
    };
    let shape = data.train.shape();
    let summary = ShownSummary {
        dataset: data.name.clone(),
        train: data.train.len(),
        test: data.test.len(),
        shape: match (shape.height, shape.width) {
            (1, 1) => format!("{} features", shape.channels),
            _ => shape.to_string(),
        },
        features: data.feature_names.clone(),
        classes: counts.enumerate().map(class).collect(),
        partition: params.distribution.to_string(),
        sizes: params.sizes.to_string(),
        batch: params.least,
        seed: params.seed.0,
        summary: partition.summary(),
        clients: partition.names().to_vec(),
        client_sizes: partition.sizes(),
        histograms: partition.histograms().to_vec(),
    };
    let title = format!("{} among {} clients", data.name, partition.clients());
    let how = if params.distribution == PartitionDistribution::Clients {
        "The clients of the data".to_string()
    } else {
        format!(
            "Partition {}, sizes {}, at least {} samples each",
            summary.partition, summary.sizes, summary.batch
        )
    };
    let mut caption = format!("{how}, seed {}.", summary.seed);
    if !summary.classes.is_empty() {
        let distance = summary.summary.mean_distance;
        // Writing to a string cannot fail.
        let _ = write!(caption, " Mean total variation distance to all labels: {distance:.3}.");
        caption += &names_of_classes(&data.class_names);
    }
    let samples = match &data.train {
        SampleSet::Images(images) => samples(data, images),
        SampleSet::Table(table) => rows_of_table(data, table),
    };
    let figures = vec![("samples", samples), ("labels", labels(&title, &caption, data, partition))];
    Shown { summary, figures }
}

/// Which class is called what, where that is more than numbers from 0 and short enough.
fn names_of_classes(names: &[String]) -> String {
    let are_numbers = names.iter().enumerate().all(|(number, name)| *name == number.to_string());
    if are_numbers || names.len() > MOST_CLASSES as usize {
        return String::new();
    }
    let named = names.iter().enumerate().map(|(number, name)| format!("{number} {name}"));
    format!(" Classes: {}.", named.collect::<Vec<_>>().join(", "))
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

/// The most features that are named.
const MOST_NAMES: usize = 20;

/// The most classes of which samples are shown.
const MOST_CLASSES: u32 = 10;

/// The most samples and features of a table that are drawn.
const TABLE_ROWS: usize = 60;
const TABLE_COLUMNS: usize = 300;
/// Features are drawn within so many deviations.
const DEVIATIONS: f64 = 3.0;

/// Samples of a table with their features, in deviations from the mean of each.
fn rows_of_table(data: &Data, table: &Table) -> Figure {
    let scaled = Scaling::standard(table).apply(table);
    let mut order: Vec<u32> = (0..table.len() as u32).collect();
    let by = match table.labels() {
        Labels::Classes { labels, .. } => {
            order.sort_by_key(|&sample| labels[sample as usize]);
            "by class"
        }
        Labels::Numbers(numbers) => {
            order.sort_by(|&a, &b| numbers[a as usize].total_cmp(&numbers[b as usize]));
            "by label"
        }
    };
    // Evenly among all samples, so that all labels are there.
    let shown = order.len().min(TABLE_ROWS);
    let chosen = (0..shown).map(|place| order[place * order.len() / shown] as usize);
    let features = table.shape().len().min(TABLE_COLUMNS);
    let limited = |value: &f32| f64::from(*value).clamp(-DEVIATIONS, DEVIATIONS);
    let rows = chosen
        .map(|sample| scaled.sample(sample)[..features].iter().map(limited).collect::<Vec<_>>());
    let mut caption = format!(
        "{shown} of {} training samples, sorted {by}, from low to high; each feature in deviations from its mean.",
        table.len()
    );
    if features < table.shape().len() {
        // Writing to a string cannot fail.
        let _ = write!(caption, " The first {features} of {} features.", table.shape().len());
    }
    let named =
        data.feature_names.iter().enumerate().map(|(number, name)| format!("{number} {name}"));
    let named: Vec<String> = named.collect();
    if (1..=MOST_NAMES).contains(&named.len()) {
        let _ = write!(caption, " Features: {}.", named.join(", "));
    }
    let map = HeatMap::new(
        format!("Samples {by}"),
        Axis::linear("feature").integer_ticks(),
        Axis::linear("sample").integer_ticks(),
        Axis::linear("deviations from the mean").range(-DEVIATIONS, DEVIATIONS),
    )
    .rows(rows);
    Figure::new(format!("Samples of {}", data.name))
        .caption(caption)
        .columns(1)
        .width(960.0)
        .panel(map)
}

/// The first images of each class, as a grid.
fn samples(data: &Data, images: &Images) -> Figure {
    let name = &data.name;
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
    caption += &names_of_classes(&data.class_names);
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

/// The labels of each client, and how many samples it has.
fn labels(title: &str, caption: &str, data: &Data, partition: &Partition) -> Figure {
    let clients = partition.clients();
    let sizes = partition.sizes();
    let bars = Panel::new(
        "Samples of each client",
        Axis::linear("client").integer_ticks().range(-0.5, clients as f64 - 0.5),
        Axis::linear("samples").integer_ticks(),
    )
    .series(Series::new(
        "",
        SeriesStyle::Bars,
        sizes.iter().enumerate().map(|(client, &size)| (client as f64, size as f64)),
    ));
    let figure = Figure::new(title).caption(caption).columns(1).width(960.0);
    if let SampleSet::Table(table) = &data.train
        && let Labels::Numbers(numbers) = table.labels()
    {
        return figure.panel(histogram(numbers)).panel(bars);
    }
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
        Axis::linear("share of the client's samples").range(0.0, largest),
    )
    .rows(rows);
    figure.panel(shares).panel(bars)
}

/// How often labels of each size occur among the training samples.
fn histogram(numbers: &[f32]) -> Panel {
    const BINS: usize = 30;
    let (low, high) =
        numbers.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), &number| {
            (low.min(number), high.max(number))
        });
    let (low, high) = (f64::from(low), f64::from(high));
    // Equal labels are one bin, and have a width too.
    let width = if high > low { (high - low) / BINS as f64 } else { 1.0 };
    let mut counts = [0u32; BINS];
    for &number in numbers {
        counts[(((f64::from(number) - low) / width) as usize).min(BINS - 1)] += 1;
    }
    let middle = |bin: usize| low + (bin as f64 + 0.5) * width;
    Panel::new(
        "Labels of the training samples",
        Axis::linear("label"),
        Axis::linear("samples").integer_ticks(),
    )
    .series(Series::new(
        "",
        SeriesStyle::Bars,
        counts.iter().enumerate().map(|(bin, &count)| (middle(bin), f64::from(count))),
    ))
}

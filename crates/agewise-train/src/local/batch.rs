//! Batches: which samples, in which order, and their features as floats.

use crate::data::{ImageShape, Images, Labels, PixelNormalization, Table};
use crate::evaluation::Evaluation;
use crate::loss::{BatchLoss, record_errors, record_scores, softmax_gradient, squared_gradient};
use crate::model::{Field, Model};
use agewise_core::{Draws, Error, Result, Seed, Stream};
use agewise_kernels::{Backend, scale_bytes};
use rand_core::Rng;

/// The order of a client's samples in a round, and their crops.
const ORDER: Stream = Stream::custom(201);

/// Where samples come from.
#[derive(Debug, Clone, Copy)]
pub enum SampleSource<'a> {
    /// Images, and their pixels as floats.
    Images(&'a Images, &'a PixelNormalization),
    /// Numbers.
    Table(&'a Table),
}

/// Some samples of a data set, as a model sees them.
#[derive(Debug, Clone, Copy)]
pub struct Samples<'a> {
    /// The data set.
    pub source: SampleSource<'a>,
    /// Which of its samples; all if `None`.
    pub indices: Option<&'a [u32]>,
}

impl<'a> Samples<'a> {
    /// All images.
    pub fn all(images: &'a Images, pixels: &'a PixelNormalization) -> Self {
        Self::of_images(images, None, pixels)
    }

    /// Some of the images; all if `indices` is `None`.
    pub fn of_images(
        images: &'a Images,
        indices: Option<&'a [u32]>,
        pixels: &'a PixelNormalization,
    ) -> Self {
        Self { source: SampleSource::Images(images, pixels), indices }
    }

    /// Some samples of a table; all if `indices` is `None`.
    pub fn of_table(table: &'a Table, indices: Option<&'a [u32]>) -> Self {
        Self { source: SampleSource::Table(table), indices }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.indices.map_or(self.all_len(), <[u32]>::len)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The shape of a sample.
    pub fn shape(&self) -> ImageShape {
        match self.source {
            SampleSource::Images(images, _) => images.shape(),
            SampleSource::Table(table) => table.shape(),
        }
    }

    /// The number of classes; 0 where numbers are predicted.
    pub fn classes(&self) -> u32 {
        match self.source {
            SampleSource::Images(images, _) => images.classes(),
            SampleSource::Table(table) => table.labels().classes(),
        }
    }

    /// The class of a sample of the set; nothing where numbers are predicted.
    ///
    /// # Panics
    ///
    /// If the set has no such sample.
    pub fn class_of(&self, index: usize) -> Option<u8> {
        match self.source {
            SampleSource::Images(images, _) => Some(images.label(index)),
            SampleSource::Table(table) => match table.labels() {
                Labels::Classes { labels, .. } => Some(labels[index]),
                Labels::Numbers(_) => None,
            },
        }
    }

    /// How many samples the whole set has.
    fn all_len(&self) -> usize {
        match self.source {
            SampleSource::Images(images, _) => images.len(),
            SampleSource::Table(table) => table.len(),
        }
    }

    /// Which sample of the set a sample is.
    pub(crate) fn index(&self, sample: usize) -> usize {
        self.indices.map_or(sample, |indices| indices[sample] as usize)
    }

    /// Writes the middle of a sample, as a model with this input sees it, row by row and without a border.
    ///
    /// # Panics
    ///
    /// If the set has no such sample, or samples are smaller than the input.
    pub fn write_middle(&self, index: usize, input: ImageShape, row: &mut [f32]) {
        let field = Field {
            height: input.height as usize,
            width: input.width as usize,
            channels: input.channels as usize,
            border: 0,
        };
        let view = View::centre(self, field);
        write_sample(Backend::PORTABLE, self, index, view, field, row, 0);
    }

    /// Checks that a model can take them.
    pub(crate) fn check(&self, model: &Model) -> Result<()> {
        let (have, want) = (self.shape(), model.input());
        let fits = have.channels == want.channels
            && have.height >= want.height
            && have.width >= want.width;
        if !fits {
            let value = format!("{} x {} x {}", have.channels, have.height, have.width);
            let expected = format!(
                "samples of {} channels and at least {} x {} pixels",
                want.channels, want.height, want.width
            );
            return Err(Error::new("images", value, expected));
        }
        if let SampleSource::Images(_, pixels) = self.source
            && pixels.channels() != have.channels as usize
        {
            let expected = format!("a table for the {} channels of the images", have.channels);
            return Err(Error::new("pixels", pixels.channels(), expected));
        }
        if self.classes() as usize > model.classes() {
            let expected = format!("at most the {} classes of the model", model.classes());
            return Err(Error::new("classes", self.classes(), expected));
        }
        if self.classes() == 0 && model.classes() != 1 {
            let expected = "1, the number that is predicted";
            return Err(Error::new("outputs of the model", model.classes(), expected));
        }
        let outside = self.indices.unwrap_or(&[]).iter();
        let all = self.all_len();
        if let Some(index) = outside.copied().find(|&index| index as usize >= all) {
            let expected = format!("below {all}, the number of samples");
            return Err(Error::new("index", index, expected));
        }
        Ok(())
    }
}

/// What is to be predicted of a batch: classes or numbers, the other list is empty.
#[derive(Debug, Default)]
pub(super) struct BatchLabels {
    pub(super) classes: Vec<u8>,
    pub(super) numbers: Vec<f32>,
}

impl BatchLabels {
    pub(super) fn with_capacity(batch: usize) -> Self {
        Self { classes: Vec::with_capacity(batch), numbers: Vec::with_capacity(batch) }
    }

    pub(super) fn clear(&mut self) {
        self.classes.clear();
        self.numbers.clear();
    }

    /// Adds the label of a sample.
    pub(super) fn push(&mut self, samples: &Samples<'_>, index: usize) {
        match samples.source {
            SampleSource::Images(images, _) => self.classes.push(images.label(index)),
            SampleSource::Table(table) => match table.labels() {
                Labels::Classes { labels, .. } => self.classes.push(labels[index]),
                Labels::Numbers(numbers) => self.numbers.push(numbers[index]),
            },
        }
    }

    /// Replaces outputs by the gradient of the mean loss.
    pub(super) fn gradient(&self, outputs: &mut [f32]) -> BatchLoss {
        if self.numbers.is_empty() {
            softmax_gradient(outputs, &self.classes)
        } else {
            squared_gradient(outputs, &self.numbers)
        }
    }

    /// Adds the losses and hits of outputs to an evaluation.
    pub(super) fn record(&self, outputs: &[f32], evaluation: &mut Evaluation) {
        if self.numbers.is_empty() {
            record_scores(outputs, &self.classes, evaluation);
        } else {
            record_errors(outputs, &self.numbers, evaluation);
        }
    }
}

/// Which part of an image a model sees.
#[derive(Debug, Clone, Copy)]
pub(super) struct View {
    top: usize,
    left: usize,
    mirrored: bool,
}

impl View {
    /// The middle.
    pub(super) fn centre(samples: &Samples<'_>, field: Field) -> Self {
        let shape = samples.shape();
        Self {
            top: (shape.height as usize - field.height) / 2,
            left: (shape.width as usize - field.width) / 2,
            mirrored: false,
        }
    }

    /// Anywhere, and mirrored half of the time.
    fn anywhere(samples: &Samples<'_>, field: Field, numbers: &mut impl Rng) -> Self {
        let shape = samples.shape();
        let mut below = |limit: usize| ((numbers.next_u64() >> 32) as usize * limit) >> 32;
        Self {
            top: below(shape.height as usize - field.height + 1),
            left: below(shape.width as usize - field.width + 1),
            mirrored: below(2) == 1,
        }
    }
}

/// The batches of one client in one round.
#[derive(Debug)]
pub(super) struct Batches<N> {
    order: Vec<u32>,
    /// How many of the order have been used.
    used: usize,
    numbers: N,
}

impl Batches<()> {
    /// Batches that are a function of (seed, round, client).
    pub(super) fn new(seed: Seed, round: u64, client: u32, order: Vec<u32>) -> Batches<impl Rng> {
        let numbers = Draws::new(seed, ORDER, round).sequence(u64::from(client));
        Batches { order, used: usize::MAX, numbers }
    }
}

impl<N: Rng> Batches<N> {
    /// The samples of the next batch: of a new random order when the last one is used up.
    pub(super) fn next(&mut self, samples: usize, size: usize) -> std::ops::Range<usize> {
        if self.used >= samples {
            self.order.clear();
            self.order.extend(0..samples as u32);
            for last in (1..samples).rev() {
                // A number below last + 1, by the high half of a product: no division.
                let other = (u128::from(self.numbers.next_u64()) * (last as u128 + 1)) >> 64;
                self.order.swap(last, other as usize);
            }
            self.used = 0;
        }
        let begin = self.used;
        self.used = samples.min(begin + size);
        begin..self.used
    }

    /// A sample of the present order.
    pub(super) fn sample(&self, at: usize) -> usize {
        self.order[at] as usize
    }

    /// A view for training.
    pub(super) fn view(&mut self, samples: &Samples<'_>, field: Field, augment: bool) -> View {
        if augment {
            View::anywhere(samples, field, &mut self.numbers)
        } else {
            View::centre(samples, field)
        }
    }

    /// Gives the list back, for the next client.
    pub(super) fn into_order(self) -> Vec<u32> {
        self.order
    }
}

/// Writes a sample as floats into place `at` of a batch; the border stays zero.
pub(super) fn write_sample(
    backend: Backend,
    samples: &Samples<'_>,
    index: usize,
    view: View,
    field: Field,
    batch: &mut [f32],
    at: usize,
) {
    let batch = &mut batch[at * field.len()..][..field.len()];
    match samples.source {
        SampleSource::Images(images, pixels) => {
            let image = images.image(index);
            // One call for each pixel of a mirrored view would take longer than the table.
            match pixels.line().filter(|_| !view.mirrored) {
                Some(line) if field.border == 0 && image.len() == batch.len() => {
                    scale_bytes(backend, image, line, batch);
                }
                Some(line) => write_rows(image, images.shape(), view, field, batch, |from, to| {
                    scale_bytes(backend, from, line, to);
                }),
                None => write_rows(image, images.shape(), view, field, batch, |from, to| {
                    let pixels_of_row = from.chunks_exact(field.channels);
                    for (pixel, floats) in pixels_of_row.zip(to.chunks_exact_mut(field.channels)) {
                        for (channel, (float, &byte)) in floats.iter_mut().zip(pixel).enumerate() {
                            *float = pixels.of(channel)[usize::from(byte)];
                        }
                    }
                }),
            }
        }
        SampleSource::Table(table) => {
            write_rows(table.sample(index), table.shape(), view, field, batch, |from, to| {
                to.copy_from_slice(from);
            });
        }
    }
}

/// Hands rows, and single pixels of mirrored views, to `convert`, with their places in the batch.
fn write_rows<T>(
    sample: &[T],
    shape: ImageShape,
    view: View,
    field: Field,
    batch: &mut [f32],
    convert: impl Fn(&[T], &mut [f32]),
) {
    let (width, channels) = (shape.width as usize, field.channels);
    let row_len = field.width * channels;
    for row in 0..field.height {
        let from = ((view.top + row) * width + view.left) * channels;
        let values = &sample[from..from + row_len];
        let floats = &mut batch[field.place(row, 0)..][..row_len];
        if !view.mirrored {
            convert(values, floats);
            continue;
        }
        for (pixel, floats) in values.rchunks_exact(channels).zip(floats.chunks_exact_mut(channels))
        {
            convert(pixel, floats);
        }
    }
}

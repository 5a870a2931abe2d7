//! Batches: which samples, in which order, and their pixels as floats.

use crate::data::{Images, PixelNormalization};
use crate::model::{Field, Model};
use agewise_core::{Draws, Error, Result, Seed, Stream};
use agewise_kernels::Aligned;
use rand_core::Rng;

/// The order of a client's samples in a round, and their crops.
const ORDER: Stream = Stream::custom(201);

/// Some images of a data set, as a model sees them.
#[derive(Debug, Clone, Copy)]
pub struct Samples<'a> {
    /// The images.
    pub images: &'a Images,
    /// Which of them; all if `None`.
    pub indices: Option<&'a [u32]>,
    /// Pixels as floats.
    pub pixels: &'a PixelNormalization,
}

impl<'a> Samples<'a> {
    /// All images.
    pub fn all(images: &'a Images, pixels: &'a PixelNormalization) -> Self {
        Self { images, indices: None, pixels }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.indices.map_or(self.images.len(), <[u32]>::len)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Which image a sample is.
    pub(crate) fn index(&self, sample: usize) -> usize {
        self.indices.map_or(sample, |indices| indices[sample] as usize)
    }

    /// Checks that a model can take them.
    pub(crate) fn check(&self, model: &Model) -> Result<()> {
        let (have, want) = (self.images.shape(), model.input());
        let fits = have.channels == want.channels
            && have.height >= want.height
            && have.width >= want.width;
        if !fits {
            let value = format!("{} x {} x {}", have.channels, have.height, have.width);
            let expected = format!(
                "images of {} channels and at least {} x {} pixels",
                want.channels, want.height, want.width
            );
            return Err(Error::new("images", value, expected));
        }
        if self.pixels.channels() != have.channels as usize {
            let expected = format!("a table for the {} channels of the images", have.channels);
            return Err(Error::new("pixels", self.pixels.channels(), expected));
        }
        if self.images.classes() as usize > model.classes() {
            let expected = format!("at most the {} classes of the model", model.classes());
            return Err(Error::new("classes", self.images.classes(), expected));
        }
        let outside = self.indices.unwrap_or(&[]).iter();
        if let Some(index) = outside.copied().find(|&index| index as usize >= self.images.len()) {
            let expected = format!("below {}, the number of images", self.images.len());
            return Err(Error::new("index", index, expected));
        }
        Ok(())
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
        let shape = samples.images.shape();
        Self {
            top: (shape.height as usize - field.height) / 2,
            left: (shape.width as usize - field.width) / 2,
            mirrored: false,
        }
    }

    /// Anywhere, and mirrored half of the time.
    fn anywhere(samples: &Samples<'_>, field: Field, numbers: &mut impl Rng) -> Self {
        let shape = samples.images.shape();
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

/// Writes an image as floats into place `at` of a batch; the border stays zero.
pub(super) fn write_image(
    samples: &Samples<'_>,
    index: usize,
    view: View,
    field: Field,
    batch: &mut Aligned,
    at: usize,
) {
    let image = samples.images.image(index);
    let width = samples.images.shape().width as usize;
    let channels = field.channels;
    let row_len = field.width * channels;
    for row in 0..field.height {
        let from = ((view.top + row) * width + view.left) * channels;
        let pixels = &image[from..from + row_len];
        let to = at * field.len() + field.place(row, 0);
        let floats = &mut batch[to..to + row_len];
        if channels == 1 && !view.mirrored {
            let table = samples.pixels.of(0);
            for (float, &pixel) in floats.iter_mut().zip(pixels) {
                *float = table[usize::from(pixel)];
            }
            continue;
        }
        for (column, floats) in floats.chunks_exact_mut(channels).enumerate() {
            let from = if view.mirrored { field.width - 1 - column } else { column } * channels;
            for (channel, float) in floats.iter_mut().enumerate() {
                *float = samples.pixels.of(channel)[usize::from(pixels[from + channel])];
            }
        }
    }
}

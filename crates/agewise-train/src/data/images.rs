//! Images and their labels in memory.

use super::checksum::AlteredFile;
use super::set::NaturalClients;
use agewise_core::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// The most images of one set: their numbers fit into 32 bits.
const MOST_IMAGES: usize = u32::MAX as usize;

/// The size of every image of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ImageShape {
    /// 1 for grey, 3 for red, green and blue.
    pub channels: u32,
    /// Rows.
    pub height: u32,
    /// Columns.
    pub width: u32,
}

impl ImageShape {
    /// A shape of so many channels, rows and columns.
    pub const fn new(channels: u32, height: u32, width: u32) -> Self {
        Self { channels, height, width }
    }

    /// So many features without an order in space: the channels of one pixel.
    pub const fn flat(features: u32) -> Self {
        Self { channels: features, height: 1, width: 1 }
    }

    /// The bytes of one image, or the numbers of one sample.
    pub const fn len(self) -> usize {
        self.channels as usize * self.height as usize * self.width as usize
    }

    /// Whether an image of this shape has no pixels.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }
}

impl fmt::Display for ImageShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{}", self.height, self.width, self.channels)
    }
}

/// Images with labels; a clone shares the memory.
#[derive(Debug, Clone)]
pub struct Images {
    shape: ImageShape,
    classes: u32,
    pixels: Arc<[u8]>,
    labels: Arc<[u8]>,
}

impl Images {
    /// Images from their pixels, one image after the other, rows before columns before channels, and one label for
    /// each image, all below `classes`.
    pub fn new(
        shape: ImageShape,
        classes: u32,
        pixels: impl Into<Arc<[u8]>>,
        labels: impl Into<Arc<[u8]>>,
    ) -> Result<Self> {
        let (pixels, labels) = (pixels.into(), labels.into());
        if !(1..=256).contains(&classes) {
            return Err(Error::new("classes", classes, "a whole number from 1 to 256"));
        }
        // Sides of 2^16 and more overflow nothing on any machine once this holds.
        let sides = [shape.channels, shape.height, shape.width];
        if sides.iter().any(|side| !(1..=1 << 15).contains(side)) {
            return Err(Error::new("shape", shape, "channels, height and width from 1 to 32768"));
        }
        if labels.len() > MOST_IMAGES {
            return Err(Error::new("images", labels.len(), format!("at most {MOST_IMAGES}")));
        }
        if labels.len().checked_mul(shape.len()) != Some(pixels.len()) {
            let expected = format!("{} bytes for each of {} labels", shape.len(), labels.len());
            return Err(Error::new("pixels", format!("{} bytes", pixels.len()), expected));
        }
        if let Some(image) = labels.iter().position(|&label| u32::from(label) >= classes) {
            let expected = format!("a class from 0 to {}", classes - 1);
            return Err(Error::new(format!("labels[{image}]"), labels[image], expected));
        }
        Ok(Self { shape, classes, pixels, labels })
    }

    /// The number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The size of every image.
    pub fn shape(&self) -> ImageShape {
        self.shape
    }

    /// The number of classes; labels are below it.
    pub fn classes(&self) -> u32 {
        self.classes
    }

    /// The pixels of one image: rows before columns before channels.
    ///
    /// # Panics
    ///
    /// If there is no such image.
    pub fn image(&self, index: usize) -> &[u8] {
        let size = self.shape.len();
        &self.pixels[index * size..][..size]
    }

    /// The class of one image.
    ///
    /// # Panics
    ///
    /// If there is no such image.
    pub fn label(&self, index: usize) -> u8 {
        self.labels[index]
    }

    /// The classes of all images.
    pub fn labels(&self) -> &[u8] {
        &self.labels
    }

    /// The pixels of all images, one image after the other.
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// How many images each class has.
    pub fn class_counts(&self) -> Vec<u32> {
        let mut counts = vec![0; self.classes as usize];
        for &label in self.labels() {
            counts[usize::from(label)] += 1;
        }
        counts
    }
}

/// A data set: images to learn from, and others to be tested on.
#[derive(Debug, Clone)]
pub struct Dataset {
    /// Its name in the catalogue.
    pub name: String,
    /// The images that clients share.
    pub train: Images,
    /// The images on which models are tested.
    pub test: Images,
    /// Whose the training images are, where that is known.
    pub clients: Option<NaturalClients>,
    /// Files that are not those that were published: results with them cannot be compared with others.
    pub altered: Vec<AlteredFile>,
}

impl Dataset {
    /// Data of one's own.
    pub fn new(name: impl Into<String>, train: Images, test: Images) -> Self {
        Self { name: name.into(), train, test, clients: None, altered: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: ImageShape = ImageShape::new(3, 1, 2);

    #[test]
    fn images_lie_one_after_the_other() {
        let images = Images::new(SHAPE, 4, (0..12).collect::<Vec<u8>>(), vec![3, 1]).unwrap();
        assert_eq!((images.len(), images.classes(), images.is_empty()), (2, 4, false));
        assert_eq!(images.image(1), [6, 7, 8, 9, 10, 11]);
        assert_eq!((images.label(0), images.label(1)), (3, 1));
        assert_eq!(images.class_counts(), [0, 1, 0, 1]);
        assert_eq!(images.shape().to_string(), "1x2x3");
    }

    #[test]
    fn refuses_what_does_not_fit_together() {
        let field = |shape, classes, pixels: usize, labels: Vec<u8>| {
            let made = Images::new(shape, classes, vec![0; pixels], labels);
            made.unwrap_err().field().to_string()
        };
        assert_eq!(field(SHAPE, 4, 11, vec![0, 0]), "pixels");
        assert_eq!(field(SHAPE, 4, 12, vec![0, 4]), "labels[1]");
        assert_eq!(field(SHAPE, 0, 0, vec![]), "classes");
        assert_eq!(field(SHAPE, 257, 0, vec![]), "classes");
        assert_eq!(field(ImageShape::new(0, 1, 1), 4, 0, vec![0]), "shape");
        assert_eq!(field(ImageShape::new(u32::MAX, u32::MAX, u32::MAX), 4, 0, vec![]), "shape");
    }
}

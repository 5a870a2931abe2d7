//! Images, data sets, and how clients share them.

use crate::errors::{bad_input, data, renamed};
use agewise::selection::{Error, Seed};
use agewise::train::data::{
    AlteredFile, ImageShape, Images as LearnImages, PartitionParams, PixelNormalization,
    PixelScale, folders, load,
};
use agewise::train::local::Samples;
use numpy::{
    IntoPyArray, PyArray1, PyArray2, PyArray4, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray4,
};
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use std::ffi::CString;
use std::path::PathBuf;
use std::sync::Arc;

/// Images with labels and a normalisation of their pixels. Subsets share the memory of the set.
#[pyclass(module = "agewise._agewise", frozen)]
#[derive(Clone)]
pub(crate) struct Images {
    set: LearnImages,
    /// The indices of a subset; none for the whole set.
    indices: Option<Arc<[u32]>>,
    pixels: Arc<PixelNormalization>,
}

impl Images {
    fn new(images: LearnImages, pixels: Arc<PixelNormalization>) -> Self {
        Self { set: images, indices: None, pixels }
    }

    /// The samples as the trainer takes them.
    pub(crate) fn samples(&self) -> Samples<'_> {
        Samples::of_images(&self.set, self.indices.as_deref(), &self.pixels)
    }

    fn numbers(&self) -> Vec<u32> {
        match &self.indices {
            Some(indices) => indices.to_vec(),
            // No set has more than 2^32 images.
            None => (0..self.set.len() as u32).collect(),
        }
    }
}

#[pymethods]
impl Images {
    /// Images from pixels (image, row, column, channel) and labels, with the scale of `like` if it is given.
    #[new]
    #[pyo3(signature = (pixels, labels, classes, scale, like=None))]
    fn from_arrays(
        pixels: PyReadonlyArray4<'_, u8>,
        labels: PyReadonlyArray1<'_, u8>,
        classes: u32,
        scale: &str,
        like: Option<&Self>,
    ) -> PyResult<Self> {
        let pixels = pixels.as_array();
        let (_, height, width, channels) = pixels.dim();
        let side = |side: usize| u32::try_from(side).unwrap_or(u32::MAX);
        let shape = ImageShape::new(side(channels), side(height), side(width));
        let bytes: Vec<u8> = pixels.iter().copied().collect();
        let labels: Vec<u8> = labels.as_array().to_vec();
        let images = LearnImages::new(shape, classes, bytes, labels).map_err(bad_input)?;
        let scale: PixelScale = scale.parse().map_err(bad_input)?;
        let table = match like {
            Some(like) => Arc::clone(&like.pixels),
            None => Arc::new(PixelNormalization::new(scale, &images)),
        };
        Ok(Self::new(images, table))
    }

    fn __len__(&self) -> usize {
        self.samples().len()
    }

    /// Height, width and channels.
    #[getter]
    fn shape(&self) -> (u32, u32, u32) {
        let shape = self.set.shape();
        (shape.height, shape.width, shape.channels)
    }

    /// The number of classes.
    #[getter]
    fn classes(&self) -> u32 {
        self.set.classes()
    }

    /// A copy of the labels.
    #[getter]
    fn labels<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u8>> {
        let label = |number: u32| self.set.label(number as usize);
        self.numbers().into_iter().map(label).collect::<Vec<_>>().into_pyarray(py)
    }

    /// A copy of the pixels (image, row, column, channel).
    #[getter]
    fn pixels<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray4<u8>>> {
        let shape = self.set.shape();
        let sides = [shape.height, shape.width, shape.channels].map(|side| side as usize);
        let numbers = self.numbers();
        let mut bytes = Vec::with_capacity(numbers.len() * shape.len());
        for &number in &numbers {
            bytes.extend_from_slice(self.set.image(number as usize));
        }
        bytes.into_pyarray(py).reshape([numbers.len(), sides[0], sides[1], sides[2]])
    }

    /// A subset of these images, by their indices.
    fn take(&self, indices: Vec<i64>) -> PyResult<Self> {
        let all = self.samples().len();
        let number = |index: i64| {
            let inside = usize::try_from(index).ok().filter(|&index| index < all);
            let index = inside.ok_or_else(|| {
                let expected = format!("indices from 0 to {}", all.saturating_sub(1));
                bad_input(Error::new("indices", index, expected))
            })?;
            Ok(self.indices.as_ref().map_or(index as u32, |indices| indices[index]))
        };
        let indices: Vec<u32> = indices.into_iter().map(number).collect::<PyResult<_>>()?;
        Ok(Self { indices: Some(indices.into()), ..self.clone() })
    }
}

/// A data set by its name: training and test images.
#[pyfunction]
#[pyo3(signature = (name, folder=None, scale="standardised"))]
pub(crate) fn load_data(
    py: Python<'_>,
    name: &str,
    folder: Option<PathBuf>,
    scale: &str,
) -> PyResult<(Images, Images)> {
    let scale: PixelScale = scale.parse().map_err(bad_input)?;
    let loaded = py.detach(|| load(name, &folders(folder.as_deref())));
    let dataset = loaded.map_err(|error| data(error, "name", "folder"))?;
    warn_of_altered(py, &dataset.altered, 2)?;
    // Test images have the scale of the training images.
    let table = Arc::new(PixelNormalization::new(scale, &dataset.train));
    Ok((Images::new(dataset.train, Arc::clone(&table)), Images::new(dataset.test, table)))
}

/// Warns of files that are not those that were published, at the line so many calls up.
pub(crate) fn warn_of_altered(py: Python<'_>, altered: &[AlteredFile], calls: i32) -> PyResult<()> {
    for file in altered {
        let text = CString::new(file.to_string())?;
        PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, calls)?;
    }
    Ok(())
}

/// The assignment of images to clients.
#[pyclass(module = "agewise._agewise", frozen)]
pub(crate) struct Partition {
    inner: agewise::train::data::Partition,
    images: Images,
}

/// Partitions images among clients.
#[pyfunction]
pub(crate) fn partition(
    py: Python<'_>,
    images: &Images,
    clients: u64,
    distribution: &str,
    sizes: &str,
    least: u64,
    seed: u64,
) -> PyResult<Partition> {
    if images.indices.is_some() {
        let value = format!("{} of {}", images.samples().len(), images.set.len());
        let expected = "a whole set, not a part that take() or of() gave";
        return Err(bad_input(Error::new("images", value, expected)));
    }
    let distribution = distribution.parse().map_err(renamed(&[("partition", "distribution")]))?;
    let sizes = sizes.parse().map_err(bad_input)?;
    let params = PartitionParams { distribution, sizes, clients, least, seed: Seed(seed) };
    let checked = params.check(&images.set).map_err(bad_input)?;
    Ok(Partition { inner: py.detach(|| checked.split()), images: images.clone() })
}

impl Partition {
    fn client(&self, client: i64) -> PyResult<usize> {
        let clients = self.inner.clients();
        let inside = usize::try_from(client).ok().filter(|&client| client < clients);
        inside.ok_or_else(|| {
            let expected = format!("clients from 0 to {}", clients - 1);
            bad_input(Error::new("client", client, expected))
        })
    }
}

#[pymethods]
impl Partition {
    /// The number of clients.
    #[getter]
    fn clients(&self) -> usize {
        self.inner.clients()
    }

    /// The number of images of each client.
    #[getter]
    fn sizes<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        self.inner.sizes().into_iter().map(|size| size as u64).collect::<Vec<_>>().into_pyarray(py)
    }

    /// The number of images of each class of each client.
    #[getter]
    fn histograms<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<u32>>> {
        let classes = self.images.set.classes() as usize;
        self.inner.histograms().concat().into_pyarray(py).reshape([self.inner.clients(), classes])
    }

    /// The indices of the images of one client.
    fn indices<'py>(&self, py: Python<'py>, client: i64) -> PyResult<Bound<'py, PyArray1<u32>>> {
        Ok(self.inner.of(self.client(client)?).to_vec().into_pyarray(py))
    }

    /// The images of one client.
    fn of(&self, client: i64) -> PyResult<Images> {
        let indices = self.inner.of(self.client(client)?);
        Ok(Images { indices: Some(indices.into()), ..self.images.clone() })
    }
}

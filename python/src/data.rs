//! Images, data sets, and how clients share them.

use crate::errors::{bad_input, data, renamed};
use agewise::selection::{Error, Seed};
use agewise::train::data::{
    AlteredFile, Dataset, ImageShape, Images as LearnImages, NaturalClients, PartitionParams,
    PixelNormalization, PixelScale, folders, load,
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
    /// Whose the images of the whole set are, where that is known.
    clients: Option<NaturalClients>,
}

/// Images as they are pickled: pixels, labels, classes, the scale of each channel, and the client of each image.
type Parts<'py> =
    (Bound<'py, PyArray4<u8>>, Bound<'py, PyArray1<u8>>, u32, Vec<(f64, f64)>, Option<Vec<String>>);

impl Images {
    fn new(images: LearnImages, pixels: Arc<PixelNormalization>) -> Self {
        Self { set: images, indices: None, pixels, clients: None }
    }

    /// Images from arrays whose shapes fit together.
    fn whole_set(
        pixels: &PyReadonlyArray4<'_, u8>,
        labels: &PyReadonlyArray1<'_, u8>,
        classes: u32,
    ) -> PyResult<LearnImages> {
        let pixels = pixels.as_array();
        let (_, height, width, channels) = pixels.dim();
        let side = |side: usize| u32::try_from(side).unwrap_or(u32::MAX);
        let shape = ImageShape::new(side(channels), side(height), side(width));
        let bytes: Vec<u8> = pixels.iter().copied().collect();
        let labels: Vec<u8> = labels.as_array().to_vec();
        LearnImages::new(shape, classes, bytes, labels).map_err(bad_input)
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
        let images = Self::whole_set(&pixels, &labels, classes)?;
        let scale: PixelScale = scale.parse().map_err(bad_input)?;
        let table = match like {
            Some(like) => Arc::clone(&like.pixels),
            None => Arc::new(PixelNormalization::new(scale, &images)),
        };
        Ok(Self::new(images, table))
    }

    /// Images from what [`Images::parts`] gave.
    #[staticmethod]
    #[pyo3(signature = (pixels, labels, classes, scalings, owners=None))]
    fn from_parts(
        pixels: PyReadonlyArray4<'_, u8>,
        labels: PyReadonlyArray1<'_, u8>,
        classes: u32,
        scalings: Vec<(f64, f64)>,
        owners: Option<Vec<String>>,
    ) -> PyResult<Self> {
        let images = Self::whole_set(&pixels, &labels, classes)?;
        let table = PixelNormalization::from_scalings(&scalings).map_err(bad_input)?;
        let clients = owners.map(|owners| NaturalClients::new(&owners));
        Ok(Self { clients, ..Self::new(images, Arc::new(table)) })
    }

    /// What has to be kept to make the same images again.
    fn parts<'py>(&self, py: Python<'py>) -> PyResult<Parts<'py>> {
        let scalings = self.pixels.scalings().to_vec();
        Ok((self.pixels(py)?, self.labels(py), self.classes(), scalings, self.owners()))
    }

    fn __len__(&self) -> usize {
        self.samples().len()
    }

    /// The client of each image, where the data set says whose they are.
    #[getter]
    fn owners(&self) -> Option<Vec<String>> {
        let clients = self.clients.as_ref()?;
        let name =
            |number: u32| clients.names()[clients.owners()[number as usize] as usize].clone();
        Some(self.numbers().into_iter().map(name).collect())
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
    let train = Images::new(dataset.train, Arc::clone(&table));
    Ok((Images { clients: dataset.clients, ..train }, Images::new(dataset.test, table)))
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
    /// The indices of the images of each client, in increasing order.
    clients: Vec<Vec<u32>>,
    /// The names of the clients, where the data set has clients of its own.
    #[pyo3(get)]
    names: Vec<String>,
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
    let owned = Dataset {
        clients: images.clients.clone(),
        ..Dataset::new("images", images.set.clone(), images.set.clone())
    };
    let checked = params.check(&owned).map_err(renamed(&[("partition", "distribution")]))?;
    let shared = py.detach(|| checked.split());
    let clients = (0..shared.clients()).map(|client| shared.of(client).to_vec()).collect();
    Ok(Partition { clients, names: shared.names().to_vec(), images: images.clone() })
}

impl Partition {
    fn client(&self, client: i64) -> PyResult<&[u32]> {
        let found = usize::try_from(client).ok().and_then(|client| self.clients.get(client));
        found.map(Vec::as_slice).ok_or_else(|| {
            let expected = format!("clients from 0 to {}", self.clients.len() - 1);
            bad_input(Error::new("client", client, expected))
        })
    }
}

#[pymethods]
impl Partition {
    /// The partition with these indices of each client.
    #[staticmethod]
    fn from_parts(clients: Vec<Vec<u32>>, names: Vec<String>, images: &Images) -> PyResult<Self> {
        let all = images.samples().len();
        let wrong = clients.iter().flatten().find(|&&index| index as usize >= all);
        if let Some(index) = wrong {
            let expected = format!("indices below {all}");
            return Err(bad_input(Error::new("indices", index, expected)));
        }
        Ok(Self { clients, names, images: images.clone() })
    }

    /// The images that are divided.
    #[getter]
    fn images(&self) -> Images {
        self.images.clone()
    }

    /// The number of clients.
    #[getter]
    fn clients(&self) -> usize {
        self.clients.len()
    }

    /// The number of images of each client.
    #[getter]
    fn sizes<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        let sizes = self.clients.iter().map(|indices| indices.len() as u64);
        sizes.collect::<Vec<_>>().into_pyarray(py)
    }

    /// The number of images of each class of each client.
    #[getter]
    fn histograms<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<u32>>> {
        let classes = self.images.set.classes() as usize;
        let mut counts = vec![0; self.clients.len() * classes];
        for (row, indices) in counts.chunks_exact_mut(classes).zip(&self.clients) {
            for &index in indices {
                row[usize::from(self.images.set.label(index as usize))] += 1;
            }
        }
        counts.into_pyarray(py).reshape([self.clients.len(), classes])
    }

    /// The indices of the images of one client.
    fn indices<'py>(&self, py: Python<'py>, client: i64) -> PyResult<Bound<'py, PyArray1<u32>>> {
        Ok(self.client(client)?.to_vec().into_pyarray(py))
    }

    /// The images of one client.
    fn of(&self, client: i64) -> PyResult<Images> {
        let indices = self.client(client)?;
        Ok(Images { indices: Some(indices.into()), ..self.images.clone() })
    }
}

//! Arrays of the user as the data of an experiment. `agewise.arrays` has checked them, with the names of their rows and clients.

use crate::errors::bad_input;
use agewise::experiment::{TrainingParams, prepare_data};
use agewise::selection::{Error, Result, Seed};
use agewise::train::data::{Data, ImageShape, Images, Labels, NaturalClients, SampleSet, Table};
use numpy::{PyReadonlyArray1, PyReadonlyArray4};
use pyo3::prelude::*;

/// Samples for training and for tests, and whose the former are.
#[pyclass(module = "agewise._agewise", frozen)]
pub(crate) struct OwnData {
    data: Data,
    /// The checksum of all arrays, by which a run that goes on knows that they are the same.
    checksum: String,
}

/// The features and the labels of some samples, as Python passes them: bytes are pixels.
struct Samples(SampleSet);

impl Samples {
    fn new(features: &Bound<'_, PyAny>, labels: &Bound<'_, PyAny>, classes: u32) -> PyResult<Self> {
        let side = |side: usize| u32::try_from(side).unwrap_or(u32::MAX);
        if let Ok(pixels) = features.extract::<PyReadonlyArray4<'_, u8>>() {
            let (_, height, width, channels) = pixels.as_array().dim();
            let shape = ImageShape::new(side(channels), side(height), side(width));
            let bytes: Vec<u8> = pixels.as_array().iter().copied().collect();
            let labels = labels.extract::<PyReadonlyArray1<'_, u8>>()?.as_array().to_vec();
            let images = Images::new(shape, classes, bytes, labels).map_err(bad_input)?;
            return Ok(Self(SampleSet::Images(images)));
        }
        let numbers = features.extract::<PyReadonlyArray4<'_, f32>>()?;
        let (_, height, width, channels) = numbers.as_array().dim();
        let shape = ImageShape::new(side(channels), side(height), side(width));
        let features: Vec<f32> = numbers.as_array().iter().copied().collect();
        let labels = if classes == 0 {
            Labels::Numbers(
                labels.extract::<PyReadonlyArray1<'_, f32>>()?.as_array().to_vec().into(),
            )
        } else {
            let labels = labels.extract::<PyReadonlyArray1<'_, u8>>()?.as_array().to_vec();
            Labels::Classes { classes, labels: labels.into() }
        };
        Ok(Self(SampleSet::Table(Table::new(shape, features, labels).map_err(bad_input)?)))
    }
}

#[pymethods]
impl OwnData {
    /// Data from arrays: features with the axes sample, row, column, channel (bytes are pixels), labels that are classes
    /// below `classes`, or numbers if that is 0.
    #[new]
    #[pyo3(signature = (name, train, test, classes, class_names, owners, checksum))]
    fn from_arrays(
        name: String,
        train: (Bound<'_, PyAny>, Bound<'_, PyAny>),
        test: (Bound<'_, PyAny>, Bound<'_, PyAny>),
        classes: u32,
        class_names: Vec<String>,
        owners: Option<Vec<String>>,
        checksum: String,
    ) -> PyResult<Self> {
        let [train, test] =
            [train, test].map(|(features, labels)| Samples::new(&features, &labels, classes));
        let data = Data {
            clients: owners.map(|owners| NaturalClients::new(&owners)),
            class_names,
            ..Data::new(name, train?.0, test?.0)
        };
        Ok(Self { data, checksum })
    }
}

impl OwnData {
    /// The data as they are trained on: with test samples, and scaled. The parameters get their name and checksum.
    pub(crate) fn prepared(&self, training: &mut TrainingParams, seed: u64) -> PyResult<Data> {
        self.check(training).map_err(bad_input)?;
        training.data.clone_from(&self.data.name);
        training.checksums.insert("data".to_string(), self.checksum.clone());
        let prepared = prepare_data(self.data.clone(), training, Seed(seed));
        prepared.map_err(bad_input)
    }

    /// Refuses files beside arrays, and arrays that are not those of the run.
    fn check(&self, training: &TrainingParams) -> Result<()> {
        let TrainingParams { label, client, test, .. } = training;
        for (key, value) in [("label", label), ("client", client), ("test", test)] {
            if let Some(value) = value {
                let expected = "none beside arrays: data=(x, y, client_ids), test=(x, y)";
                return Err(Error::new(key, value, expected));
            }
        }
        match training.checksums.get("data") {
            Some(known) if *known != self.checksum => {
                let expected = format!("those with which the run was begun, SHA-256 {known}");
                Err(Error::new(
                    "data",
                    format!("arrays with the SHA-256 {}", self.checksum),
                    expected,
                ))
            }
            _ => Ok(()),
        }
    }
}

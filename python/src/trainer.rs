//! Local training of a model whose parameters are one NumPy array.

use crate::data::Images;
use crate::errors::{TRAINING, bad_input, read, renamed};
use agewise::selection::{Error, Seed};
use agewise::train::aggregation::{Aggregation, Contribution, MemoryUpdates, Rejected};
use agewise::train::data::ImageShape;
use agewise::train::local::{LocalTask, LocalTrainingParams, NativeWorker};
use agewise::train::model::{Model, ModelSpec};
use numpy::{
    IntoPyArray, PyArray1, PyArray2, PyArrayDyn, PyArrayMethods, PyReadonlyArray1,
    PyReadonlyArrayDyn, PyReadwriteArray1,
};
use pyo3::prelude::*;
use serde::Deserialize;

/// The arguments of local training.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Task {
    seed: u64,
    round: u64,
    client: u32,
    training: LocalTrainingParams,
}

/// A model and the buffers to train it. NumPy owns its parameters.
#[pyclass(module = "agewise._agewise")]
pub(crate) struct Trainer {
    inner: agewise::train::local::Trainer,
    worker: NativeWorker,
    parameters: Py<PyArray1<f32>>,
}

/// The numbers of a contiguous array that is not borrowed elsewhere.
fn numbers<'a>(array: &'a mut PyReadwriteArray1<'_, f32>) -> PyResult<&'a mut [f32]> {
    array.as_slice_mut().map_err(|error| bad_input(format!("parameters: {error}")))
}

impl Trainer {
    fn model(&self) -> &Model {
        self.inner.model()
    }
}

#[pymethods]
impl Trainer {
    #[new]
    fn new(
        py: Python<'_>,
        model: &str,
        shape: (u32, u32, u32),
        classes: usize,
        seed: u64,
    ) -> PyResult<Self> {
        let (height, width, channels) = shape;
        if !(1..=256).contains(&classes) {
            let expected = "a whole number from 1 to 256";
            return Err(bad_input(Error::new("classes", classes, expected)));
        }
        let input = ImageShape::new(channels, height, width);
        let spec = ModelSpec::named(model, input, classes).map_err(bad_input)?;
        let inner = agewise::train::local::Trainer::new(Model::new(spec).map_err(bad_input)?);
        let parameters = inner.model().initial(Seed(seed)).into_pyarray(py).unbind();
        Ok(Self { worker: inner.worker(), inner, parameters })
    }

    /// The parameters: the memory that is trained.
    #[getter]
    fn parameters(&self, py: Python<'_>) -> Py<PyArray1<f32>> {
        self.parameters.clone_ref(py)
    }

    /// For each tensor its name, its shape in PyTorch, and its offset in the parameters.
    #[getter]
    fn tensors(&self) -> Vec<(String, Vec<usize>, usize)> {
        let tensors = self.model().tensors().iter();
        tensors.map(|tensor| (tensor.name.clone(), tensor.shape.clone(), tensor.offset)).collect()
    }

    /// The range of the parameters of the output layer.
    #[getter]
    fn output_layer(&self) -> (usize, usize) {
        let layer = self.inner.output_layer();
        (layer.start, layer.end)
    }

    /// Sets the initial parameters of a seed.
    fn reset(&self, py: Python<'_>, seed: u64) -> PyResult<()> {
        let first = self.model().initial(Seed(seed));
        let mut array = self.parameters.bind(py).try_readwrite().map_err(bad_input)?;
        numbers(&mut array)?.copy_from_slice(&first);
        Ok(())
    }

    /// Trains on images; returns steps, samples, mean loss, and root mean square of the losses.
    fn train(
        &mut self,
        py: Python<'_>,
        data: &Images,
        task: &str,
    ) -> PyResult<(u64, u64, f64, f64)> {
        let task: Task = read(task, TRAINING)?;
        let training = task.training.check().map_err(renamed(TRAINING))?;
        let mut array = self.parameters.bind(py).try_readwrite().map_err(bad_input)?;
        let parameters = numbers(&mut array)?;
        let worker = &mut self.worker;
        let report = py.detach(|| {
            let Task { seed, round, client, .. } = task;
            let samples = data.samples();
            let task = LocalTask { training: &training, samples, seed: Seed(seed), round, client };
            worker.train(&task, parameters)
        });
        let report = report.map_err(renamed(TRAINING))?;
        Ok((report.steps, report.samples, report.loss, report.mean_square.sqrt()))
    }

    /// Samples and correctly classified samples of each class, and the sum of all losses.
    fn evaluate(&mut self, py: Python<'_>, data: &Images) -> PyResult<(Vec<u64>, Vec<u64>, f64)> {
        let array = self.parameters.bind(py).try_readonly().map_err(bad_input)?;
        let parameters = array.as_slice().map_err(bad_input)?;
        let worker = &mut self.worker;
        let evaluation = py.detach(|| worker.evaluate(parameters, &data.samples()));
        let evaluation = evaluation.map_err(renamed(TRAINING))?;
        Ok((evaluation.class_samples, evaluation.class_correct, evaluation.loss_sum))
    }

    /// The logits of images, with one row for each image.
    fn scores<'py>(
        &mut self,
        py: Python<'py>,
        data: &Images,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let array = self.parameters.bind(py).try_readonly().map_err(bad_input)?;
        let parameters = array.as_slice().map_err(bad_input)?;
        let worker = &mut self.worker;
        let scores = py.detach(|| worker.scores(parameters, &data.samples()));
        let shape = [data.samples().len(), self.inner.model().classes()];
        scores.map_err(renamed(TRAINING))?.into_pyarray(py).reshape(shape)
    }

    /// Copies of all tensors, in PyTorch's order.
    fn tensors_for_pytorch<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Vec<(String, Bound<'py, PyArrayDyn<f32>>)>> {
        let array = self.parameters.bind(py).try_readonly().map_err(bad_input)?;
        let values = self.model().to_pytorch(array.as_slice().map_err(bad_input)?);
        let values = values.map_err(bad_input)?;
        let named = self.model().tensors().iter().zip(values).map(|(tensor, values)| {
            let array = values.into_pyarray(py).reshape(tensor.shape.clone())?;
            Ok((tensor.name.clone(), array))
        });
        named.collect()
    }

    /// Loads tensors in the order of the model, each with its numbers in the order of PyTorch.
    fn load_from_pytorch(
        &self,
        py: Python<'_>,
        tensors: Vec<PyReadonlyArrayDyn<'_, f32>>,
    ) -> PyResult<()> {
        let values: Vec<Vec<f32>> =
            tensors.iter().map(|tensor| tensor.as_array().iter().copied().collect()).collect();
        let parameters = self.model().from_pytorch(&values).map_err(bad_input)?;
        let mut array = self.parameters.bind(py).try_readwrite().map_err(bad_input)?;
        numbers(&mut array)?.copy_from_slice(&parameters);
        Ok(())
    }
}

/// Sets a model to the weighted average of updates, in their order, as every engine of agewise does.
#[pyfunction]
pub(crate) fn average(
    py: Python<'_>,
    mut model: PyReadwriteArray1<'_, f32>,
    updates: Vec<PyReadonlyArray1<'_, f32>>,
    weights: Vec<f64>,
) -> PyResult<()> {
    if weights.len() != updates.len() {
        let expected = format!("one weight for each of the {} updates", updates.len());
        let value = format!("a list of {}", weights.len());
        return Err(bad_input(Error::new("weights", value, expected)));
    }
    let global = numbers(&mut model)?;
    let slices: Vec<&[f32]> = updates
        .iter()
        .map(|update| update.as_slice())
        .collect::<Result<_, _>>()
        .map_err(bad_input)?;
    py.detach(|| -> Result<(), Error> {
        let cohort: Vec<Contribution> = (0..)
            .zip(&weights)
            .map(|(client, &weight)| Contribution::new(client, weight))
            .collect();
        let mut mean = Aggregation::default().build(global.len())?;
        let mut next = global.to_vec();
        let mut updates = MemoryUpdates(&slices);
        for verdict in mean.aggregate(&cohort, &mut updates, usize::MAX, &mut next)? {
            verdict.map_err(|Rejected { client, why }| {
                let expected =
                    "finite numbers, one for each parameter, with a weight of at least 0";
                Error::new(format!("updates[{client}]"), why, expected)
            })?;
        }
        global.copy_from_slice(&next);
        Ok(())
    })
    .map_err(bad_input)
}

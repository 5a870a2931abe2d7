//! Both ends over the learning engine of agewise: the coordinator's task, and the tasks of clients.

use crate::client::TaskProvider;
use crate::config::DeployedModelParams;
use crate::protocol::TaskSpec;
use agewise_core::{Error, Result};
use agewise_train::data::{Dataset, ImageShape, Partition, PixelNormalization};
use agewise_train::local::{LocalTraining, LocalTrainingParams};
use agewise_train::model::ModelSpec;
use agewise_train::{NativeTask, Task};
use parking_lot::Mutex;
use std::sync::Arc;

/// The coordinator's task: a model of the zoo, with the test images of a data set.
pub fn coordinator_task(
    params: &DeployedModelParams,
    training: LocalTraining,
    dataset: Dataset,
) -> Result<NativeTask> {
    let task = NativeTask::named(dataset, &params.name, training)?;
    Ok(task.with_pixel_scale(params.pixels))
}

/// Tells clients what to train.
pub(crate) fn describe(task: &dyn Task, spec: &mut TaskSpec) {
    let description = task.describe();
    spec.model = description.model;
    (spec.pixel_shift, spec.pixel_divisor) = (description.pixel_mean, description.pixel_deviation);
    if let Some((_, images)) = task.as_native().and_then(NativeTask::images) {
        let ImageShape { channels, height, width } = images.shape();
        (spec.channels, spec.height, spec.width) = (channels, height, width);
        spec.classes = images.classes();
    }
}

/// Training images that clients of one process share, and the workers that train on them, each for the time of one training.
#[derive(Debug)]
pub struct SharedImages {
    state: Mutex<Prepared>,
    limit: usize,
}

/// The images, before and after the first client has heard of the task.
#[derive(Debug)]
enum Prepared {
    Not(Arc<Dataset>),
    For(Box<(TaskSpec, NativeTask)>, Arc<Dataset>),
}

impl SharedImages {
    /// For at most so many clients that train at a time.
    pub fn new(dataset: Dataset, limit: usize) -> Result<Arc<Self>> {
        if limit == 0 {
            return Err(Error::new("threads", 0, "at least 1"));
        }
        Ok(Arc::new(Self { state: Mutex::new(Prepared::Not(Arc::new(dataset))), limit }))
    }

    /// The task that the coordinator tells, over all images.
    fn prepare(&self, spec: &TaskSpec) -> Result<NativeTask> {
        let mut state = self.state.lock();
        let dataset = match &*state {
            Prepared::For(known, _) if known.0 == *spec => return Ok(known.1.clone()),
            Prepared::For(_, dataset) | Prepared::Not(dataset) => Arc::clone(dataset),
        };
        let task = native_task(spec, (*dataset).clone())?.with_worker_limit(self.limit)?;
        *state = Prepared::For(Box::new((spec.clone(), task.clone())), dataset);
        Ok(task)
    }
}

/// The task that a coordinator tells, with this data.
fn native_task(spec: &TaskSpec, dataset: Dataset) -> Result<NativeTask> {
    let images = &dataset.train;
    let shape = ImageShape::new(spec.channels, spec.height, spec.width);
    if images.shape() != shape || images.classes() > spec.classes {
        let value = format!("{:?} with {} classes", images.shape(), images.classes());
        let expected = format!("{shape:?} with {} classes, as the task says", spec.classes);
        return Err(Error::new("data", value, expected));
    }
    let scalings = spec.pixel_shift.iter().copied().zip(spec.pixel_divisor.iter().copied());
    let scalings: Vec<(f64, f64)> = scalings.collect();
    if scalings.len() != spec.channels as usize {
        let expected = format!("{} channels, as the images have", spec.channels);
        return Err(Error::new("pixels", scalings.len(), expected));
    }
    let training: LocalTrainingParams = toml::from_str(&spec.training)
        .map_err(|error| Error::new("training", &spec.training, error.to_string()))?;
    let model = ModelSpec::named(&spec.model, shape, spec.classes as usize)?;
    let task = NativeTask::new(dataset, model, training.check()?)?;
    Ok(task.with_pixels(PixelNormalization::from_scalings(&scalings)?))
}

/// A client that has some of the images.
#[derive(Debug)]
pub struct ImageClient {
    images: Arc<SharedImages>,
    indices: Vec<u32>,
}

impl ImageClient {
    /// A client that has these of the images.
    pub fn new(images: Arc<SharedImages>, indices: Vec<u32>) -> Self {
        Self { images, indices }
    }

    /// One client for each part of a partition.
    pub fn all(images: &Arc<SharedImages>, partition: &Partition) -> Vec<Box<dyn TaskProvider>> {
        let client = |client| {
            let indices = partition.of(client).to_vec();
            Box::new(Self::new(images.clone(), indices)) as Box<dyn TaskProvider>
        };
        (0..partition.clients()).map(client).collect()
    }
}

impl TaskProvider for ImageClient {
    fn samples(&self) -> Result<u64> {
        Ok(self.indices.len() as u64)
    }

    fn prepare(&self, spec: &TaskSpec) -> Result<Arc<dyn Task>> {
        let task = self.images.prepare(spec)?;
        Ok(Arc::new(task.with_own_images(self.indices.clone())))
    }
}

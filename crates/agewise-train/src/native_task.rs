//! Our own engine as a task: images or tables that clients share, and a model that they train with SGD.

use crate::data::{
    Data, Images, Partition, PartitionDistribution, PartitionParams, PixelNormalization,
    PixelScale, SampleSet,
};
use crate::evaluation::{Evaluation, Metric};
use crate::local::{
    LocalReport, LocalTask, LocalTraining, LocalTrainingParams, LocalWork, NativeWorker, Samples,
    Trainer,
};
use crate::model::{Model, ModelSpec, Tensor};
use crate::task::{Amount, PartitionKey, Task, TaskDescription, TrainJob};
use crate::threads::WorkerPool;
use agewise_core::{Error, Result, Seed, SizeDistribution};
use agewise_kernels::Backend;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Samples that are evaluated as one piece. Fixed, so that sums do not depend on the number of threads.
const PIECE: usize = 500;

/// Samples, a model and how clients train it. A clone shares the samples, the model and the buffers.
#[must_use]
#[derive(Debug, Clone)]
pub struct NativeTask {
    data: Arc<Data>,
    /// The numbers of all test samples.
    test: Arc<[u32]>,
    trainer: Trainer,
    pixels: Arc<PixelNormalization>,
    training: LocalTraining,
    one_step: LocalTraining,
    shares: Shares,
    workers: Arc<WorkerPool<NativeWorker>>,
}

/// The training samples of each client.
#[derive(Debug, Clone)]
enum Shares {
    /// They are divided, and every division that was asked for is kept.
    Divided {
        distribution: PartitionDistribution,
        sizes: SizeDistribution,
        known: Arc<Mutex<HashMap<PartitionKey, Arc<Partition>>>>,
    },
    /// This process is one client, which has these, whatever its number.
    Own(Arc<[u32]>),
}

impl NativeTask {
    /// Samples that are divided evenly and without regard to labels, standardised pixels, and this model.
    pub fn new(data: impl Into<Data>, model: ModelSpec, training: LocalTraining) -> Result<Self> {
        let data = data.into();
        let task = Self {
            test: (0..data.test.len() as u32).collect(),
            trainer: Trainer::new(Model::new(model)?),
            pixels: Arc::new(pixels_of(&data, PixelScale::default())),
            data: Arc::new(data),
            training,
            one_step: training,
            shares: divided(PartitionDistribution::default(), SizeDistribution::default()),
            workers: Arc::default(),
        };
        task.with_training(training)
    }

    /// The same with the model of a name.
    pub fn named(data: impl Into<Data>, model: &str, training: LocalTraining) -> Result<Self> {
        let data = data.into();
        let spec = ModelSpec::named(model, data.train.shape(), data.train.outputs())?;
        Self::new(data, spec, training)
    }

    /// The same task, computed by this backend. All of them give the same bits.
    pub fn with_backend(self, backend: Backend) -> Result<Self> {
        let model = Model::with_backend(self.trainer.model().spec().clone(), backend)?;
        Ok(Self { trainer: Trainer::new(model), workers: Arc::default(), ..self })
    }

    /// The same task with other pixels: of a scale, or as a coordinator has found them.
    pub fn with_pixels(self, pixels: PixelNormalization) -> Self {
        Self { pixels: Arc::new(pixels), ..self }
    }

    /// The same task with the pixels of a scale; numbers stay as they are.
    pub fn with_pixel_scale(self, scale: PixelScale) -> Self {
        let pixels = pixels_of(&self.data, scale);
        self.with_pixels(pixels)
    }

    /// The same task, divided with these distributions of labels and of sizes.
    pub fn with_partition(
        self,
        distribution: PartitionDistribution,
        sizes: SizeDistribution,
    ) -> Self {
        Self { shares: divided(distribution, sizes), ..self }
    }

    /// The task of one client, which has these of the training samples, whatever its number.
    pub fn with_own_images(self, indices: Vec<u32>) -> Self {
        Self { shares: Shares::Own(indices.into()), ..self }
    }

    /// The same task, trained otherwise.
    pub fn with_training(self, training: LocalTraining) -> Result<Self> {
        let params = LocalTrainingParams { work: LocalWork::Steps(1), ..*training.params() };
        Ok(Self { training, one_step: params.check()?, ..self })
    }

    /// The same task with at most so many clients that train or are evaluated at a time; others wait for their turn.
    pub fn with_worker_limit(self, limit: usize) -> Result<Self> {
        Ok(Self { workers: Arc::new(WorkerPool::with_limit(limit)?), ..self })
    }

    /// The samples.
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// The training and the test images, if the samples are images.
    pub fn images(&self) -> Option<(&Images, &Images)> {
        self.data.images()
    }

    /// The engine with its model.
    pub fn trainer(&self) -> &Trainer {
        &self.trainer
    }

    /// How pixels become numbers; without channels where samples are numbers.
    pub fn pixels(&self) -> &PixelNormalization {
        &self.pixels
    }

    /// How clients train.
    pub fn training(&self) -> &LocalTraining {
        &self.training
    }

    /// The samples of each client. Made when it is first asked for, and kept.
    pub fn partition(&self, key: PartitionKey) -> Result<Arc<Partition>> {
        let Shares::Divided { distribution, sizes, known } = &self.shares else {
            let expected = "a task whose samples are divided among clients";
            return Err(Error::new("partition", "the samples of one client", expected));
        };
        let mut known = known.lock();
        if let Some(partition) = known.get(&key) {
            return Ok(Arc::clone(partition));
        }
        let PartitionKey { seed, clients } = key;
        let params = PartitionParams {
            distribution: *distribution,
            sizes: *sizes,
            clients: u64::from(clients),
            least: 1,
            seed,
        };
        let partition = Arc::new(params.check(&*self.data)?.split());
        known.insert(key, Arc::clone(&partition));
        Ok(partition)
    }

    /// The samples of a client of a partition.
    pub fn samples<'a>(&'a self, partition: &'a Partition, client: u32) -> Result<Samples<'a>> {
        if client as usize >= partition.clients() {
            let expected = format!("a number under {}", partition.clients());
            return Err(Error::new("client", client, expected));
        }
        Ok(self.some(partition.of(client as usize)))
    }

    fn some<'a>(&'a self, indices: &'a [u32]) -> Samples<'a> {
        self.of_set(&self.data.train, indices)
    }

    fn of_set<'a>(&'a self, set: &'a SampleSet, indices: &'a [u32]) -> Samples<'a> {
        match set {
            SampleSet::Images(images) => Samples::of_images(images, Some(indices), &self.pixels),
            SampleSet::Table(table) => Samples::of_table(table, Some(indices)),
        }
    }

    /// Does a job with a worker and the samples of a client.
    fn at_client<T>(
        &self,
        key: PartitionKey,
        client: u32,
        job: impl FnOnce(&mut NativeWorker, Samples<'_>) -> Result<T>,
    ) -> Result<T> {
        let work = |samples| self.with_worker(|worker| job(worker, samples));
        match &self.shares {
            Shares::Own(indices) => work(self.some(indices)),
            Shares::Divided { .. } => {
                let partition = self.partition(key)?;
                work(self.samples(&partition, client)?)
            }
        }
    }

    /// Does a job with one of the workers that all jobs of this task share.
    pub fn with_worker<T>(&self, job: impl FnOnce(&mut NativeWorker) -> T) -> T {
        self.workers.with(|| self.trainer.worker(), job)
    }
}

/// How the pixels of data become numbers.
fn pixels_of(data: &Data, scale: PixelScale) -> PixelNormalization {
    match &data.train {
        SampleSet::Images(images) => PixelNormalization::new(scale, images),
        SampleSet::Table(_) => PixelNormalization::default(),
    }
}

fn divided(distribution: PartitionDistribution, sizes: SizeDistribution) -> Shares {
    Shares::Divided { distribution, sizes, known: Arc::default() }
}

impl Task for NativeTask {
    fn parameters(&self) -> usize {
        self.trainer.parameters()
    }

    fn initial(&self, seed: Seed) -> Result<Vec<f32>> {
        Ok(self.trainer.initial(seed))
    }

    fn sizes(&self, key: PartitionKey) -> Result<Vec<u64>> {
        if let Shares::Own(indices) = &self.shares {
            return Ok(vec![indices.len() as u64; key.clients as usize]);
        }
        let sizes = self.partition(key)?.sizes();
        Ok(sizes.into_iter().map(|size| size as u64).collect())
    }

    fn train(&self, job: &TrainJob, parameters: &mut [f32]) -> Result<LocalReport> {
        let &TrainJob { key, round, client, amount } = job;
        let training = match amount {
            Amount::Round => &self.training,
            Amount::OneStep => &self.one_step,
        };
        self.at_client(key, client, |worker, samples| {
            let task = LocalTask { training, samples, seed: key.seed, round, client };
            worker.train(&task, parameters)
        })
    }

    fn evaluate(&self, parameters: &[f32], piece: usize) -> Result<Evaluation> {
        // Without test samples there is one empty piece, in which the parameters are still checked.
        let begin = (piece * PIECE).min(self.test.len());
        let end = (begin + PIECE).min(self.test.len());
        let samples = self.of_set(&self.data.test, &self.test[begin..end]);
        self.with_worker(|worker| worker.evaluate(parameters, &samples))
    }

    fn evaluation_pieces(&self) -> usize {
        self.test.len().div_ceil(PIECE).max(1)
    }

    fn client_loss(&self, key: PartitionKey, client: u32, parameters: &[f32]) -> Result<f64> {
        self.at_client(key, client, |worker, samples| {
            if samples.is_empty() {
                return Err(Error::new(format!("samples of client {client}"), 0, "at least one"));
            }
            Ok(worker.evaluate(parameters, &samples)?.loss())
        })
    }

    fn client_labels(&self, key: PartitionKey) -> Result<Option<Vec<Vec<u32>>>> {
        let classes = self.data.train.classes();
        Ok(if classes == 0 { None } else { Some(self.partition(key)?.histograms().to_vec()) })
    }

    fn samples_per_round(&self, key: PartitionKey) -> Result<Vec<u64>> {
        let sizes = self.sizes(key)?;
        Ok(sizes.into_iter().map(|size| self.training.samples(size as usize)).collect())
    }

    fn sketch_range(&self) -> Range<usize> {
        self.trainer.output_layer()
    }

    fn metric(&self) -> Metric {
        if self.data.train.classes() == 0 { Metric::Loss } else { Metric::Accuracy }
    }

    fn tensors(&self) -> Vec<Tensor> {
        self.trainer.model().tensors().to_vec()
    }

    fn describe(&self) -> TaskDescription {
        let test = &self.data.test;
        let scalings = self.pixels.scalings().iter().chain(&self.data.scaling.features);
        let (pixel_mean, pixel_deviation) = scalings.copied().unzip();
        TaskDescription {
            data: self.data.name.clone(),
            model: self.trainer.model().spec().name.clone(),
            test_samples: test.len() as u64,
            test_classes: test.class_counts().into_iter().map(u64::from).collect(),
            pixel_mean,
            pixel_deviation,
            label_scale: self.data.scaling.labels,
        }
    }

    fn as_native(&self) -> Option<&NativeTask> {
        Some(self)
    }
}

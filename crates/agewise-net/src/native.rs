//! Both ends over the learning engine of agewise: the coordinator's model, and a client's training.

use crate::config::ModelParams;
use crate::model::GlobalModel;
use crate::participant::{LocalLearner, RoundTask, Trained};
use crate::proto::Task;
use agewise_core::{Error, Result, Seed};
use agewise_learn::Evaluation;
use agewise_learn::data::{Dataset, ImageShape, Images, PixelTable};
use agewise_learn::model::{Model, ModelSpec};
use agewise_learn::train::{
    Crew, Learner, LocalTask, LocalTraining, LocalTrainingParams, Samples, Trainer, Worker,
};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// A model of the zoo, with test images.
pub struct NativeModel {
    name: String,
    trainer: Trainer,
    pixels: PixelTable,
    test: Images,
    crew: Crew,
}

impl NativeModel {
    /// The model for a data set, evaluated with so many threads.
    pub fn new(params: &ModelParams, dataset: Dataset, threads: usize) -> Result<Self> {
        let classes = dataset.train.classes() as usize;
        let spec = ModelSpec::named(&params.name, dataset.train.shape(), classes)?;
        let trainer = Trainer::new(Model::new(spec)?);
        let pixels = PixelTable::new(params.pixels, &dataset.train);
        let crew = Crew::new(&trainer, threads)?;
        Ok(Self { name: params.name.clone(), trainer, pixels, test: dataset.test, crew })
    }
}

impl GlobalModel for NativeModel {
    fn parameters(&self) -> usize {
        self.trainer.parameters()
    }

    fn initial(&self, seed: Seed) -> Vec<f32> {
        self.trainer.initial(seed)
    }

    fn encode(&self, parameters: &[f32]) -> Result<Vec<u8>> {
        self.trainer.model().to_safetensors(parameters)
    }

    fn decode(&self, file: &[u8]) -> Result<Vec<f32>> {
        self.trainer.model().from_safetensors(file)
    }

    fn evaluate(&mut self, parameters: &[f32]) -> Result<Option<Evaluation>> {
        let samples = Samples::all(&self.test, &self.pixels);
        self.crew.evaluate(parameters, &samples).map(Some)
    }

    fn output_layer(&self) -> Range<usize> {
        self.trainer.output_layer()
    }

    fn describe(&self, task: &mut Task) {
        let shape = self.test.shape();
        task.model.clone_from(&self.name);
        (task.channels, task.height, task.width) = (shape.channels, shape.height, shape.width);
        task.classes = self.test.classes();
        (task.pixel_shift, task.pixel_divisor) = self.pixels.scalings().iter().copied().unzip();
    }
}

/// Workers that clients of one process share, each for the time of one training.
pub struct Workshop {
    tools: Mutex<Tools>,
    returned: Condvar,
    workers: usize,
}

/// What is needed for one task, made when the first client has heard of it.
#[derive(Default)]
struct Tools {
    task: Option<Arc<Prepared>>,
    free: Vec<Box<dyn Worker>>,
}

/// A task that can be done.
struct Prepared {
    task: Task,
    training: LocalTraining,
    pixels: PixelTable,
}

impl Workshop {
    /// For so many clients that train at a time.
    pub fn new(workers: usize) -> Result<Arc<Self>> {
        if workers == 0 {
            return Err(Error::new("threads", 0, "at least 1"));
        }
        Ok(Arc::new(Self { tools: Mutex::default(), returned: Condvar::new(), workers }))
    }

    /// Gets ready for a task.
    fn prepare(&self, task: &Task, images: &Images) -> Result<Arc<Prepared>> {
        let mut tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(prepared) = tools.task.as_ref().filter(|prepared| prepared.task == *task) {
            return Ok(prepared.clone());
        }
        let shape = ImageShape::new(task.channels, task.height, task.width);
        if images.shape() != shape || images.classes() > task.classes {
            let value = format!("{:?} with {} classes", images.shape(), images.classes());
            let expected = format!("{shape:?} with {} classes, as the task says", task.classes);
            return Err(Error::new("data", value, expected));
        }
        let spec = ModelSpec::named(&task.model, shape, task.classes as usize)?;
        let trainer = Trainer::new(Model::new(spec)?);
        if trainer.parameters() as u64 != task.parameters {
            let expected = format!("{} parameters, as the task says", task.parameters);
            return Err(Error::new("model", trainer.parameters(), expected));
        }
        let scalings = task.pixel_shift.iter().copied().zip(task.pixel_divisor.iter().copied());
        let scalings: Vec<(f64, f64)> = scalings.collect();
        if scalings.len() != task.channels as usize {
            let expected = format!("{} channels, as the images have", task.channels);
            return Err(Error::new("pixels", scalings.len(), expected));
        }
        let training: LocalTrainingParams = toml::from_str(&task.training)
            .map_err(|error| Error::new("training", &task.training, error.to_string()))?;
        let prepared = Arc::new(Prepared {
            task: task.clone(),
            training: training.check()?,
            pixels: PixelTable::from_scalings(&scalings)?,
        });
        tools.free = (0..self.workers).map(|_| trainer.worker()).collect();
        tools.task = Some(prepared.clone());
        Ok(prepared)
    }

    /// Waits for a worker.
    fn borrow(&self) -> Box<dyn Worker> {
        let mut tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(worker) = tools.free.pop() {
                return worker;
            }
            tools = self.returned.wait(tools).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn give_back(&self, worker: Box<dyn Worker>) {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner).free.push(worker);
        self.returned.notify_one();
    }
}

/// A client's data and how it trains on them.
pub struct NativeLearner {
    workshop: Arc<Workshop>,
    images: Arc<Images>,
    indices: Vec<u32>,
    prepared: Option<Arc<Prepared>>,
}

impl NativeLearner {
    /// A client that has these of the images.
    pub fn new(workshop: Arc<Workshop>, images: Arc<Images>, indices: Vec<u32>) -> Self {
        Self { workshop, images, indices, prepared: None }
    }
}

impl LocalLearner for NativeLearner {
    fn samples(&self) -> u64 {
        self.indices.len() as u64
    }

    fn prepare(&mut self, task: &Task) -> Result<()> {
        self.prepared = Some(self.workshop.prepare(task, &self.images)?);
        Ok(())
    }

    fn train(&mut self, round: &RoundTask, parameters: &mut [f32]) -> Result<Trained> {
        let Some(prepared) = &self.prepared else {
            return Err(Error::new("task", "none", "a task to get ready for first"));
        };
        let samples = Samples {
            images: &self.images,
            indices: Some(&self.indices),
            pixels: &prepared.pixels,
        };
        let &RoundTask { seed, round, client } = round;
        let task = LocalTask { training: &prepared.training, samples, seed, round, client };
        let mut worker = self.workshop.borrow();
        let report = worker.train(&task, parameters);
        self.workshop.give_back(worker);
        report.map(|report| Trained { samples: report.samples, loss: report.loss })
    }
}

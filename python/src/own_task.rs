//! Tasks that are written in Python.
//!
//! The class `GuardedTask` of `agewise.task` knows the task of the user and checks what its methods return; an engine of
//! `agewise.engines` decides in which thread or process they are called.

use crate::raised::Raised;
use crate::sent_models::SentModels;
use agewise::selection::{Draws, Error, Result, Seed, Stream};
use agewise::train::local::LocalReport;
use agewise::train::model::Tensor;
use agewise::train::task::{Amount, PartitionKey, TaskDescription, TrainJob};
use agewise::train::{Evaluation, Metric, Task};
use numpy::{PyArrayMethods, PyReadonlyArray1};
use pyo3::prelude::*;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The seeds of clients: the last stream before those of policies of one's own.
const SEEDS: Stream = Stream::custom((1 << 16) - 1);

/// A task of the user.
pub(crate) struct PythonTask {
    /// An engine of `agewise.engines`.
    engine: Py<PyAny>,
    parameters: usize,
    sizes: Vec<u64>,
    metric: Metric,
    description: TaskDescription,
    tensors: Vec<(String, Vec<usize>)>,
    sketched: Range<usize>,
    sent: SentModels,
    raised: Arc<Raised>,
    /// Whether a client is being trained twice, or was.
    repeated: AtomicBool,
    /// Whether it came back with something else then.
    varies: AtomicBool,
}

impl PythonTask {
    pub(crate) fn new(engine: &Bound<'_, PyAny>, raised: &Arc<Raised>) -> PyResult<Self> {
        let about = engine.getattr("task")?;
        let parameters = about.getattr("parameters")?.extract()?;
        let (begin, end): (usize, usize) = about.getattr("sketch_range")?.extract()?;
        let workers: Option<usize> = engine.getattr("workers")?.extract()?;
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let metric: String = about.getattr("metric")?.extract()?;
        Ok(Self {
            parameters,
            sizes: about.getattr("sizes")?.extract()?,
            metric: if metric == "loss" { Metric::Loss } else { Metric::Accuracy },
            description: TaskDescription {
                data: about.getattr("name")?.extract()?,
                model: about.getattr("model")?.extract()?,
                ..TaskDescription::default()
            },
            tensors: about.getattr("tensors")?.extract()?,
            sketched: begin..end,
            sent: SentModels::new(workers.unwrap_or_else(cores)),
            engine: engine.clone().unbind(),
            raised: Arc::clone(raised),
            repeated: AtomicBool::new(false),
            varies: AtomicBool::new(false),
        })
    }

    /// Calls a method of the engine; an exception is kept, and ends the experiment.
    fn call<T>(
        &self,
        name: &str,
        call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Result<T> {
        self.check()?;
        let called = Python::attach(|py| call(self.engine.bind(py)));
        called.map_err(|exception| self.raised.keep(name, exception))
    }

    fn train_once(&self, job: &TrainJob, parameters: &mut [f32]) -> Result<LocalReport> {
        let &TrainJob { key, round, client, amount } = job;
        let one_step = amount == Amount::OneStep;
        // 32 bits are what all libraries take as a seed.
        let seed = Draws::new(key.seed, SEEDS, round).of(u64::from(client)).bits() >> 32;
        let (length, report) = self.call("train", |engine| {
            let model = self.sent.of(engine.py(), parameters)?;
            let trained = engine.call_method1("train", (client, model, round, seed, one_step))?;
            let (update, steps, samples, loss, mean_square) =
                trained.extract::<(PyReadonlyArray1<'_, f32>, u64, u64, f64, f64)>()?;
            let update = update.as_slice()?;
            if update.len() == parameters.len() {
                parameters.copy_from_slice(update);
            }
            Ok((update.len(), LocalReport { steps, samples, loss, mean_square }))
        })?;
        if length != parameters.len() {
            let expected = format!("{} numbers", parameters.len());
            return Err(Error::new(format!("update of client {client}"), length, expected));
        }
        Ok(report)
    }
}

impl Task for PythonTask {
    fn parameters(&self) -> usize {
        self.parameters
    }

    fn initial(&self, seed: Seed) -> Result<Vec<f32>> {
        self.call("initial", |engine| {
            let found = engine.call_method1("initial", (seed.0,))?;
            Ok(found.extract::<PyReadonlyArray1<'_, f32>>()?.to_vec()?)
        })
    }

    fn sizes(&self, key: PartitionKey) -> Result<Vec<u64>> {
        let sizes = self.sizes.get(..key.clients as usize);
        sizes.map(<[u64]>::to_vec).ok_or_else(|| {
            let expected = format!("at most {}, the clients of the task", self.sizes.len());
            Error::new("clients", key.clients, expected)
        })
    }

    fn train(&self, job: &TrainJob, parameters: &mut [f32]) -> Result<LocalReport> {
        if job.amount == Amount::OneStep || self.repeated.swap(true, Ordering::Relaxed) {
            return self.train_once(job, parameters);
        }
        // Whether a task is deterministic cannot be asked; one client more is not noticed.
        let mut again = parameters.to_vec();
        let report = self.train_once(job, parameters)?;
        let second = self.train_once(job, &mut again)?;
        let bits = |update: &[f32]| update.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        if bits(&again) != bits(parameters) || report.loss.to_bits() != second.loss.to_bits() {
            self.varies.store(true, Ordering::Relaxed);
        }
        Ok(report)
    }

    fn evaluate(&self, parameters: &[f32], _piece: usize) -> Result<Evaluation> {
        self.call("evaluate", |engine| {
            let model = self.sent.of(engine.py(), parameters)?;
            let found = engine.call_method1("evaluate", (model,))?.extract()?;
            let (samples, loss_sum, class_samples, class_correct) = found;
            Ok(Evaluation { samples, loss_sum, class_samples, class_correct })
        })
    }

    fn client_loss(&self, _key: PartitionKey, client: u32, parameters: &[f32]) -> Result<f64> {
        self.call("client_loss", |engine| {
            let model = self.sent.of(engine.py(), parameters)?;
            engine.call_method1("client_loss", (client, model))?.extract()
        })
    }

    fn sketch_range(&self) -> Range<usize> {
        self.sketched.clone()
    }

    fn metric(&self) -> Metric {
        self.metric
    }

    fn tensors(&self) -> Vec<Tensor> {
        let mut offset = 0;
        let mut tensors = Vec::with_capacity(self.tensors.len());
        for (name, shape) in &self.tensors {
            tensors.push(Tensor::new(name.clone(), shape.clone(), offset));
            offset += shape.iter().product::<usize>();
        }
        tensors
    }

    fn describe(&self) -> TaskDescription {
        self.description.clone()
    }

    fn is_deterministic(&self) -> bool {
        !self.varies.load(Ordering::Relaxed)
    }

    fn check(&self) -> Result<()> {
        if self.raised.stops() {
            return Err(Error::new("task", "interrupted", "a task whose code runs to its end"));
        }
        Ok(())
    }
}

//! A task for tests and benchmarks of everything but learning.

use agewise_core::{Result, Seed};
use agewise_train::local::LocalReport;
use agewise_train::task::{PartitionKey, TaskDescription, TrainJob};
use agewise_train::{Evaluation, Task};

type Train = dyn Fn(&TrainJob, &mut [f32]) -> Result<()> + Send + Sync;
type Evaluate = dyn Fn(&[f32]) -> Evaluation + Send + Sync;

/// A model that is only numbers, all of them 0 at first, and training that is any function.
pub struct Numbers {
    parameters: usize,
    samples: u64,
    loss: f64,
    train: Box<Train>,
    evaluate: Box<Evaluate>,
}

impl Numbers {
    /// So many numbers, which training leaves as they are.
    pub fn new(parameters: usize) -> Self {
        let train = Box::new(|_: &TrainJob, _: &mut [f32]| Ok(()));
        let evaluate = Box::new(|_: &[f32]| Evaluation::default());
        Self { parameters, samples: 1, loss: 1.0, train, evaluate }
    }

    /// The same for a client with so many samples, and this loss in every round.
    #[must_use]
    pub fn with_report(self, samples: u64, loss: f64) -> Self {
        Self { samples, loss, ..self }
    }

    /// The same with another training.
    #[must_use]
    pub fn with_training(
        self,
        train: impl Fn(&TrainJob, &mut [f32]) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self { train: Box::new(train), ..self }
    }
}

impl Numbers {
    /// The same with test samples; without this there are none.
    #[must_use]
    pub fn with_evaluation(
        self,
        evaluate: impl Fn(&[f32]) -> Evaluation + Send + Sync + 'static,
    ) -> Self {
        Self { evaluate: Box::new(evaluate), ..self }
    }
}

impl Task for Numbers {
    fn parameters(&self) -> usize {
        self.parameters
    }

    fn initial(&self, _: Seed) -> Result<Vec<f32>> {
        Ok(vec![0.0; self.parameters])
    }

    fn sizes(&self, key: PartitionKey) -> Result<Vec<u64>> {
        Ok(vec![self.samples; key.clients as usize])
    }

    fn train(&self, job: &TrainJob, parameters: &mut [f32]) -> Result<LocalReport> {
        (self.train)(job, parameters)?;
        let (samples, loss) = (self.samples, self.loss);
        Ok(LocalReport { steps: 1, samples, loss, mean_square: loss * loss })
    }

    fn evaluate(&self, parameters: &[f32], _: usize) -> Result<Evaluation> {
        Ok((self.evaluate)(parameters))
    }

    fn describe(&self) -> TaskDescription {
        TaskDescription { model: "numbers".to_string(), ..TaskDescription::default() }
    }
}

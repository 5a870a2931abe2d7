//! One worker per core.

use super::{Learner, Samples, Worker};
use crate::loss::Evaluation;
use agewise_core::{Error, Result};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Images that are evaluated as one piece of work. Fixed, so that sums do not depend on the number of threads.
const PIECE: usize = 500;

/// Workers that share tasks. Their buffers live as long as the crew.
pub struct Crew {
    workers: Vec<Box<dyn Worker>>,
}

impl Crew {
    /// So many workers.
    pub fn new(learner: &dyn Learner, workers: usize) -> Result<Self> {
        if workers == 0 {
            return Err(Error::new("threads", 0, "at least 1"));
        }
        Ok(Self { workers: (0..workers).map(|_| learner.worker()).collect() })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.workers.len()
    }

    /// Never: a crew has at least one worker.
    pub fn is_empty(&self) -> bool {
        self.workers.is_empty()
    }

    /// Does the tasks 0 to `tasks` - 1, which are taken in this order by whoever is free. `begin` makes what a thread
    /// keeps from task to task.
    pub fn work<T>(
        &mut self,
        tasks: usize,
        begin: impl Fn() -> T + Sync,
        task: impl Fn(&mut dyn Worker, &mut T, usize) + Sync,
    ) {
        let next = AtomicUsize::new(0);
        let run = |worker: &mut Box<dyn Worker>| {
            let mut kept = begin();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= tasks {
                    return;
                }
                task(&mut **worker, &mut kept, index);
            }
        };
        let helpers = self.workers.len().min(tasks);
        if let [only] = &mut self.workers[..helpers] {
            run(only);
            return;
        }
        std::thread::scope(|scope| {
            for worker in &mut self.workers[..helpers] {
                scope.spawn(|| run(worker));
            }
        });
    }

    /// How well parameters do on samples, with all workers.
    pub fn evaluate(&mut self, parameters: &[f32], samples: &Samples<'_>) -> Result<Evaluation> {
        let indices: Vec<u32> = match samples.indices {
            Some(indices) => indices.to_vec(),
            None => (0..samples.images.len() as u32).collect(),
        };
        let pieces: Vec<&[u32]> = if indices.is_empty() {
            // Nothing to do, but the parameters and the images are still checked.
            vec![&[]]
        } else {
            indices.chunks(PIECE).collect()
        };
        let results: Vec<std::sync::Mutex<Option<Result<Evaluation>>>> =
            pieces.iter().map(|_| std::sync::Mutex::default()).collect();
        self.work(
            pieces.len(),
            || (),
            |worker, (), index| {
                let piece = Samples { indices: Some(pieces[index]), ..*samples };
                let result = worker.evaluate(parameters, &piece);
                if let Ok(mut place) = results[index].lock() {
                    *place = Some(result);
                }
            },
        );
        let mut all = Evaluation::default();
        for result in results {
            // A task that did not end has ended the scope with its panic.
            if let Ok(Some(result)) = result.into_inner() {
                all.merge(&result?);
            }
        }
        Ok(all)
    }
}

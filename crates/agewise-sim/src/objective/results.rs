//! Places for the results of tasks that end in any order.

use agewise_core::{Error, Result};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One place for each task.
pub(crate) struct Results<T>(Vec<Mutex<Option<Result<T>>>>);

impl<T> Results<T> {
    /// Places for so many tasks.
    pub(crate) fn new(tasks: usize) -> Self {
        Self((0..tasks).map(|_| Mutex::default()).collect())
    }

    /// Keeps the result of a task.
    pub(crate) fn put(&self, task: usize, result: Result<T>) {
        if let Ok(mut place) = self.0[task].lock() {
            *place = Some(result);
        }
    }

    /// All results in the order of the tasks, or the error of the first task that has one.
    pub(crate) fn into_values(self) -> Result<Vec<T>> {
        let unfinished = || Error::new("workers", "a worker ended early", "every task to be done");
        let value = |place: Mutex<Option<Result<T>>>| {
            place.into_inner().ok().flatten().unwrap_or_else(|| Err(unfinished()))
        };
        self.0.into_iter().map(value).collect()
    }
}

/// Does the tasks 0 to `tasks` - 1 with one thread per worker; the results do not depend on who did what.
pub(crate) fn share_out<W: Send, T: Send>(
    workers: &mut [W],
    tasks: usize,
    task: impl Fn(&mut W, usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let results = Results::new(tasks);
    let next = AtomicUsize::new(0);
    let run = |worker: &mut W| {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= tasks {
                return;
            }
            results.put(index, task(worker, index));
        }
    };
    let helpers = workers.len().min(tasks);
    if let [only] = &mut workers[..helpers] {
        run(only);
    } else {
        std::thread::scope(|scope| {
            for worker in &mut workers[..helpers] {
                scope.spawn(|| run(worker));
            }
        });
    }
    results.into_values()
}

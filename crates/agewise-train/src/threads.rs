//! Work that is shared by threads, and buffers that they borrow.

use agewise_core::{Error, Result};
use parking_lot::{Condvar, Mutex};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many threads share the work; results do not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threads(usize);

impl Default for Threads {
    /// One for each core.
    fn default() -> Self {
        Self(std::thread::available_parallelism().map_or(1, usize::from))
    }
}

impl Threads {
    /// The calling thread alone.
    pub const ONE: Self = Self(1);

    /// So many threads, at least one.
    pub fn new(threads: usize) -> Result<Self> {
        if threads == 0 {
            return Err(Error::new("threads", 0, "at least 1"));
        }
        Ok(Self(threads))
    }

    /// How many there are.
    pub fn count(self) -> usize {
        self.0
    }

    /// The results of the jobs 0 to `jobs` - 1, which are taken in this order by whichever thread is free; or the error of
    /// the first job that has one.
    pub fn map<T: Send>(
        self,
        jobs: usize,
        job: impl Fn(usize) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        self.map_with(jobs, || (), |(), index| job(index))
    }

    /// The same; `begin` makes what a thread keeps from job to job.
    pub fn map_with<S, T: Send>(
        self,
        jobs: usize,
        begin: impl Fn() -> S + Sync,
        job: impl Fn(&mut S, usize) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let results: Vec<Mutex<Option<Result<T>>>> = (0..jobs).map(|_| Mutex::default()).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            let mut kept = begin();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(place) = results.get(index) else {
                    return;
                };
                let result = job(&mut kept, index);
                *place.lock() = Some(result);
            }
        };
        match self.0.min(jobs) {
            0 | 1 => work(),
            helpers => std::thread::scope(|scope| {
                for _ in 0..helpers {
                    scope.spawn(work);
                }
            }),
        }
        let unfinished = || Error::new("threads", "a thread ended early", "every job to be done");
        let value = |place: Mutex<Option<Result<T>>>| {
            let result = place.into_inner();
            result.unwrap_or_else(|| Err(unfinished()))
        };
        results.into_iter().map(value).collect()
    }
}

/// Workers, each with buffers for one job at a time, that threads borrow. They are made when they are first needed and
/// serve one job after the other.
pub struct WorkerPool<W> {
    state: Mutex<PoolState<W>>,
    returned: Condvar,
    limit: usize,
}

struct PoolState<W> {
    free: Vec<W>,
    lent: usize,
}

impl<W> Default for WorkerPool<W> {
    /// As many workers as there are jobs at the same time.
    fn default() -> Self {
        let state = PoolState { free: Vec::new(), lent: 0 };
        Self { state: Mutex::new(state), returned: Condvar::new(), limit: usize::MAX }
    }
}

impl<W> fmt::Debug for WorkerPool<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        let (free, lent) = (state.free.len(), state.lent);
        write!(f, "WorkerPool {{ free: {free}, lent: {lent} }}")
    }
}

impl<W> WorkerPool<W> {
    /// At most so many workers: further jobs wait for one.
    pub fn with_limit(limit: usize) -> Result<Self> {
        if limit == 0 {
            return Err(Error::new("threads", 0, "at least 1"));
        }
        Ok(Self { limit, ..Self::default() })
    }

    /// Does a job with a worker: a free one, or a new one, or the next that is returned.
    pub fn with<T>(&self, make: impl FnOnce() -> W, job: impl FnOnce(&mut W) -> T) -> T {
        let mut state = self.state.lock();
        while state.free.is_empty() && state.lent >= self.limit {
            self.returned.wait(&mut state);
        }
        state.lent += 1;
        let free = state.free.pop();
        drop(state);
        let _loan = Loan(self);
        let mut worker = free.unwrap_or_else(make);
        let result = job(&mut worker);
        // Not reached by a panic: a worker that is half done is not used again.
        self.state.lock().free.push(worker);
        result
    }
}

/// The place of a worker that is lent; another one may take it when this is dropped.
struct Loan<'a, W>(&'a WorkerPool<W>);

impl<W> Drop for Loan<'_, W> {
    fn drop(&mut self) {
        self.0.state.lock().lent -= 1;
        self.0.returned.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_and_the_first_error_counts() {
        for threads in [1, 2, 5] {
            let threads = Threads::new(threads).unwrap();
            assert_eq!(threads.map(7, |index| Ok(index * index)).unwrap()[6], 36);
            assert!(threads.map(0, |_| Ok(())).unwrap().is_empty());
            let odd = |index: usize| {
                if index.is_multiple_of(2) {
                    Ok(())
                } else {
                    Err(Error::new("index", index, "even"))
                }
            };
            assert_eq!(threads.map(9, odd).unwrap_err().value(), "1");
        }
        assert_eq!(Threads::new(0).unwrap_err().field(), "threads");
    }

    #[test]
    fn a_limit_is_kept_and_a_panic_loses_no_place() {
        let pool = WorkerPool::with_limit(2).unwrap();
        let (busy, most, made) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let job = |index: usize| {
            let make = || made.fetch_add(1, Ordering::Relaxed);
            pool.with(make, |_| {
                most.fetch_max(busy.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                std::thread::yield_now();
                busy.fetch_sub(1, Ordering::Relaxed);
                assert_ne!(index, usize::MAX, "a job that panics");
            });
            Ok(())
        };
        Threads(6).map(200, job).unwrap();
        assert!(most.load(Ordering::Relaxed) <= 2 && made.load(Ordering::Relaxed) <= 2);
        for _ in 0..3 {
            let panicking = std::panic::AssertUnwindSafe(|| job(usize::MAX));
            assert!(std::panic::catch_unwind(panicking).is_err());
            busy.store(0, Ordering::Relaxed);
        }
        Threads(6).map(200, job).unwrap();
        assert!(WorkerPool::<()>::with_limit(0).is_err());
    }
}

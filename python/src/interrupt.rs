//! Long work that hears Ctrl-C and survives a fork.
//!
//! Python's signals are only looked at on its main thread, so the work is done on another one while the caller waits.
//! And a process that was forked has none of the threads of its parent, so every piece of work gets a pool of its own:
//! the global one would wait for threads that are not there.

use crate::errors::trouble;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// How long a signal waits at most until it is heard.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Does the work without the interpreter. A signal whose handler raises sets `stop`, and is raised when the work has
/// ended.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    stop: &AtomicBool,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let pool = rayon::ThreadPoolBuilder::new().build().map_err(trouble)?;
    let (tell, heard) = channel();
    let (result, raised) = py.detach(move || {
        let mut raised = None;
        let result = std::thread::scope(|scope| {
            let worker = scope.spawn(move || {
                let result = pool.install(work);
                // Nobody listens only if the caller is gone.
                let _ = tell.send(());
                result
            });
            while heard.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                if raised.is_none()
                    && let Err(error) = Python::attach(look)
                {
                    stop.store(true, Ordering::Relaxed);
                    raised = Some(error);
                }
            }
            worker.join()
        });
        (result, raised)
    });
    if let Some(error) = raised {
        return Err(error);
    }
    py.check_signals()?;
    result.map_err(|_| PyRuntimeError::new_err("a panic in agewise; please report it"))
}

/// Runs the handlers of signals that came in, if this is Python's main thread.
fn look(py: Python<'_>) -> PyResult<()> {
    py.check_signals()
}

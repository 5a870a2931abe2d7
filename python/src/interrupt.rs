//! Long work that can be interrupted by Ctrl-C and works after a fork.
//!
//! Python handles signals on its main thread only, so the work is done on another thread while the caller waits.
//! A forked process has no threads of its parent, so each piece of work has its own pool: the global pool would wait for
//! threads that do not exist.

use crate::errors::trouble;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// The longest time until a signal is handled.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(100);

/// Does the work without the interpreter lock. An exception of a signal handler sets `stop`, and is raised when the
/// work has ended.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    stop: &AtomicBool,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let pool = rayon::ThreadPoolBuilder::new().build().map_err(trouble)?;
    let (sender, receiver) = channel();
    let (result, raised) = py.detach(move || {
        let mut raised = None;
        let result = std::thread::scope(|scope| {
            let worker = scope.spawn(move || {
                let result = pool.install(work);
                // Sending fails only if the caller has ended.
                let _ = sender.send(());
                result
            });
            while receiver.recv_timeout(SIGNAL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if raised.is_none()
                    && let Err(error) = Python::attach(check_signals)
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

/// Runs the handlers of pending signals, if this is the main thread of Python.
fn check_signals(py: Python<'_>) -> PyResult<()> {
    py.check_signals()
}

//! Writing files so that they are either complete or not there.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Writes `bytes` to `path`. They go to a temporary file beside it first, which then takes the place of `path` in one
/// step; on failure it is removed and `path` is as it was.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = temporary_neighbour(path);
    let written = write_and_move(&temporary, path, bytes);
    if written.is_err() {
        // The first error is the one to report; there may also be no file to remove.
        fs::remove_file(&temporary).ok();
    }
    written
}

fn write_and_move(temporary: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    drop(file);
    fs::rename(temporary, path)
}

/// Whether a file of this name is one that [`write_atomically`] has left behind: a process was killed in the middle.
pub fn is_temporary(name: &str) -> bool {
    name.starts_with(TEMPORARY.0) && name.ends_with(TEMPORARY.1)
}

/// How the names of temporary files begin and end.
const TEMPORARY: (&str, &str) = (".agewise-", ".tmp");

/// A hidden name beside `path` that no other process and no other call uses.
fn temporary_neighbour(path: &Path) -> PathBuf {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let (begin, end) = TEMPORARY;
    path.with_file_name(format!("{begin}{}-{call}{end}", std::process::id()))
}

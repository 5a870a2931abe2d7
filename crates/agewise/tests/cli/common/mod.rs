//! What tests of the command line share.

#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod compare;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The result of a test.
pub(crate) type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// An empty folder for one test, inside the build folder. All test files share that, so names say which file.
pub(crate) fn folder(name: &str) -> Outcome<PathBuf> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if path.exists() {
        fs::remove_dir_all(&path)?;
    }
    fs::create_dir_all(&path)?;
    Ok(path)
}

/// Every file below a folder, with its bytes; but not how long rounds took, and where.
pub(crate) fn files(folder: &Path) -> Outcome<BTreeMap<PathBuf, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path
                .file_name()
                .is_some_and(|name| name != "timing.csv" && name != "provenance.json")
            {
                found.insert(path.strip_prefix(folder)?.to_path_buf(), fs::read(&path)?);
            }
        }
    }
    Ok(found)
}

//! Opening a page in the user's browser.

use super::Failure;
use std::env;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

/// Programs that open a page with what the user has chosen for pages.
const OPENERS: &[&str] = if cfg!(target_os = "macos") {
    &["open"]
} else if cfg!(target_os = "windows") {
    &["explorer"]
} else {
    &["xdg-open"]
};

/// The program that opens pages here.
pub(crate) fn opener() -> Option<String> {
    let paths = env::var_os("PATH")?;
    let is_there = |name: &&&str| {
        let names = [(**name).to_string(), format!("{name}.exe")];
        env::split_paths(&paths)
            .any(|folder| names.iter().any(|name| is_program(&folder.join(name))))
    };
    OPENERS.iter().find(is_there).map(|name| (*name).to_string())
}

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file()
}

/// Opens a file or an address. The program is not waited for: it may be the browser itself.
pub(crate) fn open(target: impl AsRef<OsStr>) -> Result<(), Failure> {
    let target = target.as_ref();
    let shown = target.to_string_lossy();
    let Some(program) = opener() else {
        let names = OPENERS.join(" or ");
        return Err(Failure::Io(format!("cannot open {shown}: {names} is not installed")));
    };
    let quiet = || Stdio::null();
    let started =
        Command::new(&program).arg(target).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn();
    started
        .map(drop)
        .map_err(|error| Failure::Io(format!("cannot open {shown}: {program}: {error}")))
}

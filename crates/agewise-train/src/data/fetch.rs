//! Downloading data sets: into a `.part` file, resumed where it broke off, checked before it gets its name.

use super::{CatalogueEntry, DataError, Integrity, Layout, PublishedFile, digest_of};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use ureq::Agent;
use ureq::http::{Response, StatusCode, header};

/// How long a server may take to answer.
const ANSWER: Duration = Duration::from_secs(30);
/// How long one file may take; what has come is kept, and the next attempt goes on from there.
const WHOLE_FILE: Duration = Duration::from_secs(3_600);

/// What happened to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fetched {
    /// It is here and right, and nothing was downloaded.
    AlreadyHere,
    /// It was downloaded.
    Downloaded,
    /// Another file had its name, and the right one has taken its place.
    Replaced,
}

/// What a download tells while it goes on.
#[derive(Debug, Clone, Copy)]
pub enum FetchStep<'a> {
    /// A file is asked for at this address, of which so many bytes are here already.
    Begin {
        /// The address.
        url: &'a str,
        /// The size of the file.
        bytes: u64,
        /// What a download that broke off has left.
        resumed: u64,
    },
    /// So many more bytes have come.
    Bytes(u64),
    /// This attempt did not succeed.
    Failed(&'a str),
    /// The file is here.
    Done,
}

/// Why a data set cannot be downloaded.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The data set is inside the program.
    #[error("dataset = {0}: expected one that is not inside the program already")]
    Embedded(&'static str),
    /// No address is known for the files of the data set.
    #[error(
        "dataset = {0}: expected one that can be downloaded; its files have to be put into a folder by hand, see docs/data.md"
    )]
    NotPublished(&'static str),
    /// A file of this machine cannot be read or written.
    #[error("{}: {}", .0.display(), .1)]
    Io(PathBuf, #[source] io::Error),
    /// A file that is here cannot be checked.
    #[error(transparent)]
    Data(#[from] DataError),
    /// No address gave the right file: the file, and each address with its reason.
    #[error("{}", unavailable(.0, .1))]
    Unavailable(PathBuf, Vec<(String, String)>),
}

/// What was tried for a file, and what can be done.
fn unavailable(path: &Path, attempts: &[(String, String)]) -> String {
    let tried: Vec<String> =
        attempts.iter().map(|(url, reason)| format!("  {url}: {reason}")).collect();
    format!(
        "{}: cannot be downloaded\n{}\nIf this machine has no network, put the file there by hand, or name another place \
         with --mirror URL",
        path.display(),
        tried.join("\n")
    )
}

/// Downloads all files of a data set into `folder`; files that are there and right are left alone.
///
/// Each of the addresses is tried in turn, where the file's name is added at the end.
pub fn fetch(
    entry: &CatalogueEntry,
    folder: &Path,
    mirrors: &[&str],
    watch: &dyn Fn(FetchStep<'_>),
) -> Result<Vec<(PathBuf, Fetched)>, FetchError> {
    if entry.layout == Layout::Embedded {
        return Err(FetchError::Embedded(entry.name));
    }
    if entry.published.is_empty() {
        return Err(FetchError::NotPublished(entry.name));
    }
    fs::create_dir_all(folder).map_err(|error| FetchError::Io(folder.to_path_buf(), error))?;
    let agent: Agent = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(ANSWER))
        .timeout_recv_response(Some(ANSWER))
        .timeout_recv_body(Some(WHOLE_FILE))
        .user_agent(concat!("agewise/", env!("CARGO_PKG_VERSION")))
        .build()
        .into();
    let one = |file: &PublishedFile| {
        let path = folder.join(file.name);
        let before = if path.is_file() {
            match entry.verify_file(&path)? {
                Integrity::Published | Integrity::SameContents => {
                    return Ok((path, Fetched::AlreadyHere));
                }
                Integrity::Unknown | Integrity::Wrong { .. } => Fetched::Replaced,
            }
        } else {
            Fetched::Downloaded
        };
        let download = Download { agent: &agent, file, part: part_of(&path), watch };
        download.try_mirrors(mirrors, &path)?;
        Ok((path, before))
    };
    entry.published.iter().map(one).collect()
}

fn part_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    PathBuf::from(name)
}

/// Why one address did not give the file.
enum Attempt {
    /// Another address may.
    Next(String),
    /// This machine is in the way; no other address would help.
    Here(io::Error),
}

struct Download<'a> {
    agent: &'a Agent,
    file: &'a PublishedFile,
    part: PathBuf,
    watch: &'a dyn Fn(FetchStep<'_>),
}

impl Download<'_> {
    fn try_mirrors(&self, mirrors: &[&str], path: &Path) -> Result<(), FetchError> {
        let mut attempts = Vec::new();
        for mirror in mirrors {
            let separator = if mirror.ends_with('/') { "" } else { "/" };
            let url = format!("{mirror}{separator}{}", self.file.name);
            match self.try_address(&url, path) {
                Ok(()) => {
                    (self.watch)(FetchStep::Done);
                    return Ok(());
                }
                Err(Attempt::Here(error)) => return Err(FetchError::Io(self.part.clone(), error)),
                Err(Attempt::Next(reason)) => {
                    (self.watch)(FetchStep::Failed(&reason));
                    attempts.push((url, reason));
                }
            }
        }
        Err(FetchError::Unavailable(path.to_path_buf(), attempts))
    }

    fn try_address(&self, url: &str, path: &Path) -> Result<(), Attempt> {
        let mut here = match fs::metadata(&self.part) {
            Ok(part) => part.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(Attempt::Here(error)),
        };
        if here > self.file.bytes {
            self.forget_part()?;
            here = 0;
        }
        (self.watch)(FetchStep::Begin { url, bytes: self.file.bytes, resumed: here });
        if here < self.file.bytes {
            self.receive(url, here)?;
        }
        self.check()?;
        fs::rename(&self.part, path).map_err(Attempt::Here)
    }

    /// Adds what is missing to the part.
    fn receive(&self, url: &str, here: u64) -> Result<(), Attempt> {
        let mut request = self.agent.get(url);
        if here > 0 {
            request = request.header(header::RANGE, format!("bytes={here}-"));
        }
        let response = request.call().map_err(|error| Attempt::Next(error.to_string()))?;
        // A server that does not resume sends the whole file.
        let start = match response.status() {
            StatusCode::OK => 0,
            StatusCode::PARTIAL_CONTENT if starts_at(&response, here) => here,
            StatusCode::PARTIAL_CONTENT => {
                return Err(Attempt::Next("it sent another part than was asked for".to_string()));
            }
            StatusCode::RANGE_NOT_SATISFIABLE => {
                // What is here is not the beginning of its file.
                self.forget_part()?;
                return Err(Attempt::Next("its file is shorter than expected".to_string()));
            }
            status => return Err(Attempt::Next(format!("it answered {status}"))),
        };
        let file = match start {
            0 => File::create(&self.part),
            _ => OpenOptions::new().append(true).open(&self.part),
        };
        let mut file = file.map_err(Attempt::Here)?;
        let missing = self.file.bytes - start;
        let mut body = response.into_body().into_reader().take(missing + 1);
        let came = self.copy(&mut body, &mut file);
        // Whatever came is kept for the next attempt, on the disk and not only on its way there.
        file.sync_all().map_err(Attempt::Here)?;
        let came = came?;
        let expected = format!("{} bytes", self.file.bytes);
        match came {
            _ if came == missing => Ok(()),
            _ if came > missing => {
                self.forget_part()?;
                Err(Attempt::Next(format!("it sent more than {expected}")))
            }
            _ => Err(Attempt::Next(format!("it stopped after {} of {expected}", start + came))),
        }
    }

    fn copy(&self, body: &mut impl Read, file: &mut File) -> Result<u64, Attempt> {
        let mut buffer = vec![0; 1 << 16];
        let mut came = 0;
        loop {
            let count = match body.read(&mut buffer) {
                Ok(0) => return Ok(came),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Attempt::Next(error.to_string())),
            };
            file.write_all(&buffer[..count]).map_err(Attempt::Here)?;
            came += count as u64;
            (self.watch)(FetchStep::Bytes(count as u64));
        }
    }

    /// Compares the checksum; a wrong file is of no use to anyone, so it is removed.
    fn check(&self) -> Result<(), Attempt> {
        let found = File::open(&self.part).and_then(digest_of).map_err(Attempt::Here)?;
        let expected = self.file.checksum;
        if found == expected.0 {
            return Ok(());
        }
        self.forget_part()?;
        Err(Attempt::Next(format!("it sent another file: SHA-256 {found}, expected {expected}")))
    }

    fn forget_part(&self) -> Result<(), Attempt> {
        fs::remove_file(&self.part).map_err(Attempt::Here)
    }
}

/// Whether a partial answer begins with the byte that was asked for.
fn starts_at<T>(response: &Response<T>, start: u64) -> bool {
    let range = response.headers().get(header::CONTENT_RANGE).and_then(|value| value.to_str().ok());
    range.is_some_and(|range| range.starts_with(&format!("bytes {start}-")))
}

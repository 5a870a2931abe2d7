//! `agewise data` from the outside, and downloads from a server of our own.
#![allow(clippy::unwrap_used, reason = "helpers of tests may stop the test")]

use crate::common::{Outcome, folder};
use agewise_train::data::{
    CATALOGUE, CatalogueEntry, Checksum, ContentFile, Holds, ImageShape, Layout, PublishedFile,
    Split, digest_of,
};
use agewise_train::data::{FetchError, FetchStep, Fetched, fetch};
use serde_json::Value;
use std::cell::RefCell;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::thread;

fn data(folder: &Path, args: &[&str]) -> Outcome<Output> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agewise"));
    // The default folder of whoever runs the tests must not matter.
    command
        .env_remove("AGEWISE_DATA")
        .env("HOME", folder)
        .env("XDG_DATA_HOME", folder.join("share"));
    Ok(command.arg("data").args(args).current_dir(folder).output()?)
}

fn succeeds(folder: &Path, args: &[&str]) -> Outcome<String> {
    let output = data(folder, args)?;
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

fn fails(folder: &Path, code: i32, args: &[&str]) -> Outcome<String> {
    let output = data(folder, args)?;
    let stderr = String::from_utf8(output.stderr)?;
    assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
    Ok(stderr)
}

/// What the server does with the file.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    /// Sends what is asked for, also a part.
    Resumes,
    /// Sends the whole file, whatever is asked for.
    Whole,
    /// Breaks off after so many bytes of the first answer.
    BreaksOff(usize),
    /// Has no such file.
    Missing,
}

/// A server of one file for any name; remembers the lines of the requests that matter.
struct Server {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn new(file: Vec<u8>, manner: Manner) -> Outcome<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}/files/", listener.local_addr()?);
        let asked = Arc::new(Mutex::new(Vec::new()));
        let remembered = Arc::clone(&asked);
        // The thread ends with the test.
        thread::spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                let _ = answer(&stream, &file, manner, number, &remembered);
            }
        });
        Ok(Self { url, asked })
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn answer(
    mut stream: &TcpStream,
    file: &[u8],
    manner: Manner,
    number: usize,
    asked: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut start = None;
    let mut lines = BufReader::new(stream).lines();
    let mut request = lines.next().unwrap_or(Ok(String::new()))?;
    for line in lines {
        let line = line?;
        if line.is_empty() {
            break;
        }
        if let Some(range) = line.to_lowercase().strip_prefix("range: bytes=") {
            start = range.trim_end_matches('-').parse::<usize>().ok();
            request = format!("{request} from {range}");
        }
    }
    asked.lock().unwrap().push(request);
    let head = |status: &str, length: usize, more: &str| {
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n{more}\r\n")
    };
    if manner == Manner::Missing {
        return stream.write_all(head("404 Not Found", 0, "").as_bytes());
    }
    let start = start.filter(|_| manner != Manner::Whole);
    let body = &file[start.unwrap_or(0)..];
    let head = match start {
        None => head("200 OK", body.len(), ""),
        Some(start) => {
            let range =
                format!("Content-Range: bytes {start}-{}/{}\r\n", file.len() - 1, file.len());
            head("206 Partial Content", body.len(), &range)
        }
    };
    stream.write_all(head.as_bytes())?;
    match manner {
        Manner::BreaksOff(after) if number == 0 => stream.write_all(&body[..after]),
        _ => stream.write_all(body),
    }
}

/// 300,000 bytes without a pattern.
fn contents() -> Vec<u8> {
    (0..300_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// A data set of one file with these contents.
fn entry(file: &[u8]) -> Outcome<CatalogueEntry> {
    let checksum = Checksum(Box::leak(digest_of(file)?.into_boxed_str()));
    let content = ContentFile {
        name: "records.bin",
        split: Split::Train,
        holds: Holds::Records,
        images: 1,
        bytes: file.len() as u64,
        checksum: None,
    };
    let published = PublishedFile { name: "set.tar.gz", bytes: file.len() as u64, checksum };
    Ok(CatalogueEntry {
        name: "set",
        shape: ImageShape::new(3, 32, 32),
        classes: 10,
        layout: Layout::Cifar,
        content: vec![content].leak(),
        published: vec![published].leak(),
        mirrors: &[],
        subfolders: &[],
        licence: "none",
        source: "this test",
    })
}

/// Fetches, and says which steps were seen.
fn fetched(
    here: &Path,
    file: &[u8],
    mirrors: &[&str],
) -> Outcome<(Result<Fetched, FetchError>, Vec<String>)> {
    let steps = RefCell::new(Vec::new());
    let result = fetch(&entry(file)?, here, mirrors, &|step| match step {
        FetchStep::Begin { resumed, .. } => steps.borrow_mut().push(format!("begin {resumed}")),
        FetchStep::Failed(reason) => steps.borrow_mut().push(format!("failed: {reason}")),
        FetchStep::Done => steps.borrow_mut().push("done".to_string()),
        FetchStep::Bytes(_) => {}
    });
    Ok((result.map(|files| files[0].1), steps.into_inner()))
}

#[test]
fn a_file_is_downloaded_once() -> Outcome {
    let (here, file) = (folder("data-once")?, contents());
    let server = Server::new(file.clone(), Manner::Resumes)?;
    let (result, steps) = fetched(&here, &file, &[&server.url])?;
    assert_eq!((result?, steps), (Fetched::Downloaded, vec!["begin 0".into(), "done".into()]));
    assert_eq!(fs::read(here.join("set.tar.gz"))?, file);
    assert_eq!(fs::read_dir(&here)?.count(), 1, "no part is left");
    let (result, steps) = fetched(&here, &file, &["http://127.0.0.1:9/"])?;
    assert_eq!((result?, steps), (Fetched::AlreadyHere, vec![]));
    assert_eq!(server.asked(), ["GET /files/set.tar.gz HTTP/1.1"]);
    Ok(())
}

#[test]
fn a_download_that_broke_off_goes_on() -> Outcome {
    let (here, file) = (folder("data-resume")?, contents());
    let server = Server::new(file.clone(), Manner::BreaksOff(123_456))?;
    let (result, _) = fetched(&here, &file, &[&server.url])?;
    assert!(matches!(result, Err(FetchError::Unavailable(..))));
    assert_eq!(fs::read(here.join("set.tar.gz.part"))?, file[..123_456]);
    assert!(!here.join("set.tar.gz").exists());
    let (result, steps) = fetched(&here, &file, &[&server.url])?;
    assert_eq!((result?, steps[0].as_str()), (Fetched::Downloaded, "begin 123456"));
    assert!(server.asked()[1].ends_with("from 123456-"), "{:?}", server.asked());
    assert_eq!(fs::read(here.join("set.tar.gz"))?, file);
    Ok(())
}

#[test]
fn a_server_that_does_not_resume_sends_all_again() -> Outcome {
    let (here, file) = (folder("data-whole")?, contents());
    fs::write(here.join("set.tar.gz.part"), &file[..1_000])?;
    let server = Server::new(file.clone(), Manner::Whole)?;
    assert_eq!(fetched(&here, &file, &[&server.url])?.0?, Fetched::Downloaded);
    assert_eq!(fs::read(here.join("set.tar.gz"))?, file);
    Ok(())
}

/// A part that is complete needs no server, one that is too long or wrong is thrown away.
#[test]
fn parts_are_judged_by_size_and_checksum() -> Outcome {
    let (here, file) = (folder("data-parts")?, contents());
    let part = here.join("set.tar.gz.part");
    fs::write(&part, &file)?;
    assert_eq!(fetched(&here, &file, &["http://127.0.0.1:9/"])?.0?, Fetched::Downloaded);
    fs::remove_file(here.join("set.tar.gz"))?;
    let server = Server::new(file.clone(), Manner::Resumes)?;
    for spoilt in [vec![7; file.len() + 5], vec![7; 1_000]] {
        fs::write(&part, spoilt)?;
        // The wrong beginning is found at the end; the second address starts anew.
        assert_eq!(fetched(&here, &file, &[&server.url, &server.url])?.0?, Fetched::Downloaded);
        assert_eq!(fs::read(here.join("set.tar.gz"))?, file);
        fs::remove_file(here.join("set.tar.gz"))?;
    }
    Ok(())
}

#[test]
fn wrong_files_are_refused_and_the_next_mirror_is_asked() -> Outcome {
    let (here, file) = (folder("data-mirrors")?, contents());
    let mut other = file.clone();
    other[5] ^= 1;
    let wrong = Server::new(other, Manner::Resumes)?;
    let long = Server::new([file.clone(), vec![0; 9]].concat(), Manner::Resumes)?;
    let missing = Server::new(file.clone(), Manner::Missing)?;
    let bad = [wrong.url.as_str(), &long.url, &missing.url, "http://127.0.0.1:9/"];
    let (result, _) = fetched(&here, &file, &bad)?;
    let text = result.unwrap_err().to_string();
    for words in ["another file: SHA-256", "more than 300000 bytes", "404 Not Found", "--mirror"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert_eq!(fs::read_dir(&here)?.count(), 0, "nothing is left");
    // A file of that name with other contents is replaced, but only by the right one.
    fs::write(here.join("set.tar.gz"), "other")?;
    assert!(fetched(&here, &file, &bad)?.0.is_err());
    assert_eq!(fs::read(here.join("set.tar.gz"))?, b"other");
    let good = Server::new(file.clone(), Manner::Resumes)?;
    let (result, steps) = fetched(&here, &file, &[&wrong.url, &good.url])?;
    assert_eq!((result?, steps.len()), (Fetched::Replaced, 4));
    assert_eq!(fs::read(here.join("set.tar.gz"))?, file);
    Ok(())
}

#[test]
fn the_command_fails_clearly_without_the_right_file() -> Outcome {
    let here = folder("data-fetch")?;
    let dead = ["fetch", "mnist", "--data-dir", "d", "--mirror", "http://127.0.0.1:9"];
    let stderr = fails(&here, 1, &dead)?;
    assert!(stderr.contains("http://127.0.0.1:9/train-images-idx3-ubyte.gz"), "{stderr}");
    assert!(
        stderr.contains("d/mnist/train-images-idx3-ubyte.gz: cannot be downloaded"),
        "{stderr}"
    );
    let server = Server::new(vec![0; 9_912_422], Manner::Resumes)?;
    let stderr = fails(
        &here,
        1,
        &["fetch", "mnist", "--data-dir", "d", "--mirror", &server.url, "--quiet"],
    )?;
    assert!(stderr.contains("SHA-256") && stderr.contains("440fcabf73cc"), "{stderr}");
    assert_eq!(fs::read_dir(here.join("d/mnist"))?.count(), 0);
    let stderr = fails(&here, 2, &["fetch", "digits"])?;
    assert!(stderr.contains("inside the program"), "{stderr}");
    let stderr = fails(&here, 2, &["fetch", "minst"])?;
    assert!(stderr.contains("did you mean mnist?"), "{stderr}");
    Ok(())
}

#[test]
fn the_list_says_what_is_here() -> Outcome {
    let here = folder("data-list")?;
    let text = succeeds(&here, &["list"])?;
    for entry in CATALOGUE {
        assert!(text.contains(entry.name), "{text}");
    }
    assert!(text.contains("inside the program") && text.contains("data fetch cifar-100"), "{text}");
    let json: Value = serde_json::from_str(&succeeds(&here, &["list", "--json"])?)?;
    assert_eq!(json[0]["train"], 6_000);
    assert_eq!(json[1]["place"], Value::Null);
    Ok(())
}

#[test]
fn verify_finds_what_is_wrong() -> Outcome {
    let here = folder("data-verify")?;
    assert!(succeeds(&here, &["verify"])?.contains("verified: the same contents"));
    let stderr = fails(&here, 2, &["verify", "mnist"])?;
    assert!(
        stderr.contains("agewise data fetch mnist") && stderr.contains("share/agewise"),
        "{stderr}"
    );
    fs::create_dir_all(here.join("d/cifar-100"))?;
    fs::write(here.join("d/cifar-100/cifar-100-binary.tar.gz"), "nothing")?;
    let stderr = fails(&here, 2, &["verify", "--data-dir", "d"])?;
    assert!(stderr.contains("cifar-100-binary.tar.gz: SHA-256"), "{stderr}");
    let stderr = fails(&here, 2, &["show", "cifar-100", "--data-dir", "d"])?;
    assert!(stderr.contains("cifar-100-binary.tar.gz"), "{stderr}");
    Ok(())
}

#[test]
fn show_draws_and_counts() -> Outcome {
    let here = folder("data-show")?;
    let args = ["show", "digits", "--partition", "dirichlet:0.3", "--sizes", "zipf:2"];
    let text = succeeds(&here, &args)?;
    assert!(text.contains("6000 training samples among 20 clients"), "{text}");
    assert!(text.contains("runs/data-001/labels.png"), "{text}");
    for name in ["labels", "samples"] {
        let svg = fs::read_to_string(here.join(format!("runs/data-001/{name}.svg")))?;
        assert!(svg.starts_with("<svg") && svg.contains("class"), "{name}");
        let png = fs::read(here.join(format!("runs/data-001/{name}.png")))?;
        assert!(png.starts_with(b"\x89PNG"), "{name}");
    }
    let json = succeeds(&here, &[&args[..], &["--json", "--out", "other"]].concat())?;
    assert_eq!(json, fs::read_to_string(here.join("other/summary.json"))?);
    let json: Value = serde_json::from_str(&json)?;
    assert_eq!(json["summary"]["images"], 6_000);
    assert_eq!(json["histograms"].as_array().map(Vec::len), Some(20));
    assert!(json["summary"]["sizes"]["min"].as_f64() >= Some(50.0));
    Ok(())
}

#[test]
fn bad_input_is_named() -> Outcome {
    let here = folder("data-bad")?;
    fs::write(here.join("kept"), "precious")?;
    let cases: &[(&[&str], &str)] = &[
        (&["--clients", "0"], "clients = 0"),
        (&["--clients", "121"], "clients = 121: expected a whole number from 1 to 120"),
        (&["--clients", "-1"], "-1"),
        (&["--batch", "0"], "batch = 0"),
        (&["--batch", "7000"], "batch = 7000: expected at most 6000"),
        (&["--partition", "dirichlet:0"], "partition = dirichlet:0"),
        (&["--partition", "shards:301"], "partition = shards:301: expected at most 300"),
        (&["--sizes", "zipf:1"], "sizes = zipf:1"),
        (&["--out", "."], "out = ."),
    ];
    for (args, message) in cases {
        let stderr = fails(&here, 2, &[&["show", "digits"], *args].concat())?;
        assert!(stderr.contains(message), "{args:?}: {stderr}");
    }
    let mirror = ["fetch", "mnist", "--data-dir", "d", "--mirror", "notaurl"];
    assert!(fails(&here, 2, &mirror)?.contains("mirror = notaurl: expected an address"));
    let nowhere = fails(&here, 2, &["verify", "--data-dir", "nowhere"])?;
    assert!(nowhere.contains("data-dir = nowhere"), "{nowhere}");
    assert!(fails(&here, 2, &["show", "digit"])?.contains("did you mean digits?"));
    assert_eq!(fs::read_dir(&here)?.count(), 1);
    Ok(())
}

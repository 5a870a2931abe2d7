//! `agewise report` from the outside: opening the page, and showing a run while it goes on.

use crate::common::{Outcome, files, folder};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Only a hang reaches this.
const LIMIT: Duration = Duration::from_secs(120);

fn agewise(here: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agewise"));
    command.current_dir(here).args(args);
    command
}

fn succeeds(here: &Path, args: &[&str]) -> Outcome<Output> {
    let output = agewise(here, args).output()?;
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(output)
}

fn simulated(name: &str) -> Outcome<std::path::PathBuf> {
    let here = folder(name)?;
    succeeds(
        &here,
        &["simulate", "--rounds", "20", "--policy", "random", "--quiet", "--out", "run"],
    )?;
    Ok(here)
}

#[test]
fn links_lead_to_the_files_of_the_run() -> Outcome {
    let here = simulated("report-links")?;
    fs::create_dir(here.join("pages"))?;
    succeeds(&here, &["report", "run", "--out", "pages/one.html"])?;
    for (page, prefix) in [("run/report.html", ""), ("pages/one.html", "../run/")] {
        let html = fs::read_to_string(here.join(page))?;
        for file in ["rounds.csv", "config.toml", "figures/load.svg", "figures/load.png"] {
            assert!(html.contains(&format!("href=\"{prefix}{file}\"")), "{page}: {file}");
        }
        let links = html.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
        for link in links.filter(|link| !link.starts_with('#') && !link.starts_with("data:")) {
            let target = here.join(page).parent().ok_or("no folder")?.join(link);
            assert!(target.is_file(), "{page}: {link}");
        }
    }
    Ok(())
}

/// A program that writes down what it was asked to open stands in for the one of the desktop.
#[cfg(target_os = "linux")]
#[test]
fn the_page_is_opened_in_the_browser() -> Outcome {
    use std::os::unix::fs::PermissionsExt as _;
    let here = simulated("report-open")?;
    let programs = here.join("programs");
    fs::create_dir(&programs)?;
    let fake = programs.join("xdg-open");
    fs::write(
        &fake,
        format!(
            "#!/bin/sh\nprintf '%s' \"$1\" > '{0}/part' && mv '{0}/part' '{0}/opened'\n",
            here.display()
        ),
    )?;
    fs::set_permissions(&fake, fs::Permissions::from_mode(0o755))?;
    let path = format!("{}:{}", programs.display(), std::env::var("PATH")?);
    let opened = here.join("opened");
    for (args, expected) in [
        (&["report", "run", "--open"][..], "run/report.html"),
        (&["report", "run", "--out", "page.html", "--open"][..], "page.html"),
    ] {
        let _ = fs::remove_file(&opened);
        let output = agewise(&here, args).env("PATH", &path).output()?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let end = Instant::now() + LIMIT;
        while !opened.is_file() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(fs::read_to_string(&opened)?, expected);
    }
    // Without such a program the page is there all the same, and it is said why it is not shown.
    let nothing = here.join("nothing");
    fs::create_dir(&nothing)?;
    let output = agewise(&here, &["report", "run", "--open"]).env("PATH", &nothing).output()?;
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr)?.contains("xdg-open is not installed"));
    Ok(())
}

/// Ends with the test.
struct Serving {
    child: Child,
    address: String,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Serving {
    fn begin(here: &Path) -> Outcome<Self> {
        let args = ["report", "run", "--serve", "--listen", "127.0.0.1:0"];
        let mut child = agewise(here, &args).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        let address = address.ok_or("no address")?.to_string();
        Ok(Self { child, address })
    }

    /// The answer to a request with this host.
    fn ask(&self, request: &str, host: &str) -> Outcome<String> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(LIMIT))?;
        write!(stream, "{request} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

fn version(html: &str) -> Option<&str> {
    html.split("data-version=\"").nth(1)?.split('"').next()
}

#[test]
fn a_run_is_shown_while_it_goes_on() -> Outcome {
    let here = simulated("report-serve")?;
    let before = files(&here.join("run"))?;
    let serving = Serving::begin(&here)?;
    let page = serving.ask("GET /", "localhost")?;
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    assert!(
        page.contains("<section id=\"now\" data-state=\"finished\">") && page.contains("live.js")
    );
    assert!(page.contains("x-content-type-options: nosniff"));
    let known = version(&page).ok_or("no version")?.to_string();
    let same = serving.ask(&format!("GET /live?have={known}"), "127.0.0.1")?;
    assert!(same.contains("id=\"now\"") && !same.contains("id=\"past\""), "nothing has changed");
    // Nothing was written.
    assert!(files(&here.join("run"))? == before);

    succeeds(&here, &["simulate", "--extend", "run", "--seeds", "2", "--quiet"])?;
    let end = Instant::now() + LIMIT;
    let changed = loop {
        let answer = serving.ask(&format!("GET /live?have={known}"), "127.0.0.1")?;
        if answer.contains("id=\"past\"") || Instant::now() > end {
            break answer;
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    assert!(version(&changed).is_some_and(|version| version != known), "{changed}");
    assert!(changed.contains("40 rounds have been played"), "{changed}");
    Ok(())
}

/// A page from elsewhere whose name points to this machine must not read the report.
#[test]
fn only_this_machine_sees_the_run() -> Outcome {
    let here = simulated("report-serve-hosts")?;
    let serving = Serving::begin(&here)?;
    for host in ["evil.example", "localhost.evil.example", ""] {
        let answer = serving.ask("GET /", host)?;
        assert!(
            !answer.contains("<section") && !answer.starts_with("HTTP/1.1 200"),
            "{host}: {answer}"
        );
    }
    assert!(serving.ask("POST /", "localhost")?.starts_with("HTTP/1.1 405"));
    for listen in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
        let output = agewise(&here, &["report", "run", "--serve", "--listen", listen]).output()?;
        assert_eq!(output.status.code(), Some(2), "{listen}");
        assert!(String::from_utf8(output.stderr)?.contains("listen = "), "{listen}");
    }
    let output = agewise(&here, &["report", "run", "run", "--serve"]).output()?;
    assert_eq!(output.status.code(), Some(2), "one run at a time");
    Ok(())
}

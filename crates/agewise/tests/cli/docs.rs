//! The documentation is true: the commands of the tutorial work as they are written, and links lead somewhere.

use crate::common::{Outcome, folder, root};
use std::fs;
use std::path::{Path, PathBuf};

/// A block of code in a page.
#[derive(Debug)]
struct Block {
    /// The line on which it begins, from 1.
    line: usize,
    /// What stands behind the fence: the language, and what a reader should know of it.
    info: String,
    code: String,
}

/// Cuts a page into its blocks of code, and the text around them with as many lines as the page.
fn blocks(page: &str) -> (Vec<Block>, String) {
    let mut blocks = Vec::new();
    let mut text = String::new();
    let mut open: Option<Block> = None;
    for (number, line) in (1..).zip(page.lines()) {
        if let Some(info) = line.trim_start().strip_prefix("```") {
            if let Some(block) = open.take() {
                blocks.push(block);
            } else {
                let info = info.trim().to_string();
                open = Some(Block { line: number, info, code: String::new() });
            }
        } else if let Some(block) = &mut open {
            block.code += line;
            block.code += "\n";
        } else {
            text += line;
        }
        text += "\n";
    }
    (blocks, text)
}

#[test]
fn a_page_is_cut_into_blocks_and_text() {
    let (blocks, text) = blocks("a\n```sh\nb\nc\n```\nd\n```\n```\n");
    let found: Vec<_> = blocks.iter().map(|b| (b.line, b.info.as_str(), b.code.as_str())).collect();
    assert_eq!(found, [(2, "sh", "b\nc\n"), (7, "", "")]);
    assert_eq!(text, "a\n\n\n\n\nd\n\n\n");
}

/// Every block that is marked `sh`, in order, in one folder that is empty at first. Those marked `sh no-run` need what
/// a test cannot have: a network, other data, other programs, or minutes.
#[cfg(unix)]
#[test]
fn the_commands_of_the_tutorial_work() -> Outcome {
    use std::process::{Command, Stdio};
    let here = folder("tutorial")?;
    let (blocks, _) = blocks(&fs::read_to_string(root().join("docs/tutorial.md"))?);
    let mut played = 0;
    for block in blocks.iter().filter(|block| block.info.starts_with("sh")) {
        if block.info == "sh no-run" {
            continue;
        }
        assert_eq!(block.info, "sh", "line {}: run it or not?", block.line);
        let output = Command::new("sh")
            .args(["-eux", "-c", &block.code])
            .current_dir(&here)
            .env("PATH", path_with_agewise()?)
            // Nothing that this user has at home changes what a reader would see.
            .env("HOME", &here)
            .env_remove("XDG_DATA_HOME")
            .env_remove("AGEWISE_DATA")
            .stdin(Stdio::null())
            .output()?;
        assert!(
            output.status.success(),
            "docs/tutorial.md, line {}: {}\n{}\n{}\n{}",
            block.line,
            output.status,
            block.code,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        played += 1;
    }
    assert!(played >= 8, "only {played} blocks were played");
    Ok(())
}

/// The program that was just built comes first.
#[cfg(unix)]
fn path_with_agewise() -> Outcome<std::ffi::OsString> {
    let program = Path::new(env!("CARGO_BIN_EXE_agewise"));
    let first = program.parent().ok_or("a program without a folder")?.to_path_buf();
    let others = std::env::var_os("PATH").unwrap_or_default();
    Ok(std::env::join_paths(std::iter::once(first).chain(std::env::split_paths(&others)))?)
}

/// Every page of the repository.
fn pages() -> Outcome<Vec<PathBuf>> {
    let mut folders = vec![root()];
    let mut pages = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // What was built, installed or played is not ours.
            let is_ours = !name.starts_with('.')
                && !["target", "node_modules", "venv", "runs"].contains(&name.as_str());
            if path.is_symlink() {
                // The page that it leads to is read where it is.
                continue;
            }
            if path.is_dir() && is_ours {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    Ok(pages)
}

/// The targets of the links in a text, pictures among them, each with its line.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for rest in line.split("](").skip(1) {
            if let Some((target, _)) = rest.split_once(')') {
                found.push((number, target.to_string()));
            }
        }
    }
    found
}

/// The anchors of a page's headings, as code hosts make them.
fn anchors(text: &str) -> Vec<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn every_relative_link_leads_somewhere() -> Outcome {
    let mut followed = 0;
    let mut broken = Vec::new();
    let pages = pages()?;
    assert!(pages.len() > 25, "only {} pages were found", pages.len());
    for page in pages {
        let (_, text) = blocks(&fs::read_to_string(&page)?);
        let folder = page.parent().ok_or("a page without a folder")?;
        for (line, target) in links(&text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            followed += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((target.as_str(), ""));
            let file = if file.is_empty() { page.clone() } else { folder.join(file) };
            let leads = match (file.exists(), anchor) {
                (exists, "") => exists,
                (false, _) => false,
                (true, anchor) => {
                    let (_, text) = blocks(&fs::read_to_string(&file)?);
                    anchors(&text).iter().any(|found| found == anchor)
                }
            };
            if !leads {
                let page = page.strip_prefix(root()).unwrap_or(&page);
                broken.push(format!("{}, line {line}: {target}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(followed > 100, "only {followed} links were found");
    Ok(())
}

/// How wide prose may be; the README, whose lines are counted, may be a little wider.
const COLUMNS: usize = 100;
const README_COLUMNS: usize = 104;

/// Whether a line of a page is prose that is too long: not a table, a heading, a picture or a single link, and with a space
/// at which it could have been broken. The targets of links do not count: readers do not see them.
fn is_too_long(line: &str, columns: usize) -> bool {
    let text = line.trim_start();
    let text = text.strip_prefix("- ").unwrap_or(text).trim_start();
    let is_link = text.starts_with('[') && text.matches("](").count() == 1 && text.ends_with(')');
    let is_prose = !text.starts_with(['|', '#', '<']) && !text.starts_with("![") && !is_link;
    let begin = line.chars().count() - text.chars().count();
    let breaks = line.chars().take(columns + 1).skip(begin).any(|c| c == ' ');
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let unseen: usize = targets.map(|(target, _)| target.chars().count()).sum();
    is_prose && breaks && line.chars().count() > columns + unseen
}

#[test]
fn prose_is_wrapped() -> Outcome {
    let word = "word ".repeat(21);
    for long in [word.clone(), format!("- {word}")] {
        assert!(is_too_long(&long, COLUMNS) && !is_too_long(&long, 120));
    }
    let linked = format!("seen [there]({})", "x".repeat(100));
    for short in [format!("| {word} |"), "x".repeat(120), format!("[{word}](there)"), linked] {
        assert!(!is_too_long(&short, COLUMNS), "{short}");
    }
    let mut wrong = Vec::new();
    let pages = pages()?.into_iter().filter(|page| {
        let page = page.strip_prefix(root()).unwrap_or(page);
        page.starts_with("docs") || page.parent() == Some(Path::new(""))
    });
    for page in pages {
        let (_, text) = blocks(&fs::read_to_string(&page)?);
        let page = page.strip_prefix(root()).unwrap_or(&page);
        let columns = if page == Path::new("README.md") { README_COLUMNS } else { COLUMNS };
        for (number, line) in (1..).zip(text.lines()) {
            if is_too_long(line, columns) {
                wrong.push(format!("{}, line {number}: {line}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "lines that are too long:\n{}", wrong.join("\n"));
    Ok(())
}

/// The values of a key in a unit file, in order.
#[cfg(unix)]
fn values<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    let pair = |line: &'a str| line.split_once('=');
    unit.lines()
        .filter_map(pair)
        .filter(|(found, _)| *found == key)
        .map(|(_, value)| value)
        .collect()
}

/// The units that the docs offer start the program with flags that it knows, and agree with the settings' defaults.
#[cfg(unix)]
#[test]
fn the_units_for_systemd_fit_the_program() -> Outcome {
    use agewise_server::CoordinatorParams;
    let (blocks, _) = blocks(&fs::read_to_string(root().join("docs/deployment.md"))?);
    let units: Vec<&str> = blocks.iter().filter(|b| b.info == "ini").map(|b| &*b.code).collect();
    let [coordinator, client] = units[..] else { return Err("expected two units".into()) };
    for unit in [coordinator, client] {
        let command = values(unit, "ExecStart");
        let [command] = command[..] else { return Err("expected one command".into()) };
        let mut words = command.split_whitespace();
        assert_eq!(words.next(), Some("/usr/local/bin/agewise"));
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_agewise"))
            .args(words)
            .args(["--and-no-more"])
            .output()?;
        let said = String::from_utf8(output.stderr)?;
        // Flags are read in order: the first one that is not known is named.
        assert!(said.contains("unexpected argument '--and-no-more'"), "{command}: {said}");
    }
    let number = |key| values(coordinator, key).first().and_then(|value| value.parse::<f64>().ok());
    let CoordinatorParams { round, limits, .. } = CoordinatorParams::default();
    assert!(number("TimeoutStopSec") > Some(round.drain_seconds + 10.0));
    assert!(number("LimitNOFILE") > Some(limits.connections as f64 + 1_000.0));
    assert!(number("RestartSec") >= Some(1.0));
    assert_eq!(values(coordinator, "RestartPreventExitStatus"), ["2"], "bad input ends with 2");
    assert_eq!(values(coordinator, "User"), ["agewise"]);
    Ok(())
}

/// The README's first command names no program: `cargo run` has to find exactly one.
#[test]
fn cargo_run_has_one_program() -> Outcome {
    let metadata = std::process::Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()?;
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout)?;
    let members = metadata["workspace_default_members"].as_array().ok_or("no members")?;
    let packages = metadata["packages"].as_array().ok_or("no packages")?;
    let ours = packages.iter().filter(|package| members.contains(&package["id"]));
    let targets = ours.filter_map(|package| package["targets"].as_array()).flatten();
    let programs = targets.filter(|target| target["kind"] == serde_json::json!(["bin"]));
    assert_eq!(programs.map(|target| &target["name"]).collect::<Vec<_>>(), ["agewise"]);
    Ok(())
}

/// The badges of the README are pictures of our own: they say what the manifests say.
#[test]
fn badges_say_what_the_manifests_say() -> Outcome {
    let value = |path: &str, key: &str| -> Outcome<String> {
        let manifest = fs::read_to_string(root().join(path))?;
        let line = manifest.lines().find(|line| line.split('=').next().map(str::trim) == Some(key));
        let quoted = line.and_then(|line| line.split('"').nth(1)).ok_or("no such key")?;
        Ok(quoted.to_string())
    };
    let rust = value("Cargo.toml", "rust-version")?;
    let python = value("python/pyproject.toml", "requires-python")?;
    let licence = value("Cargo.toml", "license")?.replace(" OR ", " or ");
    for (badge, said) in [
        ("licence", format!("licence: {licence}")),
        ("rust", format!("Rust: {rust} or newer")),
        ("python", format!("Python: {} or newer", python.trim_start_matches(">="))),
    ] {
        let picture = fs::read_to_string(root().join(format!("docs/figures/badge-{badge}.svg")))?;
        assert!(picture.contains(&format!(">{said}</title>")), "{badge}: {said}");
        let (_, text) = said.split_once(": ").ok_or("no colon")?;
        assert!(picture.contains(&format!(">{text}</text>")), "{badge}: {text}");
    }
    Ok(())
}

/// The README stays a face: at most 150 lines, and everything else is a link.
#[test]
fn the_readme_is_short() -> Outcome {
    let readme = fs::read_to_string(root().join("README.md"))?;
    let lines = readme.lines().count();
    assert!(lines <= 150, "{lines} lines");
    for command in ["cargo run --release -- compare", "cargo test --workspace --locked"] {
        assert!(readme.contains(command), "{command}");
    }
    Ok(())
}

/// The README's command for data of one's own works on a table as the README describes it.
#[test]
fn the_readme_leads_to_a_verdict_on_own_data() -> Outcome {
    let here = folder("readme-own-data")?;
    let row = |row: u32| {
        let (user, age, visits) = (row % 12, 20 + row * 7 % 50, row * 5 % 9);
        let bought = if age + 5 * visits > 65 { "yes" } else { "no" };
        format!("u{user},{age},{visits},{bought}")
    };
    let rows: Vec<String> = (0..300).map(row).collect();
    fs::write(here.join("visits.csv"), format!("user,age,visits,bought\n{}\n", rows.join("\n")))?;
    let (blocks, _) = blocks(&fs::read_to_string(root().join("README.md"))?);
    let command = blocks.iter().find(|block| block.code.contains("visits.csv"));
    let command = command.ok_or("no command for data of one's own")?;
    let words = command.code.split_whitespace().skip(1);
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_agewise"))
        .args(words)
        // As it stands it plays 72 runs of 100 rounds.
        .args(["--rounds", "4", "--seeds", "2", "--quiet"])
        .current_dir(&here)
        .output()?;
    let (said, wrong) = (String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?);
    assert!(output.status.success(), "{wrong}");
    assert!(said.contains("12 clients") && said.contains("Measured by"), "{said}");
    assert!(here.join("runs/compare-001/report.html").exists());
    Ok(())
}

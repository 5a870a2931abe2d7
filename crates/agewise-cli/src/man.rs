//! `agewise man`: the manual pages, made from the help of each command.

use super::{Cli, Failure, print};
use agewise_core::Error;
use agewise_core::files::write_atomically;
use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;
use std::fs;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(
    about = "Write the manual pages, one for each command",
    after_help = "Examples:
  agewise man --out ~/.local/share/man/man1
  agewise man | man -l -"
)]
pub(crate) struct ManArgs {
    /// Write a page for every command into this folder, instead of printing that of agewise itself
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Replace pages that exist
    #[arg(long, requires = "out")]
    force: bool,
}

/// Runs the command.
pub(crate) fn run(args: &ManArgs) -> Result<(), Failure> {
    let mut command = Cli::command().disable_help_subcommand(true);
    // Gives commands below others their full names.
    command.build();
    let Some(folder) = &args.out else {
        return print(&page(&Man::new(command))?);
    };
    let mut pages = Vec::new();
    collect(&command, &mut pages)?;
    let taken = pages.iter().map(|(name, _)| folder.join(name)).find(|path| path.exists());
    if let Some(path) = taken.filter(|_| !args.force) {
        let expected = "a page that does not exist yet, or --force";
        return Err(Error::new("out", path.display(), expected).into());
    }
    let failed = |error: std::io::Error| Failure::Io(format!("{}: {error}", folder.display()));
    fs::create_dir_all(folder).map_err(failed)?;
    for (name, text) in &pages {
        write_atomically(&folder.join(name), text.as_bytes()).map_err(failed)?;
    }
    print(&format!("{} pages in {}\n", pages.len(), folder.display()))
}

/// The pages of a command and of those below it, by the names of their files.
fn collect(command: &Command, pages: &mut Vec<(String, String)>) -> Result<(), Failure> {
    let man = Man::new(command.clone());
    pages.push((man.get_filename(), page(&man)?));
    command.get_subcommands().try_for_each(|below| collect(below, pages))
}

fn page(man: &Man) -> Result<String, Failure> {
    let mut text = Vec::new();
    man.render(&mut text)
        .map_err(|error| Failure::Io(format!("cannot write a manual page: {error}")))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

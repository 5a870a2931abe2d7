//! `agewise completions`: what a shell needs to complete commands and flags.

use super::{Cli, Failure, print};
use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};

#[derive(Debug, Args)]
#[command(
    about = "Print what a shell needs to complete commands and flags",
    after_help = "Examples:
  agewise completions bash > ~/.local/share/bash-completion/completions/agewise
  agewise completions zsh > ~/.zfunc/_agewise
  agewise completions fish > ~/.config/fish/completions/agewise.fish"
)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs the command.
pub(crate) fn run(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut text = Vec::new();
    generate(args.shell, &mut Cli::command(), "agewise", &mut text);
    print(&String::from_utf8_lossy(&text))
}

//! The `agewise` command.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    agewise_cli::main()
}

//! The `agewise` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    agewise_cli::main()
}

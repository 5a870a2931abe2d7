//! The `agewise` command from the outside. One program, so that tests which wait overlap.

mod common;
mod compare_command;
mod compare_resume;
mod container;
mod data_command;
#[cfg(unix)]
mod deployment_command;
#[cfg(unix)]
mod deployment_faults;
mod docs;
mod golden;
mod machine_commands;
mod own_data;
mod packages;
mod real_conditions;
#[cfg(unix)]
mod release;
mod report_command;
mod simulate_command;
mod theory_command;

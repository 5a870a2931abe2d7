//! What people see of experiments and of the theory: tables, figures, findings and pages.
//!
//! A [`ReportSection`] is one experiment in a report. Its parts appear where there is something to show: learning where
//! the experiment trains, closed forms beside what was measured where the world is that of the theory, and who was
//! reached where it is not. [`page`] puts one or several experiments of any kind into one page.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests have tolerances"))]
#![forbid(unsafe_code)]

mod clock;
mod comparison;
pub mod data;
mod figures;
mod files;
mod findings;
pub mod format;
mod methods;
mod page;
mod section;
mod series_style;
mod summary_table;
mod tables;
pub mod theory;
mod units;

pub use figures::ReportFigure;
pub use files::RunFiles;
pub use page::page;
pub use section::{ReportError, ReportSection};
pub use summary_table::SummaryTable;

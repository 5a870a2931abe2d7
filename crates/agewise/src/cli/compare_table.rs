//! The table of a comparison in the terminal.

use super::Failure;
use super::table::table;
use crate::compare::{Comparison, Overview};
use crate::run_folder::RunFolder;
use crate::sim::study::StudySummary;
use std::fmt::Write as _;

/// Everything that is printed at the end.
pub(crate) fn text(
    comparison: &Comparison,
    summary: &StudySummary,
    folder: &RunFolder,
) -> Result<String, Failure> {
    let overview = comparison.overview(summary, folder)?;
    let mut text = format!("{}\n{}", overview.title, tables(&overview));
    if let Some(caution) = &overview.caution {
        let _ = writeln!(text, "{caution}");
    }
    let _ = write!(
        text,
        "Rounds: median [95% interval]. Against: change over common seeds [95% interval]. X: rounds between two \
         selections\nof a client. Times: on this machine. {}\n\nReport: {}\n",
        overview.verdict,
        folder.path().join("report.html").display()
    );
    Ok(text)
}

/// One table; or two where there are several targets, which would be too wide for one.
fn tables(overview: &Overview) -> String {
    let all = overview.columns.len();
    let targets = 1..1 + overview.target_columns;
    if targets.len() <= 2 {
        return part(overview, 1..all);
    }
    part(overview, targets.clone()) + &part(overview, targets.end..all)
}

/// The policies with some of the columns.
fn part(overview: &Overview, columns: std::ops::Range<usize>) -> String {
    let numbers = 1..=columns.len();
    let cells = |row: &[String]| -> Vec<String> {
        let rest = row.get(columns.clone()).unwrap_or_default();
        row.iter().take(1).chain(rest).cloned().collect()
    };
    let rows = overview.rows.iter().map(|row| cells(row));
    format!("{}\n", table(cells(&overview.columns), numbers, rows))
}

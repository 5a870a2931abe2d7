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
    let Overview { title, columns, rows, caution, verdict } =
        comparison.overview(summary, folder)?;
    let columns = columns.each_ref().map(String::as_str);
    let mut text = format!("{title}\n{}\n", table(columns, 1..=9, rows));
    if let Some(caution) = caution {
        let _ = writeln!(text, "{caution}");
    }
    let _ = write!(
        text,
        "Rounds: median [95% interval]. Against: change over common seeds [95% interval]. X: rounds between two \
         selections\nof a client. {verdict}\n\nReport: {}\n",
        folder.path().join("report.html").display()
    );
    Ok(text)
}

//! The table of a comparison in the terminal.

use super::Failure;
use super::table::table;
use crate::compare::{Comparison, Overview};
use crate::run_folder::RunFolder;
use crate::sim::study::StudySummary;
use std::fmt::Write as _;
use std::ops::Range;

/// Everything that is printed at the end.
pub(crate) fn text(
    comparison: &Comparison,
    summary: &StudySummary,
    folder: &RunFolder,
) -> Result<String, Failure> {
    let overview = comparison.overview(summary, folder)?;
    let mut text = format!("{}\n{}", overview.title, tables(&overview, terminal_width()));
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

/// How many characters fit beside each other; a file has no end.
fn terminal_width() -> usize {
    console::Term::stdout().size_checked().map_or(usize::MAX, |(_, columns)| columns.into())
}

/// One table, or two where there are several targets; more where they would be wider than the terminal.
fn tables(overview: &Overview, width: usize) -> String {
    let all = overview.columns.len();
    let first_end = if overview.target_columns > 2 { 1 + overview.target_columns } else { all };
    let parts = [1..first_end, first_end..all]
        .into_iter()
        .flat_map(|columns| fitting(overview, columns, width));
    parts.map(|columns| part(overview, columns)).collect()
}

/// These columns in parts that fit, as far as a single one does. The two columns of a target stay together.
fn fitting(overview: &Overview, columns: Range<usize>, width: usize) -> Vec<Range<usize>> {
    let (mut parts, mut begin, mut end) = (Vec::new(), columns.start, columns.start);
    while end < columns.end {
        let next = end + if end <= overview.target_columns { 2 } else { 1 };
        let too_wide =
            || part(overview, begin..next).lines().any(|line| line.chars().count() > width);
        if end > begin && too_wide() {
            parts.push(begin..end);
            begin = end;
        }
        end = next;
    }
    if end > begin {
        parts.push(begin..end);
    }
    parts
}

/// The policies with some of the columns.
fn part(overview: &Overview, columns: Range<usize>) -> String {
    let numbers = 1..=columns.len();
    let cells = |row: &[String]| -> Vec<String> {
        let rest = row.get(columns.clone()).unwrap_or_default();
        row.iter().take(1).chain(rest).cloned().collect()
    };
    let rows = overview.rows.iter().map(|row| cells(row));
    format!("{}\n", table(cells(&overview.columns), numbers, rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overview(targets: usize) -> Overview {
        let about_target =
            |place: usize| [format!("rounds to 9{place}%"), format!("change {place}")];
        let columns = std::iter::once("policy".to_string())
            .chain((0..targets).flat_map(about_target))
            .chain(["Var[X]", "longest wait", "Jain"].map(str::to_string));
        let columns: Vec<String> = columns.collect();
        Overview {
            title: String::new(),
            rows: vec![columns.iter().map(|_| "12345".to_string()).collect()],
            columns,
            target_columns: 2 * targets,
            caution: None,
            verdict: String::new(),
        }
    }

    /// The header of each table, as words.
    fn headers(text: &str) -> Vec<String> {
        let headers = text.lines().filter(|line| line.contains("policy"));
        headers
            .map(|line| line.replace('│', "").split_whitespace().collect::<Vec<_>>().join(" "))
            .collect()
    }

    #[test]
    fn a_file_gets_targets_and_the_rest() {
        let rest = "Var[X] longest wait Jain";
        let one = "rounds to 90% change 0";
        let text = tables(&overview(1), usize::MAX);
        assert_eq!(headers(&text), [format!("policy {one} {rest}")]);
        let text = tables(&overview(2), usize::MAX);
        let two = "rounds to 91% change 1";
        assert_eq!(headers(&text), [format!("policy {one} {two}"), format!("policy {rest}")]);
    }

    #[test]
    fn no_table_is_wider_than_the_terminal() {
        for targets in 0..4 {
            let overview = overview(targets);
            for width in 40..130 {
                let text = tables(&overview, width);
                assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
                let shown: Vec<String> = headers(&text)
                    .iter()
                    .map(|header| header.trim_start_matches("policy").trim().to_string())
                    .filter(|header| !header.is_empty())
                    .collect();
                assert_eq!(shown.join(" "), overview.columns[1..].join(" "), "{width}");
                for place in 0..targets {
                    let pair = format!("rounds to 9{place}% change {place}");
                    assert!(shown.iter().any(|header| header.contains(&pair)), "{width}: {text}");
                }
            }
        }
    }

    #[test]
    fn a_terminal_too_narrow_for_one_column_gets_it_nevertheless() {
        assert_eq!(headers(&tables(&overview(1), 1)).len(), 4);
    }
}

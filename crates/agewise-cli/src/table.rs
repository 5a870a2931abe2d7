//! Tables for the terminal.

use agewise_experiment::RunDir;
use agewise_experiment::run_dir::REPORT;
use agewise_report::SummaryTable;
use comfy_table::{CellAlignment, Row, Table, presets};
use std::fmt::Write as _;
use std::ops::Range;

/// The widest that prose gets, however wide the terminal is.
const WIDEST_PROSE: usize = 118;

/// A table with these columns, of which the numbered ones hold numbers.
pub(crate) fn table<R: Into<Row>>(
    columns: impl Into<Row>,
    numbers: impl IntoIterator<Item = usize>,
    rows: impl IntoIterator<Item = R>,
) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header(columns);
    table.add_rows(rows);
    for column in numbers {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Everything that is printed at the end of an experiment.
pub(crate) fn summary(summary: &SummaryTable, dir: &RunDir) -> String {
    let width = terminal_width();
    let mut text = format!("{}\n{}", wrapped(&summary.title, width), tables(summary, width));
    if let Some(caution) = &summary.caution {
        let _ = writeln!(text, "{}", wrapped(caution, width));
    }
    let report = dir.path().join(REPORT);
    let prose = format!("{} {}", summary.legend, summary.verdict);
    let _ = writeln!(text, "{}\n\nReport: {}", wrapped(&prose, width), report.display());
    text
}

/// How many characters fit beside each other; a file has no end.
fn terminal_width() -> usize {
    console::Term::stdout().size_checked().map_or(usize::MAX, |(_, columns)| columns.into())
}

/// Prose in lines that fit, broken between words.
fn wrapped(text: &str, width: usize) -> String {
    let width = width.min(WIDEST_PROSE);
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    lines.push(line);
    lines.join("\n")
}

/// One table, or two where there are several targets; more where they would be wider than the terminal.
fn tables(summary: &SummaryTable, width: usize) -> String {
    let all = summary.columns.len();
    let first_end = if summary.target_columns > 2 { 1 + summary.target_columns } else { all };
    let parts = [1..first_end, first_end..all]
        .into_iter()
        .flat_map(|columns| fitting(summary, columns, width));
    parts.map(|columns| part(summary, columns)).collect()
}

/// These columns in parts that fit, as far as a single one does. The two columns of a target stay together.
fn fitting(summary: &SummaryTable, columns: Range<usize>, width: usize) -> Vec<Range<usize>> {
    let (mut parts, mut begin, mut end) = (Vec::new(), columns.start, columns.start);
    while end < columns.end {
        let next = end + if end <= summary.target_columns { 2 } else { 1 };
        let too_wide =
            || part(summary, begin..next).lines().any(|line| line.chars().count() > width);
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
fn part(summary: &SummaryTable, columns: Range<usize>) -> String {
    let numbers = 1..=columns.len();
    let cells = |row: &[String]| -> Vec<String> {
        let rest = row.get(columns.clone()).unwrap_or_default();
        row.iter().take(1).chain(rest).cloned().collect()
    };
    let rows = summary.rows.iter().map(|row| cells(row));
    format!("{}\n", table(cells(&summary.columns), numbers, rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(targets: usize) -> SummaryTable {
        let about_target =
            |place: usize| [format!("rounds to 9{place}%"), format!("change {place}")];
        let columns = std::iter::once("policy".to_string())
            .chain((0..targets).flat_map(about_target))
            .chain(["Var[X]", "longest wait", "Jain"].map(str::to_string));
        let columns: Vec<String> = columns.collect();
        SummaryTable {
            title: String::new(),
            rows: vec![columns.iter().map(|_| "12345".to_string()).collect()],
            columns,
            target_columns: 2 * targets,
            caution: None,
            legend: String::new(),
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
        let text = tables(&summary(1), usize::MAX);
        assert_eq!(headers(&text), [format!("policy {one} {rest}")]);
        let text = tables(&summary(2), usize::MAX);
        let two = "rounds to 91% change 1";
        assert_eq!(headers(&text), [format!("policy {one} {two}"), format!("policy {rest}")]);
    }

    #[test]
    fn no_table_is_wider_than_the_terminal() {
        for targets in 0..4 {
            let summary = summary(targets);
            for width in 40..130 {
                let text = tables(&summary, width);
                assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
                let shown: Vec<String> = headers(&text)
                    .iter()
                    .map(|header| header.trim_start_matches("policy").trim().to_string())
                    .filter(|header| !header.is_empty())
                    .collect();
                assert_eq!(shown.join(" "), summary.columns[1..].join(" "), "{width}");
                for place in 0..targets {
                    let pair = format!("rounds to 9{place}% change {place}");
                    assert!(shown.iter().any(|header| header.contains(&pair)), "{width}: {text}");
                }
            }
        }
    }

    #[test]
    fn a_terminal_too_narrow_for_one_column_gets_it_nevertheless() {
        assert_eq!(headers(&tables(&summary(1), 1)).len(), 4);
    }

    #[test]
    fn prose_breaks_between_words() {
        assert_eq!(wrapped("one two three", 7), "one two\nthree");
        assert_eq!(wrapped("incomprehensible it is", 5), "incomprehensible\nit is");
    }
}

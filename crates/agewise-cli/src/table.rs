//! Tables and prose for the terminal, in lines that fit.
//!
//! A table of numbers that is too wide is cut into several, each with the first column; a table of words gets narrower
//! columns, in which lines break between words. What goes into a file or a pipe is as wide as it likes, unless `COLUMNS`
//! says otherwise.

use agewise_experiment::RunDir;
use agewise_experiment::run_dir::REPORT;
use agewise_report::SummaryTable;
use comfy_table::{CellAlignment, ColumnConstraint, Table, Width, presets};
use std::cmp::Reverse;
use std::fmt::Write as _;
use std::ops::Range;

/// The widest that prose gets, however wide the terminal is.
const WIDEST_PROSE: usize = 118;

/// Prose is not broken into lines that are shorter than this.
const NARROWEST: usize = 20;

/// A table with these columns, of which the numbered ones hold numbers. Where it would be wider than the terminal, cells
/// of words have several lines; where even their longest words have no room, each row is a block of lines.
pub(crate) fn table<C: ToString, R: IntoIterator<Item = C>>(
    columns: impl IntoIterator<Item = impl ToString>,
    numbers: impl IntoIterator<Item = usize>,
    rows: impl IntoIterator<Item = R>,
) -> String {
    let columns = columns.into_iter().map(|column| column.to_string()).collect::<Vec<_>>();
    let cells = |row: R| row.into_iter().map(|cell| cell.to_string()).collect();
    let rows: Vec<Vec<String>> = rows.into_iter().map(cells).collect();
    let numbers: Vec<usize> = numbers.into_iter().collect();
    let width = terminal_width();
    match column_widths(&columns, &numbers, &rows, width) {
        Some(widths) => drawn(&columns, numbers, &rows, &widths),
        None => blocks(&columns, &rows, width),
    }
}

/// The most characters of a cell's lines when it is not broken, and when it is broken between all words.
fn cell_widths(cell: &str) -> (usize, usize) {
    let longest = cell.split_whitespace().map(|word| word.chars().count()).max();
    (cell.chars().count(), longest.unwrap_or(0))
}

/// The width of each column in a table that fits, with as few lines as that takes and without a broken word or number.
/// Nothing if that is not possible.
fn column_widths(
    columns: &[String],
    numbers: &[usize],
    rows: &[Vec<String>],
    width: usize,
) -> Option<Vec<usize>> {
    let of = |place: usize| {
        let cells = rows.iter().filter_map(|row| row.get(place)).map(|cell| cell_widths(cell));
        // A number and its unit stay together.
        let cells =
            cells.map(|(whole, word)| (whole, if numbers.contains(&place) { whole } else { word }));
        let all = cells.chain(columns.get(place).map(|heading| cell_widths(heading)));
        all.fold((0, 0), |(whole, word), cell| (whole.max(cell.0), word.max(cell.1)))
    };
    let (mut widths, least): (Vec<usize>, Vec<usize>) = (0..columns.len()).map(of).unzip();
    // Two borders, and a space at each side of a cell with another one between two cells.
    while widths.iter().sum::<usize>() + 3 * widths.len() + 1 > width {
        let can_shrink = (0..widths.len()).filter(|&place| widths[place] > least[place]);
        let lines_without = |&place: &usize| {
            let mut narrower = widths.clone();
            narrower[place] -= 1;
            (lines(rows, &narrower), Reverse(widths[place]))
        };
        let place = can_shrink.min_by_key(lines_without)?;
        widths[place] -= 1;
    }
    Some(widths)
}

/// How many lines the rows of a table have with columns of these widths.
fn lines(rows: &[Vec<String>], widths: &[usize]) -> usize {
    let of_cell = |(cell, &width): (&String, &usize)| wrapped(cell, width).lines().count();
    rows.iter().filter_map(|row| row.iter().zip(widths).map(of_cell).max()).sum()
}

fn drawn(
    columns: &[String],
    numbers: impl IntoIterator<Item = usize>,
    rows: &[Vec<String>],
    widths: &[usize],
) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header(columns);
    table.add_rows(rows);
    for column in numbers {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for (place, &width) in widths.iter().enumerate() {
        if let Some(column) = table.column_mut(place) {
            // With a space at each side.
            let width = u16::try_from(width + 2).unwrap_or(u16::MAX);
            column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
        }
    }
    format!("{table}")
}

/// The first cell of each row on a line of its own, and below it the others behind their headings.
fn blocks(columns: &[String], rows: &[Vec<String>], width: usize) -> String {
    let label = columns.iter().skip(1).map(|name| name.chars().count()).max().unwrap_or(0);
    let block = |row: &Vec<String>| {
        let others = columns.iter().zip(row).skip(1).filter(|(_, cell)| !cell.is_empty());
        let lines = others.map(|(name, cell)| {
            let room = width.saturating_sub(label + 4).max(NARROWEST);
            let lines = wrapped(cell, room).replace('\n', &format!("\n{:1$}", "", label + 4));
            format!("\n  {name:label$}  {lines}")
        });
        row.first().cloned().unwrap_or_default() + &lines.collect::<String>()
    };
    rows.iter().map(block).collect::<Vec<_>>().join("\n")
}

/// A table of numbers behind a first column of names, as several tables where it would be wider than the terminal.
pub(crate) fn numbers(columns: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let columns: Vec<String> = columns.iter().map(ToString::to_string).collect();
    let rows: Vec<Vec<String>> = rows.into_iter().collect();
    let all = NumberTable { columns: &columns, rows: &rows, pairs: 0 };
    all.in_parts(1..columns.len(), terminal_width())
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
    let asked = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = || console::Term::stdout().size_checked().map(|(_, columns)| columns.into());
    asked.filter(|&columns| columns > 0).or_else(terminal).unwrap_or(usize::MAX)
}

/// Prose in lines that fit into the terminal, broken between words.
pub(crate) fn prose(text: &str) -> String {
    wrapped(text, terminal_width())
}

/// Prose behind a label, whose further lines begin below its first word.
pub(crate) fn labelled(label: &str, label_width: usize, text: &str) -> String {
    let indent = label_width + 2;
    let width = terminal_width().saturating_sub(indent).max(NARROWEST);
    let lines = wrapped(text, width).replace('\n', &format!("\n{:indent$}", ""));
    format!("{label:label_width$}  {lines}")
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
    let SummaryTable { columns, rows, target_columns, .. } = summary;
    let table = NumberTable { columns, rows, pairs: *target_columns };
    table.in_parts(1..first_end, width) + &table.in_parts(first_end..all, width)
}

/// Numbers behind a first column of names.
struct NumberTable<'a> {
    columns: &'a [String],
    rows: &'a [Vec<String>],
    /// So many columns behind the first are pairs that stay together.
    pairs: usize,
}

impl NumberTable<'_> {
    /// These columns, in tables that fit as far as a single column does.
    fn in_parts(&self, columns: Range<usize>, width: usize) -> String {
        let (mut parts, mut begin, mut end) = (String::new(), columns.start, columns.start);
        while end < columns.end {
            let next = end + if end <= self.pairs { 2 } else { 1 };
            let too_wide =
                || self.part(begin..next).lines().any(|line| line.chars().count() > width);
            if end > begin && too_wide() {
                parts += &self.part(begin..end);
                begin = end;
            }
            end = next;
        }
        if end > begin {
            parts += &self.part(begin..end);
        }
        parts
    }

    /// The first column with some of the others.
    fn part(&self, columns: Range<usize>) -> String {
        let numbers = 1..=columns.len();
        let cells = |row: &[String]| -> Vec<String> {
            let rest = row.get(columns.clone()).unwrap_or_default();
            row.iter().take(1).chain(rest).cloned().collect()
        };
        let rows: Vec<Vec<String>> = self.rows.iter().map(|row| cells(row)).collect();
        drawn(&cells(self.columns), numbers, &rows, &[]) + "\n"
    }
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

    /// At any width lines fit, and no word is broken.
    #[test]
    fn words_in_tables_break_between_words() {
        let columns = ["policy", "options", "what it does"].map(str::to_string);
        let row =
            ["round-robin", "ahead, punctual", "the next clients in order: as balanced as can be"];
        let rows = [row.map(str::to_string).to_vec()];
        for width in 50..90 {
            let text = match column_widths(&columns, &[], &rows, width) {
                Some(widths) => drawn(&columns, [], &rows, &widths),
                None => panic!("there is room at {width}"),
            };
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
            let words: Vec<&str> = text.split(|c: char| c == '│' || c.is_whitespace()).collect();
            for word in row.iter().flat_map(|cell| cell.split(' ')) {
                assert!(words.contains(&word), "{width}: {word} in {text}");
            }
        }
        assert_eq!(column_widths(&columns, &[], &rows, 30), None);
        assert_eq!(
            blocks(&columns, &rows, 36),
            "round-robin\n  options       ahead, punctual\n  what it does  the next clients in\n                order: as balanced\n                as can be"
        );
    }
}

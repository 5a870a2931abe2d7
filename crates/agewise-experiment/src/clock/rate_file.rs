//! Rates from columns of a CSV file, one row for each client.

use super::rates::{Columns, is_column};
use agewise_core::{Error, Result};
use std::collections::btree_map::Entry;
use std::path::Path;

/// What `FILE.csv:A,B` stands for: `FILE.csv:A` and `FILE.csv:B`.
pub(super) fn names(text: &str) -> Vec<String> {
    let Some((file, columns)) = text.rsplit_once(':') else {
        return Vec::new();
    };
    columns.split(',').map(|column| format!("{file}:{}", column.trim())).collect()
}

/// Reads the columns that the text of a field names, so many of them, unless they are known already.
pub(crate) fn load(field: &str, text: &str, count: usize, columns: &mut Columns) -> Result<()> {
    if !is_column(text) {
        return Ok(());
    }
    let names = names(text);
    if names.len() != count {
        let expected = if count == 1 { "one column" } else { "two columns: FILE.csv:DOWN,UP" };
        return Err(Error::new(field, text, expected));
    }
    for name in names {
        if let Entry::Vacant(entry) = columns.entry(name) {
            let values = read(field, entry.key())?;
            entry.insert(values);
        }
    }
    Ok(())
}

fn read(field: &str, name: &str) -> Result<Vec<f64>> {
    let (file, column) = name.rsplit_once(':').unwrap_or((name, ""));
    let wrong = |expected: String| Error::new(field, name, expected);
    let mut table = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_path(Path::new(file))
        .map_err(|error| wrong(format!("a CSV file that can be read ({error})")))?;
    let header = table.headers().map_err(|error| wrong(format!("a header ({error})")))?.clone();
    let place = header.iter().position(|cell| cell == column);
    let place = place.ok_or_else(|| Error::unknown(field, column, header.iter()))?;
    let mut values = Vec::new();
    for (line, row) in (2..).zip(table.records()) {
        let row = row.map_err(|error| wrong(format!("rows of a table ({error})")))?;
        let cell = row.get(place).unwrap_or_default();
        let value = cell.parse::<f64>().ok().filter(|value| (1e-6..=1e15).contains(value));
        values.push(value.ok_or_else(|| {
            Error::new(format!("{field} = {name}, line {line}"), cell, "a number above 0")
        })?);
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_read_by_name_and_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("devices.csv");
        std::fs::write(&file, "name, speed,down,up\na,100,8,2\nb,50, 4,1\n").unwrap();
        let path = file.display();
        let mut columns = Columns::new();
        load("speeds", &format!("{path}:speed"), 1, &mut columns).unwrap();
        load("links", &format!("{path}:down,up"), 2, &mut columns).unwrap();
        assert_eq!(columns[&format!("{path}:speed")], [100.0, 50.0]);
        assert_eq!(columns[&format!("{path}:up")], [2.0, 1.0]);
        std::fs::write(&file, "speed\n1\nx\n").unwrap();
        // What is known is not read again.
        load("speeds", &format!("{path}:speed"), 1, &mut columns).unwrap();
        let wrong = |text: String, count| {
            load("speeds", &text, count, &mut Columns::new()).unwrap_err().to_string()
        };
        let error = wrong(format!("{path}:speed"), 1);
        assert!(error.contains("line 3 = x: expected a number above 0"), "{error}");
        assert!(wrong(format!("{path}:spead"), 1).contains("did you mean speed?"));
        assert!(wrong(format!("{path}:speed"), 2).contains("FILE.csv:DOWN,UP"));
        assert!(wrong("nowhere.csv:speed".into(), 1).contains("a CSV file that can be read"));
    }
}

//! Parameters from TOML files: what a file says, over what it does not say. Whatever is wrong is named with its line, its
//! key, its value and what would be right.

use agewise_core::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

/// Reads a file over a base, for everything that it does not say.
pub fn read<T>(text: &str, base: &T) -> Result<T>
where
    T: Serialize + DeserializeOwned,
{
    overlay(base, parse(text)?).map_err(|error| with_line(text, &error))
}

/// A file as a table.
pub fn parse(text: &str) -> Result<Table> {
    text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| line_at(text, span.start));
        let what = text.lines().nth(line - 1).unwrap_or_default().trim();
        let expected = format!("a line of a TOML file ({})", error.message().trim());
        Error::new(format!("line {line}"), what, expected)
    })
}

/// The same error with the line of its key in a file, if that is there.
pub fn with_line(text: &str, error: &Error) -> Error {
    let Some(line) = line_of(text, error.field()) else {
        return error.clone();
    };
    Error::new(format!("line {line}: {}", error.field()), error.value(), error.expected())
}

/// Parameters as a table.
pub(crate) fn table_of(params: &impl Serialize) -> Result<Table> {
    let table = Table::try_from(params);
    table.map_err(|error| Error::new("config", error, "parameters that TOML can hold"))
}

/// Parameters with what a table says instead; a key that is not known is an error.
pub fn overlay<T>(base: &T, mut changes: Table) -> Result<T>
where
    T: Serialize + DeserializeOwned,
{
    round_off(&mut changes);
    let mut table = table_of(base)?;
    lay_over(&mut table, changes.clone());
    let read = serde_path_to_error::deserialize(Value::Table(table.clone()));
    let params: T = read.map_err(|error: serde_path_to_error::Error<toml::de::Error>| {
        let (path, message) = (error.path().to_string(), error.inner().message());
        if let Some((key, known)) = unknown_key(message) {
            // The path ends with the key, or with the table around it where serde looks into that twice.
            let path = match path.rsplit('.').next() {
                Some(last) if last == key => path,
                _ => format!("{path}.{key}"),
            };
            let value = value_at(&table, &path).map_or_else(String::new, Value::to_string);
            let hint = Error::unknown("key", key, known.into_iter());
            return Error::new(path, value, hint.expected());
        }
        let value = value_at(&table, &path).map_or("not there".to_string(), Value::to_string);
        Error::new(path, value, in_plain_words(message))
    })?;
    check_effect(&changes, &table_of(&params)?, "")?;
    Ok(params)
}

/// The key that serde does not know, and those that it knows there.
fn unknown_key(message: &str) -> Option<(&str, Vec<&str>)> {
    let mut quoted = message.trim().strip_prefix("unknown field ")?.split('`').skip(1).step_by(2);
    Some((quoted.next()?, quoted.collect()))
}

/// Refuses a key that did not make it into the parameters: serde passes over those beside a rule without numbers.
fn check_effect(changes: &Table, params: &Table, outer: &str) -> Result<()> {
    for (key, value) in changes {
        match (params.get(key), value) {
            (None, value) => {
                let known: Vec<&str> = params.keys().map(String::as_str).collect();
                let hint = Error::unknown("key", key, known.into_iter());
                return Err(Error::new(format!("{outer}{key}"), value, hint.expected()));
            }
            (Some(Value::Table(params)), Value::Table(inner)) => {
                check_effect(inner, params, &format!("{outer}{key}."))?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Makes whole numbers of floats such as `1e6`, as on the command line. Where a fraction may stand, so may a whole number.
fn round_off(table: &mut Table) {
    for (_, value) in table {
        match value {
            Value::Float(number)
                if number.fract() == 0.0 && number.abs() <= (1u64 << 53) as f64 =>
            {
                *value = Value::Integer(*number as i64);
            }
            Value::Table(inner) => round_off(inner),
            _ => {}
        }
    }
}

fn lay_over(table: &mut Table, changes: Table) {
    for (key, change) in changes {
        match (table.get_mut(&key), change) {
            (Some(Value::Table(inner)), Value::Table(changes)) => lay_over(inner, changes),
            (_, change) => {
                table.insert(key, change);
            }
        }
    }
}

/// What serde expected, without the names of Rust's types.
fn in_plain_words(message: &str) -> String {
    let message = message.trim();
    let Some((_, expected)) = message.split_once("expected ") else {
        return format!("another value ({message})");
    };
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number of at least 0".to_string(),
        "i32" | "i64" => "a whole number".to_string(),
        "f32" | "f64" => "a number".to_string(),
        "a boolean" => "true or false".to_string(),
        "a sequence" => "a list".to_string(),
        "a string" => "a text in quotation marks".to_string(),
        _ if expected.starts_with("struct ") || expected.contains("tagged enum") => {
            "a table".to_string()
        }
        "variant identifier" | "string or map" => "a name in quotation marks".to_string(),
        named => named.replace('`', ""),
    }
}

/// The names in a path such as `training.targets[1]`, without places in lists.
fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('.').map(|name| name.split('[').next().unwrap_or(name))
}

fn value_at<'a>(table: &'a Table, path: &str) -> Option<&'a Value> {
    let mut names = names(path);
    let first = table.get(names.next()?)?;
    names.try_fold(first, |value, name| value.get(name))
}

/// The line of a key in a file.
fn line_of(text: &str, path: &str) -> Option<usize> {
    let file = DeTable::parse(text).ok()?;
    let mut table = file.get_ref();
    let mut line = None;
    for name in names(path) {
        let (key, value): (_, &Spanned<DeValue<'_>>) =
            table.iter().find(|(key, _)| key.get_ref() == name)?;
        line = Some(line_at(text, key.span().start));
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            _ => break,
        }
    }
    line
}

fn line_at(text: &str, place: usize) -> usize {
    1 + text.as_bytes().iter().take(place).filter(|&&byte| byte == b'\n').count()
}

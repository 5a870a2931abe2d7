//! Configuration files.

use super::Failure;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::path::Path;

/// Reads parameters from a TOML file. `left_out` are the keys that the default parameters do not write.
pub(crate) fn read<T>(path: &Path, left_out: &[&str]) -> Result<T, Failure>
where
    T: Default + Serialize + DeserializeOwned,
{
    let shown = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::BadInput(format!("config = {shown}: {error}")))?;
    let table: toml::Table =
        text.parse().map_err(|error| Failure::BadInput(format!("config = {shown}: {error}")))?;
    let defaults = toml::Table::try_from(T::default()).unwrap_or_default();
    let known: Vec<&str> =
        defaults.keys().map(String::as_str).chain(left_out.iter().copied()).collect();
    check_keys(&table, &known, &shown.to_string())?;
    let params: T = table.clone().try_into().map_err(|error: toml::de::Error| {
        Failure::BadInput(format!("config = {shown}: {error}"))
    })?;
    // A key of an inner table that did not make it into the parameters had no effect.
    let used = toml::Table::try_from(&params).unwrap_or_default();
    for (name, inner) in &table {
        if let (toml::Value::Table(inner), Some(toml::Value::Table(used))) = (inner, used.get(name))
        {
            let known: Vec<&str> = used.keys().map(String::as_str).collect();
            check_keys(inner, &known, &format!("{shown}: {name}"))?;
        }
    }
    Ok(params)
}

/// Names a key that does not exist, and the one that was probably meant.
fn check_keys(table: &toml::Table, known: &[&str], shown: &str) -> Result<(), Failure> {
    let Some(unknown) = table.keys().find(|key| !known.contains(&key.as_str())) else {
        return Ok(());
    };
    let nearest = known.iter().min_by_key(|name| strsim::damerau_levenshtein(name, unknown));
    let nearest = nearest.copied().unwrap_or_default();
    let list = known.join(", ");
    Err(Failure::BadInput(format!(
        "{shown}: {unknown} = {}: expected one of {list} (did you mean {nearest}?)",
        table[unknown]
    )))
}

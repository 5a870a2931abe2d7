//! Parameters as TOML: what a file says, over what it does not say.

use super::{ExperimentParams, TrainingParams, WorldParams};
use agewise_core::{Error, Result};
use agewise_train::aggregation::AggregationParams;
use serde::Serialize;
use toml::{Table, Value};

/// Reads parameters from a file, over a base for everything that it does not say: [`ExperimentParams::comparison`] if it
/// has a table `[training]` and [`ExperimentParams::default`] if not, unless there is another.
pub fn read_params(text: &str, base: Option<&ExperimentParams>) -> Result<ExperimentParams> {
    let table: Table = text.parse().map_err(|error: toml::de::Error| wrong(&error))?;
    refuse_flat(&table)?;
    let usual = if table.contains_key("training") {
        ExperimentParams::comparison()
    } else {
        ExperimentParams::default()
    };
    base.unwrap_or(&usual).with(&table)
}

impl ExperimentParams {
    /// The same with what a table says instead; whatever it does not know is an error.
    pub fn with(&self, changes: &Table) -> Result<Self> {
        check_keys(changes, &known_keys()?, "")?;
        let mut table = table_of(self)?;
        overlay(&mut table, changes.clone());
        let params: Self = table.try_into().map_err(|error| wrong(&error))?;
        // A key that did not make it into the parameters had no effect: rules of the server have keys of their own.
        check_keys(changes, &table_of(&params)?, "")?;
        Ok(params)
    }
}

/// Every key that there is, but those of the server's rules.
fn known_keys() -> Result<Table> {
    let mut table = table_of(&ExperimentParams::comparison())?;
    for key in ["baseline", "weighting", "size_list"] {
        table.insert(key.to_string(), Value::Boolean(true));
    }
    if let Some(Value::Table(aggregation)) = table.get_mut("aggregation") {
        aggregation.insert("server".to_string(), Value::Boolean(true));
    }
    Ok(table)
}

/// Names a key that does not exist, and the one that was probably meant.
fn check_keys(table: &Table, known: &Table, outer: &str) -> Result<()> {
    for (key, value) in table {
        match (known.get(key), value) {
            (None, value) => {
                let names: Vec<&str> = known.keys().map(String::as_str).collect();
                let hint = Error::unknown("key", key, names.into_iter());
                return Err(Error::new(format!("{outer}{key}"), value, hint.expected()));
            }
            (Some(Value::Table(known)), Value::Table(inner)) => {
                check_keys(inner, known, &format!("{outer}{key}."))?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn wrong(error: &toml::de::Error) -> Error {
    let value = error.to_string();
    Error::new("config", value.trim(), "the keys of `agewise compare` and `agewise simulate`")
}

fn table_of(params: &impl Serialize) -> Result<Table> {
    let table = Table::try_from(params);
    table.map_err(|error| Error::new("config", error, "parameters that TOML can hold"))
}

fn overlay(table: &mut Table, changes: Table) {
    for (key, change) in changes {
        match (table.get_mut(&key), change) {
            (Some(Value::Table(inner)), Value::Table(changes)) => overlay(inner, changes),
            (_, change) => {
                table.insert(key, change);
            }
        }
    }
}

/// Until version 0.2 the keys of `[world]`, `[training]` and `[aggregation]` stood at the top.
fn refuse_flat(table: &Table) -> Result<()> {
    let world = table_of(&WorldParams::default())?;
    let training = table_of(&TrainingParams::default())?;
    let aggregation = table_of(&AggregationParams::default())?;
    for (name, inner) in [("world", world), ("training", training), ("aggregation", aggregation)] {
        if let Some(key) = inner.keys().find(|key| table.contains_key(*key)) {
            let expected = format!(
                "the table [{name}] around it: files of versions before 0.2 are flat (docs/upgrading.md says how to \
                 change them)"
            );
            return Err(Error::new(key, "a key at the top", expected));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let changed = ExperimentParams {
            weighting: Some(agewise_core::Weighting::Uniform),
            baseline: Some("random".into()),
            ..ExperimentParams::comparison()
        };
        for params in [ExperimentParams::default(), ExperimentParams::comparison(), changed] {
            let text = toml::to_string(&params).unwrap();
            assert_eq!(read_params(&text, None).unwrap(), params, "{text}");
        }
    }

    #[test]
    fn a_table_of_training_makes_it_a_comparison() {
        let trained = read_params("clients = 20\n[training]\nbatch = 7\n", None).unwrap();
        assert_eq!((trained.clients, trained.rounds, trained.seeds), (20, 100, 12));
        assert_eq!(trained.training.unwrap().batch, 7);
        let selected = read_params("[world]\ndropout = 0.1\n", None).unwrap();
        assert_eq!((selected.rounds, selected.world.dropout), (1_000, 0.1));
        let base = ExperimentParams::comparison();
        assert!(read_params("rounds = 3", Some(&base)).unwrap().training.is_some());
    }

    #[test]
    fn flat_files_and_unknown_keys_are_refused() {
        for key in [
            "data = \"digits\"",
            "dropout = 0.1",
            "targets = [0.5]",
            "[server]\nrule = \"average\"",
        ] {
            let error = read_params(key, None).unwrap_err().to_string();
            assert!(error.contains("docs/upgrading.md"), "{error}");
        }
        for (text, words) in [
            ("rownds = 5", ["rownds = 5: expected one of", "did you mean rounds?"]),
            ("[training]\nbatches = 3", ["training.batches = 3", "did you mean batch?"]),
            (
                "[aggregation.server]\nrule = \"average\"\nbeta = 3",
                ["aggregation.server.beta = 3", "expected one of rule"],
            ),
        ] {
            let error = read_params(text, None).unwrap_err().to_string();
            assert!(words.iter().all(|words| error.contains(words)), "{error}");
        }
        assert!(read_params("rounds = \"many\"", None).is_err());
    }
}

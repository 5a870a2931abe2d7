//! Parameters as TOML.

use super::data::natural_defaults;
use super::{ExperimentParams, TrainingParams, WorldParams};
use crate::toml_file::{overlay, parse, table_of, with_line};
use agewise_core::{Error, Result};
use agewise_train::aggregation::AggregationParams;
use toml::{Table, Value};

/// Reads parameters from a file, over a base for everything that it does not say: [`ExperimentParams::comparison`] if it
/// has a table `[training]` and [`ExperimentParams::default`] if not, unless there is another.
pub fn read_params(text: &str, base: Option<&ExperimentParams>) -> Result<ExperimentParams> {
    let table = parse(text)?;
    let usual = if table.contains_key("training") {
        ExperimentParams::comparison()
    } else {
        ExperimentParams::default()
    };
    let params = refuse_other_files(&table).and_then(|()| base.unwrap_or(&usual).with(&table));
    params.map_err(|error| with_line(text, &error))
}

impl ExperimentParams {
    /// The same with what a table says instead; whatever it does not know is an error.
    pub fn with(&self, changes: &Table) -> Result<Self> {
        let mut changes = changes.clone();
        natural_defaults(self, &mut changes);
        overlay(self, changes)
    }

    /// The first key that has another value in other parameters.
    pub fn difference(&self, other: &Self) -> Result<Option<Difference>> {
        Ok(difference(&table_of(self)?, &table_of(other)?, ""))
    }
}

/// A key of two configurations with its value in each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// With the tables around it: `training.batch`.
    pub key: String,
    /// In the first.
    pub before: String,
    /// In the second.
    pub now: String,
}

fn difference(before: &Table, now: &Table, outer: &str) -> Option<Difference> {
    let keys = before.keys().chain(now.keys().filter(|key| !before.contains_key(*key)));
    let differs = |key: &String| match (before.get(key), now.get(key)) {
        (before, now) if before == now => None,
        (Some(Value::Table(before)), Some(Value::Table(now))) => {
            difference(before, now, &format!("{outer}{key}."))
        }
        (before, now) => {
            let text = |value: Option<&Value>| value.map_or("none".to_string(), Value::to_string);
            Some(Difference { key: format!("{outer}{key}"), before: text(before), now: text(now) })
        }
    };
    keys.into_iter().find_map(differs)
}

/// Refuses a file of a deployment, and a flat one: until version 0.2 the keys of `[world]`, `[training]` and
/// `[aggregation]` stood at the top.
fn refuse_other_files(table: &Table) -> Result<()> {
    if let Some(key) =
        ["round", "connections", "limits"].iter().find(|key| table.contains_key(**key))
    {
        let expected = "the configuration of an experiment: this one is of a deployment, which \
                        `agewise coordinator --config` takes";
        return Err(Error::new(*key, "a table", expected));
    }
    let world = table_of(&WorldParams::default())?;
    let training = table_of(&TrainingParams::default())?;
    let aggregation = table_of(&AggregationParams::default())?;
    for (name, inner) in [("world", world), ("training", training), ("aggregation", aggregation)] {
        // The layers of a model are a table at the top.
        let is_flat = |key: &&String| {
            table.get(*key).is_some_and(|value| *key != "model" || !value.is_table())
        };
        if let Some(key) = inner.keys().find(is_flat) {
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
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, words) in [
            (
                "clients = 20\nrounds = \"many\"",
                "line 2: rounds = \"many\": expected a whole number",
            ),
            ("\nrounds = -3", "line 2: rounds = -3: expected a whole number of at least 0"),
            ("rounds = 2.5", "line 1: rounds = 2.5: expected a whole number"),
            ("seeds = 1e12", "line 1: seeds = 1000000000000: expected a whole number"),
            ("[training]\nbatch = true", "line 2: training.batch = true: expected a whole number"),
            (
                "[training]\n\nmomentum = \"x\"",
                "line 3: training.momentum = \"x\": expected a number",
            ),
            ("training.skew = 1", "line 1: training.skew = 1: expected true or false"),
            ("policies = 3", "line 1: policies = 3: expected a list"),
            ("policies = [3]", "line 1: policies[0] = [3]: expected a text in quotation marks"),
            ("world = 3", "line 1: world = 3: expected a table"),
            ("start = \"warm\"", "line 1: start = \"warm\": expected stationary or cold"),
            ("baseline = 3", "line 1: baseline = 3: expected a text in quotation marks"),
            ("\nrounds = [", "line 2 = rounds = [: expected a line of a TOML file"),
            (
                "\n[round]\nclients = 3",
                "line 2: round = a table: expected the configuration of an exp",
            ),
        ] {
            let error = read_params(text, None).unwrap_err().to_string();
            assert!(error.starts_with(words), "{error}");
            for leak in ["u64", "u32", "f64", "invalid type", "struct"] {
                assert!(!error.contains(leak), "{error}");
            }
        }
    }

    #[test]
    fn whole_numbers_may_be_written_as_on_the_command_line() {
        let text = "clients = 1e2\ncohort = 1_0\n[training]\nbatch = 5.0\nmomentum = 0";
        let params = read_params(text, None).unwrap();
        assert_eq!((params.clients, params.cohort), (100, 10));
        let training = params.training.unwrap();
        assert_eq!((training.batch, training.momentum), (5, 0.0));
    }
}

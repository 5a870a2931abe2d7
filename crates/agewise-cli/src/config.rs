//! `agewise config`: an example of a configuration, its JSON schema, a check of a file, and the reference page.

use super::config_coordinator;
use super::config_keys::{Holds, KEYS, Key, TABLES};
use super::data::DataDir;
use super::experiment::Kind;
use super::{Failure, deployment_config, print, print_json};
use agewise_experiment::{Experiment, ExperimentParams, read_params, toml_file};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
#[command(about = "Show how configurations are written, and check one")]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print a configuration with every key, its default and what it means
    Example {
        /// Of which command
        #[arg(value_enum, default_value = "compare")]
        kind: ExampleKind,
    },
    /// Print the JSON schema of the configuration, for editors
    Schema {
        /// Of what: an experiment (compare and simulate), or a coordinator
        #[arg(value_enum, default_value = "experiment")]
        kind: SchemaKind,
    },
    /// Check a file: of an experiment or of a deployment
    Check {
        /// The file
        file: PathBuf,

        #[command(flatten)]
        place: DataDir,
    },
    /// Print the page with every key (docs/configuration.md)
    Reference,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ExampleKind {
    Compare,
    Simulate,
    Coordinator,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum SchemaKind {
    Experiment,
    Coordinator,
}

/// Runs the command.
pub(crate) fn run(args: &ConfigArgs) -> Result<(), Failure> {
    match &args.command {
        ConfigCommand::Example { kind } => match kind {
            ExampleKind::Compare => print(&example(&Kind::Compare.defaults())?),
            ExampleKind::Simulate => print(&example(&Kind::Simulate.defaults())?),
            ExampleKind::Coordinator => print(config_coordinator::TEMPLATE),
        },
        ConfigCommand::Schema { kind: SchemaKind::Experiment } => print_json(&schema()?),
        ConfigCommand::Schema { kind: SchemaKind::Coordinator } => {
            print_json(&config_coordinator::schema()?)
        }
        ConfigCommand::Check { file, place } => check(file, &place.folders()),
        ConfigCommand::Reference => print(&reference()?),
    }
}

/// The default of each key as it is written in a file; nothing where a key may be absent.
struct Defaults(toml::Table);

impl Defaults {
    /// With the table `[clock]`, which no command has by default, for the sake of its keys.
    fn with_clock(params: &ExperimentParams) -> Result<Self, Failure> {
        let mut params = params.clone();
        params.clock.get_or_insert_default();
        Self::of(&params)
    }

    fn of(params: &ExperimentParams) -> Result<Self, Failure> {
        let table = toml::Table::try_from(params);
        let wrong = |error| Failure::Io(format!("cannot write a configuration: {error}"));
        Ok(Self(table.map_err(wrong)?))
    }

    fn table(&self, name: &str) -> Option<&toml::Table> {
        let steps = name.split('.').filter(|step| !step.is_empty());
        steps.into_iter().try_fold(&self.0, |table, step| table.get(step)?.as_table())
    }

    fn value(&self, key: &Key) -> Option<&toml::Value> {
        self.table(key.table)?.get(key.name)
    }
}

fn keys_of(table: &str) -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(move |key| key.table == table)
}

/// Every key with its default; those that may be absent stand behind a `#`, with a value that shows how they are written.
fn example(params: &ExperimentParams) -> Result<String, Failure> {
    let (defaults, with_clock) = (Defaults::of(params)?, Defaults::with_clock(params)?);
    let mut text = String::from(
        "# Every key with its default. What stands behind `#` may be absent, and is by default.\n",
    );
    for (table, about) in TABLES {
        // Without training there is neither a model nor a clock.
        let needs_training = ["training", "model.layer", "clock"].contains(&table);
        if needs_training && params.training.is_none() {
            continue;
        }
        let header = match table {
            "" => String::new(),
            "model.layer" => "# [[model.layer]]\n".to_string(),
            "clock" => "# [clock]\n".to_string(),
            table => format!("[{table}]\n"),
        };
        // Writing to a string cannot fail.
        let _ = write!(text, "\n# {about}\n{header}");
        for key in keys_of(table) {
            let line = match (defaults.value(key), with_clock.value(key)) {
                (Some(value), _) => format!("{} = {value}", key.name),
                (None, Some(value)) => format!("# {} = {value}", key.name),
                (None, None) => format!("# {} = {}", key.name, key.shown),
            };
            let _ = writeln!(text, "# {}\n{line}", key.meaning);
        }
    }
    Ok(text)
}

/// The JSON schema (draft 2020-12); unknown keys are refused, as by the program.
fn schema() -> Result<Value, Failure> {
    let defaults = Defaults::with_clock(&ExperimentParams::comparison())?;
    let object = |table: &str| -> Value {
        let properties: serde_json::Map<String, Value> = keys_of(table)
            .map(|key| {
                let mut property = holds(key.holds);
                property["description"] = key.meaning.into();
                if let Some(value) = defaults.value(key) {
                    property["default"] = json!(value);
                }
                (key.name.to_string(), property)
            })
            .collect();
        json!({ "type": "object", "additionalProperties": false, "properties": properties })
    };
    let described = |table: &str| {
        let mut object = object(table);
        let about = TABLES.iter().find(|(name, _)| *name == table);
        object["description"] = about.map_or("", |(_, about)| about).into();
        object
    };
    let mut root = described("");
    root["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    root["title"] = "An experiment of agewise".into();
    let mut aggregation = described("aggregation");
    aggregation["properties"]["server"] = described("aggregation.server");
    let layers = json!({ "type": "array", "items": described("model.layer") });
    let model = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["layer"],
        "properties": { "layer": layers },
    });
    for (name, table) in [
        ("world", described("world")),
        ("training", described("training")),
        ("aggregation", aggregation),
        ("model", model),
        ("clock", described("clock")),
    ] {
        root["properties"][name] = table;
    }
    Ok(root)
}

fn holds(holds: Holds) -> Value {
    match holds {
        Holds::Text => json!({ "type": "string" }),
        Holds::OneOf(texts) => json!({ "enum": texts }),
        Holds::Whole(least) => json!({ "type": "integer", "minimum": least }),
        Holds::Number => json!({ "type": "number" }),
        Holds::Switch => json!({ "type": "boolean" }),
        Holds::AutoOrWhole => {
            json!({ "anyOf": [{ "const": "auto" }, { "type": "integer", "minimum": 0 }] })
        }
        Holds::AutoOrNumber => {
            json!({ "anyOf": [{ "const": "auto" }, { "type": "number", "minimum": 0 }] })
        }
        Holds::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        Holds::Numbers => json!({ "type": "array", "items": { "type": "number" } }),
        Holds::TextsByName => {
            json!({ "type": "object", "additionalProperties": { "type": "string" } })
        }
        Holds::NumbersByName => {
            let numbers = json!({ "type": "array", "items": { "type": "number" } });
            json!({ "type": "object", "additionalProperties": numbers })
        }
    }
}

/// The reference page.
fn reference() -> Result<String, Failure> {
    let compare = Defaults::with_clock(&ExperimentParams::comparison())?;
    let simulate = Defaults::of(&ExperimentParams::default())?;
    let mut text = String::from(
        "# Every key of a configuration\n\n\
         This page is written by `agewise config reference`.\n\
         `agewise config example` prints a complete file, `agewise config schema` a JSON schema for\n\
         editors, and `agewise config check FILE` says what is wrong with a file.\n\
         The keys of a [deployment](#every-key-of-a-deployment) follow those of an experiment.\n\
         A file need not say everything: what is absent has its default, and flags override the file.\n",
    );
    for (table, about) in TABLES {
        let heading = match table {
            "" => "At the top".to_string(),
            "model.layer" => "`[[model.layer]]`".to_string(),
            table => format!("`[{table}]`"),
        };
        let _ = write!(
            text,
            "\n## {heading}\n\n{about}\n\n| key | holds | default | meaning |\n|---|---|---|---|\n"
        );
        for key in keys_of(table) {
            let default = match (compare.value(key), simulate.value(key)) {
                (Some(one), Some(other)) if one != other => {
                    format!("`{one}`, in simulations `{other}`")
                }
                (Some(value), _) => format!("`{value}`"),
                (None, _) => "absent".to_string(),
            };
            let row =
                [format!("`{}`", key.name), words(key.holds), default, key.meaning.to_string()];
            let cells = row.map(|cell| cell.replace('|', "\\|"));
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
    }
    Ok(text + &config_coordinator::reference()?)
}

fn words(holds: Holds) -> String {
    match holds {
        Holds::Text => "text".to_string(),
        Holds::OneOf(texts) => {
            let texts: Vec<String> = texts.iter().map(|text| format!("`\"{text}\"`")).collect();
            texts.join(", ")
        }
        Holds::Whole(least) => format!("whole number from {least}"),
        Holds::Number => "number".to_string(),
        Holds::Switch => "`true` or `false`".to_string(),
        Holds::AutoOrWhole => "`\"auto\"` or whole number".to_string(),
        Holds::AutoOrNumber => "`\"auto\"` or number".to_string(),
        Holds::Texts => "list of texts".to_string(),
        Holds::Numbers => "list of numbers".to_string(),
        Holds::TextsByName => "table of texts".to_string(),
        Holds::NumbersByName => "table of lists of numbers".to_string(),
    }
}

/// Says whether a file can be played, or what is wrong with it.
fn check(path: &Path, folders: &[PathBuf]) -> Result<(), Failure> {
    let wrong = |error: &dyn std::fmt::Display| {
        Failure::BadInput(format!("config = {}: {error}", path.display()))
    };
    let text = fs::read_to_string(path).map_err(|error| wrong(&error))?;
    let table = toml_file::parse(&text).map_err(|error| wrong(&error))?;
    let is_deployment =
        ["round", "connections", "limits"].iter().any(|name| table.contains_key(*name));
    if is_deployment {
        deployment_config::read(path)?.check().map_err(|error| wrong(&error))?;
        return print(&format!(
            "{}: a deployment; nothing is wrong with its values (files that it names are looked at when it starts)\n",
            path.display()
        ));
    }
    let params = read_params(&text, None).map_err(|error| wrong(&error))?;
    let kind = if params.training.is_some() { "comparison" } else { "simulation" };
    let experiment = Experiment::new(params, folders)?;
    let (policies, seeds) = (experiment.variants().len(), experiment.params().seeds);
    print(&format!(
        "{}: a {kind} of {policies} policies under {seeds} seeds, {} rounds at most; nothing is wrong\n",
        path.display(),
        experiment.params().rounds
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Which keys a table may have, from the error about one that it may not.
    fn allowed(text: &str) -> BTreeSet<String> {
        let error = read_params(text, None).unwrap_err().to_string();
        let (_, list) = error.split_once("expected one of ").expect(&error);
        let list = list.split(';').next().unwrap_or(list);
        let names = list.split([',', ' ']).filter(|name| !name.is_empty() && *name != "or");
        names.map(|name| name.trim_matches('`').to_string()).collect()
    }

    #[test]
    fn the_list_has_every_key_and_no_other() {
        // Inner tables come from the list too, so that a table it does not know is missed here.
        let inner_of = |table: &str| -> BTreeSet<&str> {
            let names = TABLES.iter().map(|(name, _)| *name).filter(|name| !name.is_empty());
            let inner = names.filter_map(|name| match table {
                "" => name.split('.').next(),
                table => name.strip_prefix(table)?.strip_prefix('.'),
            });
            inner.collect()
        };
        // Errors about these two name no keys.
        let is_silent = |table: &str| ["model.layer", "aggregation.server"].contains(&table);
        for (table, _) in TABLES.iter().filter(|(table, _)| !is_silent(table)) {
            let header = if table.is_empty() { String::new() } else { format!("[{table}]\n") };
            let known = keys_of(table).map(|key| key.name);
            let known: BTreeSet<String> =
                known.chain(inner_of(table)).map(str::to_string).collect();
            assert_eq!(known, allowed(&format!("{header}zzz = 1\n")), "[{table}]");
        }
    }

    #[test]
    fn examples_say_what_the_defaults_are() {
        for params in [ExperimentParams::default(), ExperimentParams::comparison()] {
            let text = example(&params).unwrap();
            assert_eq!(read_params(&text, None).unwrap(), params, "{text}");
        }
    }

    /// What stands behind a `#` can be written as it stands there.
    #[test]
    fn every_shown_value_is_toml() {
        for key in KEYS.iter().filter(|key| !key.shown.is_empty()) {
            let text = format!("{} = {}", key.name, key.shown);
            let table: toml::Table = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            let value = &table[key.name];
            let fits = match key.holds {
                Holds::Text => value.is_str(),
                Holds::OneOf(texts) => value.as_str().is_some_and(|text| texts.contains(&text)),
                Holds::Whole(_) => value.is_integer(),
                Holds::Number => value.is_float() || value.is_integer(),
                Holds::Switch => value.is_bool(),
                Holds::AutoOrWhole => value.is_integer() || value.is_str(),
                Holds::AutoOrNumber => value.is_float() || value.is_str(),
                Holds::Texts | Holds::Numbers => value.is_array(),
                Holds::TextsByName | Holds::NumbersByName => value.is_table(),
            };
            assert!(fits, "{text}");
        }
    }

    /// Every text of a choice is one that files may have.
    #[test]
    fn choices_are_those_of_the_program() {
        let plain = ["", "training", "aggregation", "clock"];
        for key in KEYS.iter().filter(|key| plain.contains(&key.table)) {
            let Holds::OneOf(texts) = key.holds else { continue };
            for text in texts {
                let header =
                    if key.table.is_empty() { String::new() } else { format!("[{}]\n", key.table) };
                let file = format!("{header}{} = \"{text}\"\n", key.name);
                assert!(read_params(&file, None).is_ok(), "{file}: {:?}", read_params(&file, None));
            }
        }
    }

    #[test]
    fn the_schema_refuses_unknown_keys_everywhere() {
        let schema = schema().unwrap();
        for (name, _) in TABLES {
            let place = match name {
                "" => String::new(),
                "aggregation.server" => "/properties/aggregation/properties/server".to_string(),
                "model.layer" => "/properties/model/properties/layer/items".to_string(),
                table => format!("/properties/{table}"),
            };
            let table = schema.pointer(&place).unwrap_or_else(|| panic!("no {place}"));
            assert_eq!(table["additionalProperties"], json!(false), "{place}");
        }
        assert_eq!(schema["properties"]["training"]["properties"]["batch"]["default"], json!(20));
    }

    #[test]
    fn the_page_of_the_docs_is_up_to_date() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
        let page = fs::read_to_string(path).unwrap();
        assert_eq!(page, reference().unwrap(), "agewise config reference > docs/configuration.md");
    }
}

//! Every key of a coordinator's configuration, read from its commented example: what stands above a key says what it means.
//! So the example, the schema and the reference page cannot differ.

use super::Failure;
use super::config_keys::{Holds, KEYS};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The commented example, with every setting at its default but for TLS.
pub(crate) const TEMPLATE: &str = include_str!("coordinator.toml");

/// A key of the example.
struct ExampleKey {
    table: String,
    name: String,
    meaning: String,
    value: toml::Value,
    /// It stands behind a `#`: it may be absent, and is by default.
    is_absent: bool,
}

/// The keys in the order of the example.
fn keys() -> Result<Vec<ExampleKey>, Failure> {
    let mut keys = Vec::new();
    let (mut table, mut meaning) = (String::new(), String::new());
    for line in TEMPLATE.lines() {
        let (is_comment, text) = match line.strip_prefix("# ") {
            Some(text) => (true, text),
            None => (false, line),
        };
        let name = text.split_once(" = ").map(|(name, _)| name);
        let is_name =
            |name: &&str| name.chars().all(|c| c.is_ascii_lowercase() || "_12".contains(c));
        match name.filter(is_name) {
            Some(name) => {
                let wrong = |error| Failure::Io(format!("coordinator.toml, {name}: {error}"));
                let mut value: toml::Table = text.parse().map_err(wrong)?;
                let Some(value) = value.remove(name) else { continue };
                let meaning = std::mem::take(&mut meaning);
                let (table, name) = (table.clone(), name.to_string());
                keys.push(ExampleKey { table, name, meaning, value, is_absent: is_comment });
            }
            None if is_comment => {
                meaning += if meaning.is_empty() { "" } else { " " };
                meaning += text;
            }
            None => {
                meaning.clear();
                if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                    table = name.to_string();
                }
            }
        }
    }
    Ok(keys)
}

impl ExampleKey {
    /// The texts among which one can choose, from the key of an experiment that is the same.
    fn choices(&self) -> Option<&'static [&'static str]> {
        let table = match self.table.as_str() {
            "round" => "",
            "model" => "training",
            table => table,
        };
        if self.name == "draws" {
            return Some(&["proven", "seeded"]);
        }
        let same = KEYS.iter().find(|key| key.table == table && key.name == self.name);
        match same?.holds {
            Holds::OneOf(texts) => Some(texts),
            _ => None,
        }
    }

    /// The texts that may stand in the place of a number.
    fn texts_or_number(&self) -> Option<&'static [&'static str]> {
        match self.name.as_str() {
            "max_age" | "max_norm" => Some(&["auto"]),
            "report_deadline" => Some(&["adaptive", "fixed"]),
            _ => None,
        }
    }

    fn schema(&self) -> Value {
        let mut schema = match (&self.value, self.choices()) {
            (_, Some(texts)) => json!({ "enum": texts }),
            (_, None) if self.texts_or_number().is_some() => {
                let texts = self.texts_or_number();
                json!({ "anyOf": [{ "enum": texts }, { "type": "number", "minimum": 0 }] })
            }
            (toml::Value::Boolean(_), _) => json!({ "type": "boolean" }),
            (toml::Value::Integer(_), _) => json!({ "type": "integer", "minimum": 0 }),
            (toml::Value::Float(_), _) => json!({ "type": "number" }),
            (toml::Value::Array(_), _) => json!({ "type": "array", "items": { "type": "string" } }),
            _ => json!({ "type": "string" }),
        };
        schema["description"] = self.meaning.as_str().into();
        // The files of the example are not what holds without the key.
        if !self.is_absent && self.table != "tls" {
            schema["default"] = json!(self.value);
        }
        schema
    }

    fn words(&self) -> String {
        let quoted = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|text| format!("`\"{text}\"`")).collect();
            texts.join(", ")
        };
        match (&self.value, self.choices()) {
            (_, Some(texts)) => quoted(texts),
            (_, None) if self.texts_or_number().is_some() => {
                format!("{} or number", quoted(self.texts_or_number().unwrap_or_default()))
            }
            (toml::Value::Boolean(_), _) => "`true` or `false`".to_string(),
            (toml::Value::Integer(_), _) => "whole number from 0".to_string(),
            (toml::Value::Float(_), _) => "number".to_string(),
            (toml::Value::Array(_), _) => "list of texts".to_string(),
            _ => "text".to_string(),
        }
    }

    fn default(&self) -> String {
        if self.table == "tls" {
            "`\"\"`".to_string()
        } else if self.is_absent {
            "absent".to_string()
        } else {
            format!("`{}`", self.value)
        }
    }
}

/// The JSON schema of a deployment; unknown keys are refused, as by the program.
pub(crate) fn schema() -> Result<Value, Failure> {
    let empty = || json!({ "type": "object", "additionalProperties": false, "properties": {} });
    let mut root = empty();
    root["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    root["title"] = "A deployment of agewise".into();
    for key in keys()? {
        let mut place = &mut root;
        for step in key.table.split('.').filter(|step| !step.is_empty()) {
            let inner = &mut place["properties"][step];
            if inner.is_null() {
                *inner = empty();
            }
            place = inner;
        }
        place["properties"][key.name.as_str()] = key.schema();
    }
    Ok(root)
}

/// The part of the reference page about a deployment.
pub(crate) fn reference() -> Result<String, Failure> {
    let mut text = String::from(
        "\n# Every key of a deployment\n\n\
         `agewise coordinator init FOLDER` writes a file with all of them, `agewise config example\n\
         coordinator` prints it, and `agewise config schema coordinator` prints its JSON schema.\n",
    );
    let mut table = None;
    for key in keys()? {
        if table.as_ref() != Some(&key.table) {
            let heading = match key.table.as_str() {
                "" => "At the top of a deployment".to_string(),
                table => format!("`[{table}]` of a deployment"),
            };
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "\n## {heading}\n\n| key | holds | default | meaning |\n|---|---|---|---|\n"
            );
            table = Some(key.table.clone());
        }
        let row = [format!("`{}`", key.name), key.words(), key.default(), key.meaning.clone()];
        let cells = row.map(|cell| cell.replace('|', "\\|"));
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::super::deployment_config::parse;
    use super::*;
    use std::collections::BTreeSet;

    /// Which keys a table may have, from the error about one that it may not.
    fn allowed(table: &str) -> BTreeSet<String> {
        let header = if table.is_empty() { String::new() } else { format!("[{table}]\n") };
        let error = parse(&format!("{header}zzz = 1\n")).unwrap_err().to_string();
        let (_, list) = error.split_once("expected ").expect(&error);
        let list = list.trim_start_matches("one of ").split(';').next().unwrap_or(list);
        let names = list.split([',', ' ']).filter(|name| !name.is_empty() && *name != "or");
        names.map(|name| name.trim_matches('`').to_string()).collect()
    }

    #[test]
    fn the_example_has_every_key_and_no_other() {
        let keys = keys().unwrap();
        let tables: BTreeSet<&str> = keys.iter().map(|key| key.table.as_str()).collect();
        assert!(tables.len() > 8, "{tables:?}");
        // The keys of the server's rule are not in the error about an unknown one.
        for table in tables.iter().filter(|table| **table != "aggregation.server") {
            let inner = tables.iter().filter_map(|name| match *table {
                "" => name.split('.').next().filter(|name| !name.is_empty()),
                table => name.strip_prefix(table)?.strip_prefix('.'),
            });
            let own = keys.iter().filter(|key| key.table == *table).map(|key| key.name.as_str());
            let known: BTreeSet<String> = own.chain(inner).map(str::to_string).collect();
            let mut allowed = allowed(table);
            if *table == "aggregation" {
                // An option of experiments: a deployment refuses it and names `updates.max_norm`.
                assert!(allowed.remove("max_norm"), "{allowed:?}");
                let text = "[aggregation]\nmax_norm = 2.5\n";
                let error = parse(text).unwrap().check().unwrap_err();
                assert!(error.to_string().contains("updates.max_norm"), "{error}");
            }
            assert_eq!(known, allowed, "[{table}]");
        }
        let rules = KEYS.iter().filter(|key| key.table == "aggregation.server");
        let server = keys.iter().filter(|key| key.table == "aggregation.server");
        let names: BTreeSet<&str> = server.map(|key| key.name.as_str()).collect();
        assert_eq!(names, rules.map(|key| key.name).collect());
    }

    #[test]
    fn every_key_of_the_example_says_what_it_means() {
        for key in keys().unwrap() {
            assert!(key.meaning.ends_with('.'), "[{}] {}: {:?}", key.table, key.name, key.meaning);
        }
    }

    #[test]
    fn keys_that_are_absent_can_be_written_as_they_are_shown() {
        let keys = keys().unwrap();
        for key in keys.iter().filter(|key| key.is_absent && key.table != "aggregation.server") {
            let text = format!("[{}]\n{} = {}\n", key.table, key.name, key.value);
            parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
        for (rule, names) in [("momentum", &["beta"][..]), ("adam", &["beta1", "beta2", "tau"])] {
            let mut text = format!("[aggregation.server]\nrule = \"{rule}\"\n");
            let is_of_rule = |name: &str| name == "learning_rate" || names.contains(&name);
            let server = keys.iter().filter(|key| key.table == "aggregation.server");
            for key in server.filter(|key| is_of_rule(&key.name)) {
                let _ = writeln!(text, "{} = {}", key.name, key.value);
            }
            parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
    }

    #[test]
    fn choices_of_the_schema_are_those_of_the_program() {
        let mut tried = 0;
        for key in keys().unwrap().iter().filter(|key| key.table != "aggregation.server") {
            let is_top = key.table.is_empty();
            let header = if is_top { String::new() } else { format!("[{}]\n", key.table) };
            let numbers = key.texts_or_number().map(|_| "1".to_string());
            let texts = key.choices().or(key.texts_or_number()).unwrap_or_default();
            for value in texts.iter().map(|text| format!("\"{text}\"")).chain(numbers) {
                let file = format!("{header}{} = {value}\n", key.name);
                parse(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
                tried += 1;
            }
            // A text beside which numbers are possible has to be said above.
            let is_word = key.value.as_str().is_some_and(|text| !text.is_empty());
            if is_word && key.choices().is_none() && key.texts_or_number().is_none() {
                let file = format!("{header}{} = 1\n", key.name);
                assert!(parse(&file).is_err(), "{file} is possible");
            }
        }
        assert!(tried >= 13, "only {tried} choices were tried");
    }

    #[test]
    fn the_schema_has_the_tables_inside_each_other() {
        let schema = schema().unwrap();
        let rule = schema.pointer("/properties/aggregation/properties/server/properties/rule");
        assert_eq!(rule.unwrap()["enum"], json!(["average", "momentum", "adam"]));
        assert_eq!(schema["properties"]["round"]["additionalProperties"], json!(false));
        assert_eq!(schema["properties"]["limits"]["properties"]["calls"]["default"], json!(4096));
    }
}

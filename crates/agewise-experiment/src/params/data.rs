//! What is trained on: a data set of the catalogue or files of one's own, with what parameters leave open settled.

use super::{ExperimentParams, TrainingParams};
use crate::error::ExperimentError;
use agewise_core::{Error, Result, Seed};
use agewise_train::data::{
    Data, DataError, FeatureScale, FormatError, OwnDataParams, PartitionDistribution, is_known,
    load,
};
use agewise_train::model::ModelSpec;
use std::path::{Path, PathBuf, absolute};
use toml::{Table, Value};

/// The share of each client's samples that are held out for tests where no file has test samples.
const HOLDOUT: f64 = 0.2;
/// What a model is called that is written layer by layer.
const LAYERS: &str = "layers";
/// The clients of a round where there are few clients, as a share of them.
const COHORT_SHARE: f64 = 0.15;

/// Loads what is trained on. Data sets of the catalogue are looked for in these folders; files of one's own are compared
/// with the checksums that the parameters have, and leave theirs there.
pub fn load_data(
    training: &mut TrainingParams,
    seed: Seed,
    folders: &[PathBuf],
) -> std::result::Result<Data, ExperimentError> {
    let data = if is_own(&training.data) {
        load_own(training)?
    } else {
        check_no_columns(training)?;
        load(&training.data, folders)?.into()
    };
    prepare_data(data, training, seed)
}

/// Data as they are trained on: with a share of the samples held out for tests where there are none, and with features
/// that are scaled.
pub fn prepare_data(
    data: Data,
    training: &TrainingParams,
    seed: Seed,
) -> std::result::Result<Data, ExperimentError> {
    let data = match (data.test.is_empty(), training.holdout) {
        (true, share) => data.hold_out(share.unwrap_or(HOLDOUT), seed)?,
        (false, None) => data,
        (false, Some(share)) => {
            let expected = "no share, as there are test samples already";
            return Err(Error::new("holdout", share, expected).into());
        }
    };
    Ok(match training.features.unwrap_or_default() {
        FeatureScale::Standardised => data.standardised(),
        FeatureScale::Raw => data,
    })
}

/// Whether the data are files of one's own: what looks like a path, or is there.
fn is_own(data: &str) -> bool {
    let looks_so = data.contains(['/', '\\', '.']);
    !is_known(data) && (looks_so || Path::new(data).exists())
}

/// Refuses columns of a data set of the catalogue.
fn check_no_columns(training: &TrainingParams) -> Result<()> {
    let TrainingParams { label, client, test, .. } = training;
    for (key, value) in [("label", label), ("client", client), ("test", test)] {
        if let Some(value) = value {
            let expected = format!("none, as {} is a data set that is known", training.data);
            return Err(Error::new(key, value, expected));
        }
    }
    Ok(())
}

fn load_own(training: &mut TrainingParams) -> std::result::Result<Data, DataError> {
    let whole = |file: &str| absolute(file).unwrap_or_else(|_| PathBuf::from(file));
    let params = OwnDataParams {
        data: whole(&training.data),
        label: training.label.clone(),
        client: training.client.clone(),
        test: training.test.as_deref().map(whole),
        ignore: training.ignore.clone(),
        loss: training.loss_of_files(),
    };
    let own = params.load()?;
    // A run can be continued from any folder.
    training.data = params.data.display().to_string();
    training.test = params.test.map(|test| test.display().to_string());
    for (role, text) in [("label", &mut training.label), ("client", &mut training.client)] {
        if let Some(file) = text.as_mut().filter(|_| own.checksums.contains_key(role)) {
            *file = whole(file).display().to_string();
        }
    }
    for (role, found) in &own.checksums {
        let Some(known) = training.checksums.get(role).filter(|known| *known != found) else {
            continue;
        };
        let file = match role.as_str() {
            "test" => training.test.as_ref(),
            "label" => training.label.as_ref(),
            "client" => training.client.as_ref(),
            _ => None,
        };
        let expected =
            format!("{known}, with which the run was begun: its contents have changed since");
        let file = Path::new(file.unwrap_or(&training.data));
        return Err(FormatError::new(format!("SHA-256 {found}"), expected).in_file(file));
    }
    training.checksums = own.checksums;
    Ok(own.data)
}

impl TrainingParams {
    /// What training descends on: a linear model predicts numbers.
    fn loss_of_files(&self) -> agewise_train::data::Loss {
        use agewise_train::data::Loss;
        match self.loss.unwrap_or_default() {
            Loss::Auto if self.model == "linear" => Loss::Squared,
            loss => loss,
        }
    }
}

impl ExperimentParams {
    /// Settles what was left open until the data were known: how many clients there are, and for numbers that are
    /// predicted the partition and the targets, which by default are those of classes.
    pub(crate) fn settle(&mut self, data: &Data) -> Result<()> {
        let Some(training) = &mut self.training else {
            return Ok(());
        };
        let predicts_numbers = data.train.classes() == 0;
        if predicts_numbers {
            let usual = TrainingParams::default();
            if training.targets == usual.targets {
                training.targets = Vec::new();
            }
            if training.partition == usual.partition {
                training.partition = PartitionDistribution::Iid.to_string();
            }
        }
        let other = match training.model.as_str() {
            "softmax" if predicts_numbers => Some("linear or mlp:64,32: the labels are numbers"),
            "linear" if !predicts_numbers => Some("softmax or mlp:64,32: the labels are classes"),
            _ => None,
        };
        if self.model.is_some() {
            training.model = LAYERS.to_string();
        } else if let Some(expected) = other {
            return Err(Error::new("model", &training.model, expected));
        }
        let natural: PartitionDistribution = training.partition.parse()?;
        if let (PartitionDistribution::Clients, 0) = (natural, self.clients) {
            let none = || {
                let expected = "iid, dirichlet:ALPHA or shards:K: the data do not say whose the samples are (--client \
                                COLUMN names the column of a file that does)";
                Error::new("partition", natural, expected)
            };
            self.clients = data.clients.as_ref().ok_or_else(none)?.len() as u64;
        }
        // Only the clients of the data leave it open.
        if natural == PartitionDistribution::Clients && self.cohort == 0 {
            let usual = Self::default().cohort;
            let share = (COHORT_SHARE * self.clients as f64).round() as u64;
            self.cohort = share.clamp(1, usual);
        }
        Ok(())
    }

    /// The model of the parameters, for these samples.
    pub(crate) fn model_for(&self, data: &Data) -> Result<ModelSpec> {
        let (shape, outputs) = (data.train.shape(), data.train.outputs());
        match (&self.model, &self.training) {
            (Some(model), _) => ModelSpec::from_layers(&model.layer, shape, outputs),
            (None, Some(training)) => ModelSpec::named(&training.model, shape, outputs),
            (None, None) => Err(Error::new("training", "none", "a table of what is trained")),
        }
    }

    /// The same with the files of other parameters, where files are known by their checksums: data may be moved.
    #[must_use]
    pub fn with_files_of(&self, other: &Self) -> Self {
        let mut params = self.clone();
        if let (Some(mine), Some(theirs)) = (&mut params.training, &other.training)
            && !mine.checksums.is_empty()
        {
            (mine.data, mine.test) = (theirs.data.clone(), theirs.test.clone());
            for role in
                ["label", "client"].into_iter().filter(|role| mine.checksums.contains_key(*role))
            {
                if role == "label" {
                    mine.label.clone_from(&theirs.label);
                } else {
                    mine.client.clone_from(&theirs.client);
                }
            }
        }
        params
    }
}

/// `clients:COLUMN` as the partition and the column.
pub fn split_partition(text: &str) -> (&str, Option<&str>) {
    match text.split_once(':') {
        Some(("clients", column)) => ("clients", Some(column)),
        _ => (text, None),
    }
}

/// Where changes bring the clients of the data, all of them take part unless the changes say how many.
pub(super) fn natural_defaults(params: &ExperimentParams, changes: &mut Table) {
    let is_natural = |partition: &str| split_partition(partition).0 == "clients";
    let was_natural = params.training.as_ref().is_some_and(|own| is_natural(&own.partition));
    let Some(training) = changes.get_mut("training").and_then(Value::as_table_mut) else {
        return;
    };
    if let Some(Value::String(partition)) = training.get("partition").cloned()
        && let (name, Some(column)) = split_partition(&partition)
    {
        training.insert("partition".to_string(), Value::String(name.to_string()));
        training.insert("client".to_string(), Value::String(column.to_string()));
    }
    if training.contains_key("client") && !training.contains_key("partition") {
        training.insert("partition".to_string(), Value::String("clients".to_string()));
    }
    let becomes = training.get("partition").and_then(Value::as_str).is_some_and(is_natural);
    if !becomes || was_natural {
        return;
    }
    let usual = ExperimentParams::default();
    let numbers =
        [("clients", params.clients, usual.clients), ("cohort", params.cohort, usual.cohort)];
    for (key, now, usual) in numbers {
        if now == usual && !changes.contains_key(key) {
            // Settled when the data are known.
            changes.insert(key.to_string(), Value::Integer(0));
        }
    }
}

//! Which columns of a table are features, the label and the client: the same for every format with names of columns.

use super::super::error::FormatError;
use super::OwnDataParams;
use agewise_core::Error;

/// What the column of the labels is usually called.
const LABELS: [&str; 4] = ["label", "class", "target", "y"];
/// What a column is usually called that says whose a sample is, and that is no feature.
const CLIENTS: [&str; 4] = ["client", "client_id", "user", "user_id"];

/// Where everything stands in a row of a table.
pub(super) struct Columns {
    /// All columns, in their order.
    pub(super) names: Vec<String>,
    /// Those that are features.
    pub(super) features: Vec<usize>,
    /// The one that is predicted.
    pub(super) label: usize,
    /// The one that says whose a row is.
    pub(super) client: Option<usize>,
}

impl Columns {
    /// Finds the columns by their names; test samples have the features of the training samples, in their order.
    pub(super) fn find(
        params: &OwnDataParams,
        names: Vec<String>,
        features: Option<&[String]>,
    ) -> Result<Self, FormatError> {
        if let Some(double) = (1..names.len()).find(|&place| names[..place].contains(&names[place]))
        {
            let found = format!("two columns called {:?}", names[double]);
            return Err(FormatError::new(found, "each name once"));
        }
        let place = |flag: &str, name: &str| {
            let place = names.iter().position(|other| other == name);
            place.ok_or_else(|| {
                let hint = Error::unknown(flag, name, names.iter().map(String::as_str));
                FormatError::new(format!("no column {name} ({flag})"), hint.expected())
            })
        };
        let usual = || names.iter().position(|name| LABELS.contains(&name.as_str()));
        let label = match &params.label {
            Some(name) => place("--label", name)?,
            None => usual().ok_or_else(|| {
                let found = format!("no column called {}", LABELS.join(", "));
                let expected = format!("--label COLUMN, one of {}", names.join(", "));
                FormatError::new(found, expected)
            })?,
        };
        let client = match &params.client {
            // Test samples need not say whose they are.
            Some(name) if features.is_some() => names.iter().position(|other| other == name),
            Some(name) => Some(place("--client", name)?),
            None => None,
        };
        let features: Vec<usize> = if let Some(features) = features {
            let known =
                features.iter().map(|name| place("a feature of the training samples", name));
            known.collect::<Result<_, _>>()?
        } else {
            for name in &params.ignore {
                place("--ignore", name)?;
            }
            let other = |&column: &usize| column != label && Some(column) != client;
            let features = (0..names.len()).filter(other);
            features.filter(|&column| !params.ignore.contains(&names[column])).collect()
        };
        if let Some(&column) =
            features.iter().find(|&&column| CLIENTS.contains(&names[column].as_str()))
        {
            let name = &names[column];
            let expected =
                format!("--client {name} if it says whose a sample is, or --ignore {name}");
            return Err(FormatError::new(format!("a feature called {name}"), expected));
        }
        if features.is_empty() {
            let found = format!("no features among the columns {}", names.join(", "));
            return Err(FormatError::new(found, "at least one column of numbers beside the label"));
        }
        Ok(Self { names, features, label, client })
    }

    /// The names of the features.
    pub(super) fn feature_names(&self) -> Vec<String> {
        self.features.iter().map(|&column| self.names[column].clone()).collect()
    }

    /// The error of a feature that is no finite number.
    pub(super) fn no_number(&self, column: usize, row: &str, found: &str) -> FormatError {
        let name = &self.names[column];
        let expected = format!(
            "a finite number (rows without one have to be filled or left out; --ignore {name} leaves the column out)"
        );
        FormatError::new(format!("{row}, column {name}: {found}"), expected)
    }
}

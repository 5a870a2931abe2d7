//! The figures that clients report, as arrays of Python with one entry or row for each client.

use agewise::selection::{Error, Report, Result};
use numpy::{PyReadonlyArray1, PyReadonlyArray2};

/// A copy of the lists of a call, so that other threads can run while they are used.
pub(crate) struct Figures {
    losses: Option<Vec<f32>>,
    durations: Option<Vec<f32>>,
    root_mean_squares: Option<Vec<f32>>,
    sketches: Option<Vec<Vec<f32>>>,
}

/// The lists of a call: losses, durations, root mean squares of losses, and sketches.
pub(crate) type Lists<'py> = (List<'py>, List<'py>, List<'py>, Option<PyReadonlyArray2<'py, f32>>);
type List<'py> = Option<PyReadonlyArray1<'py, f32>>;

impl Figures {
    pub(crate) fn new((losses, durations, root_mean_squares, sketches): Lists<'_>) -> Self {
        let list = |figures: List<'_>| figures.map(|figures| figures.as_array().to_vec());
        let rows = |sketches: PyReadonlyArray2<'_, f32>| {
            sketches.as_array().outer_iter().map(|row| row.to_vec()).collect()
        };
        Self {
            losses: list(losses),
            durations: list(durations),
            root_mean_squares: list(root_mean_squares),
            sketches: sketches.map(rows),
        }
    }

    /// The reports of these clients; NaN is an unknown value.
    pub(crate) fn reports(&self, clients: &[u32]) -> Result<Vec<Report<'_>>> {
        let lengths = [
            ("losses", self.losses.as_ref().map(Vec::len)),
            ("durations", self.durations.as_ref().map(Vec::len)),
            ("root_mean_squares", self.root_mean_squares.as_ref().map(Vec::len)),
            ("sketches", self.sketches.as_ref().map(Vec::len)),
        ];
        for (field, length) in lengths {
            if let Some(length) = length.filter(|&length| length != clients.len()) {
                let expected = format!("one entry for each of the {} clients", clients.len());
                return Err(Error::new(field, format!("a list of {length}"), expected));
            }
        }
        let figure = |list: &Option<Vec<f32>>, at: usize| {
            list.as_ref().map(|list| list[at]).filter(|value| !value.is_nan())
        };
        let report = |(at, &client): (usize, &u32)| Report {
            client,
            loss: figure(&self.losses, at),
            duration: figure(&self.durations, at),
            root_mean_square: figure(&self.root_mean_squares, at),
            sketch: self.sketches.as_ref().map(|sketches| sketches[at].as_slice()),
        };
        Ok(clients.iter().enumerate().map(report).collect())
    }
}

//! What clients report: losses, durations and sketches of updates, of each client the last.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// What clients reported when their updates were last accepted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reports {
    losses: Vec<Option<f32>>,
    durations: Vec<Option<f32>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    root_mean_squares: Vec<Option<f32>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sketches: Vec<Option<Vec<f32>>>,
}

impl Reports {
    /// The last reported loss of a client.
    pub fn loss(&self, client: u32) -> Option<f32> {
        known(&self.losses, client)
    }

    /// The last reported duration of a client's training, in seconds.
    pub fn duration(&self, client: u32) -> Option<f32> {
        known(&self.durations, client)
    }

    /// The root of the mean square of a client's losses over the samples it last trained on.
    pub fn root_mean_square(&self, client: u32) -> Option<f32> {
        known(&self.root_mean_squares, client)
    }

    /// The sketch of a client's last accepted update.
    pub fn sketch(&self, client: u32) -> Option<&[f32]> {
        self.sketches.get(client as usize)?.as_deref()
    }

    /// All sketches, by client.
    pub fn sketches(&self) -> impl Iterator<Item = (u32, &[f32])> {
        (0..).zip(&self.sketches).filter_map(|(client, sketch)| Some((client, sketch.as_deref()?)))
    }

    /// How many numbers a sketch has; nothing while there is none.
    pub fn sketch_width(&self) -> Option<usize> {
        self.sketches.iter().flatten().next().map(Vec::len)
    }

    /// One more than the highest client of whom anything is known.
    pub(crate) fn longest(&self) -> usize {
        let lists = [self.losses.len(), self.durations.len(), self.root_mean_squares.len()];
        lists.into_iter().fold(self.sketches.len(), usize::max)
    }

    /// Checks what was read from somewhere: all sketches have the same width and finite numbers.
    pub(crate) fn check(&self) -> Result<()> {
        let width = self.sketch_width();
        for (client, sketch) in (0..).zip(&self.sketches) {
            if let Some(sketch) = sketch {
                check_sketch(client, sketch, width)?;
            }
        }
        Ok(())
    }

    /// Checks reports that are to be kept; the first sketch of all says how wide they are.
    pub(crate) fn check_new(&self, reports: &[Report<'_>]) -> Result<()> {
        let first = || reports.iter().find_map(|report| report.sketch).map(<[f32]>::len);
        let width = self.sketch_width().or_else(first);
        reports.iter().try_for_each(|report| report.check(width))
    }

    /// Keeps what these reports say.
    pub(crate) fn record_all(&mut self, reports: &[Report<'_>]) {
        for report in reports {
            self.record(report);
        }
    }

    /// Keeps what an accepted report says.
    pub fn record(&mut self, report: &Report<'_>) {
        store(&mut self.losses, report.client, report.loss);
        store(&mut self.durations, report.client, report.duration);
        store(&mut self.root_mean_squares, report.client, report.root_mean_square);
        store(&mut self.sketches, report.client, report.sketch.map(<[f32]>::to_vec));
    }
}

fn known(values: &[Option<f32>], client: u32) -> Option<f32> {
    values.get(client as usize).copied().flatten()
}

/// Grows the list only when there is something to keep: most runs report nothing.
fn store<T: Clone>(values: &mut Vec<Option<T>>, client: u32, value: Option<T>) {
    if value.is_some() {
        if values.len() <= client as usize {
            values.resize(client as usize + 1, None);
        }
        values[client as usize] = value;
    }
}

fn check_sketch(client: u32, sketch: &[f32], width: Option<usize>) -> Result<()> {
    let field = || format!("sketch of client {client}");
    if sketch.is_empty() || width.is_some_and(|width| width != sketch.len()) {
        let expected = width.map_or("1 or more".to_string(), |width| format!("{width} numbers"));
        return Err(Error::new(field(), format!("{} numbers", sketch.len()), expected));
    }
    match sketch.iter().find(|value| !value.is_finite()) {
        Some(bad) => Err(Error::new(field(), bad, "finite numbers only")),
        None => Ok(()),
    }
}

/// A client's report whose update was accepted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Report<'a> {
    /// Who reports.
    pub client: u32,
    /// Its training loss.
    pub loss: Option<f32>,
    /// How long it trained, in seconds.
    pub duration: Option<f32>,
    /// The root of the mean square of the losses of all samples it trained on.
    pub root_mean_square: Option<f32>,
    /// A sketch of its update: few numbers whose differences are like those of the whole.
    pub sketch: Option<&'a [f32]>,
}

impl Report<'_> {
    /// A report without figures.
    pub fn plain(client: u32) -> Self {
        Self { client, loss: None, duration: None, root_mean_square: None, sketch: None }
    }

    /// Whether it has no figures.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.loss.is_none()
            && self.duration.is_none()
            && self.root_mean_square.is_none()
            && self.sketch.is_none()
    }

    /// Checks all figures; sketches must be as wide as those that are known already.
    fn check(&self, width: Option<usize>) -> Result<()> {
        if let Some(sketch) = self.sketch {
            check_sketch(self.client, sketch, width)?;
        }
        let figures = [
            ("loss", self.loss),
            ("duration", self.duration),
            ("root_mean_square", self.root_mean_square),
        ];
        for (field, value) in figures {
            if let Some(value) = value
                && !value.is_finite()
            {
                let field = format!("{field} of client {}", self.client);
                return Err(Error::new(field, value, "a finite number"));
            }
        }
        Ok(())
    }
}

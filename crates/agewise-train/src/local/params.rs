//! How clients train.

use agewise_core::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How much a client trains in a round, written `5 epochs` or `5 steps`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum LocalWork {
    /// So many passes over its data.
    Epochs(u32),
    /// So many batches.
    Steps(u32),
}

impl FromStr for LocalWork {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (count, unit) = text.split_once(' ').unwrap_or((text, ""));
        match (count.parse(), unit.trim()) {
            (Ok(count), "epochs" | "epoch") => Ok(Self::Epochs(count)),
            (Ok(count), "steps" | "step") => Ok(Self::Steps(count)),
            _ => {
                let expected = "a number of epochs or steps, such as 5 epochs or 5 steps";
                Err(Error::new("local_work", text, expected))
            }
        }
    }
}

impl fmt::Display for LocalWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, unit) = match self {
            Self::Epochs(count) => (count, "epochs"),
            Self::Steps(count) => (count, "steps"),
        };
        write!(f, "{count} {unit}")
    }
}

impl TryFrom<String> for LocalWork {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<LocalWork> for String {
    fn from(work: LocalWork) -> Self {
        work.to_string()
    }
}

/// Settings of local training, not checked yet.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LocalTrainingParams {
    /// Epochs or steps.
    #[serde(rename = "local_work")]
    pub work: LocalWork,
    /// Samples of a batch; the last of an epoch may be smaller.
    pub batch: u32,
    /// Learning rate in round 0.
    pub learning_rate: f32,
    /// The learning rate is multiplied by this from round to round.
    pub decay: f64,
    /// If above 0, the learning rate of round t is also multiplied by this / (this + t): Theorem 1 asks for such a fall.
    pub offset: f64,
    /// How much of the last step goes into the next (0: plain SGD). Begins anew in every round.
    pub momentum: f32,
    /// L2 penalty: adds this times the parameters to the gradient.
    pub weight_decay: f32,
    /// FedProx: adds this times the distance to the global model to the gradient.
    pub proximal: f32,
    /// While training, random crops (where images are larger than the model's input), mirrored half of the time.
    pub augment: bool,
}

impl Default for LocalTrainingParams {
    /// The paper's settings: 5 epochs, batches of 50, learning rate 0.1, decay 0.998.
    fn default() -> Self {
        Self {
            work: LocalWork::Epochs(5),
            batch: 50,
            learning_rate: 0.1,
            decay: 0.998,
            offset: 0.0,
            momentum: 0.0,
            weight_decay: 0.0,
            proximal: 0.0,
            augment: false,
        }
    }
}

impl LocalTrainingParams {
    /// Checks all settings.
    pub fn check(self) -> Result<LocalTraining> {
        if !(self.learning_rate.is_finite() && self.learning_rate > 0.0) {
            let expected = "a number above 0: without it nothing is learned";
            return Err(Error::new("learning_rate", self.learning_rate, expected));
        }
        let at_least_0 = [("weight_decay", self.weight_decay), ("proximal", self.proximal)];
        for (field, value) in at_least_0 {
            if !(value.is_finite() && value >= 0.0) {
                return Err(Error::new(field, value, "a number of at least 0"));
            }
        }
        if !(self.offset.is_finite() && self.offset >= 0.0) {
            return Err(Error::new("offset", self.offset, "a number of at least 0"));
        }
        if !(0.0..1.0).contains(&self.momentum) {
            return Err(Error::new("momentum", self.momentum, "a number from 0 to below 1"));
        }
        if !(self.decay > 0.0 && self.decay <= 1.0) {
            return Err(Error::new("decay", self.decay, "a number above 0, at most 1"));
        }
        if !(1..=65_536).contains(&self.batch) {
            return Err(Error::new("batch", self.batch, "a whole number from 1 to 65536"));
        }
        match self.work {
            LocalWork::Epochs(0) | LocalWork::Steps(0) => {
                Err(Error::new("local_work", self.work, "at least 1 epoch or step"))
            }
            _ => Ok(LocalTraining(self)),
        }
    }
}

/// Settings of local training that can be used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LocalTraining(LocalTrainingParams);

impl LocalTraining {
    /// What they are.
    pub fn params(&self) -> &LocalTrainingParams {
        &self.0
    }

    /// The learning rate of a round.
    pub fn learning_rate(&self, round: u64) -> f32 {
        let (offset, round) = (self.0.offset, round as f64);
        let decay = libm::pow(self.0.decay, round);
        // As a fraction of 1 + t / offset, because an offset near the largest number must not overflow.
        let fall = if offset > 0.0 { 1.0 / (1.0 + round / offset) } else { 1.0 };
        (f64::from(self.0.learning_rate) * decay * fall) as f32
    }

    /// How many batches a client with so many samples trains.
    pub fn steps(&self, samples: usize) -> u64 {
        match self.0.work {
            LocalWork::Steps(steps) => u64::from(steps),
            LocalWork::Epochs(epochs) => {
                u64::from(epochs) * samples.div_ceil(self.0.batch as usize) as u64
            }
        }
    }

    /// How many samples are in those batches, counted as often as they are trained: the last batch of a pass over the
    /// data may be smaller.
    pub fn samples(&self, samples: usize) -> u64 {
        let batch = u64::from(self.0.batch);
        let samples = samples as u64;
        let pass = samples.div_ceil(batch).max(1);
        let steps = self.steps(samples as usize);
        steps / pass * samples + steps % pass * batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_settings_are_named() {
        let params = LocalTrainingParams::default();
        let wrong: [(&str, LocalTrainingParams); 12] = [
            ("learning_rate", LocalTrainingParams { learning_rate: f32::NAN, ..params }),
            ("learning_rate", LocalTrainingParams { learning_rate: 0.0, ..params }),
            ("weight_decay", LocalTrainingParams { weight_decay: -1.0, ..params }),
            ("proximal", LocalTrainingParams { proximal: f32::INFINITY, ..params }),
            ("momentum", LocalTrainingParams { momentum: 1.0, ..params }),
            ("decay", LocalTrainingParams { decay: 0.0, ..params }),
            ("decay", LocalTrainingParams { decay: 1.1, ..params }),
            ("offset", LocalTrainingParams { offset: -1.0, ..params }),
            ("offset", LocalTrainingParams { offset: f64::NAN, ..params }),
            ("batch", LocalTrainingParams { batch: 0, ..params }),
            ("local_work", LocalTrainingParams { work: LocalWork::Epochs(0), ..params }),
            ("local_work", LocalTrainingParams { work: LocalWork::Steps(0), ..params }),
        ];
        for (field, params) in wrong {
            assert_eq!(params.check().unwrap_err().field(), field);
        }
        let training = params.check().unwrap();
        assert_eq!(training.steps(101), 15);
        assert!((training.learning_rate(2) - 0.1 * 0.998 * 0.998).abs() < 1e-8);
    }

    #[test]
    fn an_offset_makes_the_rate_fall_as_theorem_1_asks() {
        let (mu, offset) = (0.5, 480.0);
        let learning_rate = (1.0 / (mu * offset)) as f32;
        let params = LocalTrainingParams { learning_rate, decay: 1.0, ..Default::default() };
        let falling = LocalTrainingParams { offset, ..params }.check().unwrap();
        let constant = params.check().unwrap();
        for round in [0, 1, 7, 480, 1_000_000] {
            let asked = (1.0 / (mu * (round as f64 + offset))) as f32;
            assert!((falling.learning_rate(round) / asked - 1.0).abs() < 1e-6);
            assert_eq!(constant.learning_rate(round), learning_rate);
        }
        let both = LocalTrainingParams { offset, decay: 0.5, ..params }.check().unwrap();
        assert!((both.learning_rate(1) / falling.learning_rate(1) - 0.5).abs() < 1e-6);
        let extreme = LocalTrainingParams { offset: f64::MAX, ..params }.check().unwrap();
        assert_eq!(extreme.learning_rate(3), learning_rate);
    }
}

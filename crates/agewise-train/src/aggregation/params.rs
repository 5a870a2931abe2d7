//! Which rule with which numbers: `[aggregation]` in a configuration, or text.
//!
//! As text it is a rule with its options, a step of the server, or both joined with `+`: `mean`, `median`,
//! `trimmed-mean(trim=0.2)`, `mean(clip_norm=1)`, `mean(full_reports=5)`, `mean(max_norm=auto)`, `momentum(beta=0.9)`, `adam(learning_rate=0.01)`,
//! `median(clip_norm=5)+momentum(beta=0.9)`. The same text is its name in tables and figures.

use super::clip::Clip;
use super::mean::Mean;
use super::median::Median;
use super::pipeline::{Combine, KnownNorms, Pipeline};
use super::server_optimizer::{ServerOptimizer, ServerRule};
use super::trimmed_mean::TrimmedMean;
use super::{Aggregator, MaxNorm};
use agewise_core::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How the updates of a cohort become one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AggregationRule {
    /// The weighted mean.
    #[default]
    Mean,
    /// For each parameter the mean of what is left when the smallest and the largest values are cut; does not weigh.
    TrimmedMean,
    /// For each parameter the value in the middle, or the mean of the two there; does not weigh.
    Median,
}

/// A rule of aggregation with its numbers, not checked yet.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AggregationParams {
    /// How updates become one model.
    pub rule: AggregationRule,
    /// The share of updates that a trimmed mean cuts at each end, from 0 to below 0.5.
    pub trim: f64,
    /// If above 0, an update that is farther than this from the global model is shortened to this distance.
    pub clip_norm: f64,
    /// From so many updates on the model goes all the way to what they give together; fewer of them move it by their share
    /// of this number, so that one client is never the model. 1: any number of updates goes all the way, as in the paper.
    pub full_reports: u64,
    /// An update that is farther than this from the global model is left out: a distance, or `auto` for ten times the
    /// median of the last updates ([`super::NormBound`]). A deployment refuses it when it comes, by `updates.max_norm`.
    #[serde(skip_serializing_if = "MaxNorm::is_off")]
    pub max_norm: MaxNorm,
    /// How the global model moves to what the rule found.
    pub server: ServerRule,
}

impl Default for AggregationParams {
    /// FedAvg: the mean of updates as they came.
    fn default() -> Self {
        Self {
            rule: AggregationRule::Mean,
            trim: 0.1,
            clip_norm: 0.0,
            full_reports: 1,
            max_norm: MaxNorm::OFF,
            server: ServerRule::Average,
        }
    }
}

impl AggregationParams {
    /// Checks all numbers.
    pub fn check(&self) -> Result<()> {
        if !(0.0..0.5).contains(&self.trim) {
            return Err(Error::new("trim", self.trim, "a number from 0 to below 0.5"));
        }
        if !(self.clip_norm.is_finite() && self.clip_norm >= 0.0) {
            return Err(Error::new("clip_norm", self.clip_norm, "a number of at least 0"));
        }
        if !(1..=MOST_REPORTS).contains(&self.full_reports) {
            let expected = format!("from 1 to {MOST_REPORTS}");
            return Err(Error::new("full_reports", self.full_reports, expected));
        }
        self.max_norm.check()?;
        self.server.check()
    }

    /// An aggregator for models of so many parameters.
    pub fn build(&self, parameters: usize) -> Result<Box<dyn Aggregator>> {
        self.check()?;
        let rule: Box<dyn Combine> = match self.rule {
            AggregationRule::Mean => Box::<Mean>::default(),
            AggregationRule::TrimmedMean => Box::new(TrimmedMean::new(self.trim)),
            AggregationRule::Median => Box::<Median>::default(),
        };
        let server = ServerOptimizer::new(self.server, parameters)?;
        let clip = Clip { norm: self.clip_norm };
        Ok(Box::new(Pipeline {
            max_norm: self.max_norm,
            norms: KnownNorms::default(),
            clip,
            rule,
            full_reports: self.full_reports,
            damped: Vec::new(),
            server,
        }))
    }
}

/// More updates are in no round.
const MOST_REPORTS: u64 = 1 << 32;

const NAMES: [&str; 5] = ["mean", "trimmed-mean", "median", "momentum", "adam"];
const SYNTAX: &str =
    "rules such as mean, trimmed-mean(trim=0.2), adam or median(clip_norm=5)+momentum(beta=0.9)";

/// The numbers of FedAvgM that need not be named: learning rate and beta.
const MOMENTUM: [f32; 2] = [1.0, 0.9];
/// The numbers of FedAdam that need not be named: learning rate, beta1, beta2 and tau, as Reddi et al. recommend.
const ADAM: [f32; 4] = [0.01, 0.9, 0.99, 1e-3];

impl FromStr for AggregationParams {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::new("aggregation", format!("{text:?}"), SYNTAX);
        let mut params = Self::default();
        let (mut rules, mut servers) = (0, 0);
        for part in split_outside_brackets(text, '+') {
            let (name, mut options) = Options::parse(part).ok_or_else(wrong)?;
            let rule = match name {
                "mean" => Some(AggregationRule::Mean),
                "trimmed-mean" => Some(AggregationRule::TrimmedMean),
                "median" => Some(AggregationRule::Median),
                _ => None,
            };
            if let Some(rule) = rule {
                rules += 1;
                params.rule = rule;
                options.take("clip_norm", &mut params.clip_norm)?;
                let mut full = params.full_reports as f64;
                if options.take("full_reports", &mut full)? {
                    params.full_reports = whole("full_reports", full)?;
                }
                if let Some(norm) = options.take_text("max_norm") {
                    params.max_norm = norm.parse()?;
                }
                if rule == AggregationRule::TrimmedMean {
                    options.take("trim", &mut params.trim)?;
                }
            } else {
                servers += 1;
                params.server = server(name, &mut options)?;
            }
            options.finish(name)?;
        }
        if rules > 1 || servers > 1 {
            return Err(wrong());
        }
        params.check()?;
        Ok(params)
    }
}

/// The step of the server of a name.
fn server(name: &str, options: &mut Options<'_>) -> Result<ServerRule> {
    let mut take = |option: &'static str, default: f32| {
        let mut value = f64::from(default);
        let given = options.take(option, &mut value)?;
        Ok::<f32, Error>(if given { value as f32 } else { default })
    };
    match name {
        "momentum" => Ok(ServerRule::Momentum {
            learning_rate: take("learning_rate", MOMENTUM[0])?,
            beta: take("beta", MOMENTUM[1])?,
        }),
        "adam" => Ok(ServerRule::Adam {
            learning_rate: take("learning_rate", ADAM[0])?,
            beta1: take("beta1", ADAM[1])?,
            beta2: take("beta2", ADAM[2])?,
            tau: take("tau", ADAM[3])?,
        }),
        unknown => Err(Error::unknown("aggregation", unknown, NAMES.iter().copied())),
    }
}

/// A number of an option that has to be a whole one.
fn whole(option: &str, number: f64) -> Result<u64> {
    if number.fract() == 0.0 && (0.0..=MOST_REPORTS as f64).contains(&number) {
        return Ok(number as u64);
    }
    Err(Error::new(option, number, format!("a whole number from 1 to {MOST_REPORTS}")))
}

/// The options that were given to a rule, and the names of those that it knows.
struct Options<'a> {
    given: Vec<(&'a str, &'a str)>,
    known: Vec<&'static str>,
}

impl<'a> Options<'a> {
    /// The name and the options of `name` or `name(option=value, ...)`.
    fn parse(text: &'a str) -> Option<(&'a str, Self)> {
        let text = text.trim();
        let (name, list) = match text.split_once('(') {
            None => (text, ""),
            Some((name, rest)) => (name.trim(), rest.strip_suffix(')')?),
        };
        let options = list.split(',').filter(|option| !option.trim().is_empty());
        let option = |option: &'a str| {
            let (key, value) = option.split_once('=')?;
            Some((key.trim(), value.trim()))
        };
        let given = options.map(option).collect::<Option<_>>()?;
        (!name.is_empty()).then_some((name, Self { given, known: Vec::new() }))
    }

    /// Takes the number of an option, if it was given; whether it was.
    fn take(&mut self, option: &'static str, target: &mut f64) -> Result<bool> {
        let Some(text) = self.take_text(option) else {
            return Ok(false);
        };
        *target = text.parse().map_err(|_| Error::new(option, text, "a number"))?;
        Ok(true)
    }

    /// Takes the text of an option, if it was given.
    fn take_text(&mut self, option: &'static str) -> Option<&'a str> {
        self.known.push(option);
        let place = self.given.iter().position(|(key, _)| *key == option)?;
        Some(self.given.remove(place).1)
    }

    /// Refuses what was not taken: another option, or the same once more.
    fn finish(self, name: &str) -> Result<()> {
        match self.given.first() {
            None => Ok(()),
            Some((key, _)) if self.known.contains(key) => {
                Err(Error::new(format!("{name}({key})"), "given twice", "each option once"))
            }
            Some((key, _)) => {
                Err(Error::unknown(format!("option of {name}"), key, self.known.iter().copied()))
            }
        }
    }
}

fn split_outside_brackets(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut depth = 0i64;
    text.split(move |c: char| {
        depth += i64::from(c == '(') - i64::from(c == ')');
        c == separator && depth <= 0
    })
}

impl fmt::Display for AggregationParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = Self::default();
        let mut options = Vec::new();
        let mut option = |name: &str, value: String, default: String| {
            if value != default {
                options.push(format!("{name}={value}"));
            }
        };
        option("clip_norm", self.clip_norm.to_string(), plain.clip_norm.to_string());
        option("full_reports", self.full_reports.to_string(), plain.full_reports.to_string());
        option("max_norm", self.max_norm.to_string(), plain.max_norm.to_string());
        let name = match self.rule {
            AggregationRule::Mean => "mean",
            AggregationRule::Median => "median",
            AggregationRule::TrimmedMean => {
                option("trim", self.trim.to_string(), plain.trim.to_string());
                "trimmed-mean"
            }
        };
        let is_plain_mean = self.rule == AggregationRule::Mean && options.is_empty();
        let rule = with_options(name, &options);
        let (name, numbers): (_, Vec<(&str, f32, f32)>) = match self.server {
            ServerRule::Average => return f.write_str(&rule),
            ServerRule::Momentum { learning_rate, beta } => (
                "momentum",
                vec![("learning_rate", learning_rate, MOMENTUM[0]), ("beta", beta, MOMENTUM[1])],
            ),
            ServerRule::Adam { learning_rate, beta1, beta2, tau } => {
                let names = ["learning_rate", "beta1", "beta2", "tau"];
                let numbers = [learning_rate, beta1, beta2, tau];
                let named = names.into_iter().zip(numbers).zip(ADAM);
                ("adam", named.map(|((name, value), default)| (name, value, default)).collect())
            }
        };
        let options = numbers.iter().filter(|(_, value, default)| value != default);
        let options: Vec<String> =
            options.map(|(name, value, _)| format!("{name}={value}")).collect();
        let server = with_options(name, &options);
        if is_plain_mean { f.write_str(&server) } else { write!(f, "{rule}+{server}") }
    }
}

/// `name`, or `name(option, ...)`.
fn with_options(name: &str, options: &[String]) -> String {
    if options.is_empty() { name.to_string() } else { format!("{name}({})", options.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<AggregationParams> {
        text.parse()
    }

    #[test]
    fn text_round_trips() {
        for text in [
            "mean",
            "median",
            "trimmed-mean",
            "trimmed-mean(trim=0.2)",
            "mean(clip_norm=1)",
            "trimmed-mean(clip_norm=0.5, trim=0.25)",
            "mean(full_reports=5)",
            "mean(max_norm=auto)",
            "median(clip_norm=1, max_norm=2.5)+adam",
            "trimmed-mean(clip_norm=0.5, full_reports=10, trim=0.25)+momentum",
            "momentum",
            "momentum(beta=0.5)",
            "adam(learning_rate=0.1, tau=0.01)",
            "median(clip_norm=5)+momentum(learning_rate=0.3)",
        ] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        let spaced = parse(" momentum( beta = 0.9 ) + median(clip_norm=1e+1) ").unwrap();
        assert_eq!(spaced.to_string(), "median(clip_norm=10)+momentum");
    }

    #[test]
    fn nonsense_is_named() {
        let field = |text: &str| parse(text).unwrap_err().field().to_string();
        for text in ["", "+", "mean(", "mean(clip_norm)", "mean+median", "adam+momentum"] {
            assert_eq!(field(text), "aggregation", "{text}");
        }
        assert!(parse("medain").unwrap_err().to_string().contains("did you mean median?"));
        assert_eq!(field("median(trim=0.2)"), "option of median");
        assert_eq!(field("mean(clip_norm=1, clip_norm=2)"), "mean(clip_norm)");
        assert_eq!(field("trimmed-mean(trim=0.5)"), "trim");
        assert_eq!(field("mean(clip_norm=-1)"), "clip_norm");
        assert_eq!(field("mean(clip_norm=auto)"), "clip_norm");
        assert_eq!(field("mean(max_norm=off)"), "max_norm");
        assert_eq!(field("mean(max_norm=-1)"), "max_norm");
        assert_eq!(field("mean(full_reports=0)"), "full_reports");
        assert_eq!(field("mean(full_reports=1.5)"), "full_reports");
        assert_eq!(field("momentum(beta=1)"), "server beta");
    }
}

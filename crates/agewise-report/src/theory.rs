//! The theory of several policies side by side: the document behind `agewise theory`.

use crate::series_style::slots;
use agewise_core::theory::{Binomial, PolicyTheory, cohort_size};
use agewise_core::{
    Error, MaxAgeCost, POLICIES, PolicySpec, Result, Setting, SettingParams, Weighting,
    build_policy, find_policy,
};
use agewise_plot::{Axis, Figure, Panel, ReferenceLine, Series, SeriesStyle};
use serde::Serialize;
use std::fmt::Write as _;

/// What is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct TheoryRequest {
    /// The setting.
    pub setting: Setting,
    /// How the sizes were described, for the record.
    pub sizes: String,
    /// The policies.
    pub policies: Vec<PolicySpec>,
    /// One weighting for all, or each policy's own if absent.
    pub weighting: Option<Weighting>,
    /// For how many rounds from a cold start the cohort sizes of age laws are given.
    pub cold_start_rounds: u32,
}

impl TheoryRequest {
    /// The plain question: each policy with its own weighting.
    pub fn new(setting: Setting, policies: Vec<PolicySpec>) -> Self {
        let sizes = if setting.sizes().are_equal() { "equal" } else { "given" }.to_string();
        Self { setting, sizes, policies, weighting: None, cold_start_rounds: 0 }
    }
}

/// Every policy that needs no further options and has closed forms.
pub fn default_policies() -> Vec<PolicySpec> {
    // Whether there are any does not depend on the setting.
    let setting = SettingParams::new(10, 2, 5).check();
    let has_theory = |spec: &PolicySpec| {
        let Ok(setting) = &setting else { return false };
        let made = build_policy(spec, setting);
        made.and_then(|policy| policy.theory(setting, Weighting::Uniform))
            .is_ok_and(|theory| theory.is_some())
    };
    let plain = POLICIES.iter().filter(|entry| !entry.needs_options);
    plain.map(|entry| PolicySpec::named(entry.name)).filter(has_theory).collect()
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TheoryReport {
    /// n.
    pub clients: u32,
    /// m.
    pub cohort: u32,
    /// m'.
    pub max_age: u32,
    /// How the data sizes were described.
    pub sizes: String,
    /// 1/m - 1/n: no policy with m clients on average and equal weights has a smaller Sigma.
    pub sigma_floor: f64,
    /// One entry for each policy, in the order asked for.
    pub policies: Vec<PolicyReport>,
}

/// What is known of one policy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PolicyReport {
    /// The policy with its options.
    pub policy: String,
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// The weighting for which Sigma is given.
    pub weighting: Weighting,
    /// The figures.
    #[serde(flatten)]
    pub theory: PolicyTheory,
    /// Cohort sizes by round from a cold start; empty if not asked for, or if clients are not independent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cold_start: Vec<ColdRound>,
    /// What the maximum age costs it, if it costs anything.
    #[serde(skip)]
    pub max_age_cost: Option<MaxAgeCost>,
    /// Its look, the same in every figure.
    #[serde(skip)]
    slot: usize,
}

/// The cohort size in one round after a cold start.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ColdRound {
    /// The round, from 0.
    pub round: u32,
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub sd: f64,
    /// The 2.5% quantile.
    pub low: u32,
    /// The 97.5% quantile.
    pub high: u32,
}

impl ColdRound {
    /// The round in which each of `clients` takes part with this chance.
    fn new(round: u32, clients: u32, chance: f64) -> Self {
        /// Beyond this the binomial is a normal distribution, and listing its values takes long.
        const LARGE_SD: f64 = 1_000.0;
        let n = f64::from(clients);
        let (mean, sd) = (n * chance, (n * chance * (1.0 - chance)).sqrt());
        let (low, high) = if sd > LARGE_SD {
            let bound = |deviations: f64| (mean + deviations * sd).round().clamp(0.0, n) as u32;
            (bound(-1.96), bound(1.96))
        } else {
            let size = Binomial::new(clients, chance);
            (size.quantile(0.025), size.quantile(0.975))
        };
        Self { round, mean, sd, low, high }
    }
}

impl TheoryReport {
    /// Works out the theory of all policies.
    pub fn new(request: &TheoryRequest) -> Result<Self> {
        let setting = &request.setting;
        let names: Vec<String> = request.policies.iter().map(PolicySpec::to_string).collect();
        let policies = names.iter().map(String::as_str);
        let policies = policies.zip(request.policies.iter().map(PolicySpec::name));
        let slots = slots(&policies.collect::<Vec<_>>());
        let policies = request.policies.iter().zip(slots);
        let policies = policies.map(|(spec, slot)| PolicyReport::new(spec, slot, request));
        Ok(Self {
            clients: setting.clients(),
            cohort: setting.cohort(),
            max_age: setting.max_age().at(setting.interval())?,
            sizes: request.sizes.clone(),
            sigma_floor: 1.0 / f64::from(setting.cohort()) - 1.0 / f64::from(setting.clients()),
            policies: policies.collect::<Result<_>>()?,
        })
    }

    /// Draws the laws, the distribution of X, and the cold start if it was asked for.
    pub fn figure(&self) -> Figure {
        let (n, m) = (self.clients, self.cohort);
        let mut figure = Figure::new("How the policies call their clients")
            .subtitle(format!("{n} clients, {m} per round, maximum age {}", self.max_age))
            .caption(self.caption());
        if self.policies.iter().any(|policy| policy.theory.probabilities.is_some()) {
            figure = figure.panel(self.law_panel());
        }
        figure = figure.panel(self.interval_panel());
        if self.policies.iter().any(|policy| !policy.cold_start.is_empty()) {
            figure = figure.panel(self.cold_start_panel());
        }
        figure
    }

    fn caption(&self) -> String {
        let mut caption = "An age law is the chance that a client takes part, by the rounds since it \
                           last did; m/n is the rate at which everyone is called on average. X is the \
                           number of rounds from one selection of a client to its next: the narrower, \
                           the more even the load."
            .to_string();
        for (first, others) in self.same_intervals() {
            if !others.is_empty() {
                let others = others.join(", ");
                let _ = write!(caption, " Same distribution of X as {}: {others}.", first.policy);
            }
        }
        caption
    }

    /// The policies whose distributions of X differ, each with the names of those that have the same.
    fn same_intervals(&self) -> Vec<(&PolicyReport, Vec<&str>)> {
        let mut different: Vec<(&PolicyReport, Vec<&str>)> = Vec::new();
        for policy in &self.policies {
            match different.iter_mut().find(|(first, _)| first.same_intervals(policy)) {
                Some((_, others)) => others.push(&policy.policy),
                None => different.push((policy, Vec::new())),
            }
        }
        different.retain(|(first, _)| !first.theory.interval_distribution.is_empty());
        different
    }

    fn law_panel(&self) -> Panel {
        let rate = f64::from(self.cohort) / f64::from(self.clients);
        let x = Axis::linear("age (rounds since the last selection)").integer_ticks();
        let y = Axis::linear("chance to take part").range(0.0, 1.0);
        let panel = Panel::new("The law", x, y)
            .reference(ReferenceLine::horizontal(rate, format!("m/n = {rate:.3}")));
        self.policies.iter().fold(panel, |panel, policy| {
            let Some(p) = &policy.theory.probabilities else {
                return panel;
            };
            let style = line_style(p.len());
            let points = p.iter().enumerate().map(|(age, &p)| (age as f64, p));
            panel.series(Series::new(&policy.policy, style, points).slot(policy.slot))
        })
    }

    fn interval_panel(&self) -> Panel {
        let interval = f64::from(self.clients) / f64::from(self.cohort);
        // Far tails would squeeze everything else: stop where the widest policy has 1% left.
        let widest = self.policies.iter().map(|policy| policy.quantile(0.99)).max().unwrap_or(1);
        let end = (widest as f64).min(6.0 * interval + 2.0).max(interval + 2.0);
        let x = Axis::linear("X (rounds between two selections)").range(0.0, end).integer_ticks();
        let panel = Panel::new("Rounds between two selections", x, Axis::linear("P(X = x)"))
            .reference(ReferenceLine::vertical(interval, format!("n/m = {interval:.2}")));
        self.same_intervals().into_iter().fold(panel, |panel, (policy, _)| {
            let points = policy.theory.interval_distribution.iter().map(|&(x, p)| (x as f64, p));
            let points: Vec<_> = points.filter(|&(x, p)| x <= end && p > 0.0).collect();
            let style =
                if points.len() <= 3 { SeriesStyle::Stems } else { line_style(points.len()) };
            panel.series(Series::new(&policy.policy, style, points).slot(policy.slot))
        })
    }

    fn cold_start_panel(&self) -> Panel {
        let x = Axis::linear("round").integer_ticks();
        let panel = Panel::new("From a cold start (all ages 0)", x, Axis::linear("mean cohort"))
            .reference(ReferenceLine::horizontal(f64::from(self.cohort), "target m"));
        let started = self.policies.iter().filter(|policy| !policy.cold_start.is_empty());
        started.fold(panel, |panel, policy| {
            let points = policy.cold_start.iter().map(|cold| (f64::from(cold.round), cold.mean));
            let style = line_style(policy.cold_start.len());
            panel.series(Series::new(&policy.policy, style, points).slot(policy.slot))
        })
    }
}

/// Markers help as long as they can be told apart.
fn line_style(points: usize) -> SeriesStyle {
    if points <= 60 { SeriesStyle::LineWithMarkers } else { SeriesStyle::Line }
}

impl PolicyReport {
    fn new(spec: &PolicySpec, slot: usize, request: &TheoryRequest) -> Result<Self> {
        let entry = find_policy(spec.name())?;
        let policy = build_policy(spec, &request.setting)?;
        let weighting = request.weighting.unwrap_or(entry.weighting);
        let clients = request.setting.clients();
        let cold_start = policy.age_law().map_or_else(Vec::new, |law| {
            let chances = cohort_size::participation_from_cold_start(law);
            let rounds = (0..request.cold_start_rounds).zip(chances);
            rounds.map(|(round, chance)| ColdRound::new(round, clients, chance.min(1.0))).collect()
        });
        let theory = policy.theory(&request.setting, weighting)?.ok_or_else(|| {
            let expected = if policy.needs().training {
                "a policy with closed forms; this one depends on training: agewise compare"
            } else {
                "a policy with closed forms; simulate or compare the others"
            };
            Error::new("policy", spec, expected)
        })?;
        let family = policy.law_family();
        let cost = family.map(|family| request.setting.max_age_cost(family)).transpose()?;
        let max_age_cost = cost.flatten();
        Ok(Self {
            policy: spec.to_string(),
            summary: entry.summary,
            weighting,
            theory,
            cold_start,
            max_age_cost,
            slot,
        })
    }

    /// The smallest x with P(X <= x) at least `level`, as far as the distribution is known.
    fn quantile(&self, level: f64) -> u64 {
        let mut reached = 0.0;
        let distribution = &self.theory.interval_distribution;
        let found = distribution.iter().find(|(_, p)| {
            reached += p;
            reached >= level
        });
        found.or(distribution.last()).map_or(1, |&(x, _)| x)
    }

    fn same_intervals(&self, other: &Self) -> bool {
        let (a, b) = (&self.theory.interval_distribution, &other.theory.interval_distribution);
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && (a.1 - b.1).abs() < 1e-9)
    }
}

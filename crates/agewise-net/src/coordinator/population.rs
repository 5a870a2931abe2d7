//! The clients of a run: names, data sizes, ages, what they reported, and what the policy remembers.

use super::ledger::{ClientRow, JoinRow, Ledger};
use super::trouble::Trouble;
use crate::config::CoordinatorConfig;
use crate::honesty::PublicKey;
use agewise_core::{
    Ages, Error, Lots, Policy, Report, Reports, Result, Setting, SettingParams, Sizes, Start,
    Stream, build_policy,
};
use std::collections::BTreeMap;

/// Everyone who has enrolled.
#[derive(Debug)]
pub(crate) struct Population {
    samples: Vec<u64>,
    ages: Ages,
    reports: Reports,
    /// What the policy remembers beyond that, as it was at the end of the last round.
    memory: Vec<f64>,
    /// Ages of the clients with which the run begins.
    first_ages: Vec<u64>,
}

impl Population {
    /// Everyone as the ledger has them at the beginning of a round; `joins` are those of the round if it is under way, and `sketches` are of
    /// last updates.
    pub(crate) fn load(
        ledger: &Ledger,
        rows: &[ClientRow],
        config: &CoordinatorConfig,
        round: u64,
        joins: &[JoinRow],
        sketches: &[(u32, Vec<f32>)],
    ) -> std::result::Result<Self, Trouble> {
        // Who was credited in the round that is under way had another age at its beginning.
        let before: BTreeMap<u32, u64> = joins
            .iter()
            .filter(|join| join.report.is_some())
            .map(|join| (join.client, join.age))
            .collect();
        let waiting = (0..).zip(rows).map(|(client, row)| match before.get(&client) {
            Some(&age) => round as i64 - age as i64,
            None => row.waiting_since,
        });
        let ages = Ages::resumed(round, waiting)?;
        let mut reports = Reports::default();
        for (client, loss, seconds) in ledger.last_reports(round)? {
            reports.record(&report(client, loss, seconds));
        }
        for (client, sketch) in sketches {
            reports.record(&Report { sketch: Some(sketch), ..Report::plain(*client) });
        }
        if rows.len() as u64 > config.params.round.clients {
            check_growth(config, rows.len() as u32)?;
        }
        let memory = ledger.memory()?;
        check_memory(config, &memory)?;
        let first_ages = first_ages(config)?;
        Ok(Self {
            samples: rows.iter().map(|row| row.samples).collect(),
            ages,
            reports,
            memory,
            first_ages,
        })
    }

    pub(crate) fn len(&self) -> u32 {
        self.samples.len() as u32
    }

    pub(crate) fn knows(&self, client: u32) -> bool {
        client < self.len()
    }

    pub(crate) fn ages(&self) -> &Ages {
        &self.ages
    }

    pub(crate) fn reports(&self) -> &Reports {
        &self.reports
    }

    pub(crate) fn samples(&self, client: u32) -> u64 {
        self.samples[client as usize]
    }

    pub(crate) fn set_samples(&mut self, client: u32, samples: u64) {
        self.samples[client as usize] = samples;
    }

    /// A new client. Those with whom the run begins have ages from the policy's steady state; who comes later starts somewhere
    /// in an interval, so that many who come at once do not act in step.
    pub(crate) fn admit(
        &mut self,
        name: &str,
        key: PublicKey,
        samples: u64,
        config: &CoordinatorConfig,
        interval: f64,
    ) -> (u32, ClientRow) {
        let client = self.len();
        let age = match (config.params.round.start, self.first_ages.get(client as usize)) {
            (Start::Cold, _) => 0,
            (_, Some(&age)) if self.ages.round() == 0 => age,
            _ => later_age(config, client, interval),
        };
        self.ages.admit(age);
        self.samples.push(samples);
        let waiting_since = self.ages.waiting_since(client);
        let name = name.to_string();
        let key_since = self.ages.round();
        (
            client,
            ClientRow {
                name,
                key,
                key_since,
                samples,
                waiting_since,
                revoked: false,
                revoked_from: None,
            },
        )
    }

    /// The selection problem of the present population, and its policy with what it remembers.
    pub(crate) fn problem(&self, config: &CoordinatorConfig) -> Result<(Setting, Box<dyn Policy>)> {
        problem(config, &self.samples, &self.memory)
    }

    /// What the policy remembers after a round that began with clients of these sizes.
    pub(crate) fn memory_after(
        &self,
        config: &CoordinatorConfig,
        samples: &[u64],
        accepted: &[Report<'_>],
    ) -> Result<Vec<f64>> {
        let (setting, mut policy) = problem(config, samples, &self.memory)?;
        policy.finished(&setting, accepted);
        Ok(policy.memory())
    }

    /// Whether the policy remembers anything after a round with these reports.
    pub(crate) fn remembers(
        &self,
        config: &CoordinatorConfig,
        accepted: &[Report<'_>],
    ) -> Result<bool> {
        let memory = self.memory_after(config, &self.samples, accepted)?;
        Ok(!memory.is_empty())
    }

    /// How many clients have each age.
    pub(crate) fn age_counts(&self) -> Vec<(u64, u32)> {
        let mut counts = BTreeMap::new();
        for age in self.ages.iter() {
            *counts.entry(age).or_insert(0) += 1;
        }
        counts.into_iter().collect()
    }

    /// Ends a round in which these reports were credited, and after which the policy remembers this.
    pub(crate) fn advance(&mut self, accepted: &[Report<'_>], memory: Vec<f64>) -> Result<()> {
        let clients: Vec<u32> = accepted.iter().map(|report| report.client).collect();
        self.ages.advance(&clients)?;
        for report in accepted {
            self.reports.record(report);
        }
        self.memory = memory;
        Ok(())
    }
}

/// The selection problem of clients with so many samples, and its policy with this memory.
pub(crate) fn problem(
    config: &CoordinatorConfig,
    samples: &[u64],
    memory: &[f64],
) -> Result<(Setting, Box<dyn Policy>)> {
    let sizes = Sizes::new(samples.iter().map(|&samples| samples as f64).collect())?;
    let params = config.params.setting_params(samples.len() as u64);
    let setting = SettingParams { sizes: Some(sizes), ..params }.check()?;
    let mut policy = build_policy(&config.policy, &setting)?;
    policy.recall(memory)?;
    Ok((setting, policy))
}

/// Whether the policy can be made for so many clients: an option that was right for fewer may be wrong for more.
pub(crate) fn check_growth(config: &CoordinatorConfig, clients: u32) -> Result<()> {
    let setting = config.params.setting_params(u64::from(clients)).check()?;
    match build_policy(&config.policy, &setting) {
        Ok(_) => Ok(()),
        Err(error) => {
            let expected = format!("a policy for {clients} clients ({error})");
            Err(Error::new("round.policy", &config.policy, expected))
        }
    }
}

/// Whether the policy can take back what the ledger says that it remembers.
fn check_memory(config: &CoordinatorConfig, memory: &[f64]) -> std::result::Result<(), Trouble> {
    let setting = config.params.setting_params(config.params.round.clients).check()?;
    let recalled = build_policy(&config.policy, &setting)?.recall(memory);
    recalled.map_err(|error| Trouble::Broken(format!("the policy's memory in the ledger: {error}")))
}

/// The ages of the clients with which the run begins; none if all of them are 0.
pub(crate) fn first_ages(config: &CoordinatorConfig) -> Result<Vec<u64>> {
    match config.params.round.start {
        Start::Cold => Ok(Vec::new()),
        Start::Stationary => {
            let setting = config.params.setting_params(config.params.round.clients).check()?;
            Ok(build_policy(&config.policy, &setting)?.first_ages(&setting, config.seed()))
        }
    }
}

/// The age of a client that comes later.
pub(crate) fn later_age(config: &CoordinatorConfig, client: u32, interval: f64) -> u64 {
    let lot = Lots::new(config.seed(), Stream::FIRST_AGE, 0).of(u64::from(client));
    (lot.unit() * interval) as u64
}

/// A report as policies see it: in 32 bits, where everything finite stays finite.
pub(crate) fn report(client: u32, loss: f64, seconds: f64) -> Report<'static> {
    let narrow = |value: f64| value.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32;
    let (loss, duration) = (Some(narrow(loss)), Some(narrow(seconds)));
    Report { loss, duration, ..Report::plain(client) }
}

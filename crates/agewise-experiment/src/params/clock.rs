//! The table `[clock]`: real conditions of devices and links, and how a round is ended under them.

use super::ExperimentParams;
use crate::clock::{LinkDistribution, Power, Schedule, Unit, rate_file};
use agewise_core::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a clock looks at beside the speeds of `training`. Where this table is there, runs are told in seconds and bytes
/// too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClockParams {
    /// The bandwidths of clients: `none` (transfers take no time), or a distribution with medians down and up in Mbit/s.
    pub links: String,
    /// When a round ends, where a variant does not say its own.
    pub schedule: String,
    /// The unit in which what a target costs is told first.
    pub unit: Unit,
    /// What a client draws while it computes, in watts; energy is counted where this is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power: Option<f64>,
    /// What it draws while it sends or receives; the same if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_power: Option<f64>,
    /// The columns that were read from files, so that a run goes on without them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub columns: BTreeMap<String, Vec<f64>>,
}

impl Default for ClockParams {
    /// Transfers take no time, and rounds wait for everyone.
    fn default() -> Self {
        Self {
            links: "none".to_string(),
            schedule: Schedule::Sync.to_string(),
            unit: Unit::Rounds,
            power: None,
            link_power: None,
            columns: BTreeMap::new(),
        }
    }
}

impl ClockParams {
    /// The bandwidths of clients, if transfers take time.
    pub(crate) fn links(&self) -> Result<Option<LinkDistribution>> {
        if self.links == "none" { Ok(None) } else { LinkDistribution::parse(&self.links).map(Some) }
    }

    /// What clients draw, where that is known.
    pub(crate) fn power(&self) -> Result<Option<Power>> {
        for (field, watts) in [("power", self.power), ("link_power", self.link_power)] {
            if let Some(watts) = watts.filter(|watts| !(0.0..=1e6).contains(watts)) {
                return Err(Error::new(field, watts, "watts from 0 to 1e6"));
            }
        }
        match (self.power, self.link_power) {
            (None, None) => Ok(None),
            (Some(computing), link) => {
                Ok(Some(Power { computing, link: link.unwrap_or(computing) }))
            }
            (None, Some(link)) => {
                Err(Error::new("link_power", link, "power beside it: the watts while computing"))
            }
        }
    }
}

impl ExperimentParams {
    /// Reads the columns of files that speeds and links name.
    pub(crate) fn load_columns(&mut self) -> Result<()> {
        let speeds = self.training.as_ref().map(|training| training.speeds.clone());
        let speeds = speeds.unwrap_or_default();
        let links = self.clock.as_ref().map(|clock| clock.links.clone()).unwrap_or_default();
        let mut known = self.clock.as_ref().map(|clock| clock.columns.clone()).unwrap_or_default();
        rate_file::load("speeds", &speeds, 1, &mut known)?;
        rate_file::load("links", &links, 2, &mut known)?;
        if !known.is_empty() {
            self.clock.get_or_insert_default().columns = known;
        }
        Ok(())
    }
}

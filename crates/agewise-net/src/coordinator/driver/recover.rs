//! From the ledger to a driver: at the start, and after something went wrong.

use super::{Driver, News, Parts, REUNION, Stage};
use crate::config::{CoordinatorConfig, CoordinatorParams};
use crate::coordinator::intake::stored_checksum;
use crate::coordinator::ledger::{JoinRow, Outcome, RoundRow};
use crate::coordinator::models::{Global, Newest};
use crate::coordinator::population::Population;
use crate::coordinator::round::{Course, Member, Round, Windows};
use crate::coordinator::trouble::Trouble;
use crate::honesty::seeds::{self, SeedChains};
use crate::proto;
use agewise_core::Calibrator;
use agewise_learn::aggregate::Server;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Instant;

/// What the ledger says about a run.
struct Recovered {
    population: Population,
    calibrator: Option<Calibrator>,
    global: Global,
    server: Server,
    stage: Stage,
    announced_interval: f64,
    warnings: Vec<String>,
}

impl Driver {
    /// A driver for the run in the ledger, or for a new one.
    pub(crate) fn new(mut parts: Parts) -> Result<Self, Trouble> {
        parts.settings = note_settings(&mut parts)?;
        let recovered = recover(&mut parts)?;
        let Recovered {
            population,
            calibrator,
            global,
            server,
            stage,
            announced_interval,
            warnings,
        } = recovered;
        let mut driver = Self {
            seeds: parts.secret.map(SeedChains::new),
            commitment: None,
            announced_interval,
            ledger_version: parts.ledger.version()?,
            is_stale: false,
            parts,
            population,
            calibrator,
            global,
            server,
            stage,
            watchers: HashMap::new(),
            next_token: 0,
            outbox: Vec::new(),
            news: News::default(),
            warnings,
            prune: true,
            draining: None,
            told_end: HashSet::new(),
            reunion: Some(Instant::now() + REUNION),
        };
        driver.commit_to_seeds();
        driver.parts.ledger.commit()?;
        driver.publish();
        tracing::info!(run = driver.run_name(), round = driver.round_number(), "ready");
        if driver.population.len() > 0 {
            let (known, seconds) = (driver.population.len(), REUNION.as_secs());
            tracing::info!(known, "waiting up to {seconds} seconds for clients to come back");
        }
        Ok(driver)
    }

    /// What clients are told about the seeds of the present round and those behind it.
    pub(super) fn commit_to_seeds(&mut self) {
        let round = self.round_number();
        self.commitment = self.seeds.as_mut().map(|seeds| {
            let seeds::Commitment { chain, anchor, next_anchor } = seeds.commitment(round);
            let (anchor, next_anchor) = (anchor.to_vec(), next_anchor.to_vec());
            proto::Commitment { chain, anchor, next_anchor }
        });
    }

    /// Begins again from what is in the ledger; who listens goes on listening.
    pub(super) fn reload(&mut self) -> Result<(), Trouble> {
        let recovered = recover(&mut self.parts)?;
        self.parts.ledger.commit()?;
        let Recovered { mut warnings, .. } = recovered;
        (self.population, self.calibrator) = (recovered.population, recovered.calibrator);
        (self.global, self.server) = (recovered.global, recovered.server);
        (self.stage, self.announced_interval) = (recovered.stage, recovered.announced_interval);
        self.commit_to_seeds();
        // The same thing may be found again each time.
        warnings.retain(|warning| !self.warnings.contains(warning));
        self.warnings.append(&mut warnings);
        Ok(())
    }
}

fn recover(parts: &mut Parts) -> Result<Recovered, Trouble> {
    let now = Instant::now();
    let mut warnings = Vec::new();
    let open = parts.ledger.open_round()?;
    let round = match &open {
        Some((row, _)) => row.round,
        None => parts.ledger.rounds_over()?,
    };
    let joins = open.as_ref().map_or(&[][..], |(_, joins)| joins);
    let clients = parts.ledger.clients()?;
    let sketches = match &parts.sketches {
        Some(sketches) => sketches.load(&parts.ledger, clients.len(), &mut warnings)?,
        None => Vec::new(),
    };
    let (ledger, config) = (&parts.ledger, &parts.config);
    let population = Population::load(ledger, &clients, config, round, joins, &sketches)?;
    parts.gate.load(&clients, parts.ledger.tokens()?);
    for (client, row) in (0..).zip(&clients) {
        if row.revoked && row.revoked_from.is_none() {
            parts.ledger.revoked_from(client, round + u64::from(open.is_some()))?;
        }
    }
    parts.gate.draw(round, open.as_ref().and_then(|(row, _)| row.seed));
    let (global, server) = load_model(parts, &mut warnings)?;
    let config = &parts.config;
    let calibrator = if config.params.round.calibrate {
        let round = &config.params.round;
        let first = round.clients as f64 / round.cohort as f64;
        let mut calibrator = Calibrator::new(round.cohort as u32, first)?;
        for reported in parts.ledger.report_counts()? {
            calibrator.observe(reported);
        }
        Some(calibrator)
    } else {
        None
    };
    let first = config.params.round.clients as f64 / config.params.round.cohort as f64;
    let announced_interval = parts.ledger.last_interval()?.unwrap_or(first);
    let rounds = config.params.round.rounds;
    let stage = match open {
        Some((row, joins)) => resume_round(parts, row, joins, global.version, now, &mut warnings)?,
        None if rounds > 0 && round >= rounds => Stage::Finished { since: now },
        None => Stage::Waiting { until: now },
    };
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    Ok(Recovered { population, calibrator, global, server, stage, announced_interval, warnings })
}

/// Writes down the settings with which the run goes on, if they are others than before. Gives their number.
fn note_settings(parts: &mut Parts) -> Result<u32, Trouble> {
    let config = toml::to_string(&parts.config.params).map_err(|error| {
        Trouble::Broken(format!("config: expected settings that can be written ({error})"))
    })?;
    let known = parts.ledger.settings()?;
    if known.last() == Some(&config) {
        return Ok(known.len() as u32 - 1);
    }
    parts.ledger.note_settings(known.len() as u32, &config)?;
    Ok(known.len() as u32)
}

/// The settings under which a round was announced.
fn announced_config(parts: &Parts, settings: u32) -> Result<CoordinatorConfig, Trouble> {
    if settings == parts.settings {
        return Ok(parts.config.clone());
    }
    let known = parts.ledger.settings()?;
    let missing = || Trouble::Broken(format!("the ledger has no settings of number {settings}"));
    read_settings(known.get(settings as usize).ok_or_else(missing)?)
}

/// Settings as they stand in the ledger.
pub(crate) fn read_settings(text: &str) -> Result<CoordinatorConfig, Trouble> {
    let params: CoordinatorParams = toml::from_str(text).map_err(|error| {
        Trouble::Broken(format!("the settings in the ledger cannot be read: {error}"))
    })?;
    Ok(params.check()?)
}

/// The newest model that is whole; the first one if there is none yet.
fn load_model(parts: &mut Parts, warnings: &mut Vec<String>) -> Result<(Global, Server), Trouble> {
    let rule = parts.config.params.server;
    let rows = parts.ledger.models()?;
    if rows.is_empty() && parts.ledger.rounds_over()? == 0 {
        let global = Global::new(0, parts.model.initial(parts.config.seed()));
        let server = Server::new(rule, parts.model.parameters())?;
        let row = parts.models.write(&*parts.model, &global, &server)?;
        parts.ledger.add_model(&row)?;
        return Ok((global, server));
    }
    let newest = parts.models.newest(&*parts.model, rule, &rows)?;
    let Newest { global, server, damaged } = newest;
    for (version, why) in damaged {
        let used = global.version;
        warnings.push(format!("model {version} is damaged ({why}): model {used} is used instead"));
        parts.ledger.set_aside(version)?;
    }
    Ok((global, server))
}

/// Goes on with the round that was under way.
fn resume_round(
    parts: &mut Parts,
    mut row: RoundRow,
    joins: Vec<JoinRow>,
    version: u64,
    now: Instant,
    warnings: &mut Vec<String>,
) -> Result<Stage, Trouble> {
    let round = row.round;
    if row.model != version {
        let note = format!("model {} was damaged: the round goes on with {version}", row.model);
        parts.ledger.train_version(round, version, &note)?;
        row.model = version;
    }
    // Whoever has restored a backup has not restored this.
    parts.spool.begin(round)?;
    let inside = [Outcome::Called, Outcome::Selected, Outcome::Reported];
    let mut members = BTreeMap::new();
    for join in joins.into_iter().filter(|join| inside.contains(&join.outcome)) {
        let JoinRow { client, age, draws, outcome, report } = join;
        let joined = outcome != Outcome::Called;
        let is_revoked = parts.gate.is_revoked(client);
        if is_revoked && report.is_none() {
            continue;
        }
        let damaged = match &report {
            Some(report) => {
                let path = parts.spool.place(round, client, &report.sha256);
                stored_checksum(&path)?.as_ref() != Some(&report.sha256)
            }
            None => false,
        };
        let left_out = match (is_revoked, damaged) {
            (true, _) => Some("revoked"),
            (false, true) => Some("damaged on disk"),
            (false, false) => None,
        };
        if damaged {
            let what = format!("round {round}: the stored update of client {client} is damaged");
            warnings.push(format!("{what}: it counts as reported, and is left out of the model"));
        }
        let fetches = 0;
        members.insert(client, Member { age, draws, joined, report, left_out, fetches });
    }
    // As it was announced, also if this start has other settings.
    let rule = announced_config(parts, row.settings)?.rule_params(row.clients, row.interval);
    let rule = rule.build()?;
    let is_joining = row.is_joining;
    let course = Course::begin(row, rule, members, now, Windows::of(&parts.config));
    Ok(if is_joining {
        Stage::Joining(Round::open(course))
    } else {
        Stage::Training(Round::closed(course))
    })
}

//! From the ledger to a driver: at the start, and after something went wrong.

use super::pace::Pace;
use super::replies::STATUS_ROUNDS;
use super::round::{ActiveRound, Member, RoundState, RoundWindows};
use super::watchers::Watchers;
use super::{Driver, DriverDeps, PendingNotifications, Phase, RECONNECT_GRACE, RESUME_GRACE};
use crate::config::{CoordinatorConfig, CoordinatorParams};
use crate::coordinator::error::CoordinatorError;
use crate::coordinator::selection::{EnrolledClient, Selection, SelectionState, report};
use crate::coordinator::storage::ledger::{ClientRow, JoinRow, Outcome, RoundRow};
use crate::coordinator::storage::models::{Global, Newest};
use crate::coordinator::uploads::stored_checksum;
use crate::crypto::seed_chain::{self, SeedChains};
use crate::protocol;
use agewise_core::{Calibrator, FailedClient, PolicyVariant, Report, Reports};
use agewise_train::aggregation::{Aggregator, NormBound, WINDOW};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

/// The state of a run, as loaded from the ledger.
struct Recovered {
    selection: Selection,
    calibrator: Option<Calibrator>,
    global: Global,
    aggregator: Box<dyn Aggregator>,
    norms: NormBound,
    refused: Vec<String>,
    without_model: u64,
    suspended: BTreeMap<u32, String>,
    phase: Phase,
    announced_interval: f64,
    warnings: Vec<String>,
}

impl Driver {
    /// A driver for the run in the ledger, or for a new one.
    pub(crate) fn new(mut deps: DriverDeps) -> Result<Self, CoordinatorError> {
        (deps.settings, deps.same_training_since) = note_settings(&mut deps)?;
        let recovered = recover(&mut deps)?;
        let now = Instant::now();
        let mut driver = Self {
            seeds: deps.secret.map(SeedChains::new),
            commitment: None,
            announced_interval: recovered.announced_interval,
            ledger_version: deps.ledger.version()?,
            is_stale: false,
            is_failing: false,
            deps,
            selection: recovered.selection,
            calibrator: recovered.calibrator,
            global: recovered.global,
            aggregator: recovered.aggregator,
            norms: recovered.norms,
            pace: Pace::default(),
            phase: recovered.phase,
            watchers: Watchers::default(),
            rule: None,
            outbox: Vec::new(),
            notifications: PendingNotifications::default(),
            warnings: recovered.warnings,
            refused: recovered.refused,
            without_model: recovered.without_model,
            suspended: recovered.suspended,
            prune: true,
            draining: None,
            notified_end: HashSet::new(),
            reconnect_deadline: Some(now + RECONNECT_GRACE),
            resume_deadline: Some(now + RESUME_GRACE),
        };
        driver.commit_to_seeds();
        driver.deps.ledger.commit()?;
        driver.roll_back()?;
        driver.deps.ledger.commit()?;
        driver.publish();
        tracing::info!(run = driver.run_name(), round = driver.round_number(), "ready");
        if driver.selection.clients() > 0 {
            let (known, seconds) = (driver.selection.clients(), RECONNECT_GRACE.as_secs());
            tracing::info!(known, "waiting up to {seconds} seconds for clients to come back");
        }
        Ok(driver)
    }

    /// Updates the commitment to the seeds of the present round and later ones.
    pub(super) fn commit_to_seeds(&mut self) {
        let round = self.round_number();
        self.commitment = self.seeds.as_mut().map(|seeds| {
            let seed_chain::Commitment { chain, anchor, next_anchor } = seeds.commitment(round);
            let (anchor, next_anchor) = (anchor.to_vec(), next_anchor.to_vec());
            protocol::Commitment { chain, anchor, next_anchor }
        });
    }

    /// Loads the state from the ledger again; the streams of clients stay open.
    pub(super) fn reload(&mut self) -> Result<(), CoordinatorError> {
        let recovered = recover(&mut self.deps)?;
        self.deps.ledger.commit()?;
        let Recovered { mut warnings, .. } = recovered;
        (self.selection, self.calibrator) = (recovered.selection, recovered.calibrator);
        (self.global, self.aggregator) = (recovered.global, recovered.aggregator);
        (self.norms, self.refused) = (recovered.norms, recovered.refused);
        (self.without_model, self.suspended) = (recovered.without_model, recovered.suspended);
        (self.phase, self.announced_interval) = (recovered.phase, recovered.announced_interval);
        self.commit_to_seeds();
        // The same thing may be found again each time.
        warnings.retain(|warning| !self.warnings.contains(warning));
        self.warnings.append(&mut warnings);
        Ok(())
    }
}

fn recover(deps: &mut DriverDeps) -> Result<Recovered, CoordinatorError> {
    let now = Instant::now();
    let mut warnings = Vec::new();
    let open = deps.ledger.open_round()?;
    let round = match &open {
        Some((row, _)) => row.round,
        None => deps.ledger.rounds_over()?,
    };
    let clients = deps.ledger.clients()?;
    if let Some((row, _)) = &open
        && row.clients as usize > clients.len()
    {
        let (announced, enrolled) = (row.clients, clients.len());
        return Err(CoordinatorError::Corrupt(format!(
            "the ledger has round {round} of {announced} clients, and {enrolled} have enrolled"
        )));
    }
    let selection = load_selection(deps, &clients, round, open.as_ref(), &mut warnings)?;
    deps.auth.load(deps.ledger.access()?);
    for (client, row) in (0..).zip(&clients) {
        if row.revoked && row.revoked_from.is_none() {
            deps.ledger.revoked_from(client, round + u64::from(open.is_some()))?;
        }
    }
    deps.auth.draw(round, open.as_ref().and_then(|(row, _)| row.seed));
    let (global, aggregator) = load_model(deps, &mut warnings)?;
    let mut norms = NormBound::default();
    for norm in deps.ledger.last_norms(round, deps.same_training_since, WINDOW)? {
        norms.observe(norm);
    }
    let refused = deps.ledger.refused_rounds(round, STATUS_ROUNDS)?;
    let without_model = deps.ledger.rounds_without_model()?;
    deps.ledger.reinstated_from(round)?;
    let suspended = deps.ledger.suspended()?.into_iter().collect();
    let config = &deps.config;
    let calibrator = if config.calibrates {
        let round = &config.params.round;
        let first = round.clients as f64 / round.cohort as f64;
        let mut calibrator = Calibrator::new(round.cohort as u32, first)?;
        for reported in deps.ledger.report_counts()? {
            calibrator.observe(reported);
        }
        Some(calibrator)
    } else {
        None
    };
    let first = config.params.round.clients as f64 / config.params.round.cohort as f64;
    let announced_interval = deps.ledger.last_interval()?.unwrap_or(first);
    let rounds = config.params.round.rounds;
    let phase = match open {
        Some((row, joins)) => resume_round(deps, row, joins, global.version, now, &mut warnings)?,
        None if rounds > 0 && round >= rounds => Phase::Finished { since: now },
        None => Phase::Idle { until: now },
    };
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    Ok(Recovered {
        selection,
        calibrator,
        global,
        aggregator,
        norms,
        refused,
        without_model,
        suspended,
        phase,
        announced_interval,
        warnings,
    })
}

/// The clients and the policy as they were at the beginning of a round, which may be under way.
fn load_selection(
    deps: &DriverDeps,
    rows: &[ClientRow],
    round: u64,
    open: Option<&(RoundRow, Vec<JoinRow>)>,
    warnings: &mut Vec<String>,
) -> Result<Selection, CoordinatorError> {
    // A client that was credited in the round under way had another age at its beginning.
    let joins = open.map_or(&[][..], |(_, joins)| joins);
    let credited = joins.iter().filter(|join| join.report.is_some());
    let ages: BTreeMap<u32, u64> = credited.map(|join| (join.client, join.age)).collect();
    let sizes = deps.ledger.sizes_in(round, rows.len() as u32)?;
    let client = |((client, row), &samples): ((u32, &ClientRow), &u64)| EnrolledClient {
        waiting_since: ages
            .get(&client)
            .map_or(row.waiting_since, |&age| round as i64 - age as i64),
        samples,
        has_left: row.revoked,
    };
    let mut reports = Reports::default();
    for (client, loss, seconds) in deps.ledger.last_reports(round)? {
        reports.record(&report(client, loss, seconds));
    }
    if let Some(sketches) = &deps.sketches {
        for (client, sketch) in sketches.load(&deps.ledger, rows.len(), warnings)? {
            reports.record(&Report { sketch: Some(&sketch), ..Report::plain(client) });
        }
    }
    let failed = (0..).zip(rows).filter(|(_, row)| row.failures > 0);
    let failed = failed.map(|(client, row)| FailedClient {
        client,
        in_a_row: row.failures,
        eligible_from: row.eligible_from,
    });
    let failed = failed.collect();
    let policy = deps.ledger.policy_state()?;
    let clients = (0..).zip(rows).zip(&sizes).map(client).collect();
    let state = SelectionState { round, is_open: open.is_some(), clients, reports, failed, policy };
    let mut selection = Selection::new(&deps.config, state)?;
    if let Some((row, _)) = open {
        let seed = row.seed.as_ref().map_or(deps.config.seed(), seed_chain::narrow);
        selection.begin(seed, row.interval)?;
    }
    for ((client, row), samples) in (0..).zip(rows).zip(sizes) {
        if row.samples != samples {
            selection.set_samples(client, row.samples, true)?;
        }
    }
    Ok(selection)
}

/// Writes down the settings with which the run goes on, if they are others than before. Gives their number, and the
/// first number from which on clients train in the same way.
fn note_settings(deps: &mut DriverDeps) -> Result<(u32, u32), CoordinatorError> {
    let config = toml::to_string(&deps.config.params)?;
    let known = deps.ledger.settings()?;
    let mut number = known.len() as u32;
    if known.last() == Some(&config) {
        number -= 1;
    } else {
        deps.ledger.note_settings(number, &config)?;
    }
    let training = &deps.config.params.training;
    let trains_so = |text: &&String| params_of(text).is_ok_and(|past| past.training == *training);
    let before = known[..number as usize].iter().rev().take_while(trains_so).count();
    Ok((number, number - before as u32))
}

/// The settings under which a round was announced.
fn announced_config(
    deps: &DriverDeps,
    settings: u32,
) -> Result<CoordinatorConfig, CoordinatorError> {
    if settings == deps.settings {
        return Ok(deps.config.clone());
    }
    let known = deps.ledger.settings()?;
    let missing =
        || CoordinatorError::Corrupt(format!("the ledger has no settings of number {settings}"));
    read_settings(known.get(settings as usize).ok_or_else(missing)?, Some(&deps.config.variant))
}

/// Settings as they stand in the ledger. A policy that is not registered has to be given.
pub(crate) fn read_settings(
    text: &str,
    own: Option<&PolicyVariant>,
) -> Result<CoordinatorConfig, CoordinatorError> {
    let params = params_of(text)?;
    let is_own = |own: &&PolicyVariant| own.spec().is_none() && own.name() == params.round.policy;
    Ok(match own.filter(is_own) {
        Some(own) => params.check_with(own.clone())?,
        None => params.check()?,
    })
}

/// Settings as they stand in the ledger, not checked.
pub(crate) fn params_of(text: &str) -> Result<CoordinatorParams, CoordinatorError> {
    toml::from_str(text).map_err(|error| {
        CoordinatorError::Corrupt(format!("the settings in the ledger cannot be read: {error}"))
    })
}

/// The newest model that is whole, with the state of its aggregator; the first model if there is none yet.
pub(super) fn load_model(
    deps: &mut DriverDeps,
    warnings: &mut Vec<String>,
) -> Result<(Global, Box<dyn Aggregator>), CoordinatorError> {
    let mut aggregator = deps.config.aggregation.build(deps.task.parameters())?;
    let rows = deps.ledger.models()?;
    if rows.is_empty() && deps.ledger.rounds_over()? == 0 {
        let global = Global::new(0, deps.task.initial(deps.config.seed())?);
        let row = deps.models.write(&global, &*aggregator)?;
        deps.ledger.add_model(&row)?;
        return Ok((global, aggregator));
    }
    let Newest { global, aggregator: state, damaged } =
        deps.models.newest(&rows, deps.ledger.greatest_version()?)?;
    aggregator.load_state(state)?;
    for (version, why) in damaged {
        let used = global.version;
        warnings.push(format!("model {version} is damaged ({why}): model {used} is used instead"));
        deps.ledger.set_aside(version)?;
    }
    Ok((global, aggregator))
}

/// Goes on with the round that was under way.
fn resume_round(
    deps: &mut DriverDeps,
    mut row: RoundRow,
    joins: Vec<JoinRow>,
    version: u64,
    now: Instant,
    warnings: &mut Vec<String>,
) -> Result<Phase, CoordinatorError> {
    let round = row.round;
    if row.model != version {
        let note = format!("model {} was damaged: the round goes on with {version}", row.model);
        deps.ledger.train_version(round, version, &note)?;
        row.model = version;
    }
    // A backup that was restored does not have this folder.
    deps.updates.begin(round)?;
    let inside = [Outcome::Invited, Outcome::Selected, Outcome::Reported, Outcome::Refused];
    let mut members = BTreeMap::new();
    for join in joins.into_iter().filter(|join| inside.contains(&join.outcome)) {
        let JoinRow { client, age, draws, outcome, report } = join;
        let joined = outcome != Outcome::Invited;
        let is_revoked = deps.auth.is_revoked(client);
        if is_revoked && report.is_none() {
            continue;
        }
        let damaged = match &report {
            Some(report) => {
                let path = deps.updates.place(round, client, &report.sha256);
                stored_checksum(&path)?.as_ref() != Some(&report.sha256)
            }
            None => false,
        };
        let excluded = match (is_revoked, damaged) {
            (true, _) => Some("revoked"),
            (false, true) => Some("damaged on disk"),
            (false, false) => None,
        };
        if damaged {
            let what = format!("round {round}: the stored update of client {client} is damaged");
            warnings.push(format!("{what}: it counts as reported, and is left out of the model"));
        }
        let refused = outcome == Outcome::Refused;
        let member = Member { joined, report, excluded, refused, ..Member::invited(age, draws) };
        members.insert(client, member);
    }
    // As it was announced, also if this start has other settings.
    let config = announced_config(deps, row.settings)?;
    let rule = Arc::new(config.participation(row.clients, row.interval)?);
    let is_joining = row.is_joining;
    let windows = RoundWindows::of(&deps.config);
    let round = RoundState::begin(row, rule, members, now, windows, &config.params.round);
    Ok(if is_joining {
        Phase::Joining(ActiveRound::open(round))
    } else {
        Phase::Training(ActiveRound::closed(round))
    })
}

//! From a state folder to a driver: checks that the folder is of this run, and reads where the run stands.

use super::LEDGER;
use super::auth::Authenticator;
use super::error::CoordinatorError;
use super::shared::Shared;
use super::state_machine::{Driver, DriverDeps, WallClock};
use super::storage::ledger::{Ledger, OLDEST, SCHEMA};
use super::storage::models::{self, ModelStore};
use super::storage::sketches::Sketches;
use super::uploads::UpdateStore;
use crate::config::{CoordinatorConfig, DrawSource};
use crate::crypto::from_hex;
use crate::crypto::identity::write_secret;
use crate::crypto::seed_chain::SeedChains;
use agewise_train::checkpoint::Metadata;
use agewise_train::{Task, Threads};
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The file of the seeds' secret inside the state folder.
const SECRET: &str = "seeds.key";

/// How a coordinator begins.
#[derive(Clone, Copy)]
pub(super) struct StartOptions {
    pub(super) threads: Threads,
    pub(super) resume: bool,
    pub(super) run: Option<[u8; 16]>,
    pub(super) skips_verification: bool,
}

/// Opens the state folder, and reads where the run stands.
pub(super) fn prepare(
    config: CoordinatorConfig,
    task: Arc<dyn Task>,
    options: StartOptions,
    shared: Arc<Shared>,
    wall_clock: WallClock,
) -> Result<(Driver, fs::File), CoordinatorError> {
    let state = config.params.state.clone();
    let path = state.join(LEDGER);
    if !options.resume && path.is_file() && Ledger::open_to_read(&path)?.fact("id")?.is_some() {
        let expected = "a folder without a run (--resume continues the one that is there)";
        return Err(agewise_core::Error::new("state", state.display(), expected).into());
    }
    make_private(&state)?;
    let lock = lock(&state)?;
    let mut ledger = Ledger::open(&path)?;
    version(&ledger, &path)?;
    let has_run = ledger.fact("id")?.is_some();
    let has_models =
        fs::read_dir(state.join(models::FOLDER)).is_ok_and(|mut files| files.next().is_some());
    if !has_run && has_models {
        let expected = "a folder with the ledger of its models, or without both";
        return Err(agewise_core::Error::new("state", state.display(), expected).into());
    }
    let secret = match config.params.round.draws {
        DrawSource::Proven => Some(secret(&state.join(SECRET), has_run)?),
        DrawSource::Seeded => None,
    };
    let facts = run_facts(&config, task.parameters(), secret);
    // A configuration that does not fit changes nothing: the release that began the run can go on with it.
    if let Some(from) = ledger.migrate_if(|ledger| check_facts(ledger, &facts))? {
        tracing::info!(from, to = SCHEMA, "the ledger was brought to the newest version");
    }
    let run = run_id(&mut ledger, &facts, options.run)?;
    let calls = config.params.limits.calls_per_second;
    let auth = Authenticator::new(run.clone(), config.params.access.tokens, calls)?;
    let keep = config.params.model.keep as usize;
    let metadata = Metadata {
        round: 0,
        seed: config.seed().0,
        policy: config.variant.name().to_string(),
        aggregation: config.aggregation.name().to_string(),
        fingerprint: fingerprint(&config_facts(&config, task.parameters())),
        task: task.describe(),
    };
    let models = ModelStore::open(state.join(models::FOLDER), keep, task.tensors(), metadata)?;
    let updates = UpdateStore::new(state.join("updates"));
    let auth = Arc::new(auth);
    let skips_verification = options.skips_verification;
    let sketches =
        if config.needs_sketches { Some(Sketches::new(&*task, config.seed())?) } else { None };
    let deps = DriverDeps {
        config,
        task,
        threads: options.threads,
        ledger,
        models,
        updates,
        run,
        auth,
        secret,
        settings: 0,
        same_training_since: 0,
        skips_verification,
        sketches,
        shared,
        wall_clock,
        end_joining: None,
    };
    Ok((Driver::new(deps)?, lock))
}

/// The ledger in a file, or a new one; of the newest version. Only the coordinator brings an older one there, as it keeps others away.
pub(super) fn open_ledger(path: &Path) -> Result<Ledger, CoordinatorError> {
    let ledger = Ledger::open(path)?;
    match version(&ledger, path)? {
        SCHEMA => Ok(ledger),
        older => Err(CoordinatorError::Corrupt(format!(
            "{}: a ledger of version {older}, expected version {SCHEMA}: agewise coordinator --resume brings it there \
             (docs/upgrading.md)",
            path.display()
        ))),
    }
}

/// The ledger in an existing file, read-only; another process may write to it. Of one of an older version it is a copy, which was brought
/// to the newest.
pub(super) fn open_ledger_to_read(path: &Path) -> Result<Ledger, CoordinatorError> {
    if !path.is_file() {
        let expected = "a folder with the ledger of a run";
        let folder = path.parent().unwrap_or(path);
        return Err(agewise_core::Error::new("state", folder.display(), expected).into());
    }
    let ledger = Ledger::open_to_read(path)?;
    if version(&ledger, path)? == SCHEMA {
        return Ok(ledger);
    }
    let mut copy = ledger.copy()?;
    copy.migrate()?;
    Ok(copy)
}

/// The version of a ledger, if this program knows it.
fn version(ledger: &Ledger, path: &Path) -> Result<i64, CoordinatorError> {
    let refuse = |found: String, what: &str| {
        let shown = path.display();
        Err(CoordinatorError::Corrupt(format!(
            "{shown}: a ledger {found}, expected version {OLDEST} to {SCHEMA}: {what} (docs/upgrading.md)"
        )))
    };
    match ledger.schema()? {
        Some(version @ OLDEST..=SCHEMA) => Ok(version),
        Some(newer) if newer > SCHEMA => {
            refuse(format!("of version {newer}"), "use the release that wrote it, or a newer one")
        }
        Some(older) => {
            refuse(format!("of version {older}"), "finish the run with the release that began it")
        }
        None => refuse("without a version".to_string(), "restore it from a backup"),
    }
}

/// The secret from which all seeds of a run are derived: in a file of its own, as the ledger may be shown to others.
fn secret(path: &Path, has_run: bool) -> Result<[u8; 32], CoordinatorError> {
    match fs::read_to_string(path) {
        Ok(text) => {
            let wrong =
                || CoordinatorError::Corrupt(format!("{}: expected 64 digits", path.display()));
            from_hex(text.trim()).ok_or_else(wrong)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && has_run => {
            let expected = "the secret of this run: restore it from where the ledger is from";
            Err(agewise_core::Error::new("state", path.display(), expected).into())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut secret = [0; 32];
            getrandom::fill(&mut secret)?;
            write_secret(path, &format!("{}\n", HEXLOWER.encode(&secret)))
                .map_err(CoordinatorError::file(path))?;
            Ok(secret)
        }
        Err(error) => Err(CoordinatorError::file(path)(error)),
    }
}

/// Under which key the anchor of a chain stands in the ledger.
pub(crate) fn anchor_fact(chain: u64) -> String {
    format!("anchor.{chain}")
}

/// Makes a folder that is only its owner's; one that is there stays as it is.
pub(super) fn make_private(folder: &Path) -> Result<(), CoordinatorError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    builder.create(folder).map_err(CoordinatorError::file(folder))
}

/// Keeps a second coordinator away from the folder, as long as the result lives; a process that is killed lets go.
fn lock(state: &Path) -> Result<fs::File, CoordinatorError> {
    let path = state.join("lock");
    let file = fs::File::create(&path).map_err(CoordinatorError::file(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => {
            let expected = "a folder in which no other coordinator is working";
            Err(agewise_core::Error::new("state", state.display(), expected).into())
        }
        Err(fs::TryLockError::Error(error)) => Err(CoordinatorError::file(&path)(error)),
    }
}

/// The facts that define a run: with the same facts and seeds it has the same models.
fn config_facts(config: &CoordinatorConfig, parameters: usize) -> [(&'static str, String); 8] {
    let params = &config.params;
    [
        ("round.policy", config.variant.name().to_string()),
        ("round.seed", params.round.seed.to_string()),
        ("round.draws", params.round.draws.name().to_string()),
        ("model.name", params.model.name.clone()),
        ("model.data", params.model.data.clone()),
        ("model.pixels", params.model.pixels.to_string()),
        ("parameters", parameters.to_string()),
        ("aggregation", config.aggregation_fact()),
    ]
}

/// A number that tells models of these facts from others.
fn fingerprint(facts: &[(&str, String)]) -> u64 {
    let mut hash = Sha256::new();
    for (key, value) in facts {
        hash.update(format!("{key}={value}\n"));
    }
    hash.finalize().iter().take(8).fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// The facts that cannot change during a run: those that define it, and the anchor of its seeds.
fn run_facts(
    config: &CoordinatorConfig,
    parameters: usize,
    secret: Option<[u8; 32]>,
) -> Vec<(String, String)> {
    let anchor =
        secret.map(|secret| HEXLOWER.encode(&SeedChains::new(secret).commitment(0).anchor));
    let anchor = (anchor_fact(0), anchor.unwrap_or_default());
    let facts = config_facts(config, parameters).map(|(key, value)| (key.to_string(), value));
    facts.into_iter().chain([anchor]).collect()
}

/// Checks that the run of a ledger, if it has begun, has these facts.
fn check_facts(ledger: &Ledger, facts: &[(String, String)]) -> Result<(), CoordinatorError> {
    if ledger.fact("id")?.is_none() {
        return Ok(());
    }
    for (key, now) in facts {
        let then = ledger.fact(key)?.unwrap_or_default();
        if then != now.as_bytes() {
            let expected = format!("{}, with which the run began", String::from_utf8_lossy(&then));
            return Err(agewise_core::Error::new(key, now, expected).into());
        }
    }
    Ok(())
}

/// The id of the run, which begins with these facts if there is none yet.
fn run_id(
    ledger: &mut Ledger,
    facts: &[(String, String)],
    new_run: Option<[u8; 16]>,
) -> Result<Vec<u8>, CoordinatorError> {
    if let Some(run) = ledger.fact("id")? {
        return Ok(run);
    }
    let mut run = new_run.unwrap_or_default().to_vec();
    if new_run.is_none() {
        getrandom::fill(&mut run)?;
    }
    ledger.set_fact("id", &run)?;
    for (key, value) in facts {
        ledger.set_fact(key, value.as_bytes())?;
    }
    ledger.commit()?;
    Ok(run)
}

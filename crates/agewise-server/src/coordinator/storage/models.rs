//! Models on disk: each in a file of its own (safetensors with metadata, as [`agewise_train::checkpoint`] writes them), written in one step,
//! with a checksum in the ledger, the last few kept.

use super::ledger::{Ledger, ModelRow};
use crate::coordinator::error::CoordinatorError;
use crate::protocol::parameters::to_bytes;
use agewise_core::files::write_atomically;
use agewise_train::aggregation::{Aggregator, AggregatorState};
use agewise_train::checkpoint::{Checkpoint, CheckpointView, Metadata};
use agewise_train::model::Tensor;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

/// The global model, as it is trained, sent and stored.
#[derive(Debug, Clone)]
pub(crate) struct Global {
    /// Rounds that are behind it.
    pub(crate) version: u64,
    /// The parameters.
    pub(crate) values: Arc<Vec<f32>>,
    /// The same as bytes on their way to clients, and their checksum.
    pub(crate) bytes: Bytes,
    pub(crate) sha256: [u8; 32],
}

impl Global {
    pub(crate) fn new(version: u64, values: Vec<f32>) -> Self {
        let bytes = to_bytes(&values);
        let sha256 = Sha256::digest(&bytes).into();
        Self { version, values: Arc::new(values), bytes: bytes.into(), sha256 }
    }
}

/// The newest model that is whole, with the state of the aggregator.
pub(crate) struct Newest {
    pub(crate) global: Global,
    pub(crate) aggregator: AggregatorState,
    /// The versions after it, and what is wrong with them.
    pub(crate) damaged: Vec<(u64, String)>,
}

/// The folder of the models.
#[derive(Debug)]
pub(crate) struct ModelStore {
    folder: PathBuf,
    keep: usize,
    tensors: Vec<Tensor>,
    /// What all models of the run belong to.
    metadata: Metadata,
}

impl ModelStore {
    pub(crate) fn open(
        folder: PathBuf,
        keep: usize,
        tensors: Vec<Tensor>,
        metadata: Metadata,
    ) -> Result<Self, CoordinatorError> {
        fs::create_dir_all(&folder).map_err(CoordinatorError::file(&folder))?;
        Ok(Self { folder, keep, tensors, metadata })
    }

    /// Writes a model and the state of the aggregator. Its row is for the ledger: only then does the model count.
    pub(crate) fn write(
        &self,
        global: &Global,
        aggregator: &dyn Aggregator,
    ) -> Result<ModelRow, CoordinatorError> {
        let file = file_name(global.version);
        let metadata = Metadata { round: global.version, ..self.metadata.clone() };
        let model = CheckpointView::model(&metadata, &self.tensors, &global.values);
        let bytes = CheckpointView { server: aggregator.state(), ..model }.encode()?;
        let path = self.folder.join(&file);
        write_atomically(&path, &bytes).map_err(CoordinatorError::file(&path))?;
        // Where a folder cannot be opened as a file the system does this by itself.
        if let Ok(folder) = fs::File::open(&self.folder) {
            folder.sync_all().map_err(CoordinatorError::file(&self.folder))?;
        }
        Ok(ModelRow { version: global.version, file, sha256: Sha256::digest(&bytes).to_vec() })
    }

    /// The newest model that is whole, and what was wrong with those after it.
    pub(crate) fn newest(&self, rows: &[ModelRow]) -> Result<Newest, CoordinatorError> {
        let mut damaged = Vec::new();
        for row in rows {
            match self.read(row) {
                Ok(checkpoint) => {
                    let global = Global::new(row.version, checkpoint.parameters);
                    return Ok(Newest { global, aggregator: checkpoint.server, damaged });
                }
                // A disk that cannot be read now says nothing about what is on it.
                Err(error @ CoordinatorError::File { .. }) if !error.is_missing_file() => {
                    return Err(error);
                }
                Err(error) => damaged.push((row.version, error.to_string())),
            }
        }
        if let Some((version, checkpoint)) = self.newer(rows) {
            let global = Global::new(version, checkpoint.parameters);
            return Ok(Newest { global, aggregator: checkpoint.server, damaged });
        }
        let found: Vec<String> = damaged.into_iter().map(|(_, why)| why).collect();
        let found = if found.is_empty() { "none".to_string() } else { found.join("; ") };
        let folder = self.folder.display();
        Err(CoordinatorError::Corrupt(format!("{folder}: {found}: expected a model that is whole")))
    }

    /// The first model after those of the ledger: a backup has the ledger of one moment and the models of a later one. The ledger has no
    /// checksum for it, but it has one of its own and has to be a model of this run.
    fn newer(&self, rows: &[ModelRow]) -> Option<(u64, Checkpoint)> {
        let last = rows.first()?.version;
        let names = fs::read_dir(&self.folder).ok()?.flatten().map(|entry| entry.file_name());
        let version = |name: &std::ffi::OsString| {
            name.to_str()?.strip_suffix(".safetensors")?.parse::<u64>().ok()
        };
        let mut versions: Vec<u64> = names.filter_map(|name| version(&name)).collect();
        versions.retain(|&version| version > last);
        versions.sort_unstable();
        versions.into_iter().find_map(|version| {
            let bytes = fs::read(self.folder.join(file_name(version))).ok()?;
            Some((version, self.decode(version, &bytes).ok()?))
        })
    }

    fn read(&self, row: &ModelRow) -> Result<Checkpoint, CoordinatorError> {
        let path = self.folder.join(&row.file);
        let bytes = fs::read(&path).map_err(CoordinatorError::file(&path))?;
        if Sha256::digest(&bytes).as_slice() != row.sha256 {
            let shown = path.display();
            let what = format!("{shown}: expected the bytes that were written");
            return Err(CoordinatorError::Corrupt(what));
        }
        self.decode(row.version, &bytes)
    }

    fn decode(&self, version: u64, bytes: &[u8]) -> Result<Checkpoint, CoordinatorError> {
        let checkpoint = Checkpoint::decode(bytes, &self.tensors)?;
        let Metadata { round, fingerprint, .. } = checkpoint.metadata;
        if (round, fingerprint) != (version, self.metadata.fingerprint) {
            let what = format!("model {version}: expected a model of this run and round");
            return Err(CoordinatorError::Corrupt(what));
        }
        Ok(checkpoint)
    }

    /// Removes all models but the last few. A file that cannot be removed is tried again next time.
    pub(crate) fn prune(&self, ledger: &mut Ledger) -> Result<(), CoordinatorError> {
        for row in ledger.models()?.iter().skip(self.keep) {
            let path = self.folder.join(&row.file);
            if fs::remove_file(&path).is_ok() || !path.exists() {
                ledger.forget_model(row.version)?;
            }
        }
        Ok(())
    }
}

fn file_name(version: u64) -> String {
    format!("{version:08}.safetensors")
}

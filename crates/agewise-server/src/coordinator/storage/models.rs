//! Models on disk: each in a file of its own (safetensors with metadata, as [`agewise_train::checkpoint`] writes them), written in one step,
//! with a checksum in the ledger, the last few kept.

use super::ledger::{Ledger, ModelRow};
use crate::coordinator::error::CoordinatorError;
use crate::protocol::parameters::{from_bytes, to_bytes};
use agewise_core::files::write_atomically;
use agewise_train::aggregation::{Aggregator, AggregatorState};
use agewise_train::checkpoint::{Checkpoint, CheckpointView, Metadata, read_model};
use agewise_train::model::Tensor;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where the models are, in the folder of a run.
pub(crate) const FOLDER: &str = "models";

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
    /// `greatest` is the greatest version that the ledger has heard of.
    pub(crate) fn newest(
        &self,
        rows: &[ModelRow],
        greatest: Option<u64>,
    ) -> Result<Newest, CoordinatorError> {
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
        if let Some((version, checkpoint)) = self.newer(greatest) {
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
    fn newer(&self, greatest: Option<u64>) -> Option<(u64, Checkpoint)> {
        let last = greatest?;
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

    pub(crate) fn read(&self, row: &ModelRow) -> Result<Checkpoint, CoordinatorError> {
        let path = self.folder.join(&row.file);
        let bytes = fs::read(&path).map_err(CoordinatorError::file(&path))?;
        if let Some(moments) = written_by_0_1(&path, &bytes, &row.sha256) {
            let parameters = read_model(&bytes, &self.tensors)?;
            let metadata = Metadata { round: row.version, ..self.metadata.clone() };
            let server = named(&moments, parameters.len());
            let (sketched, sketches) = (Vec::new(), Vec::new());
            return Ok(Checkpoint { metadata, parameters, server, sketched, sketches });
        }
        if !is_as_written(&path, &bytes, &row.sha256) {
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
        let kept = ledger.models()?;
        let oldest = kept.iter().take(self.keep).next_back().map_or(0, |row| row.version);
        let aside = ledger.forgotten_by_rollbacks(oldest)?;
        for row in kept.iter().skip(self.keep).chain(&aside) {
            let path = self.folder.join(&row.file);
            if fs::remove_file(&path).is_ok() || !path.exists() {
                // Only 0.1 has written one.
                fs::remove_file(path.with_extension("server")).ok();
                ledger.forget_model(row.version)?;
            }
        }
        Ok(())
    }
}

/// Whether a file has the bytes of which the ledger has the checksum.
pub(crate) fn is_as_written(path: &Path, bytes: &[u8], sha256: &[u8]) -> bool {
    Sha256::digest(bytes).as_slice() == sha256 || written_by_0_1(path, bytes, sha256).is_some()
}

/// What 0.1 had beside a model in a file of its own, if it is 0.1 that wrote these bytes: the moments of the server. Its models have no
/// metadata, and the checksum in the ledger covers both files.
fn written_by_0_1(path: &Path, bytes: &[u8], sha256: &[u8]) -> Option<Vec<f32>> {
    if Checkpoint::is_one(bytes) {
        return None;
    }
    let moments = fs::read(path.with_extension("server")).unwrap_or_default();
    let both = Sha256::new().chain_update(bytes).chain_update(&moments).finalize();
    (both.as_slice() == sha256).then(|| from_bytes(&moments))
}

/// The moments of 0.1 by their names: one for each parameter is momentum, two are those of Adam.
fn named(moments: &[f32], parameters: usize) -> AggregatorState {
    let names: &[&str] = match moments.len().checked_div(parameters) {
        Some(1) => &["momentum"],
        Some(2) => &["first_moment", "second_moment"],
        _ => &[],
    };
    let parts = names.iter().zip(moments.chunks(parameters.max(1)));
    parts.map(|(name, part)| (name.to_string(), part.to_vec())).collect()
}

fn file_name(version: u64) -> String {
    format!("{version:08}.safetensors")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::Numbers;
    use agewise_train::Task;

    /// Two numbers in a file as 0.1 wrote it: tensors, and no metadata.
    fn plain(values: [f32; 2]) -> Vec<u8> {
        let tensors = Numbers::new(2).tensors();
        let (name, shape) = (&tensors[0].name, &tensors[0].shape);
        let header =
            format!(r#"{{"{name}":{{"dtype":"F32","shape":{shape:?},"data_offsets":[0,8]}}}}"#);
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.bytes());
        bytes.extend(to_bytes(&values));
        bytes
    }

    #[test]
    fn models_of_0_1_are_read_with_what_their_server_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let tensors = Numbers::new(2).tensors();
        let path = folder.path().to_path_buf();
        let store = ModelStore::open(path.clone(), 3, tensors, Metadata::default()).unwrap();
        let model = plain([0.5, -2.0]);
        fs::write(path.join(file_name(7)), &model).unwrap();
        for (moments, names) in [
            (vec![], vec![]),
            (vec![1.0, 2.0], vec![("momentum", vec![1.0, 2.0])]),
            (
                vec![1.0, 2.0, 3.0, 4.0],
                vec![("first_moment", vec![1.0, 2.0]), ("second_moment", vec![3.0, 4.0])],
            ),
        ] {
            let moments = to_bytes(&moments);
            fs::write(path.join("00000007.server"), &moments).unwrap();
            let sha256 = Sha256::new().chain_update(&model).chain_update(&moments).finalize();
            let row = ModelRow { version: 7, file: file_name(7), sha256: sha256.to_vec() };
            let read = store.newest(std::slice::from_ref(&row), Some(7)).unwrap();
            assert_eq!((read.global.version, &**read.global.values), (7, &[0.5, -2.0][..]));
            let named: AggregatorState =
                names.into_iter().map(|(name, values)| (name.to_string(), values)).collect();
            assert_eq!(read.aggregator, named);
            // Another byte than those that were written.
            fs::write(path.join("00000007.server"), [&moments[..], &[0]].concat()).unwrap();
            assert!(store.newest(&[row], Some(7)).is_err());
        }
    }
}

//! Models on disk: each in a file of its own, written in one step, with a checksum in the ledger, the last few kept.

use super::ledger::{Ledger, ModelRow};
use super::trouble::Trouble;
use crate::model::GlobalModel;
use crate::parameters::{from_bytes, to_bytes};
use agewise_learn::aggregate::{Server, ServerRule};
use agewise_report::write_atomically;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
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

/// The newest model that is whole, with the server's memory.
pub(crate) struct Newest {
    pub(crate) global: Global,
    pub(crate) server: Server,
    /// The versions after it, and what is wrong with them.
    pub(crate) damaged: Vec<(u64, String)>,
}

/// The folder of the models.
#[derive(Debug)]
pub(crate) struct ModelStore {
    folder: PathBuf,
    keep: usize,
}

impl ModelStore {
    pub(crate) fn open(folder: PathBuf, keep: usize) -> Result<Self, Trouble> {
        fs::create_dir_all(&folder).map_err(Trouble::file(&folder))?;
        Ok(Self { folder, keep })
    }

    /// Writes a model and the server's memory. Its row is for the ledger: only then does the model count.
    pub(crate) fn write(
        &self,
        model: &dyn GlobalModel,
        global: &Global,
        server: &Server,
    ) -> Result<ModelRow, Trouble> {
        let file = file_name(global.version);
        let bytes = model.encode(&global.values)?;
        let [direction, squares] = server.memory();
        let memory: Vec<u8> = to_bytes(direction).into_iter().chain(to_bytes(squares)).collect();
        let sha256 = checksum(&bytes, &memory);
        if !memory.is_empty() {
            self.put(&memory_name(&file), &memory)?;
        }
        self.put(&file, &bytes)?;
        // Where a folder cannot be opened as a file the system does this by itself.
        if let Ok(folder) = fs::File::open(&self.folder) {
            folder.sync_all().map_err(Trouble::file(&self.folder))?;
        }
        Ok(ModelRow { version: global.version, file, sha256 })
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Trouble> {
        let path = self.folder.join(name);
        write_atomically(&path, bytes).map_err(Trouble::file(&path))
    }

    /// The newest model that is whole, and what was wrong with those after it.
    pub(crate) fn newest(
        &self,
        model: &dyn GlobalModel,
        rule: ServerRule,
        rows: &[ModelRow],
    ) -> Result<Newest, Trouble> {
        let mut damaged = Vec::new();
        for row in rows {
            match self.read(model, rule, row) {
                Ok((values, server)) => {
                    let global = Global::new(row.version, values);
                    return Ok(Newest { global, server, damaged });
                }
                // A disk that cannot be read now says nothing about what is on it.
                Err(Trouble::File(path, error)) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Trouble::File(path, error));
                }
                Err(error) => damaged.push((row.version, error.to_string())),
            }
        }
        if let Some((version, values, server)) = self.newer(model, rule, rows) {
            return Ok(Newest { global: Global::new(version, values), server, damaged });
        }
        let found: Vec<String> = damaged.into_iter().map(|(_, why)| why).collect();
        let found = if found.is_empty() { "none".to_string() } else { found.join("; ") };
        let folder = self.folder.display();
        Err(Trouble::Broken(format!("{folder}: {found}: expected a model that is whole")))
    }

    /// The first model after those of the ledger: a backup has the ledger of one moment and the models of a later one. There is no
    /// checksum for it, but it has to be a whole file of this model.
    fn newer(
        &self,
        model: &dyn GlobalModel,
        rule: ServerRule,
        rows: &[ModelRow],
    ) -> Option<(u64, Vec<f32>, Server)> {
        let last = rows.first()?.version;
        let names = fs::read_dir(&self.folder).ok()?.flatten().map(|entry| entry.file_name());
        let version = |name: &std::ffi::OsString| {
            name.to_str()?.strip_suffix(".safetensors")?.parse::<u64>().ok()
        };
        let mut versions: Vec<u64> = names.filter_map(|name| version(&name)).collect();
        versions.retain(|&version| version > last);
        versions.sort_unstable();
        versions.into_iter().find_map(|version| {
            let file = file_name(version);
            let bytes = fs::read(self.folder.join(&file)).ok()?;
            let memory = read_if_there(&self.folder.join(memory_name(&file))).ok()?;
            let sha256 = checksum(&bytes, if rule == ServerRule::Average { &[] } else { &memory });
            let (values, server) =
                self.read(model, rule, &ModelRow { version, file, sha256 }).ok()?;
            server.check(values.len()).ok()?;
            Some((version, values, server))
        })
    }

    fn read(
        &self,
        model: &dyn GlobalModel,
        rule: ServerRule,
        row: &ModelRow,
    ) -> Result<(Vec<f32>, Server), Trouble> {
        let path = self.folder.join(&row.file);
        let bytes = fs::read(&path).map_err(Trouble::file(&path))?;
        let memory_path = self.folder.join(memory_name(&row.file));
        let memory =
            if rule == ServerRule::Average { Vec::new() } else { read_if_there(&memory_path)? };
        if checksum(&bytes, &memory) != row.sha256 {
            let shown = path.display();
            return Err(Trouble::Broken(format!("{shown}: expected the bytes that were written")));
        }
        let values = model.decode(&bytes)?;
        let memory = from_bytes(&memory);
        let (direction, squares) = match rule {
            ServerRule::Average => (Vec::new(), Vec::new()),
            ServerRule::Momentum { .. } => (memory, Vec::new()),
            ServerRule::Adam { .. } => {
                let (direction, squares) = memory.split_at(memory.len() / 2);
                (direction.to_vec(), squares.to_vec())
            }
        };
        Ok((values, Server::with_memory(rule, direction, squares)))
    }

    /// Removes what is older than the last few. A file that cannot be removed is tried again next time.
    pub(crate) fn prune(&self, ledger: &mut Ledger) -> Result<(), Trouble> {
        for row in ledger.models()?.iter().skip(self.keep) {
            let path = self.folder.join(&row.file);
            if fs::remove_file(&path).is_ok() || !path.exists() {
                fs::remove_file(self.folder.join(memory_name(&row.file))).ok();
                ledger.forget_model(row.version)?;
            }
        }
        Ok(())
    }
}

fn file_name(version: u64) -> String {
    format!("{version:08}.safetensors")
}

fn memory_name(file: &str) -> String {
    file.replace(".safetensors", ".server")
}

fn read_if_there(path: &Path) -> Result<Vec<u8>, Trouble> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read.map_err(Trouble::file(path)),
    }
}

fn checksum(model: &[u8], memory: &[u8]) -> Vec<u8> {
    Sha256::new().chain_update(model).chain_update(memory).finalize().to_vec()
}

//! Files of a folder, read within limits.

use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::EncodeError;

/// The largest weights that are read: larger models are not for a processor.
const WEIGHTS_LIMIT: u64 = 8 << 30;
/// The largest tokenizer: those of 250,000 tokens have 17 MB.
const TOKENIZER_LIMIT: u64 = 128 << 20;
/// The largest configuration.
const CONFIGURATION_LIMIT: u64 = 4 << 20;

/// A file and what it holds.
pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
}

/// A folder with a model, in which the parts of a sentence-transformers model may lie in folders of their own.
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(crate) fn open(path: &Path) -> Result<Self, EncodeError> {
        if !path.is_dir() {
            return Err(EncodeError::NoFolder { folder: path.to_owned() });
        }
        Ok(Self { path: path.to_owned() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of a part of the model; a name that leads elsewhere is refused.
    pub(crate) fn part(&self, name: &str) -> Result<Self, EncodeError> {
        let plain =
            |part| matches!(part, std::path::Component::Normal(_) | std::path::Component::CurDir);
        if !Path::new(name).components().all(plain) {
            return Err(EncodeError::Damaged {
                file: self.path.join("modules.json"),
                reason: format!("it names the folder {name:?}, which is not below it"),
            });
        }
        Ok(Self { path: if name.is_empty() { self.path.clone() } else { self.path.join(name) } })
    }

    /// The weights: `model.safetensors`, or the only file of that kind here or in `weights`.
    pub(crate) fn weights(&self) -> Result<File, EncodeError> {
        let usual = self.path.join("model.safetensors");
        let found =
            if usual.exists() { Some(usual) } else { self.only(&["", "weights"], ".safetensors") };
        let path = found.ok_or_else(|| EncodeError::NoModel { folder: self.path.clone() })?;
        read(path, WEIGHTS_LIMIT)
    }

    /// The tokenizer: `tokenizer.json`, or as WordLlama names it, here or in `tokenizers`.
    pub(crate) fn tokenizer(&self) -> Result<File, EncodeError> {
        let usual = self.path.join("tokenizer.json");
        let found = if usual.exists() {
            None
        } else {
            self.only(&["", "tokenizers"], "_tokenizer_config.json")
        };
        read(found.unwrap_or(usual), TOKENIZER_LIMIT).map_err(|error| match error {
            EncodeError::Missing { file, .. } => {
                EncodeError::Missing { file, purpose: "a local encoder needs its tokenizer" }
            }
            other => other,
        })
    }

    /// A configuration, if there is one.
    pub(crate) fn configuration<T: DeserializeOwned>(
        &self,
        name: &str,
    ) -> Result<Option<T>, EncodeError> {
        let file = match read(self.path.join(name), CONFIGURATION_LIMIT) {
            Ok(file) => file,
            Err(EncodeError::Missing { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        serde_json::from_slice(&file.bytes)
            .map(Some)
            .map_err(|error| EncodeError::Damaged { file: file.path, reason: error.to_string() })
    }

    /// The only file whose name ends so, in the first of these folders that has any.
    fn only(&self, folders: &[&str], ending: &str) -> Option<PathBuf> {
        folders.iter().find_map(|folder| {
            let entries = fs::read_dir(self.path.join(folder)).ok()?;
            let mut found = entries.flatten().map(|entry| entry.path()).filter(|path| {
                path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(ending))
            });
            let first = found.next()?;
            found.next().is_none().then_some(first)
        })
    }
}

/// Reads a file of at most `limit` bytes. The size is counted as it is read: a file may grow.
fn read(path: PathBuf, limit: u64) -> Result<File, EncodeError> {
    let unreadable = |path: &Path, reason: std::io::Error| match reason.kind() {
        ErrorKind::NotFound => {
            EncodeError::Missing { file: path.to_owned(), purpose: "the model needs it" }
        }
        _ => EncodeError::Unreadable { file: path.to_owned(), reason },
    };
    let file = fs::File::open(&path).map_err(|error| unreadable(&path, error))?;
    let size = file.metadata().map_err(|error| unreadable(&path, error))?.len();
    if size > limit {
        return Err(EncodeError::TooLarge { file: path, bytes: size, limit });
    }
    let mut bytes = Vec::with_capacity(size as usize + 1);
    let read =
        file.take(limit + 1).read_to_end(&mut bytes).map_err(|error| unreadable(&path, error))?;
    if read as u64 > limit {
        return Err(EncodeError::TooLarge { file: path, bytes: read as u64, limit });
    }
    Ok(File { path, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_above_its_limit_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        fs::write(&path, vec![b' '; 100]).unwrap();
        assert_eq!(read(path.clone(), 100).unwrap().bytes.len(), 100);
        let error = read(path.clone(), 99).err().unwrap();
        assert!(matches!(error, EncodeError::TooLarge { bytes: 100, limit: 99, .. }), "{error}");
    }

    #[test]
    fn a_part_outside_of_the_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let model = Folder::open(folder.path()).unwrap();
        assert!(model.part("1_Pooling").is_ok());
        for name in ["..", "../other", "/etc", "1_Pooling/../.."] {
            assert!(matches!(model.part(name), Err(EncodeError::Damaged { .. })), "{name}");
        }
    }
}

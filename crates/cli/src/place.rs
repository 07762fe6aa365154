//! What a directory is, before a server is put into it.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// Every vault has one.
const VAULT_FILE: &str = "KEYRING";

/// A server's directory has one of these: its rows, its tokens, its certificate.
const SERVER_FILES: [&str; 3] = ["CURRENT", "tokens.toml", "tls/certificate.pem"];

/// What a server finds where it is to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The directory of a server.
    Server,
    /// No directory.
    Nothing,
    /// A directory with nothing in it.
    Empty,
    /// A directory of something else.
    Other,
}

impl Place {
    /// Looks at a directory.
    ///
    /// # Errors
    /// When it is a vault, which is the owner's and no server's; when it is no directory, or
    /// cannot be looked at.
    pub fn of(directory: &Path) -> Result<Self> {
        refuse_vault(directory)?;
        if SERVER_FILES.iter().any(|name| directory.join(name).exists()) {
            return Ok(Self::Server);
        }
        match fs::read_dir(directory) {
            Ok(entries) => Ok(if entries.count() == 0 { Self::Empty } else { Self::Other }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::Nothing),
            Err(error) => Err(error).with_context(|| directory.display().to_string()),
        }
    }

    /// What is the matter with it, as a sentence about it; nothing with a server's.
    pub fn complaint(self) -> Option<&'static str> {
        match self {
            Self::Server => None,
            Self::Nothing => Some("does not exist"),
            Self::Empty => Some("is empty"),
            Self::Other => Some("has other files and none of a server"),
        }
    }
}

/// Whether a directory is a vault.
pub fn is_vault(directory: &Path) -> bool {
    directory.join(VAULT_FILE).exists()
}

/// Refuses a vault to a server: its files would lie beside the keys they must never meet.
pub fn refuse_vault(directory: &Path) -> Result<()> {
    if is_vault(directory) {
        bail!(
            "{} is a vault, with its owner's keys: a server needs a directory of its own",
            directory.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        assert_eq!(Place::of(&at("none")).unwrap(), Place::Nothing);
        fs::create_dir(at("data")).unwrap();
        assert_eq!(Place::of(&at("data")).unwrap(), Place::Empty);
        fs::write(at("data/LOCK"), "").unwrap();
        assert_eq!(Place::of(&at("data")).unwrap(), Place::Other);
        for file in SERVER_FILES {
            let path = at("data").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            assert_eq!(Place::of(&at("data")).unwrap(), Place::Server, "{file}");
            fs::remove_file(path).unwrap();
        }
        fs::write(at("data/KEYRING"), "").unwrap();
        fs::write(at("data/tokens.toml"), "").unwrap();
        assert!(Place::of(&at("data")).unwrap_err().to_string().contains("is a vault"));
        assert!(Place::of(&at("data/LOCK")).is_err());
    }
}

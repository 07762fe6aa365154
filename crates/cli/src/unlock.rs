//! What opens a vault: a key file, the environment or a question at the terminal.

use std::fs;
use std::io::{IsTerminal, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use rand::TryRng;
use shard_client::vault::{MIN_KEY_FILE_BYTES, Unlock, Vault};
use zeroize::Zeroizing;

use crate::args::VaultArguments;
use crate::output;

const VARIABLE: &str = "SHARD_PASSPHRASE";

/// Opens an existing vault.
pub fn open(arguments: &VaultArguments) -> Result<Vault> {
    let unlock = match &arguments.key_file {
        Some(path) => key_file(path)?,
        None => Unlock::Passphrase(passphrase("Passphrase: ")?),
    };
    Ok(Vault::open(&arguments.vault, &unlock)?)
}

/// What will open a vault that is about to be made.
pub struct Chosen<'a> {
    /// What opens it.
    pub unlock: Unlock,
    /// The key file, if it was made for the purpose.
    new_key_file: Option<&'a Path>,
}

impl Chosen<'_> {
    /// The vault was made: tells of a new key file.
    pub fn announce(&self) {
        if let Some(path) = self.new_key_file {
            output::note(&format!(
                "wrote a new key file, {}: without it the vault cannot be opened",
                output::printable(&path.display().to_string())
            ));
        }
    }

    /// The vault was not made: a new key file would open nothing and is removed again.
    pub fn discard(self) {
        if let Some(path) = self.new_key_file {
            // Best effort: the error that led here matters more.
            let _ = fs::remove_file(path);
        }
    }
}

/// Chooses what will open a vault. A key file that does not exist is made.
pub fn choose(arguments: &VaultArguments) -> Result<Chosen<'_>> {
    let new_key_file = arguments.key_file.as_deref().filter(|path| !path.exists());
    let unlock = match &arguments.key_file {
        Some(path) if new_key_file.is_some() => make_key_file(path)?,
        Some(path) => key_file(path)?,
        None => {
            let phrase = passphrase("New passphrase: ")?;
            if phrase.is_empty() {
                bail!("an empty passphrase protects nothing");
            }
            if asked() && *passphrase("Repeat it: ")? != *phrase {
                bail!("the two passphrases differ");
            }
            Unlock::Passphrase(phrase)
        }
    };
    Ok(Chosen { unlock, new_key_file })
}

fn asked() -> bool {
    std::env::var_os(VARIABLE).is_none()
}

fn passphrase(prompt: &str) -> Result<Zeroizing<String>> {
    match std::env::var(VARIABLE) {
        Ok(phrase) => return Ok(Zeroizing::new(phrase)),
        Err(std::env::VarError::NotUnicode(_)) => bail!("{VARIABLE} is not valid UTF-8"),
        Err(std::env::VarError::NotPresent) => {}
    }
    if !std::io::stdin().is_terminal() {
        bail!("no passphrase: set {VARIABLE}, give --key-file, or run at a terminal");
    }
    rpassword::prompt_password(prompt).map(Zeroizing::new).context("cannot read the passphrase")
}

fn key_file(path: &Path) -> Result<Unlock> {
    let bytes =
        fs::read(path).with_context(|| format!("cannot read key file {}", path.display()))?;
    Ok(Unlock::KeyFile(Zeroizing::new(bytes)))
}

fn make_key_file(path: &Path) -> Result<Unlock> {
    let mut bytes = Zeroizing::new(vec![0; MIN_KEY_FILE_BYTES]);
    rand::rngs::SysRng.try_fill_bytes(&mut bytes).context("no randomness to be had")?;
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(path).and_then(|mut file| {
        file.write_all(&bytes)?;
        file.sync_all()
    });
    written.with_context(|| format!("cannot write key file {}", path.display()))?;
    Ok(Unlock::KeyFile(bytes))
}

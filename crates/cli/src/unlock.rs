//! What opens a vault: a key file, the environment or a question at the terminal.

use std::fs;
use std::io::{IsTerminal, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use shard::{MIN_KEY_FILE_BYTES, RecoveryCode, Unlock, Vault};
use zeroize::Zeroizing;

use crate::args::{NewUnlockArguments, VaultArguments};
use crate::{ask, output};

/// Characters that a passphrase should have at least.
const SHORT: usize = 8;

/// A secret that a person types and a script puts into the environment.
struct Source {
    name: &'static str,
    variable: &'static str,
    /// What there is instead of a terminal.
    ways: &'static str,
}

const PASSPHRASE: Source = Source {
    name: "passphrase",
    variable: "SHARD_PASSPHRASE",
    ways: "set SHARD_PASSPHRASE, give --key-file,",
};
const NEW_PASSPHRASE: Source = Source {
    name: "new passphrase",
    variable: "SHARD_NEW_PASSPHRASE",
    ways: "set SHARD_NEW_PASSPHRASE, give --new-key-file,",
};
const RECOVERY_CODE: Source = Source {
    name: "recovery code",
    variable: "SHARD_RECOVERY_CODE",
    ways: "set SHARD_RECOVERY_CODE",
};

/// Opens an existing vault.
pub fn open(arguments: &VaultArguments) -> Result<Vault> {
    Ok(Vault::open(&arguments.vault, &present(arguments)?)?)
}

/// What is to open a vault that exists here or elsewhere.
pub fn present(arguments: &VaultArguments) -> Result<Unlock> {
    match &arguments.key_file {
        Some(path) => key_file(path),
        None => Ok(Unlock::Passphrase(PASSPHRASE.obtain("Passphrase: ")?)),
    }
}

/// Opens an existing vault with its recovery code.
pub fn recover(vault: &Path) -> Result<Vault> {
    Ok(Vault::open(vault, &recovery_code()?)?)
}

/// The recovery code of a vault that exists here or elsewhere.
pub fn recovery_code() -> Result<Unlock> {
    let typed = RECOVERY_CODE.obtain("Recovery code: ")?;
    Ok(Unlock::Recovery(RecoveryCode::parse(&typed)?))
}

/// What will open a vault that is about to be made or changed.
pub struct Chosen<'a> {
    /// What opens it.
    pub unlock: Unlock,
    /// The key file, if it was made for the purpose.
    new_key_file: Option<&'a Path>,
}

impl Chosen<'_> {
    /// It was done: tells of a new key file.
    pub fn announce(&self) {
        if let Some(path) = self.new_key_file {
            output::note(&format!(
                "wrote a new key file, {}: without it the vault cannot be opened",
                output::printable(&path.display().to_string())
            ));
        }
    }

    /// It was not done: a new key file would open nothing and is removed again.
    pub fn discard(self) {
        if let Some(path) = self.new_key_file {
            // Best effort: the error that led here matters more.
            let _ = fs::remove_file(path);
        }
    }
}

/// Chooses what will open a vault about to be made. A key file that does not exist is made.
pub fn choose(arguments: &VaultArguments) -> Result<Chosen<'_>> {
    choose_by(arguments.key_file.as_deref(), &PASSPHRASE)
}

/// Chooses what will open a vault beside or instead of what opened the present one.
pub fn choose_new(arguments: &NewUnlockArguments) -> Result<Chosen<'_>> {
    choose_by(arguments.new_key_file.as_deref(), &NEW_PASSPHRASE)
}

fn choose_by<'a>(path: Option<&'a Path>, source: &Source) -> Result<Chosen<'a>> {
    let new_key_file = path.filter(|path| !path.exists());
    let unlock = match path {
        Some(path) if new_key_file.is_some() => make_key_file(path)?,
        Some(path) => key_file(path)?,
        None => {
            let phrase = source.obtain("New passphrase: ")?;
            if phrase.is_empty() {
                bail!("an empty passphrase protects nothing");
            }
            let asked = std::env::var_os(source.variable).is_none();
            if is_short(&phrase) {
                output::note(&format!(
                    "warning: a passphrase of fewer than {SHORT} characters is soon guessed by who \
                     has a copy of the vault; a few random words are better"
                ));
                if asked && ask::is_possible() && !ask::confirm("Use it anyway?")? {
                    bail!("no {} was chosen", source.name);
                }
            }
            if asked && *source.obtain("Repeat it: ")? != *phrase {
                bail!("the two passphrases differ");
            }
            Unlock::Passphrase(phrase)
        }
    };
    Ok(Chosen { unlock, new_key_file })
}

/// Whether a passphrase is so short that its user is warned.
fn is_short(phrase: &str) -> bool {
    phrase.chars().count() < SHORT
}

impl Source {
    /// The secret from the environment, or asked for.
    fn obtain(&self, prompt: &str) -> Result<Zeroizing<String>> {
        let Self { name, variable, ways } = self;
        match std::env::var(variable) {
            Ok(secret) => return Ok(Zeroizing::new(secret)),
            Err(std::env::VarError::NotUnicode(_)) => bail!("{variable} is not valid UTF-8"),
            Err(std::env::VarError::NotPresent) => {}
        }
        if !std::io::stdin().is_terminal() {
            bail!("no {name}: {ways} or run at a terminal");
        }
        rpassword::prompt_password(prompt)
            .map(Zeroizing::new)
            .with_context(|| format!("cannot read the {name}"))
    }
}

fn key_file(path: &Path) -> Result<Unlock> {
    let bytes =
        fs::read(path).with_context(|| format!("cannot read key file {}", path.display()))?;
    Ok(Unlock::KeyFile(Zeroizing::new(bytes)))
}

/// Fresh contents for a key file.
pub fn random_key() -> Result<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(vec![0; MIN_KEY_FILE_BYTES]);
    getrandom::fill(&mut bytes).context("no randomness to be had")?;
    Ok(bytes)
}

fn make_key_file(path: &Path) -> Result<Unlock> {
    let bytes = random_key()?;
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(path).and_then(|mut file| {
        file.write_all(&bytes)?;
        file.sync_all()?;
        sync_parent(path)
    });
    written.with_context(|| format!("cannot write key file {}", path.display()))?;
    Ok(Unlock::KeyFile(bytes))
}

/// Waits until the file's name is on disk: a vault must not outlive the only key to it.
pub fn sync_parent(path: &Path) -> std::io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    if cfg!(unix) {
        fs::File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_counted_and_not_bytes() {
        assert!(is_short("") && is_short("1234567") && is_short("\u{e9}\u{e9}\u{e9}\u{e9}"));
        assert!(!is_short("12345678") && !is_short("\u{e9}bcdefgh"));
    }
}

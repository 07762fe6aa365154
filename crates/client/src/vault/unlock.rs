//! Changing what opens a vault. The secrets inside stay as they are, and so do all other files.
//!
//! A keyring is written under another name, synced and renamed, while no other writer is at work. A
//! kill at any step leaves the old keyring or the new one, whole.
//!
//! What this cannot do is take back a copy: who has kept the old keyring *and* what opened it still
//! has the vault's secrets.

use rand_core::CryptoRng;
use rusqlite::Connection;

use super::error::VaultError;
use super::kdf::KdfCost;
use super::recovery::RecoveryCode;
use super::secret::{Unlock, UnlockKind};
use super::{KEYRING, NEXT_KEYRING, RECOVERY, Vault, database};

/// A recovery code that is not in force yet, so that it can be shown before the one it replaces is
/// gone. Made and put in force by one and the same vault.
#[derive(Debug)]
pub struct PreparedRecovery {
    code: RecoveryCode,
    /// The keyring that it opens.
    sealed: Vec<u8>,
}

impl PreparedRecovery {
    /// The code.
    pub fn code(&self) -> &RecoveryCode {
        &self.code
    }
}

impl Vault {
    /// From now on, `unlock` opens the vault, and what opened it before does not; a recovery code
    /// stays good. `cost` is as for [`create_vault`](crate::create_vault).
    ///
    /// # Errors
    /// When `unlock` is empty, too short or a recovery code, another writer is at work, or the disk
    /// refuses. The vault then opens as before, save where the disk refuses only to confirm the
    /// rename: then it opens with the old or the new.
    pub fn change_unlock(
        &mut self,
        unlock: &Unlock,
        cost: KdfCost,
        rng: &mut impl CryptoRng,
    ) -> Result<(), VaultError> {
        if unlock.kind() == UnlockKind::Recovery {
            return Err(VaultError::RecoveryOnly);
        }
        let sealed = self.keyring.seal(unlock, cost, rng)?;
        self.replace_keyring(KEYRING, &sealed)
    }

    /// Makes a code that will open the vault as well, to be written down and kept elsewhere, once
    /// it is given to [`Vault::replace_recovery`].
    ///
    /// # Errors
    /// When this is a query vault.
    pub fn prepare_recovery(
        &self,
        rng: &mut impl CryptoRng,
    ) -> Result<PreparedRecovery, VaultError> {
        self.require_owner("have a recovery code")?;
        let code = RecoveryCode::generate(rng);
        let unlock = Unlock::Recovery(RecoveryCode::from_bytes(code.bytes()));
        let sealed = self.keyring.seal(&unlock, KdfCost::default(), rng)?;
        Ok(PreparedRecovery { code, sealed })
    }

    /// From now on the code opens the vault, and one made before opens nothing any more.
    ///
    /// # Errors
    /// When another writer is at work, or the disk refuses. The code made before is then good as
    /// before, save where the disk refuses only to confirm the rename.
    pub fn replace_recovery(&mut self, prepared: &PreparedRecovery) -> Result<(), VaultError> {
        self.replace_keyring(RECOVERY, &prepared.sealed)
    }

    /// Whether there is a recovery code.
    pub fn has_recovery(&self) -> bool {
        self.disk.path(RECOVERY).exists()
    }

    /// Whether a change could begin now.
    ///
    /// # Errors
    /// When another writer is at work, or the disk is read only.
    pub fn check_writable(&self) -> Result<(), VaultError> {
        self.lock().map(drop)
    }

    /// Keeps writers out for as long as the connection lives.
    pub(super) fn lock(&self) -> Result<Connection, VaultError> {
        let file = self.database();
        let db = database::open(&file)?;
        database::begin_writing(&db, &file)?;
        Ok(db)
    }

    fn replace_keyring(&self, name: &str, sealed: &[u8]) -> Result<(), VaultError> {
        let _lock = self.lock()?;
        let replaced = self.disk.replace_with(name, NEXT_KEYRING, sealed);
        replaced.map_err(VaultError::io("replace", &self.disk.path(name)))
    }
}

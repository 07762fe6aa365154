//! Whose vault it is: its owner's, or that of somebody who may search.

use super::Vault;
use super::error::VaultError;
use super::keyring::KeyringSecret;
use super::secret::{EpochSecret, MasterSecret};

/// What whoever opened a vault may do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VaultAccess {
    /// Everything: the vault has the master secret.
    Owner,
    /// Search one epoch: the vault has that epoch's secret.
    Query,
}

impl Vault {
    /// What may be done with it.
    pub fn access(&self) -> VaultAccess {
        match self.keyring.secret {
            KeyringSecret::Master(_) => VaultAccess::Owner,
            KeyringSecret::Epoch(_) => VaultAccess::Query,
        }
    }

    /// The secret from which the construction's keys derive.
    ///
    /// # Errors
    /// When this is a query vault, which has none.
    pub fn master(&self) -> Result<&MasterSecret, VaultError> {
        self.owners_secret("make keys")
    }

    /// Refuses a query vault what only its owner's can do; `purpose` says what, as a verb.
    ///
    /// # Errors
    /// When this is a query vault.
    pub fn require_owner(&self, purpose: &'static str) -> Result<(), VaultError> {
        self.owners_secret(purpose).map(drop)
    }

    fn owners_secret(&self, purpose: &'static str) -> Result<&MasterSecret, VaultError> {
        match &self.keyring.secret {
            KeyringSecret::Master(master) => Ok(master),
            KeyringSecret::Epoch(_) => Err(VaultError::QueryVault {
                directory: self.directory().to_owned(),
                refused: purpose,
            }),
        }
    }

    /// The secret of the one epoch a query vault is for.
    pub(crate) fn epoch_secret(&self) -> Option<&EpochSecret> {
        match &self.keyring.secret {
            KeyringSecret::Master(_) => None,
            KeyringSecret::Epoch(secret) => Some(secret),
        }
    }
}

//! What opens a vault.

use pyo3::PyResult;
use shard::Unlock;
use zeroize::Zeroizing;

use crate::errors::input;

/// A passphrase or the bytes of a key file.
pub fn unlock(passphrase: Option<String>, key_file: Option<&str>) -> PyResult<Unlock> {
    match (passphrase.map(Zeroizing::new), key_file) {
        (Some(phrase), None) => Ok(Unlock::Passphrase(phrase)),
        (None, Some(path)) => {
            let bytes = std::fs::read(path)
                .map_err(|error| input(format!("cannot read key file {path}: {error}")))?;
            Ok(Unlock::KeyFile(Zeroizing::new(bytes)))
        }
        (None, None) => Err(input("a vault needs passphrase= or key_file=")),
        (Some(_), Some(_)) => Err(input("a vault takes passphrase= or key_file=, not both")),
    }
}

//! Records: what a document brings back, fetched without saying which.
//!
//! A document may have one record, any bytes up to [`MAX_RECORD_BYTES`]. It is cut into slots of
//! [`SLOT_PAYLOAD`] bytes, each sealed by itself, and 32 slots are a page. Free slots hold a
//! sealed record of nothing, so that all look alike; a change seals every slot of the pages it touches
//! anew, so that which of them changed does not show.
//!
//! The vault keeps, for its owner, the pages as they are sealed: hints depend on every byte of them. For
//! whoever may search it keeps the commit that sealed each page, to which its seals are bound, and which
//! slots each place of a block has.
//!
//! | module | content |
//! |---|---|
//! | `slot` | a record cut into slots, slots sealed into pages |
//! | `index` | what whoever may search knows of records |
//! | `change` | records set and freed, sealed anew, moved |
//! | `stored` | the owner's records, read and verified |
//! | `publish` | pages and hints for a server |
//! | `fetch` | records from a server, privately or by name |

mod change;
mod fetch;
mod index;
mod publish;
mod slot;
mod stored;

use rand_core::CryptoRng;

use crate::collection::Change;
use crate::error::ClientError;
use crate::settings::Protection;
use crate::vault::Vault;

pub use fetch::{FetchCost, FetchWay, Fetched};
pub use index::Records;
pub use slot::{MAX_RECORD_BYTES, SLOT_BYTES, SLOT_PAYLOAD};
pub use stored::{stored_records, stored_records_of};

pub(super) use change::{RecordChange, move_records, rekey_records};
pub(crate) use publish::send_records;
#[cfg(feature = "remote")]
pub(crate) use publish::{record_blobs, records_are_whole};
#[cfg(feature = "remote")]
pub(crate) use stored::records_of;
pub(super) use stored::{read_records, verify_records};

/// A document's record.
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    /// The document's id.
    pub id: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Record({} bytes)", self.bytes.len())
    }
}

/// Sets the records of documents, in place of those they have. Returns how many are other than before.
/// Either all of them are in the vault afterwards or nothing has changed.
///
/// # Errors
/// When an id is nobody's or there twice, a record is empty or too long, the vault is empty, rotated, a
/// query vault or being written to, or the disk refuses.
pub fn set_records(
    vault: &mut Vault,
    records: Vec<Record>,
    rng: &mut impl CryptoRng,
) -> Result<usize, ClientError> {
    vault.require_owner("take records")?;
    check_records(&records)?;
    let mut change = Change::begin(vault.transaction(rng)?)?;
    let Change::Blind(blind) = &mut change else { return Err(not_of_rotated()) };
    let given = records.into_iter().map(|record| (record.id, Some(record.bytes.into())));
    let set = blind.set_records(given.collect())?;
    change.commit(rng)?;
    Ok(set)
}

/// Why a rotated collection has no records.
pub(crate) fn not_of_rotated() -> ClientError {
    ClientError::OtherProtection {
        protection: Protection::Rotated,
        reason: "records are kept of blind collections only",
    }
}

/// No document has two records, and none is empty or too long.
pub(crate) fn check_records(records: &[Record]) -> Result<(), ClientError> {
    let mut ids = std::collections::HashSet::new();
    for Record { id, bytes } in records {
        if !ids.insert(id.as_str()) {
            return Err(ClientError::DuplicateId(id.clone()));
        }
        if !(1..=MAX_RECORD_BYTES).contains(&bytes.len()) {
            return Err(ClientError::RecordLength { id: id.clone(), bytes: bytes.len() });
        }
    }
    Ok(())
}

//! Hints: what opening needs of every block besides its tag, fetched once and kept.
//!
//! They are sealed by the owner and stay sealed here, in memory and in the file: whoever changes one
//! is noticed when it is opened.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use shard_protocol::{Blob, BlobName, FetchShared, Leak, Limits, Refusal, RefusalCode, declassify};
use zeroize::Zeroizing;

use super::BlindCollection;
use super::seal::{SEAL_BYTES, Subject};
use crate::error::ClientError;
use crate::progress::{Progress, Watch};
use crate::transport::{Asking, Channel, exchange, fetch_blobs};
use crate::vault::VaultError;

/// Names that are asked for at once.
const AT_ONCE: usize = 2048;

/// What the file begins with.
const MAGIC: &[u8; 8] = b"SHRDHNT1";

/// The name of the file in a vault's directory.
const FILE: &str = "hints";

/// The name of the file with the hints of records.
const RECORDS_FILE: &str = "record-hints";

/// The name of the file with the sets of checks that are not used any more.
const RETIRED: &str = "retired-checks";

/// The sealed hints of a collection's blocks and records, and which sets of checks are not to be used any
/// more.
#[derive(Default)]
pub struct Hints {
    blocks: Store,
    records: Store,
    /// Sets of checks that an alarm has retired.
    retired: Mutex<Vec<u64>>,
    directory: Option<PathBuf>,
}

/// Sealed hints by name, in memory and in a file.
#[derive(Default)]
struct Store {
    held: RwLock<HashMap<[u8; 16], Arc<[u8]>>>,
    file: Option<PathBuf>,
}

/// What hints are of.
#[derive(Clone, Copy)]
enum Kind {
    Blocks,
    Records,
}

impl Kind {
    fn blob(self, name: [u8; 16]) -> BlobName {
        match self {
            Self::Blocks => BlobName::hint(name),
            Self::Records => BlobName::record_hint(name),
        }
    }

    fn subject(self, name: [u8; 16]) -> Subject {
        match self {
            Self::Blocks => Subject::Hint(name),
            Self::Records => Subject::RecordHint(name),
        }
    }
}

impl Hints {
    /// None yet, and none are kept when it is dropped.
    pub fn in_memory() -> Self {
        Self::default()
    }

    /// As they were kept in a vault's directory. A file that is not one counts as none: they are
    /// fetched again.
    ///
    /// # Errors
    /// When it cannot be read which sets of checks were retired.
    pub fn kept_in(directory: &Path) -> Result<Self, ClientError> {
        let retired = Mutex::new(retired_sets(directory)?);
        let (blocks, records) =
            (Store::kept_in(directory.join(FILE)), Store::kept_in(directory.join(RECORDS_FILE)));
        Ok(Self { blocks, records, retired, directory: Some(directory.to_owned()) })
    }

    /// Bytes that would have to be fetched to search all of a collection.
    pub fn missing_bytes(&self, collection: &BlindCollection) -> usize {
        let sealed = collection.shape().hint_bytes() + SEAL_BYTES;
        self.blocks.missing(&block_names(collection)).len() * sealed
    }

    /// The hint of a block, opened.
    pub(super) fn of(
        &self,
        collection: &BlindCollection,
        number: usize,
    ) -> Result<Zeroizing<Vec<u8>>, ClientError> {
        self.blocks.open(collection, Kind::Blocks, collection.blocks()[number].file_name())
    }

    /// The hint of a segment of records, opened.
    pub(super) fn of_records(
        &self,
        collection: &BlindCollection,
        name: [u8; 16],
    ) -> Result<Zeroizing<Vec<u8>>, ClientError> {
        self.records.open(collection, Kind::Records, name)
    }

    /// How many of the hints of records of these names are not here.
    pub(super) fn missing_for_records(&self, names: &[[u8; 16]]) -> usize {
        self.records.missing(names).len()
    }

    /// Fetches the hints of records of these names that are missing, of so many bytes each. Returns how
    /// many bytes came.
    pub(super) fn fetch_for_records(
        &self,
        collection: &BlindCollection,
        names: &[[u8; 16]],
        bytes: usize,
        transport: &dyn Channel,
        watch: &Watch<'_>,
    ) -> Result<usize, ClientError> {
        let sealed = bytes + SEAL_BYTES;
        let missing = self.records.missing(names);
        let bytes =
            self.records.fetch(collection, Kind::Records, &missing, sealed, transport, watch)?;
        if bytes > 0 {
            self.records.keep(&missing, names);
        }
        Ok(bytes)
    }

    /// Fetches what is missing for some blocks of a collection. Returns how many bytes came.
    ///
    /// # Errors
    /// When the server does not have a hint, cannot be reached or refuses, and when `watch` ended it.
    pub(super) fn fetch(
        &self,
        collection: &BlindCollection,
        numbers: &[u32],
        transport: &dyn Channel,
        watch: &Watch<'_>,
    ) -> Result<usize, ClientError> {
        let sealed = collection.shape().hint_bytes() + SEAL_BYTES;
        let name = |&number: &u32| collection.blocks()[number as usize].file_name();
        let names: Vec<[u8; 16]> = numbers.iter().map(name).collect();
        let missing = self.blocks.missing(&names);
        let bytes =
            self.blocks.fetch(collection, Kind::Blocks, &missing, sealed, transport, watch)?;
        if bytes > 0 {
            // Those of blocks that were not asked for now may be asked for next.
            self.blocks.keep(&missing, &block_names(collection));
        }
        Ok(bytes)
    }

    /// Whether an alarm has retired a set of checks.
    pub(super) fn is_retired(&self, set: u64) -> bool {
        self.retired.lock().unwrap_or_else(PoisonError::into_inner).contains(&set)
    }

    /// Never uses a set of checks again: what its alarm told a forger is about that set.
    pub(super) fn retire(&self, set: u64) {
        let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        retired.push(set);
        if let Some(file) = self.directory.as_ref().map(|directory| directory.join(RETIRED)) {
            // A line of its own, whoever else writes: no alarm is lost with another's. Where it cannot
            // be written, this process alone knows.
            let line = format!("{set}\n");
            let append =
                |mut to: fs::File| to.write_all(line.as_bytes()).and_then(|()| to.sync_all());
            let _ = private(&file, true).and_then(append);
        }
    }

    /// The sealed checks of the collection's commit, as the server has them now. Those of a commit that is
    /// not the published one are gone.
    pub(super) fn checks(
        &self,
        collection: &BlindCollection,
        transport: &dyn Channel,
    ) -> Result<Vec<u8>, ClientError> {
        let commit = collection.commit();
        let name = declassify(BlobName::checks(commit), Leak::SealedBlobs);
        let limits = Limits::default();
        let answer = exchange(transport, FetchShared::new(name).encode(), &limits);
        let answer = answer.map_err(|error| match error {
            ClientError::Refused(Refusal { code: RefusalCode::UnknownBlob, .. }) => outdated(),
            other => other,
        })?;
        Ok(Blob::decode(&answer, &limits)?.sealed)
    }
}

impl Store {
    fn kept_in(file: PathBuf) -> Self {
        let held = fs::read(&file).ok().and_then(|bytes| decode(&bytes)).unwrap_or_default();
        Self { held: RwLock::new(held), file: Some(file) }
    }

    fn missing(&self, names: &[[u8; 16]]) -> Vec<[u8; 16]> {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        names.iter().copied().filter(|name| !held.contains_key(name)).collect()
    }

    fn open(
        &self,
        collection: &BlindCollection,
        kind: Kind,
        name: [u8; 16],
    ) -> Result<Zeroizing<Vec<u8>>, ClientError> {
        let sealed = self.held.read().unwrap_or_else(PoisonError::into_inner).get(&name).cloned();
        let sealed = sealed.ok_or_else(outdated)?;
        let opened = collection.sealer().open(kind.subject(name), &sealed);
        if opened.is_none() {
            // It was sound when it came, so it was damaged here: it is fetched again.
            let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
            held.remove(&name);
            self.write(&held);
        }
        opened.ok_or(ClientError::Forged)
    }

    /// Fetches what is missing, of so many sealed bytes each.
    fn fetch(
        &self,
        collection: &BlindCollection,
        kind: Kind,
        missing: &[[u8; 16]],
        sealed: usize,
        transport: &dyn Channel,
        watch: &Watch<'_>,
    ) -> Result<usize, ClientError> {
        let total = (missing.len() * sealed) as u64;
        let (mut bytes, mut rest) = (0, missing);
        while !rest.is_empty() {
            let asked = &rest[..rest.len().min(AT_ONCE)];
            let blobs: Vec<BlobName> = asked.iter().map(|name| kind.blob(*name)).collect();
            let came = fetch_blobs(transport, Asking::Anybody, &blobs)?;
            let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
            for (name, blob) in asked.iter().zip(&came) {
                let blob = blob.as_ref().ok_or_else(outdated)?;
                let opened = collection.sealer().open(kind.subject(*name), blob);
                if blob.len() != sealed || opened.is_none() {
                    return Err(ClientError::Forged);
                }
                bytes += blob.len();
                held.insert(*name, blob.as_slice().into());
            }
            drop(held);
            rest = &rest[came.len()..];
            if watch(Progress { done: bytes as u64, total }).is_break() {
                return Err(ClientError::Cancelled);
            }
        }
        Ok(bytes)
    }

    /// Leaves those of the names that are in use in the file, without the others; those that have just come
    /// are added at its end where no other goes. That it cannot be written costs the next search some time and
    /// nothing else.
    fn keep(&self, came: &[[u8; 16]], names: &[[u8; 16]]) {
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        let names: std::collections::HashSet<&[u8; 16]> = names.iter().collect();
        let before = held.len();
        held.retain(|name, _| names.contains(name));
        let new = came.iter().filter_map(|name| held.get_key_value(name));
        match &self.file {
            Some(file) if held.len() == before && before > came.len() && file.exists() => {
                let bytes = encode_each(new);
                let _ = private(file, true).and_then(|mut to| to.write_all(&bytes));
            }
            _ => self.write(&held),
        }
    }

    fn write(&self, held: &HashMap<[u8; 16], Arc<[u8]>>) {
        if let Some(file) = &self.file {
            let next = file.with_extension("next");
            let written = private(&next, false).and_then(|mut to| to.write_all(&encode(held)));
            let _ = written.and_then(|()| fs::rename(&next, file));
        }
    }
}

/// The names of the hints of all blocks.
fn block_names(collection: &BlindCollection) -> Vec<[u8; 16]> {
    collection.blocks().iter().map(|block| block.file_name()).collect()
}

/// Hints and checks go when another commit is published.
pub(super) fn outdated() -> ClientError {
    let reason = "the server no longer holds the hints and checks of this state".to_owned();
    ClientError::Outdated { reason }
}

/// A file that nobody else reads, to write to: from its beginning, or from its end.
fn private(file: &Path, append: bool) -> std::io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).append(append).truncate(!append);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file)
}

/// The sets of checks that an alarm has retired, as a vault's directory tells.
///
/// # Errors
/// When there is such a file and it cannot be read, or a line of it is not a number or is not ended: a set that was
/// retired is not to be used again, and which it was is not known.
pub(crate) fn retired_sets(directory: &Path) -> Result<Vec<u64>, ClientError> {
    let file = directory.join(RETIRED);
    let text = match fs::read_to_string(&file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text.map_err(VaultError::io("read", &file))?,
    };
    let number = |(at, line): (usize, &str)| {
        line.strip_suffix('\n').and_then(|line| line.parse().ok()).ok_or_else(|| {
            let problem = format!(
                "line {} is not the number of a set of checks; delete this file and publish with fresh checks \
                 before the next search",
                at + 1
            );
            let problem = std::io::Error::new(std::io::ErrorKind::InvalidData, problem);
            VaultError::io("read", &file)(problem).into()
        })
    };
    text.split_inclusive('\n').enumerate().map(number).collect()
}

fn encode(held: &HashMap<[u8; 16], Arc<[u8]>>) -> Vec<u8> {
    [MAGIC.to_vec(), encode_each(held.iter())].concat()
}

fn encode_each<'h>(held: impl Iterator<Item = (&'h [u8; 16], &'h Arc<[u8]>)>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, sealed) in held {
        bytes.extend_from_slice(name);
        bytes.extend_from_slice(&(sealed.len() as u32).to_le_bytes());
        bytes.extend_from_slice(sealed);
    }
    bytes
}

fn decode(bytes: &[u8]) -> Option<HashMap<[u8; 16], Arc<[u8]>>> {
    let mut rest = bytes.strip_prefix(MAGIC)?;
    let mut held = HashMap::new();
    while !rest.is_empty() {
        let (name, after) = rest.split_first_chunk::<16>()?;
        let (length, after) = after.split_first_chunk::<4>()?;
        let (sealed, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        held.insert(*name, sealed.into());
        rest = after;
    }
    Some(held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_comes_back_whole_or_not_at_all() {
        let held: HashMap<[u8; 16], Arc<[u8]>> =
            (0..5_u8).map(|n| ([n; 16], vec![n; 10 + n as usize].into())).collect();
        let bytes = encode(&held);
        assert_eq!(decode(&bytes).unwrap(), held);
        assert!(decode(&bytes[..bytes.len() - 1]).is_none());
        assert!(decode(b"something else").is_none());
        assert!(decode(MAGIC).unwrap().is_empty());
    }

    #[test]
    fn a_damaged_line_does_not_bring_a_retired_set_back() {
        let directory = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            fs::write(directory.path().join(RETIRED), text).unwrap();
            retired_sets(directory.path())
        };
        assert_eq!(read("").unwrap(), [0; 0]);
        assert_eq!(read("17\n18446744073709551615\n").unwrap(), [17, u64::MAX]);
        for (text, line) in [
            ("17\n1x\n5\n", "line 2"),
            ("\n", "line 1"),
            ("18446744073709551616\n", "line 1"),
            ("17\n1844", "line 2"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(RETIRED) && error.contains(line), "{error}");
            assert!(Hints::kept_in(directory.path()).is_err());
        }
    }

    #[test]
    fn what_is_retired_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let hints = Hints::kept_in(directory.path()).unwrap();
        hints.retire(7);
        hints.retire(u64::MAX);
        let again = Hints::kept_in(directory.path()).unwrap();
        assert!(again.is_retired(7) && again.is_retired(u64::MAX) && !again.is_retired(8));
    }
}

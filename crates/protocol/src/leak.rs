//! Everything the server learns, as an enum, and the only door through which it leaves.

/// One thing that the server learns. `docs/LEAKAGE.md` says for each what follows from it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Leak {
    /// The stored rows: rotated residuals, hence their norms and the inner products of rows that
    /// share a cell.
    StoredRows,
    /// Which rows share a cell: the cell handle that a stored row carries.
    CellMembership,
    /// How many rows there are, how wide they are, the number of the epoch, and the revision and the
    /// random name of the vault's commit.
    CollectionShape,
    /// Which cells a query touches.
    ActiveCells,
    /// Which rows a query asks to be scored, as a set without order.
    CandidateHandles,
    /// Parameters, size and time of a request.
    RequestShape,
    /// Which requests belong to one session.
    SessionLinkage,
    /// The prefix part of every candidate's score, which the slot layout adds under encryption.
    #[cfg(feature = "slots")]
    PrefixScores,
    /// Sealed bytes that the server keeps for the owner: their names, lengths and times.
    SealedBlobs,
    /// Which blocks of a blind collection, and which pages of its records, are new in a publish, and
    /// when.
    BlockChanges,
    /// Which pages of records somebody fetches by name.
    FetchedRecords,
}

impl Leak {
    /// Every leak, in the order of the contract.
    pub const ALL: &'static [Leak] = &[
        Leak::StoredRows,
        Leak::CellMembership,
        Leak::CollectionShape,
        Leak::ActiveCells,
        Leak::CandidateHandles,
        Leak::RequestShape,
        Leak::SessionLinkage,
        Leak::SealedBlobs,
        Leak::BlockChanges,
        Leak::FetchedRecords,
        #[cfg(feature = "slots")]
        Leak::PrefixScores,
    ];

    /// The name that the contract, the demo and the audit use.
    pub fn name(self) -> &'static str {
        match self {
            Leak::StoredRows => "stored-rows",
            Leak::CellMembership => "cell-membership",
            Leak::CollectionShape => "collection-shape",
            Leak::ActiveCells => "active-cells",
            Leak::CandidateHandles => "candidate-handles",
            Leak::RequestShape => "request-shape",
            Leak::SessionLinkage => "session-linkage",
            #[cfg(feature = "slots")]
            Leak::PrefixScores => "prefix-scores",
            Leak::SealedBlobs => "sealed-blobs",
            Leak::BlockChanges => "block-changes",
            Leak::FetchedRecords => "fetched-records",
        }
    }

    /// One sentence for a person.
    pub fn meaning(self) -> &'static str {
        match self {
            Leak::StoredRows => {
                "the rotated residuals: their lengths, and inner products within a cell"
            }
            Leak::CellMembership => "which rows share a key",
            Leak::CollectionShape => "how many rows, how wide, which epoch and revision",
            Leak::ActiveCells => "which cells a query touches",
            Leak::CandidateHandles => "which rows a query asks about, without order or scores",
            Leak::RequestShape => "ring parameters, bytes and time of each request",
            Leak::SessionLinkage => {
                "which requests belong to one session (only with merging or slots)"
            }
            #[cfg(feature = "slots")]
            Leak::PrefixScores => "the prefix part of each score (only with slots)",
            Leak::SealedBlobs => "names, lengths and times of sealed backups (only where kept)",
            Leak::BlockChanges => {
                "which blocks and pages a publish replaces (only in blind collections)"
            }
            Leak::FetchedRecords => {
                "which records are wanted, to within 32 (only where fetched directly)"
            }
        }
    }
}

/// A value that has been cleared to leave the client, with the leak it is accounted under.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Disclosed<T> {
    value: T,
    leak: Leak,
}

/// Clears a value to leave the client. Every call is a line of the leakage contract.
pub fn declassify<T>(value: T, leak: Leak) -> Disclosed<T> {
    Disclosed { value, leak }
}

impl<T> Disclosed<T> {
    /// What it is accounted under.
    pub fn leak(&self) -> Leak {
        self.leak
    }

    /// The value itself, where a message expects it to be accounted under `leak`.
    ///
    /// # Panics
    /// When it was cleared as another leak: the contract would then list it in the wrong place.
    #[track_caller]
    pub(crate) fn accounted_under(self, leak: Leak) -> Self {
        assert_eq!(self.leak, leak, "a value was declassified as another leak than it is");
        #[cfg(test)]
        ACCOUNTED.with_borrow_mut(|accounted| accounted.insert(leak));
        self
    }

    /// Unwraps the value.
    pub fn into_inner(self) -> T {
        self.value
    }
}

impl<T> std::ops::Deref for Disclosed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

#[cfg(test)]
thread_local! {
    /// What the values of messages that this thread made or read were accounted under.
    pub(crate) static ACCOUNTED: std::cell::RefCell<std::collections::BTreeSet<Leak>> =
        const { std::cell::RefCell::new(std::collections::BTreeSet::new()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The leaks of a table of the contract, which stands between two marks. Its rows start with
    /// `| name |` in code quotes.
    fn listed(mark: &str) -> Vec<&'static str> {
        let contract = include_str!("../../../docs/LEAKAGE.md");
        let table = contract.split(mark).nth(1).expect("a table between two marks");
        table
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split_once('`').map(|(name, _)| name))
            .collect()
    }

    #[test]
    fn contract_lists_exactly_the_leaks_of_the_enum() {
        let mut expected = listed("<!-- leaks -->");
        let slots = listed("<!-- leaks with the feature slots -->");
        assert_eq!(slots, ["prefix-scores"]);
        if cfg!(feature = "slots") {
            expected.extend(slots);
        }
        let names: Vec<&str> = Leak::ALL.iter().map(|leak| leak.name()).collect();
        assert_eq!(names, expected);
    }

    #[test]
    #[should_panic(expected = "another leak")]
    fn a_value_declassified_as_another_leak_is_noticed() {
        let _ = declassify(7, Leak::ActiveCells).accounted_under(Leak::CellMembership);
    }
}

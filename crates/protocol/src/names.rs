//! Names the server knows things by.

use std::fmt;

macro_rules! word {
    ($(#[$doc:meta])* $name:ident, $format:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $format, self.0)
            }
        }
    };
}

word!(
    /// A cell, by a keyed pseudorandom word: it says which rows share a key, not which cell of
    /// the owner's partition that is.
    CellTag, "{:016x}"
);
word!(
    /// A row, by a keyed pseudorandom word: neither the owner's id nor the order of ingestion.
    RowHandle, "{:016x}"
);
word!(
    /// A generation of keys, tags and handles. Nothing of one epoch names anything of another.
    Epoch, "{}"
);

//! How a vault and a server stand to each other: which of the two has come further, or whether they
//! have parted.

use shard_protocol::{CollectionState, CommitName, Revision};

use crate::collection::Position;

/// The present commit of a vault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// Its name.
    pub name: CommitName,
    /// Its revision.
    pub revision: Revision,
}

/// The commits of a vault: the present one, and those that led to it.
#[derive(Clone, Copy)]
pub struct Lineage<'a> {
    /// The present commit.
    pub head: Head,
    /// The vault's commit at a revision; `None` where its history has none.
    pub commit_at: &'a dyn Fn(Revision) -> Option<CommitName>,
}

/// How a server's state stands to a vault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Nothing was published.
    Unpublished,
    /// The server holds the vault's present commit.
    Same,
    /// The vault has come further: the server holds one of its earlier commits.
    Ahead,
    /// The server is at a later revision: it may hold a later state of this very vault.
    Behind,
    /// The server holds a commit that is not in the vault's history.
    Forked,
}

/// Compares what a server says that it holds with the commits of a vault.
pub fn standing(state: &CollectionState, lineage: Lineage<'_>) -> Standing {
    let Lineage { head, commit_at } = lineage;
    match state.commit {
        None => Standing::Unpublished,
        Some(held) if held == head.name => Standing::Same,
        Some(_) if state.revision > head.revision => Standing::Behind,
        // Asked for the head's own revision, a history may not have it yet: it has another name.
        Some(held) if state.revision < head.revision && commit_at(state.revision) == Some(held) => {
            Standing::Ahead
        }
        Some(_) => Standing::Forked,
    }
}

impl Position {
    /// The commit.
    pub fn head(&self) -> Head {
        Head { name: self.commit(), revision: self.revision() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(byte: u8) -> CommitName {
        CommitName([byte; 16])
    }

    fn at(revision: u64, commit: Option<CommitName>) -> CollectionState {
        CollectionState { revision: Revision(revision), commit, ..CollectionState::default() }
    }

    /// A vault whose commit of revision `r` is named `r`, from revision 3 to 7.
    fn found(state: &CollectionState) -> Standing {
        let head = Head { name: name(7), revision: Revision(7) };
        let commit_at =
            |revision: Revision| (3..=7).contains(&revision.0).then(|| name(revision.0 as u8));
        standing(state, Lineage { head, commit_at: &commit_at })
    }

    #[test]
    fn what_was_never_published_is_unpublished_whatever_was_begun() {
        assert_eq!(found(&CollectionState::default()), Standing::Unpublished);
        let begun = CollectionState { unfinished: Some(name(7)), ..at(0, None) };
        assert_eq!(found(&begun), Standing::Unpublished);
    }

    #[test]
    fn the_present_commit_is_the_same_whatever_revision_the_server_says() {
        for revision in [0, 7, 9] {
            assert_eq!(found(&at(revision, Some(name(7)))), Standing::Same);
        }
    }

    #[test]
    fn an_earlier_commit_of_the_vault_leaves_it_ahead() {
        for revision in 3..7 {
            assert_eq!(found(&at(revision, Some(name(revision as u8)))), Standing::Ahead);
        }
    }

    #[test]
    fn a_later_revision_leaves_the_vault_behind() {
        assert_eq!(found(&at(8, Some(name(8)))), Standing::Behind);
        assert_eq!(found(&at(u64::MAX, Some(name(3)))), Standing::Behind);
    }

    #[test]
    fn another_commit_at_a_revision_of_the_vault_is_a_fork() {
        assert_eq!(found(&at(7, Some(name(9)))), Standing::Forked);
        assert_eq!(found(&at(5, Some(name(9)))), Standing::Forked);
        assert_eq!(found(&at(5, Some(name(4)))), Standing::Forked, "one of its own, elsewhere");
        assert_eq!(found(&at(2, Some(name(2)))), Standing::Forked, "before its history");
    }
}

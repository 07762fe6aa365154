//! What the owner chose when the vault was made.

use serde::{Deserialize, Serialize};
use shard_geometry::{Cells, CellsError, SplitError, TuneError};
use shard_protocol::Limits;
use shard_rlwe::blind::{Link, QueryRank, Shape, ShapeError, TILES, choose_tile};

use crate::error::ClientError;

/// Documents per cell, where the number of cells follows that of the documents.
const DOCUMENTS_PER_CELL: usize = 40;

/// The most cells that follow from a number of documents.
const MOST_AUTOMATIC_CELLS: usize = 256;

/// Of how many cells of a blind collection a search asks for one, unless told otherwise.
const ONE_CELL_IN: usize = 4;

/// The widest vectors that are taken: the basis of a model has the square of it in numbers.
const WIDEST: usize = 4096;

/// What hides the documents from the server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protection {
    /// Rows and queries are encrypted, and every row is scored.
    Blind,
    /// Rows are rotated under a secret key of their cell, and a shortlist is scored.
    Rotated,
}

impl Protection {
    /// That of settings which do not name one: there was no other.
    fn of_earlier_vaults() -> Self {
        Self::Rotated
    }
}

impl std::fmt::Display for Protection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Blind => "blind",
            Self::Rotated => "rotated",
        })
    }
}

/// How many keys there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CellCount {
    /// A cell for every forty documents that a model is fitted to, and at most 256.
    Auto,
    /// This many cells, each with a key.
    Cells(usize),
    /// A key for every document.
    Micro,
}

impl CellCount {
    /// The number of cells of a model that is fitted to so many documents; `None` for a key per
    /// document.
    pub fn of(self, documents: usize) -> Option<usize> {
        match self {
            Self::Auto => Some((documents / DOCUMENTS_PER_CELL).clamp(1, MOST_AUTOMATIC_CELLS)),
            Self::Cells(count) => Some(count),
            Self::Micro => None,
        }
    }

    /// The most candidates a request can name.
    pub(crate) fn most_candidates(self) -> usize {
        let limits = Limits::default();
        match self {
            Self::Auto | Self::Cells(_) => limits.candidates,
            Self::Micro => limits.cells,
        }
    }
}

/// The family a key is drawn from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransformKind {
    /// Uniform over all orthogonal maps.
    Orthogonal,
    /// Signs, permutations and Hadamard rounds: `O(d log d)`.
    Structured,
}

/// A figure that is given, or found when the first documents come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// The best for these documents: of a prefix or a shortlist the smallest that meets the recall
    /// target on a held-out sample, of tiles the fastest.
    Auto,
    /// This one.
    Fixed(usize),
}

impl Choice {
    fn automatic() -> Self {
        Self::Auto
    }

    /// The figure, if it is given.
    pub fn fixed(self) -> Option<usize> {
        match self {
            Self::Auto => None,
            Self::Fixed(value) => Some(value),
        }
    }
}

/// Everything that shapes a collection. Tiles, the rank of queries and cells to search are those of a blind
/// one; cells and their seed are of both; the others are those of a rotated one's model.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// What hides the documents from the server.
    #[serde(default = "Protection::of_earlier_vaults")]
    pub protection: Protection,
    /// Width of the tiles that encrypted rows are cut into.
    #[serde(default = "Choice::automatic")]
    pub tile: Choice,
    /// How many secrets hide a query.
    #[serde(default, with = "rank_as_number")]
    pub query_rank: QueryRank,
    /// Whether the vault of a blind collection keeps its vectors once they are published, or leaves them
    /// with the server alone.
    #[serde(default = "kept")]
    pub keep_vectors: bool,
    /// Number of keys of a rotated collection. Of a blind one, into how many cells its blocks are grouped;
    /// `auto` is not at all.
    pub cells: CellCount,
    /// Cells of a blind collection that a search asks for unless it says how many; a quarter of them when
    /// `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<usize>,
    /// Family of keys.
    pub transform: TransformKind,
    /// Width of the routing prefix.
    pub d_pub: Choice,
    /// Length of the shortlist.
    pub candidates: Choice,
    /// Seed of the partition and of the tuning sample. Not a secret.
    pub seed: u64,
}

/// What settings that do not say so mean.
fn kept() -> bool {
    true
}

impl Settings {
    /// Default number of cells.
    pub const DEFAULT_CELLS: CellCount = CellCount::Auto;

    /// The defaults of a blind collection.
    pub fn blind() -> Self {
        Self { protection: Protection::Blind, ..Self::rotated() }
    }

    /// The defaults of a rotated collection.
    pub fn rotated() -> Self {
        Self::new(Self::DEFAULT_CELLS)
    }

    /// The defaults of a rotated collection for a number of keys: a dense key per cell, a fast one per
    /// document.
    pub fn new(cells: CellCount) -> Self {
        let transform = match cells {
            CellCount::Auto | CellCount::Cells(_) => TransformKind::Orthogonal,
            CellCount::Micro => TransformKind::Structured,
        };
        Self {
            protection: Protection::Rotated,
            tile: Choice::Auto,
            query_rank: QueryRank::One,
            keep_vectors: true,
            cells,
            probe: None,
            transform,
            d_pub: Choice::Auto,
            candidates: Choice::Auto,
            seed: 2026,
        }
    }

    /// The same with so many secrets for a query of a blind collection.
    ///
    /// # Errors
    /// When it is neither one nor two.
    pub fn with_query_secrets(self, secrets: u64) -> Result<Self, ClientError> {
        let Some(query_rank) = rank_of(secrets) else {
            return Err(ClientError::Setting(format!("{secrets} secrets for a query: 1 or 2")));
        };
        Ok(Self { query_rank, ..self })
    }

    /// The same with another number of keys, and the family of keys that goes with it.
    pub(crate) fn with_cells(self, cells: CellCount) -> Self {
        let kinds = [self.cells, cells].map(|cells| cells == CellCount::Micro);
        let transform =
            if kinds[0] == kinds[1] { self.transform } else { Self::new(cells).transform };
        Self { cells, transform, ..self }
    }

    /// Of so many cells of a blind collection, those that a search asks for unless it says how many.
    pub(crate) fn probed(&self, cells: usize) -> usize {
        self.probe.unwrap_or(cells.div_ceil(ONE_CELL_IN)).min(cells)
    }

    /// Refuses what no corpus could satisfy.
    ///
    /// # Errors
    /// That says which setting, and what is possible.
    pub fn check(&self) -> Result<(), ClientError> {
        match self.protection {
            Protection::Blind => self.check_tile().and_then(|()| self.check_cells()),
            Protection::Rotated => self.check_model(),
        }
    }

    fn check_tile(&self) -> Result<(), ClientError> {
        match self.tile.fixed().filter(|tile| !TILES.contains(tile)) {
            Some(tile) => Err(ShapeError::Tile(tile).into()),
            None => Ok(()),
        }
    }

    /// Cells of a blind collection.
    fn check_cells(&self) -> Result<(), ClientError> {
        let refuse = |problem: String| Err(ClientError::Setting(problem));
        match (self.cells, self.probe) {
            (CellCount::Auto, None) => Ok(()),
            (CellCount::Auto, Some(_)) => {
                refuse("a number of cells to search, of a collection without cells".to_owned())
            }
            (CellCount::Micro, _) => {
                refuse("a key per document: blind collections have one key".to_owned())
            }
            (CellCount::Cells(count), _) if !(1..=Cells::MAX).contains(&count) => {
                refuse(format!("{count} cells: between 1 and {} are supported", Cells::MAX))
            }
            (CellCount::Cells(count), Some(probe)) if !(1..=count).contains(&probe) => {
                refuse(format!("a search of {probe} cells: there are {count}"))
            }
            (CellCount::Cells(_), _) => Ok(()),
        }
    }

    fn check_model(&self) -> Result<(), ClientError> {
        let refuse = |problem: String| Err(ClientError::Setting(problem));
        if let CellCount::Cells(count) = self.cells
            && !(1..=Cells::MAX).contains(&count)
        {
            return refuse(format!(
                "{count} cells: between 1 and {} are supported, or a key per document",
                Cells::MAX
            ));
        }
        if let Choice::Fixed(d_pub) = self.d_pub
            && !(1..WIDEST).contains(&d_pub)
        {
            return refuse(format!(
                "a routing prefix of width {d_pub}: it is at least 1 and narrower than the vectors, \
                 which have at most {WIDEST} dimensions"
            ));
        }
        let most = self.cells.most_candidates();
        if let Choice::Fixed(candidates) = self.candidates
            && !(1..=most).contains(&candidates)
        {
            return refuse(format!(
                "a shortlist of {candidates} candidates: a request can name 1 to {most}"
            ));
        }
        Ok(())
    }

    /// How a blind collection that begins with so many documents of a width lies in blocks.
    pub(crate) fn shape_for(&self, documents: usize, width: usize) -> Result<Shape, ClientError> {
        let shape = match self.tile {
            Choice::Fixed(tile) => Shape::new(width, tile, self.query_rank)?,
            Choice::Auto => {
                // Those that a search scores.
                let scored = match self.cells {
                    CellCount::Cells(count) => documents * self.probed(count) / count,
                    CellCount::Auto | CellCount::Micro => documents,
                };
                let link = Link::default();
                let fastest = choose_tile(scored.max(1), width, self.query_rank, link)?;
                fastest.first().expect("every dimension has a width").shape
            }
        };
        Ok(shape)
    }

    /// Refuses what documents of this number and width cannot satisfy, before a model is fitted to
    /// them.
    pub(crate) fn check_for(&self, documents: usize, width: usize) -> Result<(), ClientError> {
        self.check()?;
        if width < 2 {
            return Err(TuneError::TooNarrow { width }.into());
        }
        if width > WIDEST {
            return Err(ClientError::Setting(format!(
                "vectors of {width} dimensions: at most {WIDEST} are supported"
            )));
        }
        if let Choice::Fixed(prefix) = self.d_pub
            && prefix >= width
        {
            return Err(SplitError { width, prefix }.into());
        }
        if let CellCount::Cells(count) = self.cells
            && count > documents
        {
            return Err(CellsError::FewerRowsThanCells { rows: documents, count }.into());
        }
        Ok(())
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::blind()
    }
}

/// The rank of queries with so many secrets.
pub(crate) fn rank_of(secrets: u64) -> Option<QueryRank> {
    [QueryRank::One, QueryRank::Two].into_iter().find(|rank| rank.secrets() as u64 == secrets)
}

/// The rank of queries as the number of secrets.
mod rank_as_number {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use shard_rlwe::blind::QueryRank;

    pub(super) fn serialize<S: Serializer>(rank: &QueryRank, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(rank.secrets() as u64)
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<QueryRank, D::Error> {
        let rank = u64::deserialize(from)?;
        let unknown = || D::Error::custom(format!("queries of rank {rank}: it is 1 or 2"));
        super::rank_of(rank).ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn automatic_cells_follow_the_documents() {
        let of = |documents| CellCount::Auto.of(documents).unwrap();
        assert_eq!([1, 50, 79, 80, 5_183].map(of), [1, 1, 1, 2, 129]);
        assert_eq!([10_240, 100_000, 1_000_000].map(of), [256; 3]);
        assert_eq!(CellCount::Micro.of(7), None);
    }

    #[test]
    fn settings_of_earlier_vaults_still_read() {
        let read = |text: &str| serde_json::from_str::<CellCount>(text).unwrap();
        assert_eq!(read(r#"{"cells":256}"#), CellCount::Cells(256));
        assert_eq!(read(r#""micro""#), CellCount::Micro);
        assert_eq!(serde_json::to_string(&CellCount::Auto).unwrap(), r#""auto""#);
    }

    #[test]
    fn settings_without_a_protection_are_rotated_and_blind_ones_come_back() {
        let text = r#"{"cells":"auto","transform":"orthogonal","d_pub":"auto","candidates":"auto","seed":2026}"#;
        let earlier: Settings = serde_json::from_str(text).unwrap();
        assert_eq!(earlier, Settings::rotated());
        assert_eq!(earlier.protection, Protection::Rotated);
        let blind =
            Settings { tile: Choice::Fixed(64), query_rank: QueryRank::Two, ..Settings::blind() };
        let text = serde_json::to_string(&blind).unwrap();
        assert!(text.contains(r#""protection":"blind""#) && text.contains(r#""query_rank":2"#));
        assert_eq!(serde_json::from_str::<Settings>(&text).unwrap(), blind);
        let third = text.replace(r#""query_rank":2"#, r#""query_rank":3"#);
        assert!(serde_json::from_str::<Settings>(&third).is_err());
    }

    #[test]
    fn queries_have_one_secret_or_two() {
        let rank =
            |secrets| Settings::blind().with_query_secrets(secrets).map(|set| set.query_rank);
        assert_eq!([1, 2].map(|secrets| rank(secrets).unwrap()), [QueryRank::One, QueryRank::Two]);
        for secrets in [0, 3] {
            assert!(rank(secrets).unwrap_err().to_string().contains("1 or 2"));
        }
    }

    #[test]
    fn tiles_are_those_given_or_the_fastest_for_these_documents() {
        let tile = |tile| Settings { tile, ..Settings::blind() };
        assert!(tile(Choice::Fixed(24)).check().unwrap_err().to_string().contains("width 24"));
        assert!(tile(Choice::Fixed(256)).check().is_ok());
        let shape = tile(Choice::Fixed(64)).shape_for(10, 384).unwrap();
        assert_eq!((shape.tile(), shape.dimension()), (64, 384));
        let of = |documents| tile(Choice::Auto).shape_for(documents, 384).unwrap().tile();
        assert!(of(100) > of(1_000_000), "few documents have wide tiles");
        for width in [1, 4097] {
            assert!(tile(Choice::Auto).shape_for(10, width).is_err());
        }
    }

    #[test]
    fn what_no_corpus_satisfies_is_refused_and_so_is_what_this_one_does_not() {
        let default = Settings::rotated();
        let d_pub = |width| Settings { d_pub: Choice::Fixed(width), ..default.clone() };
        let candidates = |count| Settings { candidates: Choice::Fixed(count), ..default.clone() };
        for (settings, words) in [
            (Settings::new(CellCount::Cells(0)), "0 cells"),
            (Settings::new(CellCount::Cells(5000)), "5000 cells"),
            (d_pub(0), "width 0"),
            (d_pub(5000), "width 5000"),
            (candidates(0), "0 candidates"),
            (candidates(70_000), "70000 candidates"),
            (Settings { cells: CellCount::Micro, ..candidates(5_000) }, "5000 candidates"),
        ] {
            let error = settings.check().unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains("--"), "{error}");
        }
        for (settings, documents, width, words) in [
            (default.clone(), 10, 1, "width 1"),
            (default.clone(), 10, 5000, "5000 dimensions"),
            (d_pub(384), 10, 384, "between 1 and 383"),
            (Settings::new(CellCount::Cells(256)), 10, 384, "10 rows cannot fill 256 cells"),
        ] {
            let error = settings.check_for(documents, width).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        assert!(default.check_for(1, 2).is_ok() && d_pub(383).check_for(1, 384).is_ok());
    }
}

//! What the page says first: what stayed hidden and by what, and of every channel what an attacker needs
//! for it and what the owner can do.
//!
//! The texts are fixed by channel and by [`Kind`]; only the axes, the number of known documents and whether it is
//! about cells that requests name are taken from the figure that the verdict rests on.

use serde::Serialize;

use super::{Kind, Report, figure, headline};
use crate::finding::Section;

/// Something that the server does not get to see.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Hidden {
    /// What.
    pub what: &'static str,
    /// By what.
    pub by: &'static str,
}

/// What stays hidden of a kind, whatever the attacks below find.
pub fn hidden(kind: Kind) -> &'static [Hidden] {
    const IDS: Hidden = Hidden {
        what: "The ids of documents",
        by: "the server knows pseudorandom names; the list of ids is sealed.",
    };
    const SCORES: Hidden = Hidden {
        what: "The scores",
        by: "computed on ciphertexts, which only the client can open.",
    };
    match kind {
        Kind::Cells | Kind::Micro => &[
            Hidden {
                what: "The query",
                by: "encrypted by the client (RLWE) with a secret that never leaves it.",
            },
            SCORES,
            IDS,
            Hidden {
                what: "The first coordinates of every document, by which searches are routed",
                by: "they stay with the client, or sealed.",
            },
        ],
        Kind::Blind => &[
            Hidden {
                what: "The documents",
                by: "vectors, lengths and likenesses are encrypted (RLWE, two secrets).",
            },
            Hidden {
                what: "The query and what it asks for",
                by: "it is encrypted, and every document is scored for it.",
            },
            SCORES,
            IDS,
        ],
        Kind::BlindCells => &[
            Hidden {
                what: "The vectors of documents and their lengths",
                by: "encrypted (RLWE, two secrets). Which blocks are of one cell is not hidden.",
            },
            Hidden {
                what: "The query",
                by: "encrypted (RLWE). Which cells it asks for is not hidden, unless it asks for all.",
            },
            SCORES,
            IDS,
        ],
        Kind::Foreign => &[],
    }
}

/// The sentence after that list.
pub fn not_hidden(kind: Kind) -> &'static str {
    match kind {
        Kind::Cells | Kind::Micro => {
            "Not hidden: rotated rows, which the attacks below try to read, and which of them a query asks \
             for. A server that follows the protocol is assumed."
        }
        Kind::Blind => {
            "Not hidden: how large the collection is, when and where it changes, and when it is searched. \
             The attacks below look for anything else."
        }
        Kind::BlindCells => {
            "Not hidden: how large the collection is, when and where it changes, when it is searched, which \
             blocks hold documents that are near each other, and which of these cells a search asks for. The \
             attacks below say what the cells tell, and look for anything else."
        }
        Kind::Foreign => {
            "Nothing of what Shard hides is promised here: Shard does not protect these vectors. Queries, \
             scores and ids are as visible as the system that holds them makes them. Only the rows were \
             attacked."
        }
    }
}

/// What a channel takes, and what helps against it: with cells, and with a key for every row.
struct Advice {
    channel: &'static str,
    needs: &'static str,
    cells: &'static str,
    micro: &'static str,
    foreign: &'static str,
}

const NO_MORE: &str = "Every row has its own key already; a blind collection hides the rest.";
const BLIND_ALONE: &str = "A blind collection closes it.";
const BLIND_WITHOUT_CELLS: &str = "A blind collection without cells closes it.";
const BLURRED: &str =
    "More candidates for each search blur it. A blind collection without cells closes it.";
const PREFIX_AT_HOME: &str = "Keep routing prefixes with the client, as they are.";
const OLD_COPIES: &str = "Delete old releases where you can, and promise nobody that releases cannot be linked. A blind \
     collection closes it.";

const ADVICE: &[Advice] = &[
    Advice {
        channel: "shape",
        needs: "A look at the server's disk",
        cells: "More cells, or a key for every row (micro). A blind collection without cells shows none of it.",
        micro: "A blind collection without cells shows only the number of blocks.",
        foreign: "Keys for parts of the rows, or a blind collection.",
    },
    Advice {
        channel: "same-key-neighbours",
        needs: "A copy of the server's disk",
        cells: "More cells; a key for every row (micro) or a blind collection closes it.",
        micro: "Nothing more: no two rows share a key.",
        foreign: "Keys for parts of the rows; a blind collection closes it.",
    },
    Advice {
        channel: "prefix",
        needs: "The routing prefixes of documents",
        cells: PREFIX_AT_HOME,
        micro: PREFIX_AT_HOME,
        foreign: BLIND_ALONE,
    },
    Advice {
        channel: "prefix-lookup",
        needs: "The routing prefixes, and a list of texts with yours among them",
        cells: PREFIX_AT_HOME,
        micro: PREFIX_AT_HOME,
        foreign: BLIND_ALONE,
    },
    Advice {
        channel: "partial-alignment",
        needs: "A copy of the server's disk, a list of texts with yours among them",
        cells: "More cells, so that known documents open fewer others; documents that others know in a vault \
                of their own. A blind collection closes it.",
        micro: NO_MORE,
        foreign: "Keys for parts of the rows, so that known documents open fewer others. A blind collection \
                  closes it.",
    },
    Advice {
        channel: "reference-lookup",
        needs: "A copy of the server's disk, a list of texts with yours among them",
        cells: "Keep public documents in a vault of their own. A blind collection closes it.",
        micro: "Keep public documents in a vault of their own. A blind collection closes it.",
        foreign: BLIND_ALONE,
    },
    Advice {
        channel: "unsupervised-alignment",
        needs: "A copy of the server's disk and texts of the same kind",
        cells: "More cells, so that each has fewer rows. A blind collection closes it.",
        micro: NO_MORE,
        foreign: "Keys for parts of the rows. A blind collection closes it.",
    },
    Advice {
        channel: "structured-keys",
        needs: "A copy of the server's disk, known documents, and keys of the fast family",
        cells: "Keys without structure (orthogonal) where rows share them.",
        micro: "Keys without structure (orthogonal).",
        foreign: BLIND_ALONE,
    },
    Advice {
        channel: "release-linkage",
        needs: "Two copies of the server's disk, before and after a change of keys",
        cells: OLD_COPIES,
        micro: OLD_COPIES,
        foreign: OLD_COPIES,
    },
    Advice {
        channel: "release-churn",
        needs: "Two copies of the server's disk, with most documents replaced between them",
        cells: OLD_COPIES,
        micro: OLD_COPIES,
        foreign: OLD_COPIES,
    },
    Advice {
        channel: "request-leakage",
        needs: "A log of the server's requests",
        cells: BLURRED,
        micro: BLURRED,
        foreign: BLIND_WITHOUT_CELLS,
    },
    Advice {
        channel: "canaries",
        needs: "A copy of the server's disk, the requests it answered, and half of the canaries",
        cells: "Search from the owner's vault, which recomputes every score. A blind collection needs no canaries.",
        micro: "Search from the owner's vault, which recomputes every score. A blind collection needs no canaries.",
        foreign: BLIND_ALONE,
    },
    Advice {
        channel: "membership",
        needs: "A copy of the server's disk and the document in question",
        cells: "A blind collection, if it is a secret that a document is there.",
        micro: "A blind collection, if it is a secret that a document is there.",
        foreign: "A blind collection, if it is a secret that a document is there.",
    },
    Advice {
        channel: "text-inversion",
        needs: "A copy of the server's disk, texts of the same kind",
        cells: "More cells; documents that others know in a vault of their own. A blind collection closes it.",
        micro: NO_MORE,
        foreign: "Keys for parts of the rows. A blind collection closes it.",
    },
];

/// What the channels of blind collections take, and what helps where it is not a matter of course.
const ON_BLIND: &[(&str, &str, &str)] = &[
    ("same-key-neighbours", "A copy of the server's disk and a log of its traffic", ""),
    (
        "partial-alignment",
        "A copy of the server's disk, a log of its traffic, and all other documents of a block",
        "",
    ),
    (
        "reference-lookup",
        "A copy of the server's disk, a log of its traffic, and a list of all documents",
        "",
    ),
    (
        "unsupervised-alignment",
        "A copy of the server's disk, a log of its traffic, and half of the documents",
        "",
    ),
    ("release-linkage", "Two copies of the server's disk, before and after a change of keys", ""),
    ("release-churn", "Two copies of the server's disk, before and after a publish", ""),
    ("request-leakage", "A log of the server's traffic and a list of queries", ""),
    (
        "membership",
        "A copy of the server's disk, a log of its traffic, and the document in question",
        "",
    ),
    ("text-inversion", "A copy of the server's disk and texts of the same kind", ""),
    ("ciphertext-noise", "A copy of the server's disk and a log of its traffic", ""),
    (
        "collection-size",
        "A look at the server's disk",
        "Nothing hides it: the lengths of sealed values tell the number of documents.",
    ),
    ("block-changes", "Being there when you publish", "Publish on a schedule."),
    (
        "request-shape",
        "Being there when somebody searches",
        "Search on a schedule if times are a secret, and over an anonymising network if addresses are.",
    ),
];

/// What is otherwise where blocks are grouped by cells.
const WITH_CELLS: &[(&str, &str, &str)] = &[
    ("shape", "A look at the server's disk", "A vault without cells shows none of it."),
    (
        "request-leakage",
        "A log of the server's traffic",
        "Search all cells, which names none, or make a vault without cells. Asking for more cells blurs it.",
    ),
];

fn advice(channel: &str) -> Option<&'static Advice> {
    ADVICE.iter().find(|advice| advice.channel == channel)
}

fn on_blind(
    section: &Section,
    kind: Kind,
) -> Option<&'static (&'static str, &'static str, &'static str)> {
    // Of requests, the figure may be on ciphertexts, whose advice is that of every blind collection.
    let is_on_cells = section.name != "request-leakage"
        || headline(section).is_some_and(|finding| finding.part("jitter").is_some());
    let with_cells = WITH_CELLS.iter().filter(|_| kind == Kind::BlindCells && is_on_cells);
    with_cells.chain(ON_BLIND).find(|(name, ..)| *name == section.name)
}

/// What whoever has the owner's axes has.
const OWNERS_AXES: &str = "A copy of the server's disk and your whole collection";

/// What an attacker needs for the figure that a section's verdict rests on; nothing of sections that are
/// no channels.
pub fn needs(section: &Section, kind: Kind) -> String {
    if matches!(kind, Kind::Blind | Kind::BlindCells) {
        let needs = on_blind(section, kind).map(|(_, needs, _)| format!("{needs}."));
        return needs.unwrap_or_default();
    }
    let Some(advice) = advice(&section.name) else { return String::new() };
    let place = if kind == Kind::Cells { " of the same cell" } else { "" };
    let part = |key| headline(section).and_then(|finding| finding.part(key));
    let pairs: Option<usize> = part("pairs").and_then(|pairs| pairs.parse().ok());
    let count = figure::count(pairs.unwrap_or(0));
    // The owner's axes follow from the whole collection and from nothing less; a pair is then a document
    // whose row is known.
    match (part("axes"), pairs) {
        (Some("owner"), None | Some(0)) => format!("{OWNERS_AXES}, and nothing else."),
        (Some("owner"), Some(1)) => format!("{OWNERS_AXES}, and which row 1 document{place} is."),
        (Some("owner"), _) => {
            format!("{OWNERS_AXES}, and which rows {count} documents{place} are.")
        }
        (_, None) => format!("{}.", advice.needs),
        (_, Some(0)) => format!("{}; no known document.", advice.needs),
        (_, Some(1)) => format!("{}, and 1 known document{place}.", advice.needs),
        (_, Some(_)) => format!("{}, and {count} known documents{place}.", advice.needs),
    }
}

/// What the owner can do about the figure that a section's verdict rests on.
pub fn remedy(section: &Section, kind: Kind) -> &'static str {
    const REPORT_IT: &str =
        "Nothing while it is closed. Were it open, that would be a fault: report it.";
    match (kind, advice(&section.name)) {
        (Kind::Blind | Kind::BlindCells, _) => match on_blind(section, kind) {
            Some((_, _, "")) => REPORT_IT,
            Some((_, _, remedy)) => remedy,
            None => "",
        },
        (Kind::Cells, Some(advice)) => advice.cells,
        (Kind::Micro, Some(advice)) => advice.micro,
        (Kind::Foreign, Some(advice)) => advice.foreign,
        (_, None) => "",
    }
}

/// How bad it is, in a sentence.
pub fn verdict(report: &Report) -> String {
    let counts = report.counts();
    match (counts.open, counts.reduced, counts.closed) {
        (0, 0, 0) => "No channel was measured, so nothing can be said.".to_owned(),
        (0, 0, _) => "None of the attacks that were tried did better than guessing.".to_owned(),
        (0, ..) => "No channel is as open as with unprotected vectors, but some leak.".to_owned(),
        (1, ..) => "One channel is as open as with unprotected vectors.".to_owned(),
        (open, ..) => format!("{open} channels are as open as with unprotected vectors."),
    }
}

/// How many channels are how open.
pub fn tally(report: &Report) -> String {
    let counts = report.counts();
    let further =
        [(counts.constructed, "Decided by the construction"), (counts.unmeasured, "Not measured")];
    let further = further.into_iter().filter(|(count, _)| *count > 0);
    let further: String = further.map(|(count, what)| format!(" {what}: {count}.")).collect();
    format!(
        "Measured: {}; open: {}, reduced: {}, closed: {}.{further}",
        counts.open + counts.reduced + counts.closed,
        counts.open,
        counts.reduced,
        counts.closed
    )
}

/// The one attack to know of.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Strongest {
    /// What it is and what it found.
    pub found: String,
    /// What it takes.
    pub takes: String,
}

impl Strongest {
    /// That of a report in which anything is open or reduced.
    pub fn of(report: &Report) -> Option<Self> {
        let (section, finding) = report.strongest()?;
        let found = format!("{}: {}.", section.title, figure::phrase(finding));
        Some(Self { found, takes: needs(section, report.metadata.kind) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::channels::{CHANNELS, Scope};
    use super::*;
    use crate::finding::Finding;

    #[test]
    fn every_attack_says_what_it_takes_and_what_helps() {
        for channel in CHANNELS.iter().filter(|it| it.scope != Scope::Baseline) {
            let only_blind = matches!(channel.scope, Scope::Blind | Scope::Seen);
            assert_eq!(advice(channel.name).is_none(), only_blind, "{}", channel.name);
            let section = Section::new(channel.name, "");
            for kind in Kind::ALL {
                let needs = needs(&section, kind);
                assert_eq!(needs.is_empty(), remedy(&section, kind).is_empty(), "{kind:?}");
            }
        }
        let on_blind = ON_BLIND.iter().chain(WITH_CELLS).map(|it| it.0);
        for name in ADVICE.iter().map(|it| it.channel).chain(on_blind) {
            assert!(CHANNELS.iter().any(|channel| channel.name == name), "{name}");
        }
    }

    #[test]
    fn known_documents_are_those_of_the_headline() {
        let needed_with = |axes: &str, pairs: usize, kind| {
            let mut section = Section::new("partial-alignment", "");
            let setting = format!("{axes}attack=gram,pairs={pairs}");
            section.findings = vec![Finding::new("partial-alignment", setting, "recall_at_1", 1.0)];
            section.headline = Some(0);
            needs(&section, kind)
        };
        let needed = |pairs, kind| needed_with("", pairs, kind);
        assert!(needed(32, Kind::Cells).ends_with(", and 32 known documents of the same cell."));
        assert!(needed(1, Kind::Foreign).ends_with(", and 1 known document."));
        assert!(needed(0, Kind::Cells).ends_with("; no known document."));
        // Axes of a corpus take a list that holds the documents; the owner's own take the collection itself.
        let listed = needed_with("subject=release,axes=reference,", 0, Kind::Cells);
        assert!(listed.ends_with("a list of texts with yours among them; no known document."));
        let owners = |pairs, kind| needed_with("subject=release,axes=owner,", pairs, kind);
        let whole = "A copy of the server's disk and your whole collection";
        assert_eq!(owners(0, Kind::Cells), format!("{whole}, and nothing else."));
        assert_eq!(
            owners(4, Kind::Cells),
            format!("{whole}, and which rows 4 documents of the same cell are.")
        );
        assert_eq!(owners(1, Kind::Micro), format!("{whole}, and which row 1 document is."));
    }

    #[test]
    fn a_blind_collection_with_cells_does_not_claim_that_all_of_it_is_scored() {
        let claims = |kind: Kind| hidden(kind).iter().any(|it| it.by.contains("every document"));
        assert!(claims(Kind::Blind) && !claims(Kind::BlindCells));
        assert!(hidden(Kind::BlindCells).iter().all(|it| !it.what.contains("what it asks for")));
        assert!(not_hidden(Kind::BlindCells).contains("which of these cells a search asks for"));
    }

    #[test]
    fn advice_on_requests_is_that_of_cells_only_where_the_figure_is() {
        let of = |setting: &str, kind: Kind| {
            let mut section = Section::new("request-leakage", "");
            section.findings = vec![Finding::new("request-leakage", setting, "auc", 0.9)];
            section.headline = Some(0);
            (needs(&section, kind), remedy(&section, kind))
        };
        let (needed, helps) = of("jitter=0.1", Kind::BlindCells);
        assert!(helps.starts_with("Search all cells") && !needed.contains("a list of queries"));
        let of_ciphertexts = "reading=words,attack=repeated";
        for kind in [Kind::Blind, Kind::BlindCells] {
            let (needed, helps) = of(of_ciphertexts, kind);
            assert!(
                helps.contains("report it") && needed.contains("a list of queries"),
                "{kind:?}"
            );
        }
    }

    #[test]
    fn what_a_blind_collection_with_cells_shows_is_not_promised_away() {
        for name in ["shape", "request-leakage"] {
            for kind in [Kind::Cells, Kind::Micro] {
                let helps = remedy(&Section::new(name, ""), kind);
                assert!(helps.contains("A blind collection without cells"), "{name}: {helps}");
            }
        }
    }
}

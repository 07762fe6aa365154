//! What the server sees by looking: how many rows there are, and how they fall into cells.
//!
//! No attack is needed. With `n_c` rows in cell `c` of `N` rows in all, two rows share a key with
//! probability `sum_c n_c (n_c - 1) / (N (N - 1))`; for those pairs the server has the exact inner
//! product of the residuals. One cell gives 1, a key for every row gives 0.

use anyhow::Result;

use crate::finding::{Finding, Section, Verdict};
use crate::subject::Subject;

/// The channel's name.
pub const NAME: &str = "shape";

/// Counts rows and cells.
///
/// # Errors
/// None; the signature is that of all channels.
pub fn channel(subject: &Subject, progress: &dyn Fn(&str)) -> Result<Section> {
    if subject.given.as_ref().is_some_and(|given| !given.labelled) {
        let mut section = Section::new(NAME, "What the server sees by looking");
        section.notes.push(
            "Not measured: it was not said which rows of this release share a key.".to_owned(),
        );
        return Ok(section);
    }
    progress("counting rows and cells");
    let release = subject.release();
    let sizes: Vec<usize> = release.members().iter().map(Vec::len).collect();
    Ok(of_cells(&sizes, release.rows.width(), subject.seed))
}

/// The channel of a release with so many rows in each cell. Needing nothing else, it can be had of a
/// whole release where attacks are run on a sample, whose cells are fewer.
pub fn of_cells(sizes: &[usize], width: usize, seed: u64) -> Section {
    let sizes: Vec<usize> = sizes.iter().copied().filter(|&size| size > 0).collect();
    let (rows, shared) = (sizes.iter().sum::<usize>(), pairs_that_share_a_key(&sizes));
    let finding = |metric: &str, value: f64| Finding::new(NAME, "", metric, value).on(seed, rows);
    let mut section = Section::new(NAME, "What the server sees by looking");
    section.findings = vec![
        finding("pairs_sharing_a_key", shared).chance(0.0),
        finding("stored_rows", rows as f64),
        finding("stored_width", width as f64),
        finding("keys", sizes.len() as f64),
        finding("largest_cell", sizes.iter().copied().max().unwrap_or(0) as f64),
    ];
    section.headline = Some(0);
    section.verdict = Some(match shared {
        0.0 => Verdict::Closed,
        shared if shared < 0.5 => Verdict::Reduced,
        _ => Verdict::Open,
    });
    section.notes = vec![
        format!(
            "The server holds {rows} rows of {width} numbers under {} keys, and knows all three \
             counts.",
            sizes.len()
        ),
        "For two rows under one key it has the exact inner product of what was protected, so it \
         sees duplicates, neighbours and clusters among them. The figure is the share of all pairs \
         of rows for which that is so: 0 with a key for every document, 1 with a single key."
            .to_owned(),
    ];
    section
}

fn pairs_that_share_a_key(sizes: &[usize]) -> f64 {
    let pairs = |n: usize| n as f64 * (n as f64 - 1.0);
    let all = pairs(sizes.iter().sum());
    let shared: f64 = sizes.iter().map(|&size| pairs(size)).sum();
    if all > 0.0 { shared / all } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_counted_as_one_by_one() {
        let cells = [0, 0, 1, 2, 1, 0, 3];
        let mut shared = 0;
        for i in 0..cells.len() {
            shared += (0..cells.len()).filter(|&j| i != j && cells[i] == cells[j]).count();
        }
        let expected = shared as f64 / (7.0 * 6.0);
        assert!((pairs_that_share_a_key(&[3, 2, 1, 1]) - expected).abs() < 1e-12);
    }

    #[test]
    fn one_key_is_open_and_a_key_for_every_row_closed() {
        assert_eq!(pairs_that_share_a_key(&[9]), 1.0);
        assert_eq!(pairs_that_share_a_key(&[1; 9]), 0.0);
        assert_eq!(pairs_that_share_a_key(&[1]), 0.0);
    }
}

//! Which documents are attacked where there are more than an audit has time for.

use shard_audit::tools::statistics::{generator, sample};

/// The stream of the generator that samples documents.
const PURPOSE: u64 = 0x5a3b1e;

/// At most `most` documents, ascending: whole cells in random order while they fit, since an
/// attack on a cell needs all of it. Where not one cell fits, documents of the first one drawn.
pub(super) fn documents(cells: &[u32], most: usize, seed: u64) -> Vec<usize> {
    if cells.len() <= most {
        return (0..cells.len()).collect();
    }
    let count = cells.iter().max().map_or(0, |&last| last as usize + 1);
    let mut members = vec![Vec::new(); count];
    cells.iter().enumerate().for_each(|(row, &cell)| members[cell as usize].push(row));
    members.retain(|rows| !rows.is_empty());
    let mut rng = generator(seed, PURPOSE);
    let order = sample(members.len(), members.len(), &mut rng);
    let mut kept: Vec<usize> = Vec::with_capacity(most);
    for &cell in &order {
        if kept.len() + members[cell].len() <= most {
            kept.extend(&members[cell]);
        }
    }
    if kept.is_empty() {
        let rows = &members[order[0]];
        kept.extend(sample(rows.len(), most, &mut rng).into_iter().map(|at| rows[at]));
    }
    kept.sort_unstable();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_documents_are_all_kept() {
        assert_eq!(documents(&[0, 1, 0], 3, 1), [0, 1, 2]);
    }

    #[test]
    fn cells_are_kept_whole_where_one_fits() {
        let cells: Vec<u32> = (0..1000).map(|row| row * 7 % 50).collect();
        let kept = documents(&cells, 300, 1);
        assert!((280..=300).contains(&kept.len()) && kept.is_sorted(), "{}", kept.len());
        for cell in 0..50 {
            let of = |rows: &[usize]| rows.iter().filter(|&&row| cells[row] == cell).count();
            let all: Vec<usize> = (0..1000).collect();
            assert!(of(&kept) == 0 || of(&kept) == of(&all), "cell {cell}");
        }
        assert_eq!(kept, documents(&cells, 300, 1));
        assert_ne!(kept, documents(&cells, 300, 2));
    }

    #[test]
    fn a_cell_that_is_too_large_is_sampled() {
        let kept = documents(&[0; 100], 10, 1);
        assert!(kept.len() == 10 && kept.is_sorted_by(|a, b| a < b), "{kept:?}");
    }
}

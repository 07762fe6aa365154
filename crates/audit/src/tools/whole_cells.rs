//! Some rows of many, in whole cells.

use rand_core::Rng;

use super::statistics::sample;

/// At most `most` rows, ascending, given the cell of each: whole cells in random order while they fit,
/// since an attack on a cell needs all of it. Where not one cell fits, rows of the first one drawn.
pub fn whole_cells(cells: &[u32], most: usize, rng: &mut impl Rng) -> Vec<usize> {
    if cells.len() <= most {
        return (0..cells.len()).collect();
    }
    let count = cells.iter().max().map_or(0, |&last| last as usize + 1);
    let mut members = vec![Vec::new(); count];
    cells.iter().enumerate().for_each(|(row, &cell)| members[cell as usize].push(row));
    members.retain(|rows| !rows.is_empty());
    let order = sample(members.len(), members.len(), rng);
    let mut kept: Vec<usize> = Vec::with_capacity(most);
    for &cell in &order {
        if kept.len() + members[cell].len() <= most {
            kept.extend(&members[cell]);
        }
    }
    if kept.is_empty() {
        let rows = &members[order[0]];
        kept.extend(sample(rows.len(), most, rng).into_iter().map(|at| rows[at]));
    }
    kept.sort_unstable();
    kept
}

#[cfg(test)]
mod tests {
    use super::super::statistics::generator;
    use super::*;

    fn kept(cells: &[u32], most: usize, seed: u64) -> Vec<usize> {
        whole_cells(cells, most, &mut generator(seed, 1))
    }

    #[test]
    fn few_rows_are_all_kept() {
        assert_eq!(kept(&[0, 1, 0], 3, 1), [0, 1, 2]);
    }

    #[test]
    fn cells_are_kept_whole_where_one_fits() {
        let cells: Vec<u32> = (0..1000).map(|row| row * 7 % 50).collect();
        let some = kept(&cells, 300, 1);
        assert!((280..=300).contains(&some.len()) && some.is_sorted(), "{}", some.len());
        for cell in 0..50 {
            let of = |rows: &[usize]| rows.iter().filter(|&&row| cells[row] == cell).count();
            let all: Vec<usize> = (0..1000).collect();
            assert!(of(&some) == 0 || of(&some) == of(&all), "cell {cell}");
        }
        assert_eq!(some, kept(&cells, 300, 1));
        assert_ne!(some, kept(&cells, 300, 2));
    }

    #[test]
    fn a_cell_that_is_too_large_is_sampled() {
        let some = kept(&[0; 100], 10, 1);
        assert!(some.len() == 10 && some.is_sorted_by(|a, b| a < b), "{some:?}");
    }
}

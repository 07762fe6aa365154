//! The members of every cell.

use super::CellsError;

/// For every cell, its rows in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellLists {
    lists: Vec<Vec<u32>>,
    rows: u32,
}

impl CellLists {
    /// Inverts an assignment of rows to cells.
    ///
    /// # Errors
    /// If an assignment names a cell at or above `count`.
    pub fn new(count: usize, assignments: &[u32]) -> Result<Self, CellsError> {
        let mut lists = Self { lists: vec![Vec::new(); count], rows: 0 };
        assignments.iter().try_for_each(|&cell| lists.push(cell))?;
        Ok(lists)
    }

    /// Adds the next row to a cell.
    ///
    /// # Errors
    /// If there is no such cell.
    pub fn push(&mut self, cell: u32) -> Result<(), CellsError> {
        let (row, count) = (self.rows, self.lists.len());
        let list = self.lists.get_mut(cell as usize).ok_or(CellsError::NoSuchCell {
            row: row as usize,
            cell,
            count,
        })?;
        list.push(row);
        self.rows += 1;
        Ok(())
    }

    /// The number of cells.
    pub fn count(&self) -> usize {
        self.lists.len()
    }

    /// The number of rows in all cells.
    pub fn rows(&self) -> usize {
        self.rows as usize
    }

    /// The rows of one cell, ascending.
    ///
    /// # Panics
    /// If there is no such cell.
    pub fn members(&self, cell: u32) -> &[u32] {
        &self.lists[cell as usize]
    }

    /// The members of every cell, in the order of the cells.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u32]> {
        self.lists.iter().map(Vec::as_slice)
    }
}

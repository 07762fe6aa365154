//! Dropping rows from everything that is kept by row.

/// Rows that are to go, from everything that is kept by row.
pub(crate) struct Removal(Vec<bool>);

impl Removal {
    /// Of `count` rows, these.
    pub(crate) fn new(count: usize, rows: &[u32]) -> Self {
        let mut gone = vec![false; count];
        rows.iter().for_each(|&row| gone[row as usize] = true);
        Self(gone)
    }

    /// Drops the values of these rows, of which each has `width`.
    pub(crate) fn apply<T>(&self, values: &mut Vec<T>, width: usize) {
        let mut at = 0;
        values.retain(|_| {
            let row = at / width;
            at += 1;
            !self.0[row]
        });
    }
}

//! Where the prefix ends and the residual begins.

use thiserror::Error;

/// A prefix width that leaves one of the halves empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the prefix width {prefix} is not between 1 and {} for vectors of width {width}", width.saturating_sub(1))]
pub struct SplitError {
    /// The width of the vectors, `d`.
    pub width: usize,
    /// The prefix width asked for, `d_pub`.
    pub prefix: usize,
}

/// The cut of `d` principal coordinates into `d_pub` that route and `d - d_pub` that are transformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    width: usize,
    prefix: usize,
}

impl Split {
    /// Cuts after `prefix` of `width` coordinates.
    ///
    /// # Errors
    /// Unless `1 <= prefix < width`.
    pub fn new(width: usize, prefix: usize) -> Result<Self, SplitError> {
        if prefix == 0 || prefix >= width {
            return Err(SplitError { width, prefix });
        }
        Ok(Self { width, prefix })
    }

    /// The width of whole vectors, `d`.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The width of the prefix, `d_pub`.
    pub fn prefix(&self) -> usize {
        self.prefix
    }

    /// The width of the residual, `d_priv = d - d_pub`.
    pub fn residual(&self) -> usize {
        self.width - self.prefix
    }

    /// The prefix and the residual of principal coordinates.
    ///
    /// # Panics
    /// If there are not exactly [`width`](Self::width) coordinates.
    pub fn halves<'a, T>(&self, coordinates: &'a [T]) -> (&'a [T], &'a [T]) {
        assert_eq!(coordinates.len(), self.width, "a split is applied to vectors of its own width");
        coordinates.split_at(self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_refuses_an_empty_half() {
        for prefix in [0, 4, 5] {
            assert_eq!(Split::new(4, prefix), Err(SplitError { width: 4, prefix }));
        }
        assert!(
            Split::new(1, 0).is_err() && Split::new(1, 1).is_err() && Split::new(0, 0).is_err()
        );
    }

    #[test]
    fn halves_are_the_coordinates_in_order() {
        let split = Split::new(4, 1).unwrap();
        assert_eq!((split.prefix(), split.residual(), split.width()), (1, 3, 4));
        assert_eq!(split.halves(&[1.0, 2.0, 3.0, 4.0]), (&[1.0][..], &[2.0, 3.0, 4.0][..]));
    }
}

//! Rows that are no documents.
//!
//! A server that answers falsely and watches what the client does next learns about the key of
//! the request. So every request also names a few canaries: rows whose scores the client can
//! compute itself. They are drawn from the epoch's secret, one or more per cell, as a residual
//! with the variances of the documents' and the norm of one of them,
//!
//! ```text
//! r_k = sqrt(lambda_k) g_k ,  scaled to the norm of a random row,  z = T_c r ,
//! ```
//!
//! so to second order they are distributed as documents are. What they cannot imitate is *use*:
//! who watches long enough may notice rows that are asked for independently of their
//! neighbours.

use std::collections::HashSet;

use rand_core::Rng;
use shard_geometry::gaussian::Normals;
use shard_protocol::{Leak, Row, RowHandle, declassify};

use crate::error::ClientError;
use crate::index::Canary;
use crate::keys::{KeyOwner, KeySchedule};
use crate::model::Model;
use crate::payload::{PayloadError, Reader, Writer};

const VERSION: u16 = 1;

/// Canaries of a collection: at least this many in all, and at least one per cell.
const FEWEST: usize = 32;

/// Draws the canaries of a new epoch beside rows whose residuals have these norms.
pub(crate) fn draw_canaries(
    model: &Model,
    keys: &KeySchedule,
    residual_norms: &[f32],
    in_use: &mut HashSet<RowHandle>,
) -> Result<Vec<Canary>, ClientError> {
    let cells = model.cells().map(|cells| cells.count());
    let count = cells.map_or(FEWEST, |cells| cells.max(FEWEST.next_multiple_of(cells)));
    let variances = &model.pca().variances()[model.split().prefix()..];
    (0..count as u32)
        .map(|number| {
            let handle = (0..u32::MAX)
                .map(|attempt| keys.canary_handle(number, attempt))
                .find(|handle| in_use.insert(*handle))
                .expect("four billion words of a canary are not all in use");
            let cell = cells.map(|cells| number % cells as u32);
            let mut words = keys.canary_words(number);
            let at = words.next_u64() % residual_norms.len() as u64;
            let wanted = f64::from(residual_norms[at as usize]);
            let mut residual = vec![0.0; variances.len()];
            Normals::new(&mut words).fill(&mut residual);
            let spread = residual.iter_mut().zip(variances);
            spread.for_each(|(r, variance)| *r *= variance.max(0.0).sqrt());
            let length = norm(residual.iter().copied());
            if length > 0.0 {
                residual.iter_mut().for_each(|r| *r *= wanted / length);
            }
            let owner = cell.map_or(KeyOwner::Row(handle), KeyOwner::Cell);
            model.key(keys, owner).apply(&mut residual);
            let coordinates = model.operand_scale().quantise(&residual)?;
            Ok(Canary { handle, cell, coordinates })
        })
        .collect()
}

fn norm(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|v| v * v).sum::<f64>().sqrt()
}

impl Canary {
    pub(crate) fn owner(&self) -> KeyOwner {
        self.cell.map_or(KeyOwner::Row(self.handle), KeyOwner::Cell)
    }

    /// The row as it is published.
    pub(crate) fn row(&self, keys: &KeySchedule) -> Row {
        Row {
            cell: declassify(keys.cell_handle(self.owner()), Leak::CellMembership),
            handle: self.handle,
            coordinates: self.coordinates.clone(),
        }
    }

    /// Its score for a rotated query, in real units.
    pub(crate) fn score(&self, model: &Model, query: &[f64]) -> f64 {
        let product: f64 =
            query.iter().zip(&self.coordinates).map(|(t, z)| t * f64::from(*z)).sum();
        product * 2_f64.powi(-model.operand_scale().exponent())
    }
}

/// The value of a vault's canaries.
pub(crate) fn encode_canaries(canaries: &[Canary]) -> Vec<u8> {
    let mut writer = Writer::new(VERSION);
    writer.u64(canaries.len() as u64);
    for canary in canaries {
        writer.u64(canary.handle.0);
        writer.u64(canary.cell.map_or(u64::MAX, u64::from));
        writer.i32s(&canary.coordinates);
    }
    writer.bytes
}

/// Reads what [`encode_canaries`] wrote.
pub(crate) fn decode_canaries(bytes: &[u8]) -> Result<Vec<Canary>, PayloadError> {
    let mut reader = Reader::new(bytes, VERSION)?;
    let mut canaries = Vec::new();
    for _ in 0..reader.size()? {
        let handle = RowHandle(reader.u64()?);
        let cell =
            match reader.u64()? {
                u64::MAX => None,
                cell => Some(u32::try_from(cell).map_err(|_| {
                    PayloadError::Invalid("a canary in a cell that cannot be".into())
                })?),
            };
        canaries.push(Canary { handle, cell, coordinates: reader.i32s()? });
    }
    reader.finish()?;
    Ok(canaries)
}

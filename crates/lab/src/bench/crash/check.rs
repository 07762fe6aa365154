//! Asks a server what it holds, and whether it scores it rightly.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use rand::SeedableRng;
use rand::rngs::StdRng;
use shard_client::Transport;
use shard_client::remote::Remote;
use shard_geometry::gaussian::Normals;
use shard_protocol::{
    Candidates, CellHandle, CollectionState, Epoch, Leak, Limits, ListMacs, MessageKind, Refusal,
    RerankRequest, RerankResponse, RowHandle, RowMac, RowMacs, declassify, message_kind,
};
use shard_rlwe::{
    Entropy, Objective, OperandBound, OperandScale, RequestKey, ScoreScale, Workload, plan,
};

use super::ledger::{Versions, row};

/// Why a message was not served.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Nothing came back: the server is gone.
    #[error("no answer: {0}")]
    Gone(String),
    /// The server is there and did not do it.
    #[error("the server refused: {0}")]
    Refused(String),
}

/// Sends a message.
pub fn ask(server: &Remote, message: Vec<u8>) -> Result<Vec<u8>, Failure> {
    let answer = server.exchange(message).map_err(|error| Failure::Gone(error.to_string()))?;
    match message_kind(&answer) {
        Ok(MessageKind::Refusal) => Err(match Refusal::decode(&answer, &Limits::default()) {
            Ok(refusal) => Failure::Refused(refusal.to_string()),
            Err(unreadable) => Failure::Refused(unreadable.to_string()),
        }),
        Ok(_) => Ok(answer),
        Err(unreadable) => Err(Failure::Refused(unreadable.to_string())),
    }
}

/// What it says of a collection.
pub fn state(server: &Remote) -> Result<CollectionState> {
    let answer = ask(server, MessageKind::Describe.bare())?;
    Ok(CollectionState::decode(&answer, &Limits::default())?)
}

/// The MAC of every row of an epoch.
pub fn macs(server: &Remote, epoch: Epoch) -> Result<BTreeMap<u64, RowMac>> {
    let mut all = BTreeMap::new();
    let mut after = None;
    loop {
        let from = after.map(|handle| declassify(handle, Leak::StoredRows));
        let list = ListMacs::new(declassify(epoch, Leak::CollectionShape), from);
        let page = RowMacs::decode(&ask(server, list.encode())?, &Limits::default())?;
        all.extend(page.macs.iter().map(|(handle, mac)| (handle.0, *mac)));
        if !page.is_full() {
            return Ok(all);
        }
        after = page.macs.last().map(|(handle, _)| *handle);
    }
}

/// Scores rows under encryption. Returns how many came back with another score than theirs.
pub fn misscored(server: &Remote, sample: &Versions, epoch: Epoch, width: usize) -> Result<usize> {
    let mut cells: BTreeMap<CellHandle, Vec<(RowHandle, Vec<i32>)>> = BTreeMap::new();
    for (&handle, &version) in sample {
        let row = row(handle, version, epoch, width);
        cells.entry(*row.cell).or_default().push((row.handle, row.coordinates));
    }
    let named = |cell: &Vec<(RowHandle, Vec<i32>)>| cell.iter().map(|(name, _)| *name).collect();
    let candidates = Candidates::new(
        declassify(cells.keys().copied().collect(), Leak::ActiveCells),
        declassify(cells.values().map(named).collect(), Leak::CandidateHandles),
    )?;
    let rows = || cells.values().flatten().map(|(_, coordinates)| coordinates);
    let mut query = vec![0.0; width];
    Normals::new(&mut StdRng::seed_from_u64(epoch.0)).fill(&mut query);
    let norm = query.iter().map(|x| x * x).sum::<f64>().sqrt();
    query.iter_mut().for_each(|x| *x /= norm);

    let groups: Vec<usize> = cells.values().map(Vec::len).collect();
    let bound =
        rows().map(|row| OperandBound::of(row)).fold(OperandBound::new(0.0), OperandBound::max);
    let operands = OperandScale::for_norm(1.0);
    let plan = plan(
        &Workload {
            width,
            groups: &groups,
            operands,
            bound,
            precision: 1e-4,
            keys: None,
            merging: false,
            session_requests: 1,
        },
        Objective::Compute,
    );
    let count = sample.len();
    let scale =
        ScoreScale::for_query(&plan.parameters, &plan.layout, &query, operands, bound, count);
    let queries: Vec<f64> = groups.iter().flat_map(|_| query.iter().copied()).collect();
    let encoded = plan.layout.encode_queries(&queries, scale.query());
    let key = RequestKey::fresh(&plan.parameters, Entropy::from_os()?);
    let (key, seed, ciphertexts) = key.encrypt(&encoded);
    let request = RerankRequest::new(
        declassify(epoch, Leak::CollectionShape),
        declassify((plan.parameters.clone(), plan.layout.clone()), Leak::RequestShape),
        None,
        candidates,
        seed,
        ciphertexts,
    );
    let answer = ask(server, request.encode()).context("rows that are listed are not scored")?;
    let limits = Limits::default();
    let response = RerankResponse::decode(&answer, &plan.parameters, &plan.layout, count, &limits)?;
    let opened = response.responses().iter().flat_map(|response| key.open(response));
    let unit = 2_f64.powi(-operands.exponent());
    let exact = rows()
        .map(|row| row.iter().zip(&query).map(|(&z, q)| f64::from(z) * q).sum::<f64>() * unit);
    let off = |(opened, exact): &(i64, f64)| {
        (scale.to_score(*opened) - exact).abs() > scale.error_bound()
    };
    Ok(opened.zip(exact).filter(off).count())
}

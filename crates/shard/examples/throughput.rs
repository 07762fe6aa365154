//! How fast a vault is searched through a server in this process: what `benches/python-peers` holds the
//! Python package against.
//!
//! `SHARD_PASSPHRASE=... cargo run --release -p shard --example throughput -- VAULT QUERIES.npy`

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use shard::input::read_queries;
use shard::{Retriever, SearchOptions, UNWATCHED, Unlock, Vault};

/// Searches of one query that are timed.
const SINGLE: usize = 60;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(vault), Some(queries)) = (arguments.next(), arguments.next()) else {
        return Err("VAULT and QUERIES.npy are missing".into());
    };
    let unlock = Unlock::passphrase(std::env::var("SHARD_PASSPHRASE")?);
    let queries = read_queries(&queries, None)?;
    let retriever = Retriever::embedded(Vault::open(vault, &unlock)?);
    let options = SearchOptions::default();
    let search = |row: usize| {
        let began = Instant::now();
        retriever.search(queries.vectors().row(row % queries.ids().len()), &options, UNWATCHED)?;
        Ok::<f64, Box<dyn Error>>(began.elapsed().as_secs_f64() * 1e3)
    };
    for row in 0..5 {
        search(row)?;
    }
    let mut single = (0..SINGLE).map(search).collect::<Result<Vec<f64>, _>>()?;
    single.sort_by(f64::total_cmp);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let began = Instant::now();
    retriever.search_many(queries.vectors(), &options, cores, UNWATCHED)?;
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{{\"single_ms\": {:.3}, \"many_per_second\": {:.1}}}",
        single[SINGLE / 2],
        queries.ids().len() as f64 / seconds
    );
    Ok(())
}

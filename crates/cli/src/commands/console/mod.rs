//! `shard console`: one page on this machine to search a vault, and to see what its server saw.

mod answer;
mod audit;
mod serve;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;

use crate::desk::{Desk, DeskArguments};
use crate::output::Output;

#[derive(Args)]
#[command(
    after_help = "A rotated vault takes vectors and knows no encoder: give the one that made them with --encoder."
)]
pub struct Console {
    #[command(flatten)]
    pub desk: DeskArguments,
    /// Port of this machine to serve the page on [default: a free one]
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// Directory that `shard audit --out` left its report in
    #[arg(long, value_name = "DIR", default_value = "audit")]
    pub audit: PathBuf,
}

pub fn run(arguments: &Console, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    let desk = Desk::open(&arguments.desk)?;
    let vault = arguments.desk.vault.vault.display().to_string();
    let page = serve::Page::new(desk, vault, arguments.audit.clone())?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.context("cannot start")?.block_on(async {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.port));
        let listener = tokio::net::TcpListener::bind(address).await;
        let listener = listener.with_context(|| format!("cannot listen on {address}"))?;
        let port = listener.local_addr()?.port();
        let url = format!("http://127.0.0.1:{port}/?token={}", page.token());
        output.line(format!("the console is at {url}"))?;
        output.line("whoever has this address can search the vault; Ctrl-C ends it")?;
        output.result(&json!({ "url": url }))?;
        page.serve(listener).await
    })
}

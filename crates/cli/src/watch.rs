//! `sskp watch`: a live page of runs.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use anyhow::Result;
use sskp_lab::registry::Registry;
use sskp_watch::{Options, Source, serve};

use crate::error::OrUsage;

/// Show runs in the browser while they are written
///
/// Prints the address of a page with curves, violations, speed and time left of every run, which follows what the runs write, and
/// opens finished ones, too. It reads and never writes. It listens to this machine alone unless --host names another address; then the
/// page can be opened only with the token that the printed address has.
#[derive(clap::Args)]
pub struct Args {
    /// Runs, folders of runs (also of some that are yet to come), or TOML files of grids
    #[arg(required = true, value_name = "RUN|FOLDER|GRID")]
    paths: Vec<PathBuf>,
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    host: IpAddr,
    /// Port to listen on; 0 for any that is free
    #[arg(long, default_value_t = 8010)]
    port: u16,
}

impl Args {
    /// Runs the verb.
    pub fn run(self, registry: &Registry) -> Result<()> {
        let source = Source::new(registry, &self.paths).or_usage()?;
        let address = SocketAddr::new(self.host, self.port);
        serve(registry, Options { address, source }, |url| {
            let mut out = std::io::stdout().lock();
            let _ = writeln!(out, "watching at {url} until Ctrl-C").and_then(|()| out.flush());
        })
        .or_usage()
    }
}

//! Says which commit this is built from, for the manifests of runs (`src/manifest.rs`).
//!
//! It runs again only when something changed that makes rows, and then everything here is compiled anyway: a commit alone makes no new
//! binary. So a build from sources that were not committed yet keeps saying so; whoever needs the commit builds after it, or sets
//! `SSKP_COMMIT`.

use std::path::Path;
use std::process::Command;

/// What rows depend on.
const SOURCES: [&str; 6] = ["../blocks", "../mujoco", "../robots", "../methods", "src", "../../Cargo.lock"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=SSKP_COMMIT");
    for path in SOURCES.iter().filter(|path| Path::new(path).exists()) {
        println!("cargo:rerun-if-changed={path}");
    }
    if let Some(commit) = std::env::var("SSKP_COMMIT").ok().filter(|c| !c.is_empty()).or_else(commit) {
        println!("cargo:rustc-env=SSKP_COMMIT={commit}");
    }
}

/// "529da04c01d2", or "529da04c01d2+changes" where sources differ from it; none outside of a repository of ours.
fn commit() -> Option<String> {
    // A copy that lies ignored in somebody else's repository is not of that repository's commit.
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&[&["status", "--porcelain", "--"][..], &SOURCES[..]].concat())?;
    Some(if changed.is_empty() { commit } else { format!("{commit}+changes") })
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
}

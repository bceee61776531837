//! `sskp completions`: what a shell needs to complete verbs, options and names.

use std::io::{Write as _, stdout};
use std::path::Path;

use anyhow::Result;
use clap_complete::Shell;
use sskp_lab::registry::Registry;

/// Print a script that lets a shell complete verbs, options, robots and methods
///
/// For bash: `sskp completions bash > ~/.local/share/bash-completion/completions/sskp`. For zsh: `sskp completions zsh > _sskp` in a folder
/// of $fpath. For fish: `sskp completions fish > ~/.config/fish/completions/sskp.fish`.
#[derive(clap::Args)]
pub struct Args {
    /// The shell
    shell: Shell,
}

impl Args {
    /// Runs the verb.
    pub fn run(self, registry: &Registry) -> Result<()> {
        // A program of somebody's own has a name of its own.
        let program = std::env::args().next().unwrap_or_default();
        let name = Path::new(&program).file_stem().map_or("sskp".into(), |name| name.to_string_lossy().into_owned());
        // Into memory first: the generator takes a closed pipe for a defect.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut crate::command(registry), name, &mut script);
        Ok(stdout().lock().write_all(&script)?)
    }
}

//! Finds or fetches MuJoCo, and compiles `src/shim.c` against its headers.

use anyhow::anyhow;
use sskp_fetch::build::{mujoco, or_exit};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/shim.c");
    let found = mujoco();
    let compiled = cc::Build::new()
        .file("src/shim.c")
        .flag("-std=gnu11")
        .warnings(true)
        // MuJoCo's headers are not ours to warn about.
        .flag(format!("-isystem{}", found.include.display()))
        .try_compile("sskp_mujoco_shim");
    or_exit(compiled.map_err(|error| {
        anyhow!(
            "crates/mujoco/src/shim.c cannot be compiled against {} ({error}): install gcc and the C library's headers (on \
             Debian or Ubuntu: apt install gcc libc6-dev) and run the command again",
            found.include.display()
        )
    }));
    println!("cargo::rustc-link-lib=dl");
    println!("cargo::rustc-env=SSKP_MUJOCO_LIBRARY={}", sskp_fetch::LIBRARY);
    println!("cargo::rustc-env=SSKP_MUJOCO_VERSION={}", sskp_fetch::VERSION);
    println!("cargo::rustc-env=SSKP_MUJOCO_FOLDER={}", found.library.display());
}

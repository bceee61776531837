//! Finds the robots' descriptions, which are compiled in.

fn main() {
    println!("cargo::rustc-env=SSKP_ASSETS={}", sskp_fetch::build::assets().display());
}

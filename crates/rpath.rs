//! Build script of every crate that links MuJoCo: where the loader finds `libmujoco.so.3.17.0` at run time.
//!
//! First beside the executable (`$ORIGIN`), so that a binary copied together with the library keeps running anywhere;
//! then the folder the library was linked from, so that `cargo run` and `cargo test` need no `LD_LIBRARY_PATH`.

fn main() {
    println!("cargo:rerun-if-env-changed=MUJOCO_DYNAMIC_LINK_DIR");
    println!("cargo:rustc-link-arg=-Wl,-rpath,$ORIGIN");
    if let Ok(folder) = std::env::var("MUJOCO_DYNAMIC_LINK_DIR") {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
    }
}

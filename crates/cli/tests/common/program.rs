use std::path::PathBuf;

/// The program: where nextest unpacked it, or where Cargo built it.
pub fn program() -> PathBuf {
    std::env::var_os("NEXTEST_BIN_EXE_sskp").map_or_else(|| env!("CARGO_BIN_EXE_sskp").into(), PathBuf::from)
}

//! The `sskp` program: the command line with the robots and methods of this project.

use std::process::ExitCode;

/// Steps allocate nothing, but learners do, from several threads at once; there mimalloc is faster than the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    sskp::main(&sskp::lab::registry::Registry::standard())
}

//! `sskp watch`: a page that follows runs while they are written.
//!
//! The server reads run directories and writes nothing, anywhere. It looks at files once a second while somebody watches, and not at all while nobody does. What
//! changed goes to the page as server-sent events; curves are drawn here, from at most some hundred points each, however long a run is. Clients name runs by number, never by
//! path, so no request can lead outside of what was asked for on the command line.

mod board;
mod find;
mod guard;
mod page;
mod panel;
mod server;

pub use find::{MOST_FOLDERS, MOST_RUNS, Source};
pub use guard::{Access, token};
pub use server::{Options, serve};

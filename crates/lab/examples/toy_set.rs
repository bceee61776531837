//! Makes the toy's shipped set again: `rm -r data/toy/medium-v0 && cargo run --release -p sskp-lab --example toy_set`.
//!
//! A test holds the shipped numbers to those of [`toy::demonstrations`].

use std::path::Path;

use serde_json::json;
use sskp_blocks::demos::Trajectory;
use sskp_blocks::toy;
use sskp_lab::data::{About, write_minari};
use sskp_lab::wording::set_contents;

/// A third of them shake so much that they fall sooner or later.
const EPISODES: usize = 60;

fn main() -> sskp_blocks::Result<()> {
    let demos = toy::demonstrations(EPISODES);
    let count = |shaken: bool| {
        let of_kind = demos.trajectories().iter().enumerate().filter(|(i, _)| (i % 3 == 0) == shaken);
        let of_kind: Vec<&Trajectory> = of_kind.map(|(_, trajectory)| trajectory).collect();
        json!({ "episodes": of_kind.len(), "violations": of_kind.iter().filter(|t| t.violates()).count() })
    };
    let provenance = json!({
        "made_by": concat!("sskp ", env!("CARGO_PKG_VERSION")),
        "simulator": "the toy's own equations",
        "command": "cargo run --release -p sskp-lab --example toy_set",
        "seed": 0,
        "actions": "of a driver written by hand: half throttle, and steering that shakes",
        "calm": count(false),
        "disturbed": count(true),
    });
    let about = About {
        algorithm: "written by hand".into(),
        description: "Episodes of the toy played by a careful driver at half throttle whose steering shakes, and so much in every third \
                      episode that most of these end off the bridge. A violation of the safety constraint ends an episode with \
                      infos/cost 1 at its last step; the cost of step t is infos/cost[t + 1]."
            .into(),
        provenance: provenance.as_object().expect("an object").clone(),
    };
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    let folder = write_minari(&data, "toy/medium-v0", &demos, &[], &about)?;
    println!("{}\nwrote {}", set_contents(&demos), folder.display());
    Ok(())
}

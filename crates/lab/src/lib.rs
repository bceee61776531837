//! Run directories, settings, training and evaluation, demonstrations, recordings: what lies between the methods and the
//! command line.
//!
//! ```
//! use sskp_lab::config::{Config, Overrides, RunConfig};
//! use sskp_lab::evaluate;
//! use sskp_lab::registry::Registry;
//! use sskp_lab::replay_page::write_html;
//! use sskp_lab::report::Report;
//! use sskp_lab::run_rows::RunRows;
//! use sskp_lab::train::{self, Session};
//!
//! # let folder = std::env::temp_dir().join(format!("sskp-lab-example-{}", std::process::id()));
//! // Your own environments and methods are added to the registry.
//! let registry = Registry::standard();
//! let settings = Overrides::of(&["sac.random_steps=100", "sac.batch=16", "sac.learner.width=16"])?;
//! let config = Config::resolve(&registry, RunConfig::new("sac", "toy", 0, 300), &settings)?;
//!
//! let run = folder.join("run"); // or `config.default_folder()`
//! let summary = train::train(&config, &run, Session { quiet: true, ..Session::of(&registry) })?;
//! assert_eq!((summary.steps, summary.finished), (300, true));
//!
//! let mut trained = evaluate::load_policy(&registry, &run, |_refused| ())?;
//! let watched = evaluate::watch(&mut trained, 2, 1, false, true)?; // two episodes, recorded
//! assert_eq!(watched.rows.len(), 2);
//! let page = watched.episodes[0].clone().into_page(&trained.env, "SAC after 300 steps");
//! write_html(&page, &folder.join("replay.html"))?;
//!
//! let report = Report::new(&registry, &[RunRows::read(&run)?], None)?;
//! assert!(report.markdown().contains("SAC"));
//! # std::fs::remove_dir_all(folder).unwrap();
//! # Ok::<(), sskp_blocks::Error>(())
//! ```
//!
//! | to | there is |
//! |---|---|
//! | name environments and methods, your own among them | [`registry::Registry`] |
//! | choose settings | [`config::Config`], [`config::Overrides`] |
//! | train, go on, look at what came out | [`train::train`], [`train::resume`], [`evaluate::load_policy`], [`evaluate::watch`] |
//! | use a policy in a loop of your own | [`evaluate::Trained`]; `examples/control_loop.rs` |
//! | read and write demonstrations | [`data`] |
//! | run grids | [`sweep::Sweep`] |
//! | compare runs | [`run_rows::RunRows`], [`report::Report`] |
//! | look at what went wrong | [`violations`], [`fall_study`] |
//! | watch an episode | [`rollout::Recording`], [`replay_page`] |
//! | draw | [`chart::Chart`] |

pub mod absent;
pub mod chart;
pub mod config;
pub mod control;
pub mod data;
pub mod display;
pub mod episodes;
pub mod evaluate;
pub mod events;
pub mod export;
pub mod fall_study;
pub mod levels;
pub mod manifest;
pub mod markup;
pub mod onnx;
pub mod places;
pub mod plan_study;
pub mod registry;
pub mod replay_page;
pub mod report;
pub mod rollout;
pub mod run_dir;
pub mod run_page;
pub mod run_rows;
pub mod skills;
pub mod stats;
pub mod sweep;
pub mod train;
pub mod verify;
pub mod video;
pub mod violations;
pub mod wording;

//! Fitting a skill model by itself, for runs that name it.

use std::sync::atomic::Ordering;

use sskp_blocks::demos::Demonstrations;
use sskp_blocks::{Error, Result};
use sskp_methods::sskp::skill_files::{self, FittedSkills, SkillFiles};

use crate::config::Config;
use crate::display::Display;
use crate::train::{Session, build, demonstrations};

/// The skill model for the demonstrations and the settings of a configuration: the one that is kept, or one fitted now; and the
/// demonstrations. None where it was asked to stop meanwhile: with a cache the same fit goes on at the next call.
pub fn fit(config: &mut Config, session: &Session) -> Result<Option<(FittedSkills, Demonstrations)>> {
    let (env, _) = build(&session.registry, config, None)?; // says what is wrong with the settings
    let Some(settings) = session.registry.method(&config.run.algo)?.skills else {
        return Err(Error::other(format!("{} has no skill model", config.run.algo)));
    };
    let settings = settings(&config.method_toml())?;
    let (demos, doubts) = demonstrations(&mut config.run, &*env)?;
    doubts.warn();
    let warn = |text: &str| eprintln!("warning: {text}");
    let files = SkillFiles { named: None, cache: session.cache.clone(), warn };
    let mut display = Display::new(0, "steps", session.quiet);
    let mut stopped = false;
    let fitted = skill_files::obtain(&settings, &demos, &files, &mut |stage, done, total| {
        display.stage(stage, done, total);
        stopped = session.stop.load(Ordering::Relaxed);
        if stopped { Err(Error::other("stopped")) } else { Ok(()) }
    });
    display.finish();
    if stopped { Ok(None) } else { fitted.map(|fitted| Some((fitted, demos))) }
}

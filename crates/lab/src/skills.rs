//! Fitting a skill model by itself, for runs that name it.

use sskp_methods::sskp::SskpConfig;
use sskp_methods::sskp::artifact::{self, Files, Fitted};

use sskp_blocks::demos::Demonstrations;
use sskp_blocks::{Error, Result};

use crate::config::Config;
use crate::run_dir::Display;
use crate::train::{Session, build, demonstrations};

/// The skill model for the demonstrations and the settings `[sskp.skill]` of a configuration: the one that is kept, or one
/// fitted now; and the demonstrations.
pub fn fit(config: &mut Config, session: &Session) -> Result<(Fitted, Demonstrations)> {
    let (env, _) = build(&session.registry, config, None)?; // says what is wrong with the settings
    let settings: SskpConfig = toml::from_str(&config.method_toml())
        .map_err(|e| Error::other(format!("{} has no skill model: {}", config.run.algo, e.message())))?;
    let demos = demonstrations(&mut config.run, env.spec())?;
    let warn = |text: &str| eprintln!("warning: {text}");
    let files = Files { named: None, cache: session.cache.clone(), warn };
    let mut display = Display::new(0, session.quiet);
    let fitted = artifact::obtain(&settings.skill, &demos, &files, &mut |stage, done, total| {
        display.stage(stage, done, total);
        Ok(())
    })?;
    display.finish();
    Ok((fitted, demos))
}

//! Skill models as files: fitted, kept, found, named and refused.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use sskp_blocks::checkpoint::{Saver, write_single};
use sskp_blocks::demos::Demonstrations;
use sskp_blocks::env::Env;
use sskp_blocks::toy::{Toy, demonstrations};
use sskp_blocks::{Error, Result};
use sskp_methods::sskp::decoder::DecoderKind;
use sskp_methods::sskp::planner::Planning;
use sskp_methods::sskp::skill_files::{FittedSkills, SkillFiles, obtain};
use sskp_methods::sskp::{SkillConfig, Sskp, SskpConfig};
use sskp_methods::{Method, Setup};

fn config() -> SkillConfig {
    SkillConfig { hidden: 8, prior_width: 8, prior_layers: 1, batch: 8, steps: 30, ..Default::default() }
}

fn files(cache: Option<PathBuf>, named: Option<PathBuf>) -> SkillFiles {
    SkillFiles { named, cache, warn: |text| panic!("{text}") }
}

fn fit(config: &SkillConfig, demos: &Demonstrations, files: &SkillFiles) -> Result<FittedSkills> {
    obtain(config, demos, files, &mut |_, _, _| Ok(()))
}

fn bytes(fitted: &FittedSkills, folder: &Path) -> Vec<u8> {
    let path = folder.join("model.safetensors");
    fitted.write(&path).unwrap();
    fs::read(path).unwrap()
}

fn kept(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder.join("skills")).into_iter().flatten().map(|e| e.unwrap().path()).collect()
}

#[test]
fn fitted_kept_found_or_named_it_is_the_same_model() {
    let dir = tempfile::tempdir().unwrap();
    let demos = demonstrations(6);
    let fresh = fit(&config(), &demos, &files(None, None)).unwrap();
    let keeping = files(Some(dir.path().into()), None);
    let first = fit(&config(), &demos, &keeping).unwrap();
    let second = fit(&config(), &demos, &keeping).unwrap();
    assert_eq!((first.found.is_some(), second.found.is_some()), (false, true));
    assert_eq!((first.kept.clone(), kept(dir.path())), (second.found.clone(), vec![first.kept.clone().unwrap()]));
    let named = fit(&config(), &demos, &files(None, first.kept.clone())).unwrap();
    for other in [&first, &second, &named] {
        assert_eq!(fresh.held_out, other.held_out);
        assert!(bytes(&fresh, dir.path()) == bytes(other, dir.path()));
    }
    // Another seed, other settings and other demonstrations are other models; the named one is taken whatever it was fitted to.
    for (config, demos) in [
        (SkillConfig { seed: 1, ..config() }, &demos),
        (SkillConfig { beta: 0.1, ..config() }, &demos),
        (config(), &demonstrations(7)),
    ] {
        let other = fit(&config, demos, &keeping).unwrap();
        assert!(other.found.is_none() && bytes(&fresh, dir.path()) != bytes(&other, dir.path()));
    }
    assert_eq!(kept(dir.path()).len(), 4);
    let named = fit(&config(), &demonstrations(7), &files(None, first.kept.clone())).unwrap();
    assert!(bytes(&fresh, dir.path()) == bytes(&named, dir.path()));
}

#[test]
fn a_learner_of_any_seed_has_the_same_skills_and_the_same_bytes_with_and_without_a_kept_model() {
    let dir = tempfile::tempdir().unwrap();
    let demos = demonstrations(6);
    let learn = |seed: u64, cache: Option<&Path>| {
        let mut config = SskpConfig { skill: config(), ..SskpConfig::default() };
        config.planner.planning = Planning::Risk;
        (config.risk.width, config.risk.steps, config.policy.learner.width) = (8, 20, 8);
        let setup = Setup { cache: cache.map(PathBuf::from), ..Setup::new("sskp", seed, 1) };
        let mut method = Sskp::new(Toy::default().spec(), config, setup).unwrap();
        let report = method.pretrain(&demos, &mut |_, _, _| Ok(())).unwrap();
        let path = dir.path().join("learner.safetensors");
        let mut to = Saver::default();
        method.save(&mut to);
        write_single(&path, &to).unwrap();
        (report.figure("skills", "reconstruction").unwrap(), fs::read(path).unwrap())
    };
    let without = learn(1, None);
    assert!(without == learn(1, Some(dir.path())), "fitted and kept");
    assert!(without == learn(1, Some(dir.path())), "found");
    let other = learn(2, Some(dir.path()));
    assert_eq!(kept(dir.path()).len(), 1, "one model for both seeds");
    assert_eq!(without.0, other.0);
    assert!(without.1 != other.1, "the rest of the learner depends on the seed");
}

#[test]
fn a_damaged_kept_model_is_made_anew_with_one_warning() {
    static WARNINGS: AtomicUsize = AtomicUsize::new(0);
    let dir = tempfile::tempdir().unwrap();
    let demos = demonstrations(6);
    let warn = |text: &str| {
        assert!(text.contains("damaged") && text.contains("made anew"), "{text}");
        WARNINGS.fetch_add(1, Ordering::Relaxed);
    };
    let keeping = SkillFiles { warn, ..files(Some(dir.path().into()), None) };
    let first = fit(&config(), &demos, &keeping).unwrap();
    let path = first.kept.clone().unwrap();
    let whole = fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    for (i, broken) in [&flipped[..], &whole[..100], b""].into_iter().enumerate() {
        fs::write(&path, broken).unwrap();
        let again = fit(&config(), &demos, &keeping).unwrap();
        assert!(again.found.is_none() && WARNINGS.load(Ordering::Relaxed) == i + 1);
        assert!(fs::read(&path).unwrap() == whole, "it is mended");
    }
}

#[test]
fn a_folder_that_cannot_be_written_keeps_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let demos = demonstrations(6);
    fs::write(dir.path().join("file"), "in the way").unwrap();
    let fitted = fit(&config(), &demos, &files(Some(dir.path().join("file")), None)).unwrap();
    assert!(fitted.kept.is_none());
    assert!(stopped_at(5, &config(), &demos, &files(Some(dir.path().join("file")), None)));
}

/// Whether a fit that was asked to stop after this many steps did.
fn stopped_at(step: u64, config: &SkillConfig, demos: &Demonstrations, files: &SkillFiles) -> bool {
    let stop = |_, done, _| if done == step { Err(Error::other("stopped")) } else { Ok(()) };
    obtain(config, demos, files, &mut { stop }).is_err()
}

#[test]
fn an_interrupted_fit_is_kept_and_gone_on_with_to_the_same_bytes() {
    let demos = demonstrations(6);
    for decoder in [DecoderKind::ClosedLoop, DecoderKind::OpenLoop] {
        let dir = tempfile::tempdir().unwrap();
        let config = SkillConfig { decoder, ..config() };
        let unbroken = fit(&config, &demos, &files(None, None)).unwrap();
        let keeping = files(Some(dir.path().into()), None);
        // Early, again after a few steps more, and after the last one.
        for step in [5, 12, 30] {
            assert!(stopped_at(step, &config, &demos, &keeping));
            assert_eq!(kept(dir.path()).len(), 1, "one file is left behind");
        }
        // Another fit is not confused by it.
        let other = SkillConfig { seed: 1, ..config.clone() };
        assert!(stopped_at(3, &other, &demos, &keeping));
        let mut steps = Vec::new();
        let whole = obtain(&config, &demos, &keeping, &mut |_, step, _| {
            steps.push(step);
            Ok(())
        });
        let whole = whole.unwrap();
        assert!(steps.is_empty(), "all steps were made before: {steps:?}");
        assert_eq!(whole.held_out, unbroken.held_out);
        assert!(bytes(&whole, dir.path()) == bytes(&unbroken, dir.path()), "{decoder:?}");
        // The whole model stands in its place; the other fit is still under way.
        let mut names = kept(dir.path());
        names.retain(|path| *path != whole.kept.clone().unwrap());
        assert!(names.len() == 1 && names[0].to_string_lossy().ends_with(".under-way.safetensors"), "{names:?}");
    }
}

#[test]
fn a_damaged_unfinished_fit_is_ignored_with_one_warning() {
    static WARNINGS: AtomicUsize = AtomicUsize::new(0);
    let dir = tempfile::tempdir().unwrap();
    let demos = demonstrations(6);
    let warn = |text: &str| {
        assert!(text.contains("unfinished skill model") && text.contains("begins anew"), "{text}");
        WARNINGS.fetch_add(1, Ordering::Relaxed);
    };
    let unbroken = fit(&config(), &demos, &files(None, None)).unwrap();
    let keeping = SkillFiles { warn, ..files(Some(dir.path().into()), None) };
    assert!(stopped_at(5, &config(), &demos, &keeping));
    let path = kept(dir.path()).pop().unwrap();
    let mut broken = fs::read(&path).unwrap();
    let middle = broken.len() / 2;
    broken[middle] ^= 1;
    fs::write(&path, &broken).unwrap();
    let whole = fit(&config(), &demos, &keeping).unwrap();
    assert_eq!(WARNINGS.load(Ordering::Relaxed), 1);
    assert!(bytes(&whole, dir.path()) == bytes(&unbroken, dir.path()));
    assert_eq!(kept(dir.path()), [whole.kept.unwrap()], "and is gone");
}

#[test]
fn a_model_that_came_apart_is_an_error_and_is_not_kept() {
    let dir = tempfile::tempdir().unwrap();
    let wild = SkillConfig { rate: 1e30, ..config() };
    let error = fit(&wild, &demonstrations(6), &files(Some(dir.path().into()), None)).err().unwrap().to_string();
    assert!(error.contains("not finite") && kept(dir.path()).is_empty(), "{error}");
}

#[test]
fn a_foreign_model_is_refused_by_what_does_not_fit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mine.safetensors");
    let demos = demonstrations(6);
    fit(&config(), &demos, &files(None, None)).unwrap().write(&path).unwrap();
    let named = files(None, Some(path.clone()));
    let refused = |config: SkillConfig, obs: usize| named.refuse_named(&config, obs, 2).unwrap_err().to_string();
    named.refuse_named(&config(), 5, 2).unwrap();
    let horizon = refused(SkillConfig { horizon: 8, ..config() }, 5);
    assert!(
        horizon.contains("skill.horizon = 10, this run has 8") && horizon.contains("mine.safetensors"),
        "{horizon}"
    );
    assert!(refused(config(), 11).contains("5 observations and 2 actions, this one has 11 observations"));
    fs::write(&path, "no model").unwrap();
    assert!(refused(config(), 5).contains("mine.safetensors: it is damaged"));
    // The learner says so before it does anything.
    let config = SskpConfig { skill: config(), ..SskpConfig::default() };
    let setup = Setup { skills: Some(path), ..Setup::new("sskp", 0, 1) };
    let method = Sskp::new(Toy::default().spec(), config, setup).unwrap();
    assert!(method.accepts(&demos).unwrap_err().to_string().contains("mine.safetensors"));
}

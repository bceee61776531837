//! The shipped grids, and the published values of the rivals that they are made of.

#[path = "../../../tests/root.rs"]
mod root;

use std::path::PathBuf;

use sskp_lab::config::{Config, Overrides, RunConfig};
use sskp_lab::registry::Registry;
use sskp_lab::sweep::Sweep;
use toml::Value;

fn configs() -> PathBuf {
    root::repository().join("configs")
}

/// A method's setting, its keys joined by dots.
fn setting(config: &Config, path: &str) -> f64 {
    let (table, key) = path.rsplit_once('.').map_or((None, path), |(table, key)| (Some(table), key));
    let table = table.map_or(&config.method, |name| config.method[name].as_table().unwrap());
    table[key].as_float().unwrap_or_else(|| panic!("{path} is no number"))
}

#[test]
fn published_values_are_those_of_their_robot_and_of_no_other() {
    let registry = Registry::standard();
    let of = |method: &str, robot: &str, file: &str| {
        let mut overrides = Overrides::default();
        overrides.file(&configs().join(file)).unwrap();
        Config::resolve(&registry, RunConfig::new(method, robot, 0, 100), &overrides).unwrap()
    };
    // γ_safe and ε_safe of github.com/jajajag/recovery-rl.
    for (robot, gamma, threshold) in
        [("ant", 0.6, 0.2), ("cheetah", 0.5, 0.2), ("hopper", 0.6, 0.3), ("humanoid", 0.6, 0.4), ("toy", 0.8, 0.3)]
    {
        let config = of("recovery-rl", robot, "recovery-rl-published.toml");
        let pair = (setting(&config, "risk.gamma"), setting(&config, "risk.threshold"));
        assert_eq!(pair, (gamma, threshold), "{robot}");
    }
    // Target entropies of Safe-MBPO; the toy is a robot they did not have.
    for (robot, entropy) in [("ant", 4.0), ("cheetah", 3.0), ("hopper", 1.0), ("humanoid", 2.0), ("toy", 1.0)] {
        let actions = registry.make_env(robot, Default::default()).unwrap().spec().action_dim as f64;
        let config = of("smbpo", robot, "smbpo-published.toml");
        let target = setting(&config, "learner.entropy_per_action") * actions;
        assert!((target - entropy).abs() < 1e-12, "{robot}: {target}");
    }
}

#[test]
fn the_grids_settings_of_each_rival_on_each_robot_are_the_chosen_ones() {
    let registry = Registry::standard();
    let out = tempfile::tempdir().unwrap();
    let grid = |file: &str| Sweep::read(&registry, &configs().join(file), Some(out.path())).unwrap();
    let find = |sweep: &Sweep, method: &str, robot: &str| {
        let is = |c: &Config| (c.run.algo.as_str(), c.run.env.as_str()) == (method, robot);
        sweep.cells.iter().map(|cell| &cell.config).find(|config| is(config)).unwrap().clone()
    };
    let paper = grid("paper.toml");
    for (robot, recovery, entropy_per_action, cost) in [
        ("ant", (0.9, 0.3), 0.5, 1.0),
        ("cheetah", (0.95, 0.3), 0.5, 0.3),
        ("hopper", (0.6, 0.3), 1.0 / 3.0, 1.0),
        ("humanoid", (0.9, 0.5), 2.0 / 17.0, 0.3),
    ] {
        let config = find(&paper, "recovery-rl", robot);
        assert_eq!((setting(&config, "risk.gamma"), setting(&config, "risk.threshold")), recovery, "{robot}");
        assert_eq!((setting(&config, "risk.tau"), setting(&config, "updates_per_step")), (0.005, 0.1), "{robot}");
        assert_eq!(config.method["learner"]["auto_alpha"], Value::Boolean(true));
        let config = find(&paper, "smbpo", robot);
        assert_eq!(setting(&config, "learner.entropy_per_action"), entropy_per_action, "{robot}");
        assert_eq!((setting(&config, "violation_cost"), setting(&config, "updates_per_step")), (cost, 0.1), "{robot}");
        assert_eq!(setting(&find(&paper, "sac", robot), "updates_per_step"), 0.1);
    }
    let native = grid("native.toml");
    let config = find(&native, "smbpo", "hopper");
    assert_eq!((setting(&config, "learner.entropy_per_action"), setting(&config, "violation_cost")), (1.0 / 3.0, 0.0));
    assert_eq!(setting(&config, "updates_per_step"), 10.0);
}

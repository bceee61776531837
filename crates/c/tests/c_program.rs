//! The library as C has it: programs compiled by the C compiler against the header and the static library.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sskp_lab::config::{Config, Overrides, RunConfig};
use sskp_lab::control::Policy;
use sskp_lab::registry::Registry;
use sskp_lab::train::{Session, train};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The static library that was built together with this test.
fn library() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let files = here.parent().unwrap().read_dir().unwrap().flatten().map(|entry| entry.path());
    let named = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with("libsskp_policy") && name.ends_with(".a")
    };
    files.filter(named).max_by_key(|path| path.metadata().unwrap().modified().unwrap()).expect("a static library")
}

fn compile(source: &str, program: &Path, library: &Path, more: &[&str]) {
    let mut cc = Command::new("cc");
    cc.args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-O2"]).arg(root().join(source)).args(more);
    cc.arg("-I").arg(root().join("crates/c/include")).arg(library).args(["-lpthread", "-ldl", "-lm"]);
    let output = cc.arg("-o").arg(program).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn run(program: &Path, words: &[&Path]) -> (Output, String) {
    let output = Command::new(program).args(words).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, text)
}

fn trained(folder: &Path, algo: &str, settings: &[&str]) -> PathBuf {
    let registry = Registry::standard();
    let overrides = Overrides::of(settings).unwrap();
    let config = Config::resolve(&registry, RunConfig::new(algo, "toy", 0, 120), &overrides).unwrap();
    let path = folder.join(format!("{algo}-{}", settings.len()));
    train(&config, &path, Session { quiet: true, ..Session::of(&registry) }).unwrap();
    path
}

const SKILLS: [&str; 3] = ["sskp.skill.steps=20", "sskp.risk.steps=20", "sskp.risk.calibrate=false"];

// One test, so that the library is built once.
#[test]
fn the_example_acts_as_the_policy_does_here_and_nothing_is_allocated_after_the_load() {
    let folder = tempfile::tempdir().unwrap();
    let (library, folder) = (library(), folder.path());
    let sskp = trained(folder, "sskp", &SKILLS);

    let example = folder.join("control_loop");
    compile("examples/control_loop.c", &example, &library, &[]);
    let (output, text) = run(&example, &[&sskp, Path::new("25")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut policy = Policy::load(&sskp).unwrap();
    let (mut lines, mut action) = (text.lines(), [0.0f32; 2]);
    for step in 0..25usize {
        let observation: Vec<f32> = (0..5).map(|i| 0.1 * ((step * 7 + i * 13) % 11) as f32 - 0.5).collect();
        policy.act(&observation, &mut action).unwrap();
        if step < 3 || step == 24 {
            let line = lines.next().unwrap();
            let said: Vec<f32> = line.split(' ').skip(2).filter_map(|word| word.parse().ok()).collect();
            assert!(said.len() == 3 && line.contains("risk"), "{line}");
            assert!(said.iter().zip(action).all(|(a, b)| (a - b).abs() < 2e-6), "{line}: {action:?}");
        }
    }
    // What is wrong is said in a sentence, and nothing else happens.
    let (output, _) = run(&example, &[&folder.join("nowhere")]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && said.contains("nowhere") && said.lines().count() == 1, "{said}");

    let count = folder.join("count");
    let wrapped = "-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=posix_memalign,--wrap=aligned_alloc";
    compile("crates/c/tests/count.c", &count, &library, &[wrapped]);
    let open = [SKILLS.as_slice(), &["sskp.skill.decoder=open-loop"]].concat();
    for run_of in [
        sskp,
        trained(folder, "sskp-np", &SKILLS),
        trained(folder, "sskp", &open),
        trained(folder, "sac", &["sac.random_steps=50"]),
        trained(folder, "recovery-rl", &["recovery-rl.risk.offline_updates=20"]),
    ] {
        let (output, text) = run(&count, &[&run_of]);
        assert!(output.status.success(), "{}: {text} {:?}", run_of.display(), output.status);
    }
}

//! Cells of a grid, one process each, as schedulers run them: many at once, stopped, killed, refused.

#[path = "common/runs.rs"]
mod runs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use runs::{ENDLESS, assert_same, checkpoint, finished, on_a_leash, program, signal, wait_while_it_runs};

/// A grid of safe and unsafe SAC on the toy, with as many seeds.
fn grid(folder: &Path, seeds: u64, steps: u64) -> PathBuf {
    let seeds: Vec<u64> = (0..seeds).collect();
    let small = "random_steps = 100\nbatch = 8\nlearner.width = 8\n";
    let text = format!(
        "out = \"runs\"\nsteps = {steps}\nseeds = {seeds:?}\n[set.run]\ncheckpoint_every = 100\n[set.sac]\n{small}[set.ssac]\n{small}\
         [[cells]]\nrobots = [\"toy\"]\nmethods = [\"sac\", \"ssac\"]\n"
    );
    let file = folder.join("grid.toml");
    fs::write(&file, text).unwrap();
    file
}

fn sweep(file: &Path, out: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.arg("sweep").arg(file).arg("--quiet").arg("--out").arg(out).args(more);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Exit code, standard output, standard error.
fn ended(output: Output) -> (i32, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().expect("not killed"), text(output.stdout), text(output.stderr))
}

fn run(mut command: Command) -> (i32, String, String) {
    ended(command.output().unwrap())
}

#[test]
fn of_200_processes_at_once_every_cell_is_run_by_exactly_one() {
    let dir = tempfile::tempdir().unwrap();
    let file = grid(dir.path(), 10, 300);
    let (whole, out) = (dir.path().join("whole"), dir.path().join("out"));
    let (code, _, text) = run(sweep(&file, &whole, &["--jobs", "2"]));
    assert_eq!(code, 0, "{text}");
    // Ten for each of 20 cells, those of a cell far apart and close together.
    let start = |i: usize| sweep(&file, &out, &["--cell", &(i % 20).to_string()]).spawn().unwrap();
    let all: Vec<Child> = (0..200).map(start).collect();
    let mut ran = [0; 20];
    for (i, child) in all.into_iter().enumerate() {
        let (code, said, error) = ended(child.wait_with_output().unwrap());
        match code {
            0 if said.ends_with("was finished already\n") => {}
            0 => ran[i % 20] += 1,
            75 => assert!(error.contains("is being run by process"), "{error}"),
            _ => panic!("exit code {code}: {error}"),
        }
    }
    assert_eq!(ran, [1; 20], "how often each was run to its end");
    for method in ["sac", "ssac"] {
        for seed in 0..10 {
            let run = format!("toy/{method}/seed-{seed}");
            assert_same(&whole.join(&run), &out.join(&run), &run);
        }
    }
    let (code, list, _) = run(sweep(&file, &out, &["--list"]));
    assert_eq!((code, list.lines().count()), (0, 20));
    assert!(list.lines().all(|line| line.contains(" finished ")), "{list}");
}

#[test]
fn a_cell_that_is_stopped_says_so_and_one_that_is_killed_goes_on_with_the_same_rows() {
    let dir = tempfile::tempdir().unwrap();
    let endless = grid(dir.path(), 1, ENDLESS);
    let out = dir.path().join("out");
    let folder = out.join("toy/sac/seed-0");
    let mut codes = Vec::new();
    for name in ["TERM", "USR1", "KILL"] {
        let before = checkpoint(&folder);
        let (mut child, _leash) = on_a_leash(sweep(&endless, &out, &["--cell", "0"]));
        wait_while_it_runs(&mut child, "a checkpoint", || checkpoint(&folder) > before);
        let (code, status, _) = run(sweep(&endless, &out, &["--status"]));
        assert!(code == 0 && status.contains(&format!("process {} on ", child.id())), "{status}");
        assert!(status.contains("0 of 2 finished, 1 running, 1 new"), "{status}");
        // A second one leaves it alone, and says who has it.
        let (code, _, text) = run(sweep(&endless, &out, &["--cell", "0"]));
        assert!(code == 75 && text.contains(&format!("is being run by process {}", child.id())), "{text}");
        signal(name, child.id());
        codes.push(child.wait().unwrap().code());
    }
    assert_eq!(codes, [Some(75), Some(75), None]);
    let (_, status, _) = run(sweep(&endless, &out, &["--status"]));
    assert!(status.contains("stopped") && status.contains("1 stopped, 1 new"), "{status}");
    // What was stopped twice and killed once has the bytes of a run that was not.
    let steps = (checkpoint(&folder).unwrap() + 150).to_string();
    let sskp =
        |args: &[&str]| assert!(Command::new(program()).args(args).arg("--quiet").output().unwrap().status.success());
    let (stopped, whole) = (folder.to_str().unwrap(), dir.path().join("whole"));
    sskp(&["resume", stopped, "-n", &steps]);
    let settings = format!("{stopped}/cell.toml");
    let budget = format!("run.total_steps={steps}");
    let train = ["train", "--algo", "sac", "--env", "toy", "--config", &settings, "--set", &budget, "-n", &steps];
    sskp(&[&train[..], &["--log-dir", whole.to_str().unwrap()]].concat());
    assert!(finished(&whole));
    assert_same(&whole, &folder, "stopped and killed");
}

#[test]
fn a_cell_that_fails_says_with_what_and_the_next_try_clears_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = grid(dir.path(), 1, 300);
    let out = dir.path().join("out");
    let blocked = out.join("toy/sac/seed-0/episodes.csv");
    fs::create_dir_all(&blocked).unwrap();
    let (code, _, text) = run(sweep(&file, &out, &["--cell", "0"]));
    assert!(code == 1 && text.contains("episodes.csv"), "{text}");
    let (_, status, _) = run(sweep(&file, &out, &["--status"]));
    assert!(
        status.contains("failed") && status.contains("episodes.csv") && status.contains("1 failed, 1 new"),
        "{status}"
    );
    fs::remove_dir(blocked).unwrap();
    let (code, said, text) = run(sweep(&file, &out, &["--cell", "0"]));
    assert_eq!((code, said.as_str()), (0, "sac on toy, seed 0 finished\n"), "{text}");
    // The report of a grid that is not done says what is missing.
    let page = dir.path().join("report.html");
    let report = Command::new(program()).arg("report").arg(&out).arg("--out").arg(&page).output().unwrap();
    let text = String::from_utf8(report.stderr).unwrap();
    assert!(
        report.status.success() && text.contains("1 run of the grid has no rows yet: ssac on toy, seed 0"),
        "{text}"
    );
    assert!(fs::read_to_string(page).unwrap().contains("no rows yet"));
}

#[test]
fn what_cannot_work_is_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let file = grid(dir.path(), 2, 300);
    let out = dir.path().join("out");
    let refused = |command: Command, parts: &[&str]| {
        let (code, _, text) = run(command);
        assert_eq!((code, text.lines().count()), (2, 1), "{text}");
        assert!(parts.iter().all(|part| text.contains(part)), "no {parts:?} in {text}");
    };
    refused(sweep(&file, &out, &["--cell", "4"]), &["there is no cell 4", "numbered 0 to 3"]);
    assert!(!out.exists());
    assert_eq!(run(sweep(&file, &out, &["--cell", "0"])).0, 0);
    // Two grids in one folder.
    let fewer = grid(dir.path(), 1, 300);
    refused(
        sweep(&fewer, &out, &["--cell", "0"]),
        &["holds another grid", "cell 2 was \"sac on toy, seed 1\"", "--out"],
    );
    let file = grid(dir.path(), 2, 300);
    // No scheduler; a template that has lost its way.
    let mut nowhere = sweep(&file, &out, &["--engine", "slurm"]);
    nowhere.env("PATH", "/nowhere");
    refused(nowhere, &["no Slurm here", "was not found", "--dry-run"]);
    let template = dir.path().join("own.sh");
    let own = ["--engine", "slurm", "--dry-run", "--template", template.to_str().unwrap()];
    refused(sweep(&file, &out, &own), &["own.sh"]);
    fs::write(&template, "#SBATCH --array={{array}}\n{{program}} {{grid}} {{out}} {{cores}}\n").unwrap();
    refused(sweep(&file, &out, &own), &["own.sh", "{{cores}} is nothing that is filled in", "threads"]);
    fs::write(&template, "{{program}} {{grid}} {{out}}\n").unwrap();
    refused(sweep(&file, &out, &own), &["own.sh", "{{array}} stands nowhere in it"]);
    refused(sweep(&file, &out, &["--engine", "kubernetes"]), &["--dry-run", "kubectl"]);
}

/// A Slurm of scripts that answer as Slurm does, and what `sbatch` was given.
fn scripted_slurm(folder: &Path) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let given = folder.join("given.sh");
    for (name, text) in [
        ("sinfo", "echo short; echo long".to_string()),
        // As for its option -t where there is one: only what has ended.
        (
            "squeue",
            "case \"$*\" in *-t*) echo '12|2|FAILED|JobLaunchFailure';; *) echo '12|1|RUNNING|node3|None'; echo '99|2|PENDING||Priority';; esac".into(),
        ),
        ("sacct", "echo '12_3|NODE_FAIL|1:0'".into()),
        ("sbatch", format!("cat > '{}'; echo '12;cluster'", given.display())),
    ] {
        let path = folder.join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    format!("{}:/usr/bin:/bin", folder.display())
}

#[test]
fn slurm_is_given_what_is_open_and_asked_what_it_has() {
    let dir = tempfile::tempdir().unwrap();
    let file = grid(dir.path(), 2, 300);
    let out = dir.path().join("out with space");
    let bin = tempfile::tempdir().unwrap();
    let path = scripted_slurm(bin.path());
    let slurm = |more: &[&str]| {
        let mut command = sweep(&file, &out, more);
        command.env("PATH", &path);
        run(command)
    };
    assert_eq!(run(sweep(&file, &out, &["--cell", "0"])).0, 0);
    let (code, _, text) = slurm(&["--engine", "slurm", "--partition", "fast"]);
    assert!(code == 2 && text.contains("there is no partition fast: this Slurm has short, long"), "{text}");
    let (code, said, text) = slurm(&["--engine", "slurm", "--time", "2:00:00", "--array-limit", "2"]);
    assert!(code == 0 && said.contains("3 cells as array 12"), "{said}{text}");
    let script = fs::read_to_string(bin.path().join("given.sh")).unwrap();
    for line in ["#SBATCH --array=1-3%2", "#SBATCH --time=2:00:00", "#SBATCH --requeue", "#SBATCH --signal=B:TERM@120"]
    {
        assert!(script.lines().any(|l| l == line), "no {line} in {script}");
    }
    assert!(!script.contains("--partition") && script.contains(&format!("out='{}'", out.display())), "{script}");
    // It has cell 1 now; cell 2 is another array's.
    let (_, said, _) = slurm(&["--engine", "slurm"]);
    assert!(said.contains("2 cells as array 12"), "{said}");
    assert!(fs::read_to_string(bin.path().join("given.sh")).unwrap().contains("--array=2-3\n"));
    let (_, status, _) = slurm(&["--status"]);
    assert!(
        status.contains("Slurm 12: running on node3") && status.contains("node_fail with exit code 1:0"),
        "{status}"
    );
    assert!(status.contains("Slurm 12_2: failed (JobLaunchFailure); its node may not see the folder"), "{status}");
    // Where a task could still say why, that is what is shown.
    let why = "the node node3 cannot see /nowhere; grid and runs must lie on a file system that all nodes share";
    fs::write(out.join("slurm/12_2.log"), format!("error: {why}\n")).unwrap();
    let (_, status, _) = slurm(&["--status"]);
    assert!(status.contains(why) && !status.contains("JobLaunchFailure"), "{status}");
    assert!(!status.contains("Priority") && status.contains("1 of 4 finished, 3 new"), "{status}");
    // A script where the folder cannot be seen says so, and does nothing else.
    let script = script.replace(&file.display().to_string(), "/nowhere/grid.toml");
    let mut shell = Command::new("bash");
    let (code, _, text) = run({
        shell.args(["-c", &script]).stdout(Stdio::piped()).stderr(Stdio::piped());
        shell
    });
    assert!(code == 2 && text.contains("cannot see /nowhere/grid.toml") && text.lines().count() == 1, "{text}");
}

/// Run by `cargo xtask test`, which makes the environment.
#[test]
#[ignore = "needs the package kubernetes-validate"]
fn the_manifest_is_one_by_the_published_schema() {
    let python = std::env::var_os("SSKP_KUBERNETES_PYTHON").expect("the interpreter");
    let dir = tempfile::tempdir().unwrap();
    let file = grid(dir.path(), 2, 300);
    fs::write(dir.path().join("own.toml"), "[sac]\nbatch = 9\n").unwrap();
    let text = fs::read_to_string(&file).unwrap();
    let own = "[[cells]]\nrobots = [\"toy\"]\nmethods = [\"sac\"]\nvariant = \"own\"\nfile = \"own.toml\"\n";
    fs::write(&file, text + own).unwrap();
    let (code, manifest, error) =
        run(sweep(&file, &dir.path().join("out"), &["--engine", "kubernetes", "--dry-run", "--array-limit", "3"]));
    assert_eq!(code, 0, "{error}");
    let path = dir.path().join("job.yaml");
    fs::write(&path, manifest).unwrap();
    let check = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cluster/check_manifest.py");
    let output =
        Command::new(python).arg(check).arg(&path).args([file.as_os_str(), "6".as_ref(), "3".as_ref()]).output();
    let output = output.unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Run by `cargo xtask test` where Slurm is installed.
#[test]
#[ignore = "needs slurmctld and slurmd, and about five minutes"]
fn a_real_slurm_that_requeues_and_kills_leaves_the_rows_of_an_undisturbed_sweep() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cluster/slurm.sh");
    assert!(Command::new(script).arg(program()).status().unwrap().success());
}

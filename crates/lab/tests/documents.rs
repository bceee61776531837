//! Documents that name files must name files that exist, and results are those of the committed rows.

#[path = "../../../tests/root.rs"]
mod root;

use sskp_lab::registry::Registry;
use std::path::PathBuf;

use sskp_lab::report::Report;
use sskp_lab::run_rows::{RunRows, find_runs};

#[test]
fn every_path_in_the_documents_exists() {
    let root = root::repository();
    let mut seen = 0;
    for document in ["ARCHITECTURE.md", "README.md", "docs/experiments.md", "docs/run-directory.md", "docs/setup.md"]
        .map(String::from)
        .into_iter()
        .chain(["docs/decisions", "docs/methods"].into_iter().flat_map(|folder| {
            let pages = std::fs::read_dir(root.join(folder)).unwrap();
            pages.map(move |page| format!("{folder}/{}", page.unwrap().file_name().to_string_lossy()))
        }))
    {
        let text = std::fs::read_to_string(root.join(&document)).unwrap();
        // Whatever stands between backticks or in a link and begins like a tracked folder is a path.
        for part in text.split(['`', '(', ')']) {
            let path = part.trim();
            let folders = ["crates/", "docs/", "tests/", "benches/", "xtask/", "configs/", "results/", "examples/"];
            let is_path = folders.iter().any(|f| path.starts_with(f)) && !path.contains([' ', '<', '*', '\n', '{']);
            // The examples of files that a reader would add.
            if !is_path || path.ends_with("walker.rs") || path.ends_with("saute") {
                continue;
            }
            assert!(root.join(path).exists(), "{document} names {path}, which does not exist");
            seen += 1;
        }
    }
    assert!(seen > 30, "only {seen} paths were recognised");
}

/// The report of committed rows, of which none may be unfinished or unlike the others.
fn report(folders: &[&str]) -> Report {
    let root = root::repository().join("results");
    let folders: Vec<PathBuf> = folders.iter().map(|folder| root.join(folder)).collect();
    let found = find_runs(&folders).unwrap();
    let all: Vec<RunRows> = found.iter().map(|path| RunRows::read(path).unwrap()).collect();
    let report = Report::new(&Registry::standard(), &all, None).unwrap();
    assert_eq!(report.warnings, [] as [&str; 0], "unfinished or unequal runs");
    report
}

#[test]
fn the_results_of_the_readme_are_those_of_the_committed_rows() {
    let root = root::repository();
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let equal = report(&["ant", "cheetah", "hopper", "humanoid"]);
    let native = report(&["native"]);
    for line in equal.markdown().lines().chain(native.markdown().lines()) {
        assert!(readme.contains(line), "README.md lacks this line of report.md: {line}");
    }
    for figure in equal.sections.iter().flat_map(|section| &section.figures) {
        let path = root.join("docs/figures").join(format!("{}.svg", figure.name));
        if let Ok(kept) = std::fs::read_to_string(&path) {
            assert!(kept == figure.svg(), "{} is not the figure of the committed rows", path.display());
        }
    }
}

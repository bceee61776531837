//! Documents that name files must name files that exist, and results are those of the committed rows.

#[path = "../../../tests/root.rs"]
mod root;

use sskp_lab::registry::Registry;
use std::path::PathBuf;

use sskp_lab::report::Report;
use sskp_lab::run_rows::{RunRows, find_runs};
use sskp_lab::stats::grouped_interval;

#[test]
fn every_path_in_the_documents_exists() {
    let root = root::repository();
    let mut seen = 0;
    for document in [
        "ARCHITECTURE.md",
        "README.md",
        "docs/cluster.md",
        "docs/experiments.md",
        "docs/python.md",
        "docs/risk.md",
        "docs/run-directory.md",
        "docs/setup.md",
    ]
    .map(String::from)
    .into_iter()
    .chain(["docs/decisions", "docs/methods"].into_iter().flat_map(|folder| {
        let pages = std::fs::read_dir(root.join(folder)).unwrap();
        pages.map(move |page| format!("{folder}/{}", page.unwrap().file_name().to_string_lossy()))
    })) {
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
    let overview = equal.overview();
    for figure in equal.sections.iter().flat_map(|section| &section.figures).chain([&overview]) {
        let path = root.join("docs/figures").join(format!("{}.svg", figure.name));
        if let Ok(kept) = std::fs::read_to_string(&path) {
            assert!(kept == figure.svg(), "{} is not the figure of the committed rows", path.display());
        }
    }
}

/// The rows of `docs/risk.md`, out of a study: what can be told apart where nothing was decided yet, and when falls were decided.
fn risk_rows(name: &str, table: &str) -> [String; 2] {
    let rows: Vec<Vec<Option<f64>>> =
        table.lines().skip(1).map(|row| row.split(',').map(|cell| cell.parse().ok()).collect()).collect();
    // Columns: 0 fall, 2 back, 4 tries, 5 of them fell, 8 drawn, 9 of them fell, 10 to 15 AUC and pick of each judge.
    let number = |row: &[Option<f64>], i: usize| row[i].unwrap_or_else(|| panic!("{name}: column {i}"));
    let fell = |row: &[Option<f64>], tries: usize| number(row, tries + 1) / number(row, tries);
    let open: Vec<&Vec<Option<f64>>> = rows.iter().filter(|row| (0.05..=0.95).contains(&fell(row, 8))).collect();
    let by_fall = |value: &dyn Fn(&[Option<f64>]) -> f64| -> Vec<Vec<f64>> {
        let falls = open.chunk_by(|a, b| number(a, 0) == number(b, 0));
        falls.map(|fall| fall.iter().map(|row| value(row)).collect()).collect()
    };
    let measured = |value: &dyn Fn(&[Option<f64>]) -> f64, scale: f64, digits: usize, unit: &str| {
        let groups = by_fall(value);
        let mean = scale * groups.concat().iter().sum::<f64>() / groups.concat().len() as f64;
        match grouped_interval(&groups).map(|ends| ends.map(|x| scale * x)) {
            Some([low, high]) => format!("{mean:.digits$}{unit} [{low:.digits$}, {high:.digits$}]"),
            None => format!("{mean:.digits$}{unit}"),
        }
    };
    let share = |tries: usize| measured(&|row| fell(row, tries), 100.0, 0, " %");
    let judged = |i: usize| {
        [measured(&|row| number(row, i), 1.0, 2, ""), measured(&|row| number(row, i + 1), 100.0, 0, " %")].join(" | ")
    };
    let cells = match open.is_empty() {
        true => "none | – | – | – | – | – | – | – | –".to_string(),
        false => {
            let places = format!("{} of {}", open.len(), by_fall(&|_| 0.0).len());
            [places, share(8), share(4), judged(10), judged(12), judged(14)].join(" | ")
        }
    };
    let distance = |back: usize| {
        let shares: Vec<f64> = rows.iter().filter(|row| row[2] == Some(back as f64)).map(|row| fell(row, 8)).collect();
        format!("{:.0} %", 100.0 * shares.iter().sum::<f64>() / shares.len() as f64)
    };
    let falls = rows.iter().filter(|row| row[2] == Some(0.0)).count();
    let decided = [0, 1, 2, 3].map(distance).join(" | ");
    [format!("| {name} | {cells} |"), format!("| {name} | {falls} | {decided} |")]
}

#[test]
fn the_numbers_of_the_risk_page_are_those_of_the_committed_studies() {
    let root = root::repository();
    let page = std::fs::read_to_string(root.join("docs/risk.md")).unwrap();
    let mut files: Vec<_> =
        std::fs::read_dir(root.join("results/risk-study")).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    let mut missing = Vec::new();
    for path in &files {
        let name = path.file_stem().unwrap().to_string_lossy().replace('-', ", ");
        let rows = risk_rows(&name, &std::fs::read_to_string(path).unwrap());
        missing.extend(rows.into_iter().filter(|row| !page.contains(row)));
    }
    assert!(missing.is_empty(), "docs/risk.md lacks these rows:\n{}", missing.join("\n"));
    assert!(files.len() >= 6, "only {} studies", files.len());
}

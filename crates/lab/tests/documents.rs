//! Documents that name files must name files that exist.

use std::path::Path;

#[test]
fn every_path_in_the_documents_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
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
            let folders = ["crates/", "docs/", "tests/", "benches/", "xtask/", "configs/", "results/"];
            let is_path = folders.iter().any(|f| path.starts_with(f)) && !path.contains([' ', '<', '*', '\n', '{']);
            // The examples of files that a reader would add.
            if !is_path || path.ends_with("walker.rs") || path.ends_with("saute.rs") {
                continue;
            }
            assert!(root.join(path).exists(), "{document} names {path}, which does not exist");
            seen += 1;
        }
    }
    assert!(seen > 30, "only {seen} paths were recognised");
}

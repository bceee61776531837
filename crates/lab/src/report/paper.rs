//! What the paper reports.

/// The paper's own method.
pub const METHOD: &str = "sskp";
/// The paper and its ablations: what Figure 4 compares.
pub const ABLATION: [&str; 3] = [METHOD, "sskp-np", "sskp-wo-rp"];
/// The steps of the paper's runs. Violations add up, so a ratio after fewer of them does not compare.
pub const STEPS: u64 = 1_000_000;

/// Table 1 of the paper: PtR/#V × 1000, means of three runs, without intervals.
const TABLE_1: [(&str, [(&str, f64); 4]); 4] = [
    ("sskp", [("ant", 23.54), ("cheetah", 173.72), ("hopper", 8.86), ("humanoid", 0.72)]),
    ("recovery-rl", [("ant", 13.12), ("cheetah", 146.30), ("hopper", 7.10), ("humanoid", 0.71)]),
    ("cpq", [("ant", 11.80), ("cheetah", 92.25), ("hopper", 6.21), ("humanoid", 0.38)]),
    ("smbpo", [("ant", 28.68), ("cheetah", 147.00), ("hopper", 5.74), ("humanoid", 0.69)]),
];

/// The paper's PtR/#V × 1000, if it has one.
pub fn ratio(method: &str, robot: &str) -> Option<f64> {
    let row = TABLE_1.iter().find(|(name, _)| *name == method)?;
    row.1.iter().find(|(name, _)| *name == robot).map(|(_, value)| *value)
}

//! The report: its numbers, its files, and that it needs nothing else.

#[path = "common/made_up.rs"]
mod made_up;

use sskp_blocks::judge::Reliability;
use sskp_lab::registry::Registry;
use sskp_lab::report::{Drawing, Group, Report};
use sskp_lab::run_rows::RunRows;
use sskp_lab::stats::RunStats;

fn group<'a>(report: &'a Report, title: &str, robot: &str) -> Option<&'a Group> {
    report.groups.iter().find(|group| group.variant.title == title && group.robot == robot)
}

#[test]
fn the_papers_grid_gives_every_figure_and_table() {
    let all = made_up::grid();
    let report = Report::new(&Registry::standard(), &all, None).unwrap();
    assert_eq!(report.warnings, [] as [&str; 0]);
    assert_eq!(report.robots(), ["ant", "cheetah", "hopper", "humanoid"]);
    assert_eq!(
        report.variants().iter().map(|v| v.method.as_str()).collect::<Vec<_>>(),
        ["sskp", "recovery-rl", "cpq", "smbpo", "sskp-np", "sskp-wo-rp"]
    );
    let figures: Vec<(&str, usize)> = report.sections.iter().map(|s| (s.title.as_str(), s.figures.len())).collect();
    assert_eq!(figures.iter().map(|f| f.1).collect::<Vec<_>>(), [4, 4, 4, 4, 4, 4, 4], "{figures:?}");
    for section in &report.sections {
        assert!(section.figures.iter().all(|figure| !figure.is_empty()), "{}", section.title);
    }
    // Numbers by another way.
    let hopper: Vec<RunStats> =
        (0..3).map(|seed| RunStats::of(&made_up::run("hopper", "cpq", seed).episodes, 1000)).collect();
    let group = group(&report, "CPQ", "hopper").unwrap();
    let mean = |of: &dyn Fn(&RunStats) -> f64| hopper.iter().map(of).sum::<f64>() / 3.0;
    assert!((group.ptr.mean - mean(&|s| s.ptr)).abs() < 1e-12);
    assert!((group.violations.mean - mean(&|s| s.violations as f64)).abs() < 1e-12);
    let ratio = group.ptr_per_violation_x1000.as_ref().unwrap().mean;
    assert!((ratio - mean(&|s| 1000.0 * s.ptr / s.violations as f64)).abs() < 1e-9);
    let of_means = 1000.0 * mean(&|s| s.ptr) / mean(&|s| s.violations as f64);
    assert!((group.ratio_of_means_x1000.unwrap() - of_means).abs() < 1e-9);
    assert_eq!(group.paper, Some(6.21));
    let least =
        all.iter().filter(|r| r.config.run.env == "hopper").map(|r| r.episodes.last().unwrap().cumulative_violations);
    assert_eq!(group.return_at.as_ref().unwrap().violations, least.min().unwrap());
    assert!(report.html().contains("class=\"band c0\""), "seeds differ");
    assert_eq!(report.improvements.len(), 5);
    assert_eq!(report.improvements[0].robots.len(), 4);
    assert_eq!(report.improvements[4].robots, ["ant", "hopper"]);
    assert_eq!(report.relative[0].value.runs, 12);
}

#[test]
fn the_papers_numbers_stand_only_beside_runs_of_its_length() {
    let mut all = made_up::grid();
    for rows in all.iter_mut().filter(|rows| rows.config.run.env == "hopper") {
        rows.config.run.total_steps = 100_000;
    }
    let report = Report::new(&Registry::standard(), &all, None).unwrap();
    let table = report.markdown();
    assert!(table.contains("(paper 23.54)") && table.contains("(paper 11.80)"), "{table}");
    assert!(!table.contains("(paper 8.86)") && !table.contains("(paper 6.21)"), "{table}");
    assert_eq!(group(&report, "SSkP", "hopper").unwrap().paper, None);
    assert!(table.contains("100\u{202f}000 or 1\u{202f}000\u{202f}000 steps per run"), "{table}");
}

#[test]
fn the_page_stands_alone_and_the_numbers_and_figures_lie_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut all = made_up::grid();
    all[0].source = "<script>alert(1)</script>.csv".into();
    let report = Report::new(&Registry::standard(), &all, Some(3)).unwrap();
    let page = folder.path().join("report.html");
    assert_eq!(report.write(&page).unwrap().len(), 4);
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.len() < 3_000_000, "{} bytes", html.len());
    // One script, which sorts a table; what is said of runs cannot become another.
    assert_eq!((html.matches("<script").count(), html.matches("</script").count()), (1, 1));
    assert!(html.contains("&lt;script&gt;alert(1)"));
    for outside in ["<link", "<img", "src=", "@import", "url("] {
        assert!(!html.contains(outside), "{outside}");
    }
    // The only addresses are names of XML.
    assert_eq!(
        html.matches("http").count() - html.matches("http-equiv").count(),
        html.matches("http://www.w3.org/2000/svg").count()
    );
    for needed in ["paper 23.54", "paper 0.38", "SSkP-w/o-RP", "figure-3-ant", "[sskp.planner]", "3.17.0"] {
        assert!(html.contains(needed), "{needed}");
    }
    let tables = std::fs::read_to_string(folder.path().join("report.md")).unwrap();
    let lines: Vec<&str> = tables.lines().collect();
    assert_eq!((lines[0], lines.len()), ("| PtR/#V × 1000 | Ant | Cheetah | Hopper | Humanoid |", 33), "{tables}");
    let ant = group(&report, "SSkP", "ant").unwrap().ptr_per_violation_x1000.as_ref().unwrap();
    let (digits, std) = (if ant.mean >= 10.0 { 1 } else { 2 }, ant.std.unwrap());
    let cell = format!("| SSkP | {:.digits$} ± {std:.digits$} (paper 23.54) |", ant.mean);
    assert!(lines[2].starts_with(&cell), "{} and not {cell}", lines[2]);
    assert!(lines[6].ends_with(" | – |") && lines[6].starts_with("| SSkP-NP | "), "{}", lines[6]);
    // What was earned at last, and #V, of every method; of predicted risks only the rows of methods that predict any.
    let sskp = group(&report, "SSkP", "ant").unwrap();
    let [last, spent] = [sskp.final_ptr.as_ref().unwrap().mean, sskp.violations.mean];
    assert!(lines[20].starts_with(&format!("| SSkP | {last:.2} [")), "{} and not {last}", lines[20]);
    assert!(lines[20].contains(&format!("]; {spent:.0} [")), "{} and not {spent}", lines[20]);
    assert!(lines[29].starts_with("| SSkP |") && lines[30].starts_with("| SSkP-NP |"), "{tables}");
    assert_eq!(
        lines[32],
        "Budget: 1\u{202f}000\u{202f}000 steps per run; updates of the policy per step: SSkP 0.1, Recovery RL 1, CPQ 1, SMBPO 10, SSkP-NP \
         0.1, SSkP-w/o-RP (SPiRL) 0.1."
    );
    let json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("report.json")).unwrap()).unwrap();
    assert_eq!(json["groups"].as_array().unwrap().len(), 20);
    assert_eq!(json["groups"][0]["return_at"]["violations"], 3);
    let svgs = std::fs::read_dir(folder.path().join("report.figures")).unwrap().count();
    assert_eq!(svgs, 29);
    assert_eq!(
        Report::new(&Registry::standard(), &all, Some(3)).unwrap().html(),
        html,
        "the same rows give the same page"
    );
}

#[test]
fn predicted_risks_of_all_seeds_stand_beside_what_came_of_them() {
    let all = made_up::grid();
    let report = Report::new(&Registry::standard(), &all, None).unwrap();
    assert!(group(&report, "CPQ", "hopper").unwrap().calibration.is_none(), "it predicts no risk of skills");
    let mut expected = Reliability::default();
    for seed in 0..3 {
        let summary = made_up::run("hopper", "sskp", seed).summary.unwrap();
        expected.merge(&serde_json::from_value(summary["calibration"].clone()).unwrap());
    }
    let table = group(&report, "SSkP", "hopper").unwrap().calibration.unwrap();
    assert_eq!(table, expected);
    let (all, page) = (table.total(), report.html());
    // They were made so that seven of ten predicted violations happen.
    assert!((0.6..0.8).contains(&(all.actual() / all.predicted())), "{all:?}");
    for needed in ["Predicted risk against actual", "id=\"calibration-hopper\"", "by predicted risk"] {
        assert!(page.contains(needed), "{needed}");
    }
    let figure = report.sections.iter().flat_map(|s| &s.figures).find(|f| f.name == "calibration-hopper").unwrap();
    let Drawing::Curves(chart) = &figure.shows else { panic!("{figure:?}") };
    // The dashed line, and a dot per bin of SSkP; Hopper has SSkP-NP too.
    assert_eq!(chart.series.len(), 3);
    assert_eq!(chart.series[1].points.len(), table.bins.iter().filter(|bin| bin.count > 99).count());
    let markdown = report.markdown();
    let row = markdown.lines().filter(|line| line.starts_with("| SSkP |")).nth(3).unwrap();
    assert!(row.contains(&format!("| {:.5} → {:.5} [", all.predicted(), all.actual())), "{row}");
    // Rows of before such tables, and runs that were stopped at once, have none.
    let mut old = made_up::run("ant", "sskp", 0);
    old.summary = Some(serde_json::json!({ "wall_seconds": 1.0 }));
    let report = Report::new(&Registry::standard(), &[old], None).unwrap();
    assert!(!report.html().contains("Predicted risk against actual") && !report.markdown().contains("predicted"));
}

#[test]
fn what_a_reader_must_know_is_said() {
    let run = |seed| made_up::run("hopper", "sac", seed);
    let error = Report::new(&Registry::standard(), &[run(1), run(1)], None).unwrap_err().to_string();
    assert!(error.contains("seed 1 is there twice"), "{error}");
    let (mut cut, mut other, mut empty, mut longer) = (run(0), run(1), run(2), run(3));
    cut.episodes.truncate(50);
    other.config.run.threads = 2;
    empty.episodes.clear();
    longer.config.run.total_steps = 300_000;
    let report = Report::new(&Registry::standard(), &[cut, other, empty, longer], None).unwrap();
    for needed in [
        "seed 0, is not finished",
        "different settings (run.threads is 2 there",
        "no finished episode",
        "different lengths",
    ] {
        assert!(report.warnings.iter().any(|w| w.contains(needed)), "{needed}: {:?}", report.warnings);
        assert!(report.html().contains(needed));
    }
    let (mut a, mut b) = (run(0), run(0));
    a.config.run.threads = 1;
    b.config.run.threads = 2;
    let error = Report::new(&Registry::standard(), &[a, b], None).unwrap_err().to_string();
    assert!(error.contains("is there twice"), "threads make no variant: {error}");
    // Without a violation there is no ratio, and both its parts are shown.
    let mut calm = run(4);
    calm.episodes.iter_mut().for_each(|row| (row.violation, row.cumulative_violations) = (false, 0));
    let report = Report::new(&Registry::standard(), &[calm], None).unwrap();
    assert!(report.groups[0].ptr_per_violation_x1000.is_none() && report.groups[0].without_violation == 1);
    assert!(report.html().contains("1 of 1 without violation"));
    let table = report.markdown();
    assert!(table.contains("| SAC | undefined, 1 without violation |") && table.contains(", 0 |"), "{table}");
    let json = serde_json::to_value(&report).unwrap();
    assert!(json["groups"][0]["ptr_per_violation_x1000"].is_null());
}

#[test]
fn one_method_alone_is_shown_as_it_learns() {
    let all: Vec<_> = (0..3).map(|seed| made_up::run("hopper", "sac", seed)).collect();
    let report = Report::new(&Registry::standard(), &all, None).unwrap();
    let learning = report.sections.iter().flat_map(|s| &s.figures).find(|f| f.name == "return-hopper").unwrap();
    assert_eq!(report.overview().svg(), learning.svg());
    assert_eq!(report.overview().name, "overview");
}

/// Gives a run a reward for every step, and violations at its beginning.
fn paid(rows: &mut RunRows, reward: f64, violations: u64) {
    for (i, row) in rows.episodes.iter_mut().enumerate() {
        row.total_reward = reward * row.length as f64;
        row.violation = (i as u64) < violations;
        row.cumulative_violations = violations.min(i as u64 + 1);
    }
}

#[test]
fn a_robot_on_which_nobody_earned_is_named_and_not_divided_by() {
    let runs = [("ant", "cpq", -1.0), ("ant", "sac", -2.0), ("hopper", "cpq", 1.0), ("hopper", "sac", -30.0)];
    let all: Vec<RunRows> = runs
        .iter()
        .map(|(robot, method, reward)| {
            let mut rows = made_up::run(robot, method, 0);
            paid(&mut rows, *reward, 4);
            rows
        })
        .collect();
    let report = Report::new(&Registry::standard(), &all, None).unwrap();
    let Drawing::Curves(chart) = report.overview().shows else { panic!("a chart of dots") };
    let heights: Vec<f64> = chart.series.iter().flat_map(|s| &s.points).map(|p| p.1).collect();
    assert_eq!(heights, [100.0, -100.0]);
    assert_eq!(chart.y_label, "reward, % of the best on the robot, down to −100");
    assert!(report.missing.iter().any(|text| text.starts_with("no method earned anything on Ant:")));
    let ant = Report::new(&Registry::standard(), &all[..2], None).unwrap();
    assert!(!ant.overview().svg().contains("top left"), "Ant alone is shown as it was learnt");
}

#[test]
fn the_most_reward_is_said_once() {
    // SSkP-w/o-RP earns as much and spends more; then a fifth more.
    let mut all = [made_up::run("hopper", "sskp", 0), made_up::run("hopper", "sskp-wo-rp", 0)];
    let sentence = |all: &[RunRows]| Report::new(&Registry::standard(), all, None).unwrap().found.remove(0);
    paid(&mut all[0], 1.0, 2);
    paid(&mut all[1], 1.0, 4);
    let even = sentence(&all);
    assert!(even.ends_with(": 1.00 a step with 4.00 violations."), "{even}");
    paid(&mut all[1], 1.2, 4);
    let more = sentence(&all);
    assert!(more.ends_with(": 1.20 a step with 4.00 violations, the most reward."), "{more}");
    // A third one, the most expensive, has still more.
    let mut sac = made_up::run("hopper", "sac", 0);
    paid(&mut sac, 1.5, 40);
    let third = sentence(&[&all[..], &[sac]].concat());
    assert!(third.contains("; most reward had SAC: 1.50 a step with 40"), "{third}");
}

#[test]
fn variants_of_a_method_are_rows_of_their_own() {
    let of = |batch: i64, seed: u64, robot: &str| {
        let mut rows = made_up::run(robot, "sac", seed);
        rows.config.method.insert("batch".into(), toml::Value::Integer(batch));
        rows
    };
    let all =
        [of(7, 0, "hopper"), of(8, 0, "hopper"), of(8, 1, "hopper"), of(8, 0, "ant"), made_up::run("ant", "cpq", 0)];
    let report = Report::new(&Registry::standard(), &all, None).unwrap();
    assert_eq!(report.warnings, [] as [&str; 0]);
    let titles: Vec<String> = report.variants().iter().map(|v| v.title.clone()).collect();
    assert_eq!(titles, ["CPQ", "SAC (batch 7)", "SAC (batch 8)"]);
    let runs =
        |batch: &str, robot: &str| group(&report, &format!("SAC (batch {batch})"), robot).map(|group| group.runs.len());
    assert_eq!((runs("7", "hopper"), runs("8", "hopper"), runs("8", "ant")), (Some(1), Some(2), Some(1)));
    let (table, page) = (report.markdown(), report.html());
    for row in ["| SAC (batch 7) | – |", "| SAC (batch 8) | "] {
        assert!(table.contains(row), "{table}");
    }
    let rows = |title: &str| page.matches(&format!("data-label=\"method\">{title}</td>")).count();
    assert_eq!((rows("SAC (batch 7)"), rows("SAC (batch 8)"), rows("CPQ")), (1, 3, 1), "one table of runs");
    assert!(page.contains("<h1>2 methods, 3 variants, on Ant, Hopper</h1>"), "words that fit what was run");
    assert!(report.overview().svg().contains("top left"), "methods are compared");
    // In figures they have colours of their own.
    let hopper = report.sections[0].figures.iter().find(|f| f.name == "figure-3-hopper").unwrap().svg();
    let colours: std::collections::BTreeSet<&str> =
        hopper.split("class=\"line curve ").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(colours.len(), 2, "{colours:?}");
}

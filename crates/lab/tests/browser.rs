//! Replay pages, charts and reports in a real browser: headless Chromium with WebGL in software, so no graphics card is needed.
//!
//! Not run by default, because not every machine has a browser: `cargo test --release -p sskp-lab --test browser -- --ignored`.
//! `CHROME` names another browser of the Chromium family; `SSKP_SCREENSHOTS` names a folder for pictures of the pages.

#[path = "common/made_up.rs"]
mod made_up;

use sskp_blocks::registry::EnvOptions;
use sskp_lab::registry::Registry;
use std::path::{Path, PathBuf};
use std::process::Command;

use sskp_blocks::env::End;
use sskp_blocks::record::Memory;
use sskp_blocks::rng::Rng;
use sskp_blocks::run::Run;
use sskp_lab::chart::{Chart, Mark, Series};
use sskp_lab::plan_study::PlanStudy;
use sskp_lab::replay_page::{ReplayPage, write_html};
use sskp_lab::report::Report;
use sskp_lab::rollout::Stage;
use sskp_robots::robots;

/// One episode of random actions, half a minute at most.
fn play(robot: &sskp_blocks::registry::EnvEntry) -> ReplayPage {
    let env = robot.make(EnvOptions::default()).unwrap();
    let (stage, tape) = Stage::new(env).recorded();
    let mut memory = Memory::default();
    let mut run = Run::new(Box::new(stage), 1, 600, &mut memory);
    let mut rng = Rng::stream(1, "actions");
    let mut action = vec![0.0; run.spec().action_dim];
    run.next_episode().unwrap();
    while !run.over() {
        rng.fill_action(&mut action);
        run.step(&action).unwrap();
    }
    tape.take().remove(0).into_page(robot, "random actions, seed 1")
}

fn browser() -> PathBuf {
    if let Some(named) = std::env::var_os("CHROME") {
        return named.into();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];
    let found = std::env::split_paths(&path).flat_map(|f| names.map(|n| f.join(n))).find(|p| p.is_file());
    found.expect("these tests need Chromium or Chrome: install one, or name it in CHROME")
}

/// A page in a folder of its own, opened as a user would: from the disk.
struct Page {
    folder: tempfile::TempDir,
    file: PathBuf,
}

impl Page {
    fn new(replay: &ReplayPage) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("replay.html");
        write_html(replay, &file).unwrap();
        Page { folder, file }
    }

    /// Any HTML.
    fn of(html: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("page.html");
        std::fs::write(&file, html).unwrap();
        Page { folder, file }
    }

    fn report(report: &Report) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("report.html");
        report.write(&file).unwrap();
        Page { folder, file }
    }

    /// A file that shows the page `width` wide and writes down how wide the page became, and which texts of figures stick out of
    /// them. The page's own script only sorts.
    fn measured(&self, width: u32) -> PathBuf {
        let file = self.folder.path().join(format!("measured-{width}.html"));
        let html = format!(
            "<body style=margin:0><iframe src='report.html' width={width} height=800 frameborder=0></iframe><script>
            document.querySelector('iframe').onload = event => {{
                const page = event.target.contentDocument, out = [], small = [];
                for (const svg of page.querySelectorAll('svg')) {{
                    const box = svg.getBoundingClientRect();
                    for (const text of svg.querySelectorAll('text')) {{
                        const at = text.getBoundingClientRect();
                        if (at.left < box.left - 1 || at.right > box.right + 1 || at.bottom > box.bottom + 1)
                            out.push(text.textContent);
                        if (Math.max(at.height, at.width) < 8) small.push(text.textContent);
                    }}
                }}
                Object.assign(document.body.dataset, {{
                    width: page.documentElement.scrollWidth, out: out.join(), small: small.join(),
                    figures: page.querySelectorAll('svg').length, ground: page.defaultView.getComputedStyle(page.body).backgroundColor,
                }});
            }};
            </script>"
        );
        std::fs::write(&file, html).unwrap();
        file
    }

    fn run(&self, file: &Path, hash: &str, flags: &[&str]) -> String {
        let profile = self.folder.path().join("profile");
        let output = Command::new(browser())
            .args(["--headless=new", "--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"])
            .args(["--hide-scrollbars", "--virtual-time-budget=4000"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .args(flags)
            .arg(format!("file://{}{hash}", file.display()))
            .output()
            .expect("the browser starts");
        assert!(output.status.success(), "the browser failed: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The page's document after a while.
    fn dom(&self, hash: &str, flags: &[&str]) -> Dom {
        Dom(self.run(&self.file, hash, &[&["--dump-dom"], flags].concat()))
    }

    /// A file that shows the page at a phone's size and repeats what its script wrote. Headless windows have a least
    /// width of their own, which is wider; frames have not.
    fn in_a_phone(&self, hash: &str) -> PathBuf {
        let file = self.folder.path().join("phone.html");
        let html = format!(
            "<body style=margin:0><iframe src='replay.html{hash}' width=375 height=740 frameborder=0></iframe><script>
            setInterval(() => {{
                const page = document.querySelector('iframe').contentDocument;
                if (page && page.body) Object.assign(document.body.dataset, page.body.dataset);
            }}, 50);
            </script>"
        );
        std::fs::write(&file, html).unwrap();
        file
    }

    /// A picture of it, where pictures were asked for.
    fn picture(&self, name: &str, hash: &str, flags: &[&str]) {
        if let Some(folder) = std::env::var_os("SSKP_SCREENSHOTS") {
            let file = Path::new(&folder).join(format!("{name}.png"));
            self.run(&self.file, hash, &[&[format!("--screenshot={}", file.display()).as_str()], flags].concat());
        }
    }
}

struct Dom(String);

impl Dom {
    /// What the page's script wrote into `data-<name>` of the body.
    fn data(&self, name: &str) -> Option<&str> {
        let body = &self.0[self.0.find("<body").expect("a body")..];
        let body = &body[..body.find('>').expect("its end")];
        let value = &body[body.find(&format!(" data-{name}=\""))? + name.len() + 8..];
        Some(&value[..value.find('"').expect("its quote")])
    }

    fn passes(&self, what: &str) {
        assert_eq!(self.data("error"), None, "{what}");
        assert_eq!(self.data("selftest"), Some("ok"), "{what}");
        assert_eq!(self.data("ready"), Some("yes"), "{what}");
    }
}

const DESK: &str = "--window-size=1280,800";
const DARK: &str = "--blink-settings=preferredColorScheme=0";

#[test]
#[ignore = "needs Chromium"]
fn every_robot_is_drawn_whole_and_can_be_played_and_scrubbed() {
    for robot in &robots() {
        let replay = play(robot);
        let page = Page::new(&replay);
        let dom = page.dom("#selftest", &[DESK]);
        dom.passes(&robot.name);
        assert_eq!(dom.data("webgl"), Some("ok"));
        assert_eq!(dom.data("frames"), Some(replay.episode.frames.len().to_string().as_str()));
        let red: usize = dom.data("red-pixels").unwrap().parse().unwrap();
        assert_eq!(red > 20, replay.episode.end == Some(End::Violation), "{}: {red} red pixels", robot.name);
        println!(
            "{}: robot {} of the picture, {} colours",
            robot.name,
            dom.data("share").unwrap(),
            dom.data("colours").unwrap()
        );
        let frame = format!("#frame={}", replay.episode.frames.len() / 2);
        page.picture(&robot.name, &frame, &[DESK]);
        page.picture(&format!("{}-dark", robot.name), &frame, &[DESK, DARK]);
        page.picture(&format!("{}-end", robot.name), "#frame=100000", &[DESK]);
    }
}

#[test]
#[ignore = "needs Chromium"]
fn the_page_plays_by_itself() {
    let page = Page::new(&play(Registry::standard().env("cheetah").unwrap()));
    let drawn = |dom: &Dom| dom.data("drawn").map_or(0, |n| n.parse::<usize>().unwrap());
    // How many pictures a headless browser draws in its own time depends on the machine: a slow one gets more time.
    let mut dom = page.dom("", &[DESK]);
    for budget in [10_000, 60_000] {
        if drawn(&dom) < 2 {
            dom = page.dom("", &[DESK, &format!("--virtual-time-budget={budget}")]);
        }
    }
    assert_eq!(dom.data("error"), None);
    assert!(drawn(&dom) > 1, "{} pictures drawn", drawn(&dom));
    assert!(dom.0.contains("frame <b>") && !dom.0.contains("frame <b>0</b>"), "it has moved on");
    assert!(dom.0.contains("aria-label=\"Pause\""), "it is playing");
}

#[test]
#[ignore = "needs Chromium"]
fn a_phone_and_the_dark_theme_show_all_of_it() {
    for robot in &robots() {
        let page = Page::new(&play(robot));
        page.dom("#selftest", &[DESK, DARK]).passes(&robot.name);
        let phone = page.in_a_phone("#selftest");
        Dom(page.run(&phone, "", &["--dump-dom", "--allow-file-access-from-files", DESK])).passes(&robot.name);
        if let Some(folder) = std::env::var_os("SSKP_SCREENSHOTS") {
            let file = Path::new(&folder).join(format!("{}-phone.png", robot.name));
            let phone = page.in_a_phone("#frame=20");
            page.run(&phone, "", &[&format!("--screenshot={}", file.display()), "--window-size=500,740"]);
        }
    }
}

#[test]
#[ignore = "needs Chromium"]
fn a_predicted_risk_gets_a_line_of_its_own() {
    let mut replay = play(Registry::standard().env("toy").unwrap());
    assert_eq!(Page::new(&replay).dom("#selftest", &[DESK]).data("panels"), Some("reward return gauge"));
    let last = replay.episode.frames.len() as f32;
    // One prediction every ten steps, as a method that chooses skills makes them.
    for (i, frame) in replay.episode.frames.iter_mut().enumerate().step_by(10) {
        frame.risk = Some(i as f32 / last);
    }
    let page = Page::new(&replay);
    let dom = page.dom("#selftest", &[DESK]);
    dom.passes("risk");
    assert_eq!(dom.data("panels"), Some("reward return risk gauge"));
    page.picture("toy-risk", "#frame=15", &[DESK]);
}

/// Charts need no script; this one measures them: every text inside the picture, no two of them over each other.
#[test]
#[ignore = "needs Chromium"]
fn texts_of_a_chart_lie_inside_it_and_apart() {
    let risks = (0..40).map(|s| (0..7).map(|i| 0.03 / f64::from(1 + i) * (1.0 + 0.2 * f64::from(s % 5))).collect());
    let study = PlanStudy { risks: risks.collect(), episodes: 10 };
    let long = Series { name: "a rather long name of something".into(), points: vec![(0.0, 1.0)], ..Series::default() };
    let millions = Chart {
        title: "Counts".into(),
        x_label: "environment steps".into(),
        y_label: "violations".into(),
        from_zero: true,
        series: vec![long.clone(), Series { points: vec![(1e6, -12_345.0), (0.0, 1e4)], colour: 2, ..long }],
        ..Chart::default()
    };
    // Two levels that nearly meet, and a third at the very top.
    let level = |name: &str, height: f64| Series {
        name: name.into(),
        points: vec![(0.0, height), (1e5, height)],
        mark: Mark::Level,
        ..Series::default()
    };
    let returns = Series { name: "returns".into(), points: vec![(1e3, 5500.0), (1e5, 5900.0)], ..Series::default() };
    let levels = Chart {
        title: "Return of the episodes".into(),
        x_label: "environment steps".into(),
        y_label: "sum of rewards".into(),
        series: vec![
            level("demonstrator 5823", 5823.0),
            level("expert 5840", 5840.0),
            level("best 6000", 6000.0),
            returns,
        ],
        ..Chart::default()
    };
    let study = study.chart("sskp on humanoid after 1000000 steps");
    for (name, chart) in [("plan-study", study), ("millions", millions), ("levels", levels)] {
        let page = Page::of(&format!(
            "<body style='margin:0;width:760px'>{}<script>
            const boxes = [...document.querySelectorAll('text')].filter(t => t.textContent).map(t => [t, t.getBBox()]);
            const size = document.querySelector('svg').viewBox.baseVal;
            const wrong = [];
            for (const [t, b] of boxes) {{
                if (b.x < 0 || b.y < 0 || b.x + b.width > size.width || b.y + b.height > size.height) wrong.push('outside: ' + t.textContent);
                for (const [u, c] of boxes)
                    if (t !== u && b.x < c.x + c.width && c.x < b.x + b.width && b.y + 2 < c.y + c.height && c.y + 2 < b.y + b.height)
                        wrong.push(t.textContent + ' over ' + u.textContent);
            }}
            if (wrong.length) document.body.dataset.error = wrong.join('; ');
            document.body.dataset.texts = boxes.length;
            </script>",
            chart.svg()
        ));
        let dom = page.dom("", &[DESK]);
        assert_eq!(dom.data("error"), None, "{name}");
        assert!(dom.data("texts").unwrap().parse::<usize>().unwrap() > 10, "{name}");
        page.picture(name, "", &["--window-size=760,400"]);
        page.picture(&format!("{name}-dark"), "", &["--window-size=760,400", DARK]);
    }
}

#[test]
#[ignore = "needs Chromium"]
fn without_webgl_the_page_says_so_and_the_curves_remain() {
    let page = Page::new(&play(Registry::standard().env("hopper").unwrap()));
    let dom = page.dom("#selftest", &[DESK, "--disable-3d-apis"]);
    dom.passes("without WebGL");
    assert_eq!(dom.data("webgl"), Some("missing"));
    assert!(dom.0.contains("does not offer WebGL2"));
    page.picture("no-webgl", "", &[DESK, "--disable-3d-apis"]);
}

#[test]
#[ignore = "needs Chromium"]
fn a_title_full_of_markup_is_shown_as_it_is() {
    let mut replay = play(Registry::standard().env("toy").unwrap());
    replay.title = "</script><script>document.body.dataset.error='ran'</script>".into();
    replay.subtitle = "<img onerror=\"document.body.dataset.error='ran'\">&amp;".into();
    let dom = Page::new(&replay).dom("#selftest", &[DESK]);
    dom.passes("markup");
    assert!(dom.0.contains("&lt;/script&gt;&lt;script&gt;document.body.dataset.error='ran'&lt;/script&gt;</h1>"));
}

#[test]
#[ignore = "needs Chromium"]
fn a_replay_of_one_frame_is_a_still_picture() {
    let mut replay = play(Registry::standard().env("ant").unwrap());
    replay.episode.frames.truncate(1);
    replay.episode.end = None;
    Page::new(&replay).dom("#selftest", &[DESK]).passes("one frame");
}

#[test]
#[ignore = "needs Chromium"]
fn a_report_fits_a_desk_and_a_phone_in_light_and_dark() {
    let page = Page::report(&Report::new(&Registry::standard(), &made_up::grid(), None).unwrap());
    for (width, dark) in [(1280, false), (1280, true), (375, false), (320, true)] {
        let mut flags = vec!["--dump-dom", "--allow-file-access-from-files", DESK];
        flags.extend(dark.then_some(DARK));
        let dom = Dom(page.run(&page.measured(width), "", &flags));
        assert_eq!(dom.data("width"), Some(width.to_string().as_str()), "nothing sticks out of the page");
        assert_eq!((dom.data("out"), dom.data("small")), (Some(""), Some("")), "{width}: texts of figures");
        assert_eq!(dom.data("figures"), Some("29"));
        let ground = if dark { "rgb(17, 20, 24)" } else { "rgb(244, 242, 238)" };
        assert_eq!(dom.data("ground"), Some(ground));
    }
    page.picture("report", "", &["--window-size=1280,8000"]);
    page.picture("report-dark", "", &["--window-size=1280,2600", DARK]);
    if let Some(folder) = std::env::var_os("SSKP_SCREENSHOTS") {
        let file = Path::new(&folder).join("report-phone.png");
        let tall = page.measured(375);
        let html = std::fs::read_to_string(&tall).unwrap().replace("height=800", "height=4000");
        std::fs::write(&tall, html).unwrap();
        page.run(&tall, "", &[&format!("--screenshot={}", file.display()), "--window-size=500,4000"]);
    }
}

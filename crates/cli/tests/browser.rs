//! Live pages in a real browser, with real runs behind them.
//!
//! Not run by default, because not every machine has a browser: `cargo test --release -p sskp --test browser -- --ignored`. `CHROME` names another
//! browser of the Chromium family; `SSKP_SCREENSHOTS` names a folder for pictures of the pages.

#[path = "common/chrome.rs"]
mod chrome;
#[path = "common/program.rs"]
mod program;
#[path = "common/watching.rs"]
mod watching;

use std::time::Instant;

use chrome::Chrome;
use watching::{Server, Training, train};

#[test]
#[ignore = "needs Chromium"]
fn a_run_is_followed_while_it_trains_stops_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    train(folder.path(), "sac", 0, 3000);
    let mut live = Training::start(folder.path(), "sac", 1);
    live.wait_for_rows();
    let server = Server::start(&[folder.path()]);
    let mut chrome = Chrome::start();
    chrome.look(1280, false);
    let begun = Instant::now();
    chrome.open(&server.url);
    chrome.until("the board", "document.querySelectorAll('.row').length === 2");
    println!("first picture after {:.2} s", begun.elapsed().as_secs_f64());
    chrome.until("a picture", "performance.getEntriesByName('first-contentful-paint').length");
    let paint = chrome.eval("performance.getEntriesByName('first-contentful-paint')[0].startTime");
    println!("first contentful paint after {paint} ms");
    assert!(paint.as_f64().unwrap() < 1000.0, "{paint}");
    // The run that trains is the one that is shown, and it moves.
    chrome.until("training", "document.querySelector('.row.chosen .state').textContent === 'training'");
    chrome.until("curves", "document.querySelectorAll('[data-part] svg').length >= 2");
    let steps = "+document.querySelector('.row.chosen .what').textContent.replace(/[^0-9].*/, m => '').replace(/\\D/g, '') || parseInt(document.querySelector('.row.chosen .what').textContent.replace(/ /g, ''))";
    let before = chrome.eval(steps).as_f64().unwrap();
    let facts = chrome.eval("document.querySelector('[data-part=facts]').innerHTML");
    chrome.until("more steps", &format!("({steps}) > {before}"));
    chrome.until("the panel moved", &format!("document.querySelector('[data-part=facts]').innerHTML !== {facts}"));
    chrome.until("a speed", "document.querySelector('.row.chosen .what').textContent.includes('steps/s')");
    chrome.until("time left", "document.querySelector('.row.chosen .what').textContent.includes(' left')");
    chrome.holds_at_every_width("watch");
    // Killed: it shows as that, and nothing of it is lost. Resumed: as that.
    live.kill();
    chrome.until("stopped", "document.querySelector('.row.chosen .state').textContent === 'stopped'");
    live.resume();
    chrome.until("resumed", "document.querySelector('.row.chosen .state').textContent === 'resumed'");
    live.kill();
    std::fs::remove_dir_all(&live.folder).unwrap();
    chrome.until("deleted", "document.querySelector('.row.chosen .state').textContent === 'deleted'");
    assert_eq!(chrome.eval("document.body.dataset.error || ''"), "");
    // The server goes away and comes back: the page says so, and then follows again.
    let port = server.port;
    drop(server);
    chrome.until("no server", "document.body.dataset.link === 'lost'");
    let gone = std::mem::take(&mut chrome.complaints);
    assert!(gone.iter().all(|text| text.contains("events") || text.contains("ERR_")), "{gone:?}");
    let _again = Server::on(&[folder.path()], port);
    chrome.until("the server again", "document.body.dataset.link === 'live'");
    chrome.complaints.retain(|text| !text.contains("ERR_"));
    assert_eq!(chrome.complaints, Vec::<String>::new());
}

#[test]
#[ignore = "needs Chromium"]
fn a_violation_is_opened_by_a_click_and_by_keys() {
    let folder = tempfile::tempdir().unwrap();
    for seed in 0..5 {
        train(folder.path(), "sac", seed, 3000);
    }
    let server = Server::start(&[folder.path()]);
    let mut chrome = Chrome::start();
    chrome.look(1280, false);
    chrome.open(&server.url);
    chrome.until("violations", "document.querySelectorAll('[data-part=moments] a').length > 10");
    // Keys: into the board, to the next run, which is shown.
    chrome.key("Tab");
    chrome.until("focus on the board", "document.activeElement.classList.contains('chip')");
    chrome.key("ArrowDown");
    chrome.until("the next run", "document.activeElement.classList.contains('chosen') && document.querySelector('.row.chosen strong').textContent.includes('1')");
    chrome.until(
        "its violations",
        "document.querySelector('[data-part=moments] a').getAttribute('href').startsWith('/runs/1/')",
    );
    chrome.until("its facts", "document.querySelector('[data-part=facts]').textContent.includes('seed 1')");
    chrome.click("[data-part=moments] tr.violation a");
    chrome.until("the replay", "document.body.dataset.ready === 'yes' && window.__sskp");
    assert!(chrome.eval("location.pathname").as_str().unwrap().starts_with("/runs/1/violations/"));
    assert_eq!(chrome.eval("window.__sskp.panels.includes('gauge')"), true);
    assert_eq!(chrome.eval("document.body.dataset.webgl"), "ok");
    chrome.eval("window.__sskp.pause(); window.__sskp.seek(1e9)");
    assert_eq!(chrome.eval("window.__sskp.faint()"), 8, "faint robots at the end");
    assert_eq!(chrome.eval("document.querySelector('.v-gauge').classList.contains('near')"), true);
    chrome.holds_at_every_width("violation");
    // Back, and in again without a mouse.
    chrome.eval("history.back()");
    chrome.until("the board again", "document.querySelectorAll('[data-part=moments] a').length > 10");
    chrome.eval("document.querySelector('[data-part=moments] a').focus()");
    chrome.key("Enter");
    chrome.until(
        "the replay again",
        "location.pathname.includes('/violations/') && document.body.dataset.ready === 'yes'",
    );
    assert_eq!(chrome.eval("document.body.dataset.error || ''"), "");
    assert_eq!(chrome.complaints, Vec::<String>::new());
}

#[test]
#[ignore = "needs Chromium"]
fn episodes_side_by_side_move_together_and_can_be_saved() {
    let folder = tempfile::tempdir().unwrap();
    let run = train(folder.path(), "sac", 0, 1500);
    let page = folder.path().join("page.html");
    let args = ["eval", run.to_str().unwrap(), "--episode", "best,worst", "--episodes", "4", "--stochastic", "--html"];
    watching::succeeds(&[&args[..], &[page.to_str().unwrap(), "--beside", run.to_str().unwrap()]].concat());
    let mut chrome = Chrome::start();
    chrome.look(1280, false);
    chrome.open(&format!("file://{}", page.display()));
    chrome.until("ready", "document.body.dataset.ready === 'yes'");
    assert_eq!(chrome.eval("document.querySelectorAll('.viewer canvas.v-view').length"), 4);
    assert_eq!(chrome.eval("[...document.querySelectorAll('.v-controls')].filter(e => e.offsetHeight).length"), 1);
    chrome.eval("window.__sskp.pause(); window.__sskp.seek(5)");
    let frames =
        chrome.eval("[...document.querySelectorAll('.v-readout')].map(e => e.textContent.split('/')[0].trim())");
    assert!(frames.as_array().unwrap().iter().all(|text| text == "frame 5"), "{frames}");
    chrome.key("ArrowRight");
    chrome.until("keys step", "window.__sskp.frame() === 6");
    chrome.holds_at_every_width("side-by-side");
    // What the page saves by itself: a GIF of as many pictures as it has, and a video of the browser's own encoder.
    chrome.look(480, false);
    let gif = chrome.eval("(async () => { const b = new Uint8Array(await window.__sskp.gif(120, 10).arrayBuffer()); return [String.fromCharCode(...b.slice(0, 6)), b.length, b[b.length - 1]]; })()");
    assert_eq!((&gif[0], &gif[2]), (&"GIF89a".into(), &59.into()));
    assert!(gif[1].as_u64().unwrap() > 5000, "{gif}");
    // The browser itself can read it.
    let read = "(async () => { const d = new ImageDecoder({ type: 'image/gif', data: await window.__sskp.gif(120, 10).arrayBuffer() }); await d.tracks.ready; await d.completed; let width; \
                for (let i = 0; i < d.tracks.selectedTrack.frameCount; i++) { const { image } = await d.decode({ frameIndex: i }); width = image.displayWidth; image.close(); } \
                return [d.tracks.selectedTrack.frameCount, width]; })()";
    let read = chrome.eval(read);
    assert!(read[0].as_u64().unwrap() > 3 && read[1] == 120, "{read}");
    let video = chrome.eval("(async () => { window.__sskp.setSpeed(2); const v = await window.__sskp.saveVideo(); return [v.type, v.size]; })()");
    assert!(video[0].as_str().unwrap().starts_with("video/") && video[1].as_u64().unwrap() > 500, "{video}");
    assert_eq!(chrome.complaints, Vec::<String>::new());
}

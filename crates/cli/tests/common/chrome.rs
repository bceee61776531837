//! A real browser, driven: headless Chromium over its debugging pipe, so that no port is opened and nothing else is needed.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A browser with one page.
pub struct Chrome {
    child: Child,
    to: File,
    from: Receiver<Value>,
    next: u64,
    session: String,
    /// What pages complained of on the console, and errors of their scripts.
    pub complaints: Vec<String>,
    _profile: tempfile::TempDir,
}

const LIMIT: Duration = Duration::from_secs(60);

fn browser() -> PathBuf {
    if let Some(named) = std::env::var_os("CHROME") {
        return named.into();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = std::env::split_paths(&path).flat_map(|f| names.map(|n| f.join(n))).find(|p| p.is_file());
    found.expect("these tests need Chromium or Chrome: install one, or name it in CHROME")
}

impl Chrome {
    pub fn start() -> Self {
        let profile = tempfile::tempdir().unwrap();
        let [into, out] = ["in", "out"].map(|name| profile.path().join(name));
        assert!(Command::new("mkfifo").args([&into, &out]).status().unwrap().success());
        // The browser reads its orders from descriptor 3 and answers on 4.
        let script = "exec \"$0\" \"$@\" 3<\"$SSKP_PIPE_IN\" 4>\"$SSKP_PIPE_OUT\"";
        let child = Command::new("sh")
            .args(["-c", script])
            .arg(browser())
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--use-angle=swiftshader",
                "--enable-unsafe-swiftshader",
            ])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"])
            .args(["--disable-quic", "--hide-scrollbars", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", profile.path().join("profile").display()))
            .env("SSKP_PIPE_IN", &into)
            .env("SSKP_PIPE_OUT", &out)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the browser starts");
        let to = OpenOptions::new().write(true).open(&into).unwrap();
        let mut answers = BufReader::new(File::open(&out).unwrap());
        let (send, from) = channel();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            while answers.read_until(0, &mut bytes).is_ok_and(|n| n > 0) {
                bytes.pop();
                let Ok(message) = serde_json::from_slice(&bytes) else { return };
                if send.send(message).is_err() {
                    return;
                }
                bytes.clear();
            }
        });
        let mut chrome =
            Self { child, to, from, next: 0, session: String::new(), complaints: Vec::new(), _profile: profile };
        let target = chrome.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        chrome.session = chrome.call("Target.attachToTarget", attach)["sessionId"].as_str().unwrap().into();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            chrome.call(&format!("{domain}.enable"), json!({}));
        }
        chrome
    }

    /// One order, and its answer. What the page says meanwhile is heard.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let mut order = json!({ "id": self.next, "method": method, "params": params });
        if !self.session.is_empty() {
            order["sessionId"] = self.session.clone().into();
        }
        self.to
            .write_all(order.to_string().as_bytes())
            .and_then(|()| self.to.write_all(&[0]))
            .expect("the browser listens");
        loop {
            let message = self.from.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("no answer to {method}"));
            if message["id"] == self.next {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.hear(&message);
        }
    }

    fn hear(&mut self, message: &Value) {
        let params = &message["params"];
        let complaint = match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => Some(params["exceptionDetails"].to_string()),
            Some("Log.entryAdded") if params["entry"]["level"] == "error" => Some(params["entry"].to_string()),
            Some("Runtime.consoleAPICalled") if params["type"] == "error" => Some(params["args"].to_string()),
            _ => None,
        };
        self.complaints.extend(complaint);
    }

    /// The value of an expression; promises are waited for.
    pub fn eval(&mut self, expression: &str) -> Value {
        let params =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true, "userGesture": true });
        let result = self.call("Runtime.evaluate", params);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub fn until(&mut self, what: &str, expression: &str) {
        let begun = Instant::now();
        // What is not there yet is not there.
        while self.eval(&format!("(() => {{ try {{ return !!({expression}); }} catch {{ return false; }} }})()"))
            != true
        {
            let seen = "(document.body.dataset.error || '') + document.body.innerText.slice(0, 600)";
            assert!(begun.elapsed() < LIMIT, "{what}: never came; {}", self.eval(seen));
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({ "url": url }));
        self.until("a page", "document.readyState === 'complete' && location.href !== 'about:blank'");
    }

    /// A window of a width, light or dark.
    pub fn look(&mut self, width: u32, dark: bool) {
        let size = json!({ "width": width, "height": 860, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let value = if dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": value }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// A real click on the middle of an element.
    pub fn click(&mut self, selector: &str) {
        let box_of = format!(
            "(() => {{ const e = document.querySelector({selector:?}); e.scrollIntoView({{block: 'center'}}); const b = e.getBoundingClientRect(); \
             return [b.left + b.width / 2, b.top + b.height / 2]; }})()"
        );
        let at = self.eval(&box_of);
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({ "type": kind, "x": at[0], "y": at[1], "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    /// A key, pressed.
    pub fn key(&mut self, key: &str) {
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let event = json!({ "type": kind, "key": key, "code": key, "text": if kind == "keyDown" { text } else { "" },
                "windowsVirtualKeyCode": match key { "Tab" => 9, "Enter" => 13, "ArrowUp" => 38, "ArrowDown" => 40, _ => 0 } });
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// A picture of the page, where pictures were asked for.
    pub fn picture(&mut self, name: &str) {
        if let Some(folder) = std::env::var_os("SSKP_SCREENSHOTS") {
            let shot = self.call("Page.captureScreenshot", json!({ "format": "png" }));
            let file = PathBuf::from(folder).join(format!("{name}.png.b64"));
            std::fs::write(file, shot["data"].as_str().unwrap()).unwrap();
        }
    }

    /// At 400, 800 and 1280 px, light and dark: nothing sticks out, and every text that is shown can be read.
    pub fn holds_at_every_width(&mut self, name: &str) {
        for width in [400, 800, 1280] {
            for dark in [false, true] {
                self.look(width, dark);
                std::thread::sleep(Duration::from_millis(120));
                let wide = self.eval("document.documentElement.scrollWidth");
                assert!(wide.as_u64().unwrap() <= u64::from(width), "{name} at {width}: {wide} wide");
                let out = self.eval(
                    "[...document.querySelectorAll('h1,h2,h3,p,button,dd,dt,th,td,figure,canvas,a')].filter(e => { const b = e.getBoundingClientRect(); \
                     return b.width && b.right > innerWidth + 1 && !e.closest('.scroll, .table'); }).map(e => e.className + ' ' + e.textContent.slice(0, 40))",
                );
                assert_eq!(out, json!([]), "{name} at {width} sticks out");
                let ground = self.eval("getComputedStyle(document.body).backgroundColor").to_string();
                let light = ground.chars().filter(char::is_ascii_digit).count() > 7;
                assert_eq!(light, !dark, "{name}: {ground}");
                self.picture(&format!("{name}-{width}{}", if dark { "-dark" } else { "" }));
            }
        }
        self.look(1280, false);
    }
}

impl Drop for Chrome {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

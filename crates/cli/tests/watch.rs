//! `sskp watch` over real connections: what it refuses, what it costs, and that it never writes.

#[path = "common/program.rs"]
mod program;
#[path = "common/watching.rs"]
mod watching;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use sskp_lab::config::{Config, Overrides, RunConfig};
use sskp_lab::registry::Registry;
use sskp_lab::run_dir::Lock;
use watching::{Server, train};

/// Sends a request as it is; gives the status and the whole answer.
fn ask(port: u16, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let status = text.split_whitespace().nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    (status, text)
}

fn get(port: u16, path: &str) -> (u16, String) {
    ask(port, &format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n"))
}

/// Names, sizes and times of all files: what would change if somebody wrote.
fn files(folder: &Path) -> BTreeMap<String, (u64, SystemTime)> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let (path, data) = (entry.path(), entry.metadata().unwrap());
        all.insert(path.display().to_string(), (data.len(), data.modified().unwrap()));
        if data.is_dir() {
            all.extend(files(&path));
        }
    }
    all
}

#[test]
fn hostile_requests_are_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    train(folder.path(), "sac", 0, 1200);
    fs::write(folder.path().join("secret.txt"), "do not show this").unwrap();
    let before = files(folder.path());
    let server = Server::start(&[folder.path()]);
    let port = server.port;
    assert!(server.url.starts_with("http://127.0.0.1:") && !server.url.contains("token"), "{}", server.url);
    let (status, page) = get(port, "/");
    assert_eq!(status, 200);
    for header in
        ["content-security-policy: default-src 'none'", "x-frame-options: DENY", "x-content-type-options: nosniff"]
    {
        assert!(page.contains(header), "{header}");
    }
    for path in [
        "/../../etc/passwd",
        "/..%2f..%2fetc/passwd",
        "/runs/../../secret.txt",
        "/runs/..%2fsecret.txt",
        "/runs/0/../../secret.txt",
        "/secret.txt",
        "/runs/0/violations/..%2f..%2fsecret.txt",
        "/runs/-1",
        "/runs/99999999999999999999999",
        "/runs/5",
        "/runs/0/violations/18446744073709551616",
        "/runs/0/violations/7",
        "/run%00s/0",
        "//etc/passwd",
    ] {
        let (status, text) = get(port, path);
        assert!((400..500).contains(&status), "{path}: {status}");
        assert!(!text.contains("do not show") && !text.contains("root:"), "{path}: {text}");
    }
    let from = |headers: &str| ask(port, &format!("GET /board HTTP/1.1\r\n{headers}Connection: close\r\n\r\n")).0;
    let host = format!("Host: 127.0.0.1:{port}\r\n");
    assert_eq!(from(&host), 200);
    assert_eq!(from(&format!("{host}Origin: http://evil.example\r\n")), 403);
    assert_eq!(from(&format!("{host}Sec-Fetch-Site: cross-site\r\n")), 403);
    assert_eq!(from("Host: evil.example\r\n"), 403, "a name that somebody else points here");
    assert_eq!(from(&format!("{host}Host: evil.example\r\n")), 400, "two names");
    let absolute = format!("GET http://evil.example/board HTTP/1.1\r\n{host}Connection: close\r\n\r\n");
    assert_eq!(ask(port, &absolute).0, 400, "another name than its host's");
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        let request = format!("{method} /board HTTP/1.1\r\n{host}Content-Length: 0\r\nConnection: close\r\n\r\n");
        assert_eq!(ask(port, &request).0, 405, "{method}");
    }
    assert_eq!(get(port, &format!("/{}", "a".repeat(5000))).0, 414);
    // What is no request at all.
    assert!(ask(port, "\x16\x03\x01\x02\x00\r\n\r\n").0 >= 400 || ask(port, "\r\n").0 == 0);
    assert_eq!(get(port, "/board").0, 200, "it goes on");
    // Violations were listed, played and drawn meanwhile; nothing in the folder has changed.
    let (_, parts) = get(port, "/runs/0");
    let link = parts.split("/violations/").nth(1).unwrap().split('\\').next().unwrap();
    let (status, replay) = get(port, &format!("/runs/0/violations/{link}"));
    assert!(status == 200 && replay.contains("\"ghosts\":[{"), "{status}");
    assert_eq!(files(folder.path()), before);
}

#[test]
fn broken_runs_are_shown_as_that_and_the_others_stay() {
    let folder = tempfile::tempdir().unwrap();
    train(folder.path(), "sac", 0, 1200);
    for (name, file, bytes) in [
        ("bad-config", "config.toml", &b"\xff\xfe not toml"[..]),
        ("bad-rows", "episodes.csv", b"episode,steps\n1,2,3\n"),
        ("bad-violations", "violations.bin", &[9, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        ("bad-summary", "summary.json", b"{\"finished\": tru"),
    ] {
        let run = folder.path().join(name);
        fs::create_dir(&run).unwrap();
        for copied in ["config.toml", "episodes.csv", "summary.json"] {
            fs::copy(folder.path().join("run-0").join(copied), run.join(copied)).unwrap();
        }
        fs::write(run.join(file), bytes).unwrap();
    }
    let server = Server::start(&[folder.path()]);
    let (status, board) = get(server.port, "/board");
    assert_eq!(status, 200);
    assert!(board.contains("\"state\":\"broken\"") && board.contains("\"state\":\"finished\""), "{board}");
    for id in 0..5 {
        let (status, parts) = get(server.port, &format!("/runs/{id}"));
        assert_eq!(status, 200, "{parts}");
    }
    let problems = (0..5).filter(|id| get(server.port, &format!("/runs/{id}")).1.contains("problem")).count();
    assert!(problems >= 3, "{problems}");
}

#[test]
fn elsewhere_than_on_this_machine_a_token_is_needed() {
    let folder = tempfile::tempdir().unwrap();
    train(folder.path(), "sac", 0, 300);
    let server = Server::with(&[folder.path()], &["--host", "0.0.0.0", "--port", "0"]);
    let token = server.url.split("token=").nth(1).expect("a token").to_string();
    assert!(token.len() >= 32);
    let port = server.port;
    let host = format!("Host: robots.lab:{port}\r\n");
    let ask =
        |path: &str, more: &str| ask(port, &format!("GET {path} HTTP/1.1\r\n{host}{more}Connection: close\r\n\r\n"));
    assert_eq!(ask("/", "").0, 401);
    assert_eq!(ask("/board", "").0, 401);
    assert_eq!(ask("/board?token=0123", "").0, 401);
    let (status, answer) = ask(&format!("/?token={token}"), "");
    assert_eq!(status, 303);
    let lower = answer.to_lowercase();
    assert!(
        lower.contains("httponly") && lower.contains("samesite=strict") && lower.contains("location: /"),
        "{answer}"
    );
    let cookie = answer.lines().find(|l| l.to_lowercase().starts_with("set-cookie:")).unwrap();
    let cookie = cookie.split_once(':').unwrap().1.trim().split(';').next().unwrap().to_string();
    assert_eq!(ask("/board", &format!("Cookie: {cookie}\r\n")).0, 200);
    assert_eq!(ask("/board", &format!("Cookie: {cookie}\r\nOrigin: http://evil.example\r\n")).0, 403);
}

#[test]
fn what_cannot_be_watched_is_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("none");
    let output = Command::new(program::program()).arg("watch").arg(&missing).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("none") && text.lines().count() == 1, "{text}");
    // A port that is taken.
    let server = Server::start(&[folder.path()]);
    let port = server.port.to_string();
    let output = Command::new(program::program()).args(["watch", "--port", &port]).arg(folder.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && text.contains("--port") && text.lines().count() == 1, "{text}");
}

/// Seconds of processor time that a process has used, and the megabytes it holds.
fn cost(pid: u32) -> (f64, f64) {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    (ticks / 100.0, line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0)
}

#[test]
fn a_hundred_running_cells_cost_little() {
    let folder = tempfile::tempdir().unwrap();
    let registry = Registry::standard();
    let mut locks = Vec::new();
    // As a hundred runs look from outside: locked, and written to all the time.
    for seed in 0..100 {
        let run = folder.path().join(format!("toy/sac/seed-{seed}"));
        fs::create_dir_all(&run).unwrap();
        let config =
            Config::resolve(&registry, RunConfig::new("sac", "toy", seed, 1_000_000), &Overrides::default()).unwrap();
        fs::write(run.join("config.toml"), config.to_toml()).unwrap();
        fs::write(run.join("episodes.csv"), "episode,steps,length,return,violation,cumulative_violations\n").unwrap();
        locks.push((Lock::take(&run).unwrap().unwrap(), run, 0u64));
    }
    let grow = |runs: &mut Vec<(Lock, std::path::PathBuf, u64)>, rows: u64| {
        for (_, run, done) in runs.iter_mut() {
            let mut file = fs::OpenOptions::new().append(true).open(run.join("episodes.csv")).unwrap();
            let mut text = String::new();
            for _ in 0..rows {
                *done += 1;
                text += &format!("{done},{},40,1.25,1,{done}\n", 40 * *done);
            }
            file.write_all(text.as_bytes()).unwrap();
        }
    };
    grow(&mut locks, 5000);
    let server = Server::start(&[folder.path()]);
    let begun = Instant::now();
    let (status, page) = get(server.port, "/");
    let first = begun.elapsed();
    assert_eq!((status, page.matches("\"state\":\"training\"").count()), (200, 100));
    assert!(first < Duration::from_secs(1), "the page took {first:?}");
    // Somebody watches one of them.
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    write!(stream, "GET /events?run=7 HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", server.port).unwrap();
    let reader = std::thread::spawn(move || {
        let (mut bytes, mut buffer) = (0, [0; 65536]);
        while let Ok(n @ 1..) = stream.read(&mut buffer) {
            bytes += n;
        }
        bytes
    });
    let (before, begun) = (cost(server.pid()).0, Instant::now());
    for _ in 0..10 {
        std::thread::sleep(Duration::from_secs(1));
        grow(&mut locks, 10);
    }
    let (after, megabytes) = cost(server.pid());
    let share = (after - before) / begun.elapsed().as_secs_f64();
    drop(server);
    let bytes = reader.join().unwrap();
    println!(
        "100 cells: {:.1} % of a core, {megabytes:.0} MB, the page after {first:?}, {bytes} bytes sent",
        100.0 * share
    );
    assert!(bytes > 20_000, "{bytes}");
    assert!(share < 0.05, "{share} of a core");
    assert!(megabytes < 200.0, "{megabytes} MB");
}

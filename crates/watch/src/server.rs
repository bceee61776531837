//! The server: three kinds of pages and a stream of what changed.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::get;
use futures_util::stream::{self, Stream};
use serde_json::{Map, Value, json};
use sskp_blocks::{Error, Result};
use sskp_lab::registry::Registry;
use tokio::sync::Semaphore;

use crate::board::{Board, Row};
use crate::find::Source;
use crate::guard::{self, Access};
use crate::page;
use crate::panel::{self, Panels};

/// How often files are looked at while somebody watches.
const EVERY: Duration = Duration::from_secs(1);
/// How often the run somebody looks at is drawn again.
const DRAW_EVERY: Duration = Duration::from_secs(2);
/// Watchers at a time: each is a connection, and a browser has a few.
const MOST_WATCHERS: usize = 64;

/// Where to listen.
pub struct Options {
    /// Address and port; port 0 is any that is free.
    pub address: SocketAddr,
    /// What to watch.
    pub source: Source,
}

struct Shared {
    registry: Registry,
    access: Access,
    board: Mutex<Seen>,
    panels: Panels,
    /// Violations are played again one at a time.
    playing: Semaphore,
    watchers: Semaphore,
}

struct Seen {
    board: Board,
    rows: Arc<Vec<Row>>,
    at: Option<Instant>,
}

impl Shared {
    /// All rows, not older than a moment. Whoever comes first looks, for all.
    fn rows(&self) -> (Arc<Vec<Row>>, String) {
        let mut seen = self.board.lock().expect("nobody panics");
        if seen.at.is_none_or(|at| at.elapsed() >= EVERY.mul_f64(0.9)) {
            seen.rows = Arc::new(seen.board.poll());
            seen.at = Some(Instant::now());
        }
        (Arc::clone(&seen.rows), seen.board.left_out.clone())
    }

    fn folder(&self, id: usize) -> Option<std::path::PathBuf> {
        self.board.lock().expect("nobody panics").board.folder(id)
    }
}

type App = Arc<Shared>;

/// Serves until the process ends. `ready` is told the address to open.
pub fn serve(registry: &Registry, options: Options, ready: impl FnOnce(&str)) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(4)
        .thread_keep_alive(Duration::from_secs(60))
        .build();
    let runtime = runtime.map_err(|e| Error::other(format!("the server cannot start: {e}")))?;
    runtime.block_on(async {
        let wanted = options.address;
        let listening = |e: std::io::Error| {
            Error::other(format!("{wanted} cannot be listened on: {e}; --port names another port, 0 any that is free"))
        };
        let listener = tokio::net::TcpListener::bind(wanted).await.map_err(listening)?;
        let address = listener.local_addr().map_err(listening)?;
        let token = if address.ip().is_loopback() { None } else { Some(guard::token().map_err(listening)?) };
        let query = token.as_ref().map_or(String::new(), |token| format!("?token={token}"));
        let access = Access { address, token };
        let seen = Seen { board: Board::new(options.source), rows: Arc::default(), at: None };
        let app = Arc::new(Shared {
            registry: registry.clone(),
            access,
            board: Mutex::new(seen),
            panels: Panels::default(),
            playing: Semaphore::new(1),
            watchers: Semaphore::new(MOST_WATCHERS),
        });
        ready(&format!("http://{address}/{query}"));
        axum::serve(listener, router(app)).await.map_err(|e| Error::other(format!("the server ended: {e}")))
    })
}

fn router(app: App) -> Router {
    Router::new()
        .route("/", get(front))
        .route("/board", get(board))
        .route("/events", get(events))
        .route("/runs/{id}", get(one_run))
        .route("/runs/{id}/violations/{steps}", get(one_violation))
        .fallback(|| async { (StatusCode::NOT_FOUND, "there is no such page here") })
        .layer(middleware::from_fn_with_state(Arc::clone(&app), guarded))
        .with_state(app)
}

/// Every request is looked at before it is answered, and every answer says that it is for this page alone.
async fn guarded(State(app): State<App>, request: Request, next: Next) -> Response {
    let checked = guard::check(&app.access, request.method(), request.uri(), request.headers());
    let mut response = match checked {
        Err(refused) => refused.into_response(),
        Ok(()) => next.run(request).await,
    };
    let headers = response.headers_mut();
    let mut put = |name, value| _ = headers.insert(name, HeaderValue::from_static(value));
    put(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    put(header::X_FRAME_OPTIONS, "DENY");
    put(header::REFERRER_POLICY, "no-referrer");
    put(header::CACHE_CONTROL, "no-store");
    put(header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    put(
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    );
    response
}

/// Work with files, away from the thread that answers.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

async fn front(State(app): State<App>, request: Request) -> Response {
    if let (Some(token), Some(_)) = (&app.access.token, guard::in_query(request.uri())) {
        // The token leaves the address: it would stand in histories and on screens.
        let cookie = format!("{}={token}; HttpOnly; SameSite=Strict; Path=/", guard::cookie_name(&app.access));
        return ([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response();
    }
    let shared = Arc::clone(&app);
    let Some((rows, left_out)) = aside(move || shared.rows()).await else { return failed() };
    Html(page::html(&rows, &left_out)).into_response()
}

fn failed() -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, "that went wrong; the server goes on").into_response()
}

async fn board(State(app): State<App>) -> Response {
    match aside(move || app.rows()).await {
        Some((rows, left_out)) => axum_json(&json!({ "rows": &*rows, "left_out": left_out })),
        None => failed(),
    }
}

fn axum_json(value: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

async fn one_run(State(app): State<App>, Path(id): Path<usize>) -> Response {
    let Some(folder) = app.folder(id) else { return missing() };
    match aside(move || app.panels.parts(&app.registry, id, &folder)).await {
        Some(parts) => axum_json(&Value::Object(parts)),
        None => failed(),
    }
}

fn missing() -> Response {
    (StatusCode::NOT_FOUND, "there is no run of this number").into_response()
}

async fn one_violation(State(app): State<App>, Path((id, steps)): Path<(usize, u64)>) -> Response {
    let Some(folder) = app.folder(id) else { return missing() };
    let Ok(_alone) = app.playing.acquire().await else { return failed() };
    let shared = Arc::clone(&app);
    match aside(move || panel::violation(&shared.registry, &folder, steps)).await {
        Some(Ok(html)) => Html(html).into_response(),
        Some(Err(error)) => (StatusCode::NOT_FOUND, error.to_string()).into_response(),
        None => failed(),
    }
}

/// What one watcher was sent so far.
#[derive(Default)]
struct Sent {
    rows: HashMap<usize, Row>,
    left_out: String,
    parts: Map<String, Value>,
    /// Steps, length of file: the run as it was drawn last.
    drawn: Option<(Instant, Row)>,
}

/// Everything that changes: rows of the board, and with `?run=N` the parts of that run's panel.
async fn events(State(app): State<App>, request: Request) -> Response {
    let query = request.uri().query().unwrap_or_default().to_string();
    let run: Option<usize> = query.split('&').find_map(|pair| pair.strip_prefix("run=")).and_then(|n| n.parse().ok());
    match app.watchers.try_acquire() {
        // It comes back when the watcher is dropped.
        Ok(permit) => permit.forget(),
        Err(_) => return (StatusCode::SERVICE_UNAVAILABLE, "too many pages watch already").into_response(),
    }
    let watcher = Watcher { app, run, sent: Sent::default(), first: true };
    Sse::new(changes(watcher)).keep_alive(KeepAlive::default()).into_response()
}

struct Watcher {
    app: App,
    run: Option<usize>,
    sent: Sent,
    first: bool,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.app.watchers.add_permits(1);
    }
}

fn changes(watcher: Watcher) -> impl Stream<Item = std::result::Result<Event, Infallible>> {
    stream::unfold(watcher, |mut watcher| async move {
        loop {
            if !std::mem::take(&mut watcher.first) {
                tokio::time::sleep(EVERY).await;
            }
            let (mut back, news) = aside(move || {
                let news = watcher.news();
                (watcher, news)
            })
            .await?;
            back.first = false;
            if let Some(news) = news {
                return Some((Ok(Event::default().data(news.to_string())), back));
            }
            watcher = back;
        }
    })
}

impl Watcher {
    /// What changed since the last time; none if nothing did.
    fn news(&mut self) -> Option<Value> {
        let (rows, left_out) = self.app.rows();
        let changed: Vec<&Row> = rows.iter().filter(|row| self.sent.rows.get(&row.id) != Some(*row)).collect();
        let mut news = Map::new();
        if !changed.is_empty() {
            news.insert("rows".into(), json!(changed));
        }
        if left_out != self.sent.left_out {
            news.insert("left_out".into(), left_out.clone().into());
        }
        let changed: Vec<Row> = changed.into_iter().cloned().collect();
        self.sent.left_out = left_out;
        self.sent.rows.extend(changed.into_iter().map(|row| (row.id, row)));
        if let Some(row) = self.run.and_then(|id| rows.get(id)) {
            let stale = |(at, drawn): &(Instant, Row)| {
                at.elapsed() >= DRAW_EVERY && (drawn.steps, drawn.state) != (row.steps, row.state)
            };
            if self.sent.drawn.as_ref().is_none_or(stale) {
                self.sent.drawn = Some((Instant::now(), row.clone()));
                news.extend(self.draw(row.id).map(|parts| ("parts".to_string(), parts)));
            }
        }
        (!news.is_empty()).then_some(Value::Object(news))
    }

    fn draw(&mut self, id: usize) -> Option<Value> {
        let folder = self.app.folder(id)?;
        let mut parts = self.app.panels.parts(&self.app.registry, id, &folder);
        let all = parts.clone();
        parts.retain(|name, part| self.sent.parts.get(name) != Some(part));
        self.sent.parts = all;
        (!parts.is_empty()).then_some(json!({ "id": id, "all": parts }))
    }
}

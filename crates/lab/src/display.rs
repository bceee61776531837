//! How far something has come, for people who wait: bars on a terminal, elsewhere a plain line now and then, nothing for those who
//! asked for quiet. Runs, grids, fits and collections show themselves by this one.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use sskp_blocks::run::Clock;

use crate::wording::{duration, plural};

/// Between plain lines.
const PLAIN: Duration = Duration::from_secs(30);
/// Between redraws.
const REDRAW: Duration = Duration::from_millis(200);

/// A progress display.
pub struct Display {
    kind: Kind,
    unit: &'static str,
    total: u64,
    /// When the counting was first looked at, and where it was: what speeds are measured from.
    first: Option<(Instant, u64)>,
    last: Instant,
    stage: Option<Stage>,
}

enum Kind {
    Terminal { all: MultiProgress, bar: ProgressBar, lines: Vec<ProgressBar> },
    Plain,
    Quiet,
}

/// A part of the work that counts something of its own: a stage of pre-training.
struct Stage {
    name: &'static str,
    bar: Option<ProgressBar>,
    began: (Instant, u64),
}

/// A line of a terminal: the bar takes what the words leave, so that no terminal is too narrow.
fn style(words: &str) -> ProgressStyle {
    ProgressStyle::with_template(&format!("{{percent:>3}}% {{wide_bar}} {words}")).expect("a valid template")
}

impl Display {
    /// Counts to `total` things called `unit`.
    pub fn new(total: u64, unit: &'static str, quiet: bool) -> Self {
        let kind = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Kind::Quiet,
            (false, false) => Kind::Plain,
            (false, true) => {
                let all = MultiProgress::new();
                let bar = all.add(ProgressBar::new(total));
                bar.set_style(style("{human_pos}/{human_len}  {msg}"));
                Kind::Terminal { all, bar, lines: Vec::new() }
            }
        };
        Self { kind, unit, total, first: None, last: Instant::now(), stage: None }
    }

    /// Whether it is time to draw again. Reading the clock is cheap; drawing is not.
    fn due(&mut self) -> bool {
        let wait = match self.kind {
            Kind::Terminal { .. } => REDRAW,
            Kind::Plain => PLAIN,
            Kind::Quiet => return false,
        };
        let due = self.last.elapsed() >= wait;
        if due {
            self.last = Instant::now();
        }
        due
    }

    /// So many are done; `message` says what else there is to know, when it is time to say it.
    pub fn at(&mut self, done: u64, message: impl FnOnce() -> String) {
        if matches!(self.kind, Kind::Quiet) {
            return;
        }
        if self.first.is_none() {
            self.end_stage();
            self.first = Some((Instant::now(), done));
            self.last = Instant::now();
        }
        if !self.due() {
            return;
        }
        let (since, from) = self.first.expect("just set");
        let left = left(since.elapsed(), from, done, self.total);
        self.draw(done, &format!("{}{}", left.map_or(String::new(), |left| left + "  "), message()));
    }

    /// So many steps of a run are taken, and what its last episodes returned.
    pub fn step(&mut self, at: Clock, recent: f64) {
        self.at(at.steps, || {
            let returned = if recent.is_nan() { String::new() } else { format!("return {recent:.1}, ") };
            returned + &plural(at.violations, "violation")
        });
    }

    /// So many are done; the words know themselves how much time is left. Below, a line for each of several that run.
    pub fn grid(&mut self, done: u64, words: &str, running: impl Iterator<Item = String>) {
        if !self.due() {
            return;
        }
        self.draw(done, words);
        if let Kind::Terminal { all, lines, .. } = &mut self.kind {
            let texts: Vec<String> = running.collect();
            while lines.len() < texts.len() {
                let line = all.add(ProgressBar::new_spinner());
                line.set_style(ProgressStyle::with_template("  {wide_msg}").expect("a valid template"));
                lines.push(line);
            }
            let mut texts = texts.into_iter();
            lines.iter().for_each(|line| line.set_message(texts.next().unwrap_or_default()));
        }
    }

    fn draw(&self, done: u64, words: &str) {
        match &self.kind {
            Kind::Terminal { bar, .. } => {
                bar.set_position(done);
                bar.set_message(words.to_string());
            }
            Kind::Plain => eprintln!("{done}/{} {}  {words}", self.total, self.unit),
            Kind::Quiet => {}
        }
    }

    /// So much of a stage of pre-training is done.
    pub fn stage(&mut self, name: &'static str, done: u64, total: u64) {
        if self.stage.as_ref().is_none_or(|stage| stage.name != name) {
            self.end_stage();
            let bar = match &self.kind {
                Kind::Terminal { all, .. } => {
                    let bar = all.insert(0, ProgressBar::new(total));
                    bar.set_style(style("{msg}"));
                    Some(bar)
                }
                _ => None,
            };
            self.stage = Some(Stage { name, bar, began: (Instant::now(), done) });
            self.last = Instant::now();
        }
        if matches!(self.kind, Kind::Quiet) || !(self.due() || done >= total) {
            return;
        }
        let Stage { bar, began, .. } = self.stage.as_ref().expect("just set");
        let left = left(began.0.elapsed(), began.1, done, total).map_or(String::new(), |left| format!("  {left}"));
        match bar {
            Some(bar) => {
                bar.set_position(done);
                bar.set_message(format!("{name} {done}/{total}{left}"));
            }
            None => eprintln!("{name} {done}/{total}{left}"),
        }
    }

    fn end_stage(&mut self) {
        if let Some(Stage { bar: Some(bar), .. }) = self.stage.take() {
            bar.finish_and_clear();
        }
    }

    /// Lines that stay on the screen, unless somebody asked for quiet.
    pub fn say<S: AsRef<str>>(&mut self, lines: impl IntoIterator<Item = S>) {
        self.end_stage();
        for line in lines {
            match &self.kind {
                Kind::Terminal { all, .. } => drop(all.println(line.as_ref())),
                Kind::Plain => eprintln!("{}", line.as_ref()),
                Kind::Quiet => {}
            }
        }
    }

    /// Leaves nothing on the screen.
    pub fn finish(&mut self) {
        self.end_stage();
        if let Kind::Terminal { bar, lines, .. } = &self.kind {
            lines.iter().chain([bar]).for_each(ProgressBar::finish_and_clear);
        }
    }
}

/// "5 min left", at the speed measured since `since`, when it had come to `from`; nothing before there is a speed.
fn left(elapsed: Duration, from: u64, done: u64, total: u64) -> Option<String> {
    let speed = done.checked_sub(from)? as f64 / elapsed.as_secs_f64().max(1e-9);
    (speed > 0.0 && done < total).then(|| format!("{} left", duration((total - done) as f64 / speed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_from_the_speed() {
        let elapsed = Duration::from_secs(100);
        assert_eq!(left(elapsed, 0, 50, 100).unwrap(), "2 min left");
        assert_eq!(left(elapsed, 40, 50, 55).unwrap(), "50 s left", "what was done before does not count");
        assert_eq!(
            [(50, 50), (0, 100), (60, 50)].map(|(from, done)| left(elapsed, from, done, 100)),
            [None, None, None]
        );
    }
}

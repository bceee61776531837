//! Figures of the report as SVG. Each stands by itself as a file, and in the page; light or dark as the reader has it.

use std::fmt::Write as _;

use serde::Serialize;

use crate::svg::{Scale, escape};

/// A figure: curves over an axis, or bars of shares.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Name of its file, without `.svg`.
    pub name: String,
    /// Above it.
    pub title: String,
    /// Below the axis.
    pub x_label: String,
    /// Beside the axis.
    pub y_label: String,
    /// Which axis counts by orders of magnitude, if one does.
    pub log: Option<Axis>,
    /// What it shows.
    pub shows: Shows,
}

/// An axis that is drawn as log(1 + v): it has a zero, and a method with few violations is seen beside one with thousands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// Along.
    X,
    /// Up.
    Y,
}

/// What a figure shows.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shows {
    /// Lines with bands.
    Curves(Vec<Curve>),
    /// One bar per method, divided into shares.
    Shares(Vec<Bar>),
}

/// A line with a band.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// The method.
    pub method: String,
    /// Runs it is made of.
    pub runs: usize,
    /// x, mean, lowest, highest.
    pub points: Vec<[f64; 4]>,
}

/// A bar of shares.
#[derive(Clone, Debug, Serialize)]
pub struct Bar {
    /// The method.
    pub method: String,
    /// Mean seconds of a run.
    pub seconds: f64,
    /// Names of the parts, and seconds.
    pub parts: Vec<(String, f64)>,
}

const WIDTH: f64 = 400.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 18.0;
/// Most ticks of an axis.
const TICKS: f64 = 6.0;
/// Width of a letter of the legend, roughly.
const LETTER: f64 = 6.6;

/// Methods in the order of legends and tables, with the names the paper gives them.
pub const METHODS: [(&str, &str); 9] = [
    ("sskp", "SSkP"),
    ("recovery-rl", "Recovery RL"),
    ("cpq", "CPQ"),
    ("smbpo", "SMBPO"),
    ("sskp-np", "SSkP-NP"),
    ("sskp-wo-rp", "SSkP-w/o-RP (SPiRL)"),
    ("sac", "SAC"),
    ("ssac", "Safe SAC"),
    // The same learner as SSkP-w/o-RP.
    ("spirl", "SPiRL"),
];

/// Its place in that order.
pub fn rank(method: &str) -> usize {
    METHODS.iter().position(|(name, _)| *name == method).unwrap_or(METHODS.len())
}

/// The method's name for people.
pub fn title(method: &str) -> &str {
    METHODS.iter().find(|(name, _)| *name == method).map_or(method, |(_, title)| title)
}

/// Light and dark of the colours: those of Okabe and Ito, which colour-blind people can tell apart, darkened for white ground
/// or lightened for black where they would be faint. Dashes tell the methods apart without any colour.
const COLOURS: [(&str, &str, &str); 10] = [
    ("#0072b2", "#56b4e9", ""),
    ("#d55e00", "#ff9248", "7 3"),
    ("#00875f", "#2fc89a", "2 3"),
    ("#b4508a", "#e59ac6", "9 3 2 3"),
    ("#a06c00", "#f0c040", "5 2"),
    ("#5c6670", "#b4bcc6", "3 2"),
    ("#7a4bb5", "#bd9af2", ""),
    ("#3c8dbd", "#8fd0ff", "6 2 1 2"),
    ("#5c6670", "#b4bcc6", "8 2"),
    ("#1d2126", "#e8eaed", "1 2"),
];

/// The style that every figure carries.
pub fn style() -> String {
    let mut light = String::new();
    let mut dark = String::new();
    for (i, (a, b, dash)) in COLOURS.iter().enumerate() {
        let _ = write!(light, ".fig .k{i}{{stroke:{a}}}.fig .f{i}{{fill:{a}}}");
        let _ = write!(dark, ".fig .k{i}{{stroke:{b}}}.fig .f{i}{{fill:{b}}}");
        if !dash.is_empty() {
            let _ = write!(light, ".fig .k{i}{{stroke-dasharray:{dash}}}");
        }
    }
    format!(
        ".fig{{font:12px system-ui,-apple-system,'Segoe UI',Roboto,Arial,sans-serif;color:#1d2126}}.fig text{{fill:currentColor}}\
         .fig .soft{{fill:#5c646d}}.fig .t{{font-size:14px;font-weight:600}}.fig .grid{{stroke:#d9d6cf;stroke-width:1}}\
         .fig .axis{{stroke:#767e87;stroke-width:1}}.fig path{{fill:none;stroke-width:2;stroke-linejoin:round}}\
         .fig path.band{{stroke:none;stroke-dasharray:none;opacity:.16}}.fig .inside{{fill:#fff}}{light}\
         @media (prefers-color-scheme:dark){{.fig{{color:#e8eaed}}.fig .soft{{fill:#a2abb5}}.fig .grid{{stroke:#2c323a}}\
         .fig .axis{{stroke:#848d97}}.fig path.band{{opacity:.22}}.fig .inside{{fill:#111418}}{dark}}}"
    )
}

/// 0, 1, 10, … for an axis of orders of magnitude.
fn decades(high: f64) -> Vec<f64> {
    let powers = (0..).map(|i| 10f64.powi(i)).take_while(|power| *power <= high);
    std::iter::once(0.0).chain(powers).collect()
}

/// One of them in words.
fn decade(power: f64) -> String {
    match power {
        p if p >= 1e6 => format!("{:.0}M", p / 1e6),
        p if p >= 1e4 => format!("{:.0}k", p / 1e3),
        p => format!("{p:.0}"),
    }
}

impl Figure {
    /// The figure as a file of its own.
    pub fn svg(&self) -> String {
        let (body, height) = match &self.shows {
            Shows::Curves(curves) => self.curves(curves),
            Shows::Shares(bars) => self.shares(bars),
        };
        let label = escape(&format!("{}: {} against {}", self.title, self.y_label, self.x_label));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"fig\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" \
             aria-label=\"{label}\"><style>{}</style>\n<text class=\"t\" x=\"{LEFT}\" y=\"18\">{}</text>\n{body}</svg>\n",
            style(),
            escape(&self.title)
        )
    }

    /// Whether there is anything to see.
    pub fn is_empty(&self) -> bool {
        match &self.shows {
            Shows::Curves(curves) => curves.iter().all(|c| c.points.is_empty()),
            Shows::Shares(bars) => bars.is_empty(),
        }
    }

    fn curves(&self, curves: &[Curve]) -> (String, f64) {
        let mut out = String::new();
        let names: Vec<(usize, &str)> = curves.iter().map(|c| (rank(&c.method), title(&c.method))).collect();
        let top = legend(&mut out, &names, 34.0, true) + 12.0;
        let bottom = top + 200.0;
        let all = || curves.iter().flat_map(|c| &c.points);
        let xs = || all().map(|p| p[0]);
        let (x0, x1) = span(xs().fold(f64::INFINITY, f64::min).min(0.0), xs().fold(f64::NEG_INFINITY, f64::max));
        let (low, high) =
            (all().map(|p| p[2]).fold(f64::INFINITY, f64::min), all().map(|p| p[3]).fold(f64::NEG_INFINITY, f64::max));
        // Zero is shown where it is near.
        let low = if low > 0.0 && low < 0.5 * high { 0.0 } else { low };
        let high = if high < 0.0 && high > 0.5 * low { 0.0 } else { high };
        let (y0, y1) = span(low, high);
        let scale = |axis: Axis, v: f64| if self.log == Some(axis) { v.max(0.0).ln_1p() } else { v };
        let place = |axis: Axis, v: f64, from: f64, to: f64| {
            (scale(axis, v) - scale(axis, from)) / (scale(axis, to) - scale(axis, from))
        };
        let x = |v: f64| LEFT + place(Axis::X, v, x0, x1) * (WIDTH - LEFT - RIGHT);
        let y = |v: f64| bottom - place(Axis::Y, v, y0, y1) * (bottom - top);
        let ticks = |axis: Axis, low: f64, high: f64| -> Vec<(f64, String)> {
            if self.log == Some(axis) {
                return decades(high).into_iter().map(|power| (power, decade(power))).collect();
            }
            let scale = Scale::new([low, high].into_iter(), TICKS, false);
            scale.ticks.iter().map(|tick| (*tick, scale.label(*tick))).collect()
        };
        for (tick, label) in ticks(Axis::Y, y0, y1) {
            let at = y(tick);
            let _ = write!(out, "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{:.0}\"/>", WIDTH - RIGHT);
            let _ = writeln!(
                out,
                "<text class=\"soft\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{label}</text>",
                LEFT - 7.0,
                at + 4.0,
            );
        }
        for (tick, label) in ticks(Axis::X, x0, x1) {
            let at = x(tick);
            let _ = write!(out, "<path class=\"axis\" d=\"M{at:.1} {bottom:.1}v4\"/>");
            let _ = writeln!(
                out,
                "<text class=\"soft\" text-anchor=\"middle\" x=\"{at:.1}\" y=\"{:.1}\">{label}</text>",
                bottom + 18.0,
            );
        }
        let _ = writeln!(out, "<path class=\"axis\" d=\"M{LEFT} {bottom:.1}H{:.0}\"/>", WIDTH - RIGHT);
        for curve in curves {
            let k = rank(&curve.method);
            if curve.points.iter().any(|p| p[3] > p[2]) {
                let up = curve.points.iter().map(|p| (p[0], p[3]));
                let down = curve.points.iter().rev().map(|p| (p[0], p[2]));
                let _ = writeln!(out, "<path class=\"band f{k}\" d=\"{}Z\"/>", path(up.chain(down), x, y));
            }
        }
        for curve in curves.iter().rev() {
            let k = rank(&curve.method);
            let line = path(curve.points.iter().map(|p| (p[0], p[1])), x, y);
            let name =
                escape(&format!("{}, {}", title(&curve.method), crate::wording::plural(curve.runs as u64, "run")));
            let _ = writeln!(out, "<path class=\"k{k}\" d=\"{line}\"><title>{name}</title></path>");
            if let Some(end) = curve.points.last() {
                let _ =
                    writeln!(out, "<circle class=\"f{k}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"/>", x(end[0]), y(end[1]));
            }
        }
        let middle = (LEFT + WIDTH - RIGHT) / 2.0;
        let _ = writeln!(
            out,
            "<text text-anchor=\"middle\" x=\"{middle:.0}\" y=\"{:.0}\">{}</text>\
             <text text-anchor=\"middle\" transform=\"translate(14 {:.0}) rotate(-90)\">{}</text>",
            bottom + 38.0,
            escape(&self.x_label),
            (top + bottom) / 2.0,
            escape(&self.y_label)
        );
        (out, bottom + 48.0)
    }

    fn shares(&self, bars: &[Bar]) -> (String, f64) {
        let mut out = String::new();
        let mut phases: Vec<&str> = Vec::new();
        for (phase, _) in bars.iter().flat_map(|b| &b.parts) {
            if !phases.contains(&phase.as_str()) {
                phases.push(phase);
            }
        }
        let colour = |phase: &str| phases.iter().position(|p| *p == phase).unwrap_or(0) % COLOURS.len();
        let names: Vec<(usize, &str)> = phases.iter().map(|p| (colour(p), *p)).collect();
        let mut y = legend(&mut out, &names, 34.0, false) + 12.0;
        let longest = bars.iter().map(|bar| title(&bar.method).chars().count()).max().unwrap_or(0);
        let left = 12.0 + LETTER * longest as f64;
        for bar in bars {
            let total: f64 = bar.parts.iter().map(|p| p.1).sum();
            let mut x = left;
            let _ = write!(
                out,
                "<text text-anchor=\"end\" x=\"{:.0}\" y=\"{:.0}\">{}</text>",
                left - 8.0,
                y + 15.0,
                escape(title(&bar.method))
            );
            for (phase, seconds) in &bar.parts {
                let share = seconds / total.max(1e-9);
                let width = share * (WIDTH - left - 76.0);
                let name = escape(&format!("{phase}: {:.1} %", 100.0 * share));
                let _ = write!(
                    out,
                    "<rect class=\"f{}\" x=\"{x:.1}\" y=\"{y:.0}\" width=\"{:.1}\" height=\"20\"><title>{name}</title></rect>",
                    colour(phase),
                    (width - 1.0).max(0.5)
                );
                if share > 0.12 {
                    let _ = write!(
                        out,
                        "<text class=\"inside\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.0}\">{:.0} %</text>",
                        x + width / 2.0,
                        y + 14.5,
                        100.0 * share
                    );
                }
                x += width;
            }
            let time = crate::wording::duration(bar.seconds);
            let _ = writeln!(
                out,
                "<text class=\"soft\" text-anchor=\"end\" x=\"{:.0}\" y=\"{:.0}\">{time}</text>",
                WIDTH - RIGHT,
                y + 15.0
            );
            y += 28.0;
        }
        (out, y + 6.0)
    }
}

/// A range that is not empty.
fn span(low: f64, high: f64) -> (f64, f64) {
    if high - low > 1e-12 { (low, high) } else { (low - 0.5, low + 0.5) }
}

fn path(points: impl Iterator<Item = (f64, f64)>, x: impl Fn(f64) -> f64, y: impl Fn(f64) -> f64) -> String {
    let mut text = String::new();
    for (i, (a, b)) in points.enumerate() {
        let _ = write!(text, "{}{:.1} {:.1}", if i == 0 { 'M' } else { 'L' }, x(a), y(b));
    }
    text
}

/// Names in rows; gives the height where they end.
fn legend(out: &mut String, names: &[(usize, &str)], from: f64, lines: bool) -> f64 {
    let (mut x, mut y) = (LEFT, from);
    for (k, name) in names {
        let width = 30.0 + LETTER * name.chars().count() as f64 + 12.0;
        if x + width > WIDTH && x > LEFT {
            (x, y) = (LEFT, y + 17.0);
        }
        let sign = if lines {
            format!("<path class=\"k{k}\" d=\"M{x:.0} {:.0}h24\"/>", y - 4.0)
        } else {
            format!("<rect class=\"f{k}\" x=\"{:.0}\" y=\"{:.0}\" width=\"12\" height=\"12\"/>", x + 10.0, y - 10.0)
        };
        let _ = writeln!(out, "{sign}<text x=\"{:.0}\" y=\"{y:.0}\">{}</text>", x + 29.0, escape(name));
        x += width;
    }
    y
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_of_magnitude_have_short_names() {
        assert_eq!(
            decades(2e6).into_iter().map(decade).collect::<Vec<_>>(),
            ["0", "1", "10", "100", "1000", "10k", "100k", "1M"]
        );
    }

    #[test]
    fn a_point_stands_where_the_axes_say() {
        let points = vec![[0.0, 0.0, 0.0, 0.0], [10.0, 100.0, 100.0, 100.0]];
        let curves = vec![Curve { method: "sskp".into(), runs: 1, points }];
        let text = |s: &str| s.to_string();
        let figure = Figure {
            name: text("a"),
            title: text("A <b>"),
            x_label: text("x"),
            y_label: text("y"),
            log: None,
            shows: Shows::Curves(curves),
        };
        let svg = figure.svg();
        // The legend is one row: the axes are 62 … 382 wide and 46 … 246 high.
        assert!(svg.contains("d=\"M62.0 246.0L382.0 46.0\""), "{svg}");
        assert!(svg.contains("A &lt;b&gt;") && !svg.contains("<b>"));
        // By orders of magnitude: 1 of 0 … 10 stands at ln 2/ln 11 = 0.289 of 320.
        let svg = Figure { log: Some(Axis::X), ..figure }.svg();
        assert!(svg.contains("d=\"M62.0 246.0L382.0 46.0\"") && svg.contains("d=\"M154.5 246.0v4\""), "{svg}");
    }
}

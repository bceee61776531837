//! Line charts as SVG: axes with round numbers, several series, bands, a legend. A chart is text that stands by itself as a file
//! and inside an HTML page, and follows the reader's light or dark theme.

use std::fmt::Write as _;

use crate::svg::{Scale, escape};

/// A chart. Its axes hold all that is drawn.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// Above the chart.
    pub title: String,
    /// A line below the title.
    pub subtitle: String,
    /// Below the horizontal axis.
    pub x_label: String,
    /// Above the vertical axis.
    pub y_label: String,
    /// Whether both axes must hold zero.
    pub from_zero: bool,
    /// What is drawn, the first undermost.
    pub series: Vec<Series>,
}

/// One line of a legend, and what it stands for.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// x and y. A point that is no number interrupts the line.
    pub points: Vec<(f64, f64)>,
    /// How the points are drawn.
    pub mark: Mark,
    /// x, lowest and highest y of a shaded band behind them.
    pub band: Vec<(f64, f64, f64)>,
    /// Whether the band is drawn as a whisker at every x instead.
    pub whiskers: bool,
    /// Which of the colours of [`COLOURS`].
    pub colour: usize,
}

/// How points are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mark {
    /// Joined by a line.
    #[default]
    Line,
    /// Joined by a line, with a dot at each.
    LineWithDots,
    /// Joined by a dashed line.
    Dashed,
    /// Joined by level lines that jump at each point: counts.
    Steps,
    /// Dots alone.
    Dots,
    /// Crosses alone.
    Crosses,
}

/// Light and dark of each colour: Okabe and Ito's, which people with the usual kinds of colour blindness tell apart, with the
/// light half of them for the dark theme. Marks and dashes differ too.
pub const COLOURS: [(&str, &str); 4] =
    [("#0072b2", "#56b4e9"), ("#d55e00", "#f0a050"), ("#00795a", "#3fc79a"), ("#8f5a82", "#d79ac2")];

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 68.0;
const RIGHT: f64 = 22.0;
const BOTTOM: f64 = 52.0;
/// Least distance of ticks, in pixels: labels must not touch.
const TICK_ROOM: [f64; 2] = [80.0, 44.0];

impl Chart {
    /// The chart as SVG.
    pub fn svg(&self) -> String {
        let all = || {
            let band = self.series.iter().flat_map(|s| s.band.iter().flat_map(|b| [(b.0, b.1), (b.0, b.2)]));
            self.series.iter().flat_map(|s| s.points.iter().copied()).chain(band)
        };
        let zero = self.from_zero.then_some(0.0);
        let legend: Vec<&Series> = self.series.iter().filter(|s| !(s.name.is_empty() || s.points.is_empty())).collect();
        let top = 76.0 + if self.subtitle.is_empty() { 0.0 } else { 20.0 } + if legend.is_empty() { 0.0 } else { 24.0 };
        let (wide, high) = (WIDTH - LEFT - RIGHT, HEIGHT - top - BOTTOM);
        let x_axis = Scale::new(all().map(|p| p.0).chain(zero), wide / TICK_ROOM[0], false);
        let y_axis = Scale::new(all().map(|p| p.1).chain(zero), high / TICK_ROOM[1], true);
        let x = |value: f64| LEFT + wide * x_axis.place(value);
        let y = |value: f64| top + high * (1.0 - y_axis.place(value));

        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\" \
             class=\"chart\">\n<style>{}</style>\n<rect class=\"page\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"10\"/>\n",
            escape(&self.title),
            style()
        );
        let mut text = |class: &str, x: f64, y: f64, text: &str| {
            let _ = writeln!(out, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape(text));
        };
        text("title", 18.0, 29.0, &self.title);
        text("soft", 18.0, 49.0, &self.subtitle);
        text("soft", 18.0, top - 18.0, &self.y_label);
        text("soft middle", LEFT + wide / 2.0, HEIGHT - 12.0, &self.x_label);
        for tick in &y_axis.ticks {
            text("tick end", LEFT - 9.0, y(*tick) + 4.0, &y_axis.label(*tick));
        }
        for tick in &x_axis.ticks {
            text("tick middle", x(*tick), top + high + 19.0, &x_axis.label(*tick));
        }
        let mut at = 18.0;
        for series in &legend {
            text("legend", at + 32.0, top - 43.0, &series.name);
            at += legend_width(&series.name);
        }
        for tick in &y_axis.ticks {
            let class = if *tick == 0.0 { "zero" } else { "grid" };
            let (from, to, y) = (LEFT, LEFT + wide, y(*tick));
            let _ = writeln!(out, "<path class=\"{class}\" d=\"M{from:.1} {y:.1}H{to:.1}\"/>");
        }
        let _ = writeln!(out, "<path class=\"axis\" d=\"M{LEFT} {:.1}h{wide:.1}\"/>", top + high);
        for tick in &x_axis.ticks {
            let _ = writeln!(out, "<path class=\"axis\" d=\"M{:.1} {:.1}v5\"/>", x(*tick), top + high);
        }
        let mut at = 18.0;
        for series in &legend {
            let sample = [(at, top - 47.5), (at + 12.0, top - 47.5), (at + 24.0, top - 47.5)];
            if !(series.band.is_empty() || series.whiskers) {
                let (y, colour) = (top - 53.5, series.colour % COLOURS.len());
                let _ = writeln!(
                    out,
                    "<rect class=\"band c{colour}\" x=\"{at:.1}\" y=\"{y:.1}\" width=\"24\" height=\"12\"/>"
                );
            }
            if series.whiskers {
                whiskers(&mut out, &[(at + 12.0, top - 53.5, top - 41.5)], series.colour);
            }
            let shown =
                if matches!(series.mark, Mark::Line | Mark::Dashed | Mark::Steps) { &sample } else { &sample[1..2] };
            if series.mark == Mark::LineWithDots {
                draw(&mut out, &sample, Mark::Line, series.colour);
                draw(&mut out, &sample[1..2], Mark::Dots, series.colour);
            } else {
                draw(&mut out, shown, series.mark, series.colour);
            }
            at += legend_width(&series.name);
        }
        for series in &self.series {
            let band: Vec<(f64, f64, f64)> = series.band.iter().map(|b| (x(b.0), y(b.1), y(b.2))).collect();
            if series.whiskers {
                whiskers(&mut out, &band, series.colour);
            } else if !band.is_empty() {
                let corners = band.iter().map(|b| (b.0, b.2)).chain(band.iter().rev().map(|b| (b.0, b.1)));
                let corners: Vec<String> = corners.map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
                let colour = series.colour % COLOURS.len();
                let _ = writeln!(out, "<path class=\"band c{colour}\" d=\"M{}Z\"/>", corners.join("L"));
            }
            let points: Vec<(f64, f64)> = series.points.iter().map(|p| (x(p.0), y(p.1))).collect();
            draw(&mut out, &points, series.mark, series.colour);
        }
        out + "</svg>\n"
    }
}

/// Draws whiskers in pixels: x, and both ends.
fn whiskers(out: &mut String, ends: &[(f64, f64, f64)], colour: usize) {
    let whisker =
        |(x, a, b): &(f64, f64, f64)| format!("M{x:.1} {a:.1}V{b:.1}M{0:.1} {a:.1}h8M{0:.1} {b:.1}h8", x - 4.0);
    let path: String = ends.iter().map(whisker).collect();
    let _ = writeln!(out, "<path class=\"crosses c{}\" d=\"{path}\"/>", colour % COLOURS.len());
}

/// Draws points that are pixels already.
fn draw(out: &mut String, points: &[(f64, f64)], mark: Mark, colour: usize) {
    let colour = colour % COLOURS.len();
    let finite = || points.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
    let lines = !matches!(mark, Mark::Dots | Mark::Crosses);
    let mut path = String::new();
    if lines {
        let mut pen_down = false;
        for &(x, y) in points {
            if !(x.is_finite() && y.is_finite()) {
                pen_down = false;
                continue;
            }
            let _ = match (pen_down, mark) {
                (false, _) => write!(path, "M{x:.1} {y:.1}"),
                (true, Mark::Steps) => write!(path, "H{x:.1}V{y:.1}"),
                (true, _) => write!(path, "L{x:.1} {y:.1}"),
            };
            pen_down = true;
        }
        let dashed = if mark == Mark::Dashed { " dashed" } else { "" };
        let _ = writeln!(out, "<path class=\"line{dashed} c{colour}\" d=\"{path}\"/>");
    }
    match mark {
        Mark::Dots => {
            finite().for_each(|(x, y)| _ = write!(path, "M{x:.1} {y:.1}h0"));
            let _ = writeln!(out, "<path class=\"dots c{colour}\" d=\"{path}\"/>");
        }
        Mark::Crosses => {
            finite().for_each(|(x, y)| _ = write!(path, "M{:.1} {:.1}l6 6m0 -6l-6 6", x - 3.0, y - 3.0));
            let _ = writeln!(out, "<path class=\"crosses c{colour}\" d=\"{path}\"/>");
        }
        Mark::LineWithDots => {
            let dots: String = finite().map(|(x, y)| format!("M{x:.1} {y:.1}h0")).collect();
            let _ = writeln!(out, "<path class=\"dots c{colour}\" d=\"{dots}\"/>");
        }
        Mark::Line | Mark::Dashed | Mark::Steps => {}
    }
}

/// Pixels of a legend's entry: text of this size has about 6.9 a letter.
fn legend_width(name: &str) -> f64 {
    32.0 + 6.9 * name.chars().count() as f64 + 24.0
}

fn style() -> String {
    let mut css = String::from(
        ".chart{--page:#fff;--ink:#1d2126;--soft:#5b636c;--line:#e4e2dc;--axis:#8a9098;\
         font:13px system-ui,-apple-system,\"Segoe UI\",Roboto,\"Helvetica Neue\",Arial,sans-serif}\
         @media(prefers-color-scheme:dark){.chart{--page:#191d23;--ink:#e8eaed;--soft:#a2abb5;--line:#2c323a;--axis:#69727c}}\
         .chart .page{fill:var(--page)}.chart text{fill:var(--ink)}.chart .title{font-size:17px;font-weight:650}\
         .chart .soft,.chart .tick{fill:var(--soft)}.chart .tick{font-variant-numeric:tabular-nums}\
         .chart .middle{text-anchor:middle}.chart .end{text-anchor:end}.chart path{fill:none}\
         .chart .grid{stroke:var(--line)}.chart .zero,.chart .axis{stroke:var(--axis)}\
         .chart .line{stroke-width:2.2;stroke-linejoin:round;stroke-linecap:round}.chart .dashed{stroke-dasharray:7 5}\
         .chart .dots{stroke-width:6.5;stroke-linecap:round}.chart .crosses{stroke-width:1.8;stroke-linecap:round}\
         .chart .band{stroke:none!important;fill-opacity:.17}",
    );
    for (i, (light, dark)) in COLOURS.iter().enumerate() {
        let _ = write!(css, ".chart .c{i}{{stroke:{light}}}.chart .band.c{i}{{fill:{light}}}");
        let _ = write!(
            css,
            "@media(prefers-color-scheme:dark){{.chart .c{i}{{stroke:{dark}}}.chart .band.c{i}{{fill:{dark}}}}}"
        );
    }
    css
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_lies_inside_the_picture_and_a_gap_lifts_the_pen() {
        let points = vec![(0.0, -3.0), (1.0, f64::NAN), (2.0, 40.0), (3.0, 7.5)];
        let band = vec![(0.0, -10.0, 2.0), (3.0, 5.0, 60.0)];
        let marks = [Mark::Line, Mark::LineWithDots, Mark::Dashed, Mark::Steps, Mark::Dots, Mark::Crosses];
        for mark in marks {
            let whiskers = mark == Mark::Dashed;
            let series =
                Series { name: "a < b".into(), points: points.clone(), mark, band: band.clone(), whiskers, colour: 5 };
            let chart = Chart { title: "\"x\" & y".into(), series: vec![series], ..Chart::default() };
            let svg = chart.svg();
            assert!(svg.contains("a &lt; b") && svg.contains("&quot;x&quot; &amp; y"), "{mark:?}");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{mark:?}: {svg}");
            let drawn = svg.lines().filter(|l| l.contains(" c1\"")).filter_map(|l| l.split(" d=\"").nth(1));
            let mut corners = 0;
            for path in drawn {
                // Absolute pairs after M and L.
                for pair in path.split(['M', 'L']).filter_map(|p| p.split(['h', 'l', 'H', 'V', 'Z', '"']).next()) {
                    let Some((x, y)) = pair.split_once(' ') else { continue };
                    let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
                    assert!((0.0..=WIDTH).contains(&x) && (0.0..=HEIGHT).contains(&y), "{mark:?}: {x} {y}");
                    corners += 1;
                }
            }
            assert!(corners > 4, "{mark:?}: {corners}");
        }
        let mut path = String::new();
        draw(&mut path, &points, Mark::Line, 0);
        assert_eq!(path, "<path class=\"line c0\" d=\"M0.0 -3.0M2.0 40.0L3.0 7.5\"/>\n");
    }
}

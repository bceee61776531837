//! Series over two axes.

use std::fmt::Write as _;

use super::axis::Scale;
use super::sheet::{MARGIN, Sheet};
use super::{Axis, Chart, Mark, Series};

const LEFT: f64 = 62.0;
const RIGHT: f64 = 22.0;
/// Width and height of the space between the axes, small and not.
const WIDTHS: [f64; 2] = [400.0, 760.0];
const HEIGHTS: [f64; 2] = [200.0, 260.0];
/// Least distance of ticks, in pixels: labels must not touch.
const TICK_ROOM: [f64; 2] = [60.0, 40.0];

impl Chart {
    pub(super) fn draw(&self) -> Sheet {
        let size = usize::from(!self.small);
        let mut sheet = Sheet::new(WIDTHS[size], &self.title, &self.subtitle);
        let (levels, others): (Vec<&Series>, Vec<&Series>) = self.series.iter().partition(|s| s.mark == Mark::Level);
        let shown: Vec<&Series> = others.into_iter().filter(|s| !s.name.is_empty() && !s.is_empty()).collect();
        let names: Vec<&str> = shown.iter().map(|s| s.name.as_str()).collect();
        sheet.legend(&names, |sheet, i, x, y| shown[i].sign(sheet, x, y));
        let (top, wide, high) = (sheet.head + 36.0, sheet.width - LEFT - RIGHT, HEIGHTS[size]);
        let bottom = top + high;
        let all = || self.series.iter().flat_map(Series::extent).chain(self.from_zero.then_some((0.0, 0.0)));
        let scale = |axis, values: &mut dyn Iterator<Item = f64>, room: f64, whole: bool| match self.log == Some(axis)
            || self.log == Some(Axis::Both)
        {
            true => Scale::orders_of_magnitude(values),
            false => Scale::new(values, room, whole),
        };
        let x_axis = scale(Axis::X, &mut all().map(|p| p.0), wide / TICK_ROOM[0], false);
        let y_axis = scale(Axis::Y, &mut all().map(|p| p.1), high / TICK_ROOM[1], !self.tight);
        let x = |value: f64| LEFT + wide * x_axis.place(value);
        let y = |value: f64| bottom - high * y_axis.place(value);

        sheet.text("soft", MARGIN, top - 14.0, &self.y_label);
        sheet.text("soft middle", LEFT + wide / 2.0, bottom + 36.0, &self.x_label);
        for tick in &y_axis.ticks {
            let at = y(*tick);
            let class = if *tick == 0.0 { "zero" } else { "grid" };
            sheet.path(class, &format!("M{LEFT:.1} {at:.1}h{wide:.1}"));
            sheet.text("tick end", LEFT - 8.0, at + 4.0, &y_axis.label(*tick));
        }
        sheet.path("axis", &format!("M{LEFT:.1} {bottom:.1}h{wide:.1}"));
        for (i, name) in self.x_names.iter().enumerate() {
            sheet.text("tick middle", x(i as f64), bottom + 17.0, name);
        }
        for tick in x_axis.ticks.iter().filter(|_| self.x_names.is_empty()) {
            sheet.path("axis", &format!("M{:.1} {bottom:.1}v4", x(*tick)));
            sheet.text("tick middle", x(*tick), bottom + 17.0, &x_axis.label(*tick));
        }
        // Bands first: none may hide another's line.
        for series in &self.series {
            let band: Vec<(f64, f64, f64)> = series.band.iter().map(|b| (x(b.0), y(b.1), y(b.2))).collect();
            match series.mark {
                Mark::Bars => bars(&mut sheet, &band, series.colour),
                _ if series.whiskers => whiskers(&mut sheet, &band, series.colour),
                // A band without height is the line.
                _ if series.band.iter().any(|b| b.2 > b.1) => shade(&mut sheet, &band, series.colour),
                _ => {}
            }
        }
        for series in &self.series {
            for line in &series.thin {
                let points: Vec<(f64, f64)> = line.iter().map(|p| (x(p.0), y(p.1))).collect();
                draw(&mut sheet, &points, Mark::Thin, series.colour, "");
            }
        }
        // Of many curves the first is the one that matters: it lies on top.
        let (curves, others): (Vec<&Series>, Vec<&Series>) = self.series.iter().partition(|s| s.mark == Mark::Curve);
        for series in others.into_iter().chain(curves.into_iter().rev()) {
            let height = |value| if series.at_bottom { bottom } else { y(value) };
            let points: Vec<(f64, f64)> = series.points.iter().map(|p| (x(p.0), height(p.1))).collect();
            draw(&mut sheet, &points, series.mark, series.colour, &series.about);
        }
        let ends: Vec<(f64, f64)> =
            levels.iter().map(|s| s.points.last().map_or((f64::NAN, f64::NAN), |p| (x(p.0), y(p.1)))).collect();
        for (level, &(x, y)) in levels.iter().zip(&ends).filter(|(_, end)| end.0.is_finite() && end.1.is_finite()) {
            // Names of neighbours do not meet: the lowest stands below its line, if another is above it.
            let lowest = ends.iter().any(|end| end.1 < y) && !ends.iter().any(|end| end.1 > y);
            sheet.text_over(x, if lowest && y + 20.0 < bottom { y + 15.0 } else { y - 6.0 }, &level.name);
        }
        sheet.height = bottom + 48.0;
        sheet
    }

    /// Whether there is nothing to see.
    pub fn is_empty(&self) -> bool {
        self.series.iter().all(Series::is_empty)
    }
}

impl Series {
    fn is_empty(&self) -> bool {
        self.points.is_empty() && self.band.is_empty() && self.thin.is_empty()
    }

    /// Everything that the axes must hold.
    fn extent(&self) -> impl Iterator<Item = (f64, f64)> {
        let end = match (self.mark, self.band.as_slice()) {
            (Mark::Bars, [.., a, b]) => Some((2.0 * b.0 - a.0, 0.0)),
            _ => None,
        };
        let band = self.band.iter().flat_map(|b| [(b.0, b.1), (b.0, b.2)]);
        let points = self.points.iter().map(|p| (p.0, if self.at_bottom { f64::NAN } else { p.1 }));
        points.chain(band).chain(end).chain(self.thin.iter().flatten().copied())
    }

    /// The sign of it in a legend.
    fn sign(&self, sheet: &mut Sheet, x: f64, y: f64) {
        let (band, points) = ([(x, y + 6.0, y - 6.0), (x + 24.0, y + 6.0, y - 6.0)], [(x, y), (x + 24.0, y)]);
        let middle = (x + 12.0, y);
        match self.mark {
            Mark::Bars => return bars(sheet, &[(x + 6.0, y + 6.0, y - 6.0), (x + 18.0, y, y)], self.colour),
            _ if self.whiskers => whiskers(sheet, &[(middle.0, y + 6.0, y - 6.0)], self.colour),
            Mark::Curve => {}
            _ if !self.band.is_empty() => shade(sheet, &band, self.colour),
            _ => {}
        }
        match self.mark {
            Mark::Dots | Mark::Crosses => draw(sheet, &[middle], self.mark, self.colour, ""),
            Mark::LineWithDots => {
                draw(sheet, &points, Mark::Line, self.colour, "");
                draw(sheet, &[middle], Mark::Dots, self.colour, "");
            }
            mark => draw(sheet, &points, mark, self.colour, ""),
        }
    }
}

/// Draws a band in pixels: x, and both edges.
fn shade(sheet: &mut Sheet, band: &[(f64, f64, f64)], colour: usize) {
    let corners = band.iter().map(|b| (b.0, b.2)).chain(band.iter().rev().map(|b| (b.0, b.1)));
    let corners: Vec<String> = corners.map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
    sheet.coloured("band", colour, &format!("M{}Z", corners.join("L")), "");
}

fn whiskers(sheet: &mut Sheet, ends: &[(f64, f64, f64)], colour: usize) {
    let whisker =
        |(x, a, b): &(f64, f64, f64)| format!("M{x:.1} {a:.1}V{b:.1}M{0:.1} {a:.1}h8M{0:.1} {b:.1}h8", x - 4.0);
    sheet.coloured("crosses", colour, &ends.iter().map(whisker).collect::<String>(), "");
}

fn bars(sheet: &mut Sheet, ends: &[(f64, f64, f64)], colour: usize) {
    let width = if let [a, b, ..] = ends { b.0 - a.0 } else { 1.0 };
    let bar = |(x, a, b): &(f64, f64, f64)| format!("M{x:.1} {a:.1}V{b:.1}h{:.1}V{a:.1}Z", (width - 1.0).max(0.5));
    let there = ends.iter().filter(|(_, a, b)| a != b);
    sheet.coloured("bar", colour, &there.map(bar).collect::<String>(), "");
}

/// Draws points that are pixels already.
fn draw(sheet: &mut Sheet, points: &[(f64, f64)], mark: Mark, colour: usize, about: &str) {
    let finite = || points.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
    let dots = |points: &mut dyn Iterator<Item = &(f64, f64)>| -> String {
        points.map(|(x, y)| format!("M{x:.1} {y:.1}h0")).collect()
    };
    let class = match mark {
        Mark::Dashed => "line dashed",
        Mark::Curve => "line curve",
        Mark::Level => "level",
        Mark::Thin => "thin",
        Mark::Line | Mark::LineWithDots | Mark::Steps => "line",
        Mark::Dots | Mark::Crosses | Mark::Bars => "",
    };
    if !class.is_empty() && !points.is_empty() {
        let (mut path, mut pen_down) = (String::new(), false);
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
        sheet.coloured(class, colour, &path, about);
    }
    match mark {
        Mark::Dots | Mark::LineWithDots => sheet.coloured("dots", colour, &dots(&mut finite()), ""),
        Mark::Curve if about.is_empty() => {}
        Mark::Curve => sheet.coloured("dots", colour, &dots(&mut finite().next_back().into_iter()), about),
        Mark::Crosses => {
            let cross = |(x, y): &(f64, f64)| format!("M{:.1} {:.1}l6 6m0 -6l-6 6", x - 3.0, y - 3.0);
            sheet.coloured("crosses", colour, &finite().map(cross).collect::<String>(), "");
        }
        Mark::Line | Mark::Dashed | Mark::Level | Mark::Thin | Mark::Steps | Mark::Bars => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_lies_inside_the_picture() {
        let points = vec![(0.0, -3.0), (1.0, f64::NAN), (2.0, 40.0), (3.0, 7.5)];
        let band = vec![(0.0, -10.0, 2.0), (3.0, 5.0, 60.0)];
        let marks = [
            Mark::Line,
            Mark::LineWithDots,
            Mark::Dashed,
            Mark::Curve,
            Mark::Level,
            Mark::Steps,
            Mark::Dots,
            Mark::Crosses,
            Mark::Bars,
        ];
        for (mark, small) in marks.into_iter().flat_map(|mark| [(mark, true), (mark, false)]) {
            let whiskers = mark == Mark::Dashed;
            let (points, band) = (points.clone(), band.clone());
            let series = Series { name: "a < b".into(), points, mark, band, whiskers, colour: 25, ..Series::default() };
            let chart = Chart { title: "\"x\" & y".into(), series: vec![series], small, ..Chart::default() };
            let svg = chart.svg();
            let sheet = chart.draw();
            assert!(svg.contains("a &lt; b") && svg.contains("&quot;x&quot; &amp; y"), "{mark:?}");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{mark:?}: {svg}");
            let drawn = svg.lines().filter(|l| l.contains(" c1\"")).filter_map(|l| l.split(" d=\"").nth(1));
            let mut corners = 0;
            for path in drawn {
                // Absolute pairs after M and L.
                for pair in path.split(['M', 'L']).filter_map(|p| p.split(['h', 'l', 'H', 'V', 'Z', '"']).next()) {
                    let Some((x, y)) = pair.split_once(' ') else { continue };
                    let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
                    assert!((0.0..=sheet.width).contains(&x) && (0.0..=sheet.height).contains(&y), "{mark:?}: {x} {y}");
                    corners += 1;
                }
            }
            assert!(corners > 2, "{mark:?}: {corners}");
        }
    }

    #[test]
    fn a_point_stands_where_the_axes_say_and_a_gap_lifts_the_pen() {
        let points = vec![(0.0, 0.0), (2.0, f64::NAN), (5.0, 100.0), (10.0, 50.0)];
        let series = vec![Series { points, ..Series::default() }];
        let chart = Chart { small: true, from_zero: true, series, ..Chart::default() };
        // Without a legend the axes are 62 … 378 wide and 62 … 262 high.
        assert!(chart.svg().contains("d=\"M62.0 262.0M220.0 62.0L378.0 162.0\""), "{}", chart.svg());
        // By orders of magnitude: 5 of 0 … 10 stands at ln 6/ln 11 = 0.747 of 316.
        let svg = Chart { log: Some(Axis::X), ..chart }.svg();
        assert!(svg.contains("d=\"M62.0 262.0M298.1 62.0L378.0 162.0\""), "{svg}");
    }

    #[test]
    fn levels_have_their_names_on_them_and_neighbours_do_not_meet() {
        let level = |name: &str, height: f64, mark| Series {
            name: name.into(),
            points: vec![(0.0, height), (10.0, height)],
            mark,
            ..Series::default()
        };
        let series = vec![level("low", 50.0, Mark::Level), level("high", 52.0, Mark::Level)];
        let mut chart = Chart { small: true, from_zero: true, series, ..Chart::default() };
        // The axes are 62 … 378 wide and, without a legend, 62 … 262 high for 0 … 60: 3.33 a unit.
        let svg = chart.svg();
        for text in ["x=\"378.0\" y=\"110.3\">low<", "x=\"378.0\" y=\"82.7\">high<", ".over{", ".level{"] {
            assert!(svg.contains(text), "no {text} in {svg}");
        }
        assert!(!svg.contains("class=\"legend\""), "{svg}");
        chart.series.truncate(1);
        assert!(chart.svg().contains("y=\"56.0\">low<"), "alone, at the top of 0 … 50, it stands above");
        // No other chart changes.
        chart.series[0].mark = Mark::Dashed;
        assert!(!chart.svg().contains("over{") && chart.svg().contains("class=\"legend\""), "{}", chart.svg());
    }

    #[test]
    fn what_is_below_the_axis_stands_at_its_edge() {
        let points = vec![(0.0, 90.0), (10.0, 100.0)];
        let low = Series { points: vec![(5.0, 3.0)], mark: Mark::Dots, at_bottom: true, ..Series::default() };
        let svg =
            Chart { small: true, series: vec![Series { points, ..Series::default() }, low], ..Chart::default() }.svg();
        // 90 … 100 fill all of 62 … 262.
        assert!(svg.contains("d=\"M62.0 262.0L378.0 62.0\"") && svg.contains("d=\"M220.0 262.0h0\""), "{svg}");
    }

    #[test]
    fn bars_stand_on_one_another() {
        let below = Series { band: vec![(0.0, 0.0, 2.0), (5.0, 0.0, 0.0)], mark: Mark::Bars, ..Series::default() };
        let above = Series { band: vec![(0.0, 2.0, 4.0), (5.0, 0.0, 1.0)], colour: 1, ..below.clone() };
        let svg = Chart { small: true, series: vec![below, above], ..Chart::default() }.svg();
        // Each is half of 316 wide, less a hair between them; 4 of 4 is 200 high, and the empty one is not drawn.
        assert!(svg.contains("class=\"bar c0\" d=\"M62.0 262.0V162.0h157.0V262.0Z\""), "{svg}");
        assert!(
            svg.contains("class=\"bar c1\" d=\"M62.0 162.0V62.0h157.0V162.0ZM220.0 262.0V212.0h157.0V262.0Z\""),
            "{svg}"
        );
    }
}

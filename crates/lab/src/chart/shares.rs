//! Bars that are divided into shares.

use serde::Serialize;

use super::METHODS;
use super::sheet::{LETTER, MARGIN, Sheet, svg};
use crate::wording::duration;

const WIDTH: f64 = 400.0;
/// A part that is less of every bar cannot be seen, and has no name in the legend.
const LEAST: f64 = 0.005;

/// How the time of several things was spent: one bar each.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ShareChart {
    /// Above the chart.
    pub title: String,
    /// The bars, from above.
    pub bars: Vec<ShareBar>,
}

/// A bar of shares.
#[derive(Clone, Debug, Serialize)]
pub struct ShareBar {
    /// Before it.
    pub name: String,
    /// Behind it: seconds of the whole.
    pub seconds: f64,
    /// Names of the parts, and their seconds.
    pub parts: Vec<(String, f64)>,
}

impl ShareBar {
    fn seconds_of_parts(&self) -> f64 {
        self.parts.iter().map(|part| part.1).sum::<f64>().max(1e-9)
    }
}

impl ShareChart {
    /// The chart as SVG.
    pub fn svg(&self) -> String {
        let mut parts: Vec<&str> = Vec::new();
        for bar in &self.bars {
            let seen = LEAST * bar.seconds_of_parts();
            for (part, _) in bar.parts.iter().filter(|part| part.1 >= seen) {
                if !parts.contains(&part.as_str()) {
                    parts.push(part);
                }
            }
        }
        let mut sheet = Sheet::new(WIDTH, &self.title, "");
        sheet.legend(&parts, |sheet, i, x, y| rectangle(sheet, METHODS + i % 10, [x, y - 6.0, 24.0, 12.0], ""));
        let mut y = sheet.head + 14.0;
        let longest = self.bars.iter().map(|bar| bar.name.chars().count()).max().unwrap_or(0);
        let left = MARGIN + LETTER * longest as f64 + 8.0;
        for bar in &self.bars {
            sheet.text("end", left - 8.0, y + 15.0, &bar.name);
            let mut x = left;
            for (part, seconds) in &bar.parts {
                let Some(colour) = parts.iter().position(|p| p == part) else { continue };
                let share = seconds / bar.seconds_of_parts();
                let width = share * (WIDTH - left - 76.0);
                let about = format!("{part}: {:.1} %", 100.0 * share);
                rectangle(&mut sheet, METHODS + colour % 10, [x, y, (width - 1.0).max(0.5), 20.0], &about);
                if width > 34.0 {
                    sheet.text("inside middle", x + width / 2.0, y + 14.5, &format!("{:.0} %", 100.0 * share));
                }
                x += width;
            }
            sheet.text("soft end", WIDTH - MARGIN, y + 15.0, &duration(bar.seconds));
            y += 28.0;
        }
        sheet.height = y + 8.0;
        svg(&format!("{}: shares of time", self.title), &[sheet])
    }
}

fn rectangle(sheet: &mut Sheet, colour: usize, [x, y, width, height]: [f64; 4], about: &str) {
    sheet.coloured("bar", colour, &format!("M{x:.1} {y:.1}h{width:.1}v{height:.1}h-{width:.1}Z"), about);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_in_any_bar_has_no_name() {
        let part = |name: &str, seconds: f64| (name.to_string(), seconds);
        let bar = |parts: Vec<(String, f64)>| ShareBar { name: "SAC".into(), seconds: 100.0, parts };
        let first = bar(vec![part("keeping", 0.2), part("learning", 98.8), part("physics", 1.0)]);
        let svg = ShareChart { title: "Hopper".into(), bars: vec![first.clone()] }.svg();
        assert!(svg.contains(">learning<") && svg.contains(">physics<") && !svg.contains("keeping"), "{svg}");
        let second = bar(vec![part("keeping", 3.0), part("learning", 97.0)]);
        let svg = ShareChart { title: "Hopper".into(), bars: vec![first, second] }.svg();
        assert!(svg.contains(">keeping<") && svg.contains("keeping: 0.2 %"), "{svg}");
    }
}

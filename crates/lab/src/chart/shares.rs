//! Bars that are divided into shares.

use serde::Serialize;

use super::METHODS;
use super::sheet::{LETTER, MARGIN, Sheet, svg};
use crate::wording::duration;

const WIDTH: f64 = 400.0;

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

impl ShareChart {
    /// The chart as SVG.
    pub fn svg(&self) -> String {
        let mut parts: Vec<&str> = Vec::new();
        for (part, _) in self.bars.iter().flat_map(|b| &b.parts) {
            if !parts.contains(&part.as_str()) {
                parts.push(part);
            }
        }
        let mut sheet = Sheet::new(WIDTH, &self.title, "");
        sheet.legend(&parts, |sheet, i, x, y| rectangle(sheet, METHODS + i % 10, [x + 8.0, y - 6.0, 12.0, 12.0], ""));
        let mut y = sheet.head + 14.0;
        let longest = self.bars.iter().map(|bar| bar.name.chars().count()).max().unwrap_or(0);
        let left = MARGIN + LETTER * longest as f64 + 8.0;
        for bar in &self.bars {
            sheet.text("end", left - 8.0, y + 15.0, &bar.name);
            let total: f64 = bar.parts.iter().map(|p| p.1).sum();
            let mut x = left;
            for (part, seconds) in &bar.parts {
                let share = seconds / total.max(1e-9);
                let width = share * (WIDTH - left - 76.0);
                let colour = parts.iter().position(|p| p == part).unwrap_or(0);
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

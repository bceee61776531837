//! Charts as SVG, drawn in one way for every report, page, study and card: axes with round numbers, several series, bands, a
//! legend. A chart is text that stands by itself as a file and inside an HTML page, and follows the reader's light or dark theme.

mod axis;
mod lines;
mod shares;
mod sheet;

use serde::Serialize;

pub use shares::{ShareBar, ShareChart};

/// Lines, points or bars over two axes. The axes hold all that is drawn.
///
/// ```
/// use sskp_lab::chart::{Chart, Series};
///
/// let sac = Series { name: "SAC".into(), points: vec![(0.0, 1.0), (1e6, 4.0)], ..Series::default() };
/// let chart = Chart { title: "Return".into(), series: vec![sac], ..Chart::default() };
/// assert!(chart.svg().starts_with("<svg"));
/// ```
#[derive(Clone, Debug, Default, Serialize)]
pub struct Chart {
    /// Above the chart.
    pub title: String,
    /// A line below the title.
    pub subtitle: String,
    /// Below the horizontal axis.
    pub x_label: String,
    /// Above the vertical axis.
    pub y_label: String,
    /// Half as wide: several stand beside one another.
    pub small: bool,
    /// Whether both axes must hold zero.
    pub from_zero: bool,
    /// Whether the vertical axis begins and ends with what is drawn, not at round numbers around it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tight: bool,
    /// What stands below the horizontal axis at 0, 1, 2, …, instead of numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub x_names: Vec<String>,
    /// Which axes count by orders of magnitude, if any does.
    pub log: Option<Axis>,
    /// What is drawn, the first undermost; of curves ([`Mark::Curve`]) the first on top.
    pub series: Vec<Series>,
}

/// An axis that is drawn as log(1 + v): it has a zero, and a method with few violations is seen beside one with thousands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// Along.
    X,
    /// Up.
    Y,
    /// Either.
    Both,
}

/// One entry of a legend, and what it stands for.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// What a pointer on it is told; nothing if empty.
    pub about: String,
    /// x and y. A point that is no number interrupts the line.
    pub points: Vec<(f64, f64)>,
    /// What the points are the mean of, each drawn as a thin line behind them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub thin: Vec<Vec<(f64, f64)>>,
    /// How the points are drawn.
    pub mark: Mark,
    /// x, lowest and highest y of a shaded band behind them.
    pub band: Vec<(f64, f64, f64)>,
    /// Whether the band is drawn as a whisker at every x instead.
    pub whiskers: bool,
    /// Whether its points stand at the bottom, because they are below all that the axis holds.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_bottom: bool,
    /// Which of the [`COLOURS`].
    pub colour: usize,
}

/// How points are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// Joined by a line.
    #[default]
    Line,
    /// Joined by a line, with a dot at each.
    LineWithDots,
    /// Joined by a dashed line.
    Dashed,
    /// Joined by a line in the dashes of its colour, with a dot at the end: one curve among many.
    Curve,
    /// Joined by a thin dashed line with its name at the end of it, not in the legend: a height to compare others with.
    Level,
    /// Joined by a thin, faint line: one of many seeds.
    Thin,
    /// Joined by level lines that jump at each point: counts.
    Steps,
    /// Dots alone.
    Dots,
    /// Crosses alone.
    Crosses,
    /// The band as bars, each from its x to the next.
    Bars,
}

/// Light and dark of the colours, and the dashes of a [`Mark::Curve`]: Okabe and Ito's, which colour-blind people can tell apart,
/// darkened for white ground or lightened for black where they would be faint. Dashes tell curves apart without any colour.
pub const COLOURS: [(&str, &str, &str); METHODS + 10] = [
    ("#0072b2", "#56b4e9", ""),
    ("#d55e00", "#ff9248", "7 3"),
    ("#00875f", "#2fc89a", "2 3"),
    ("#b4508a", "#e59ac6", "9 3 2 3"),
    ("#a06c00", "#f0c040", "5 2"),
    ("#5c6670", "#b4bcc6", "3 2"),
    ("#7a4bb5", "#bd9af2", ""),
    ("#3c9dcd", "#8fd0ff", "6 2 1 2"),
    ("#8c3b1f", "#d98b6a", "8 2"),
    ("#8a7500", "#d9c95a", "1 2"),
    ("#6b8e23", "#b5d46a", "4 2 1 2"),
    ("#c2185b", "#ff7fab", "10 4"),
    ("#00707a", "#4fd3dc", "2 2 6 2"),
    ("#1d2126", "#e8eaed", "12 3"),
    // From here on those of phases, which are no methods: paler, and none of the above.
    ("#4a6a8a", "#7f9fc0", ""),
    ("#b57b4f", "#c99a76", ""),
    ("#5f8f6f", "#86b597", ""),
    ("#9a6a86", "#bd93ab", ""),
    ("#8f8a4a", "#b3ae74", ""),
    ("#7d7f85", "#989ba2", ""),
    ("#6d5f96", "#9489bd", ""),
    ("#4f8f96", "#79b3ba", ""),
    ("#a1554d", "#c4827b", ""),
    ("#565047", "#a89f92", ""),
];

/// How many of the [`COLOURS`] are for methods; those after them are for phases.
pub const METHODS: usize = 14;

impl Chart {
    /// The chart as SVG.
    pub fn svg(&self) -> String {
        sheet::svg(&self.label(), &[self.draw()])
    }

    fn label(&self) -> String {
        format!("{}: {} against {}", self.title, self.y_label, self.x_label)
    }
}

/// Charts beside one another as one picture, called `label` for those who cannot see it.
pub fn side_by_side(label: &str, charts: &[Chart]) -> String {
    sheet::svg(label, &charts.iter().map(Chart::draw).collect::<Vec<_>>())
}

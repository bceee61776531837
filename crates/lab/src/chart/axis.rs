//! Axes: a range, the round numbers in it, and their names.

/// A range and the round numbers in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    step: f64,
    /// Drawn as log(1 + v).
    log: bool,
    /// The round numbers.
    pub ticks: Vec<f64>,
}

impl Scale {
    /// One that holds these values, with up to `most` ticks; with `whole`, it begins and ends at one.
    pub fn new(values: impl Iterator<Item = f64>, most: f64, whole: bool) -> Self {
        let (mut low, mut high, mut counts) = (f64::INFINITY, f64::NEG_INFINITY, true);
        for value in values.filter(|v| v.is_finite()) {
            (low, high, counts) = (low.min(value), high.max(value), counts && value.fract() == 0.0);
        }
        if low > high {
            (low, high) = (0.0, 1.0); // nothing to show
        } else if high - low <= 1e-12 * low.abs().max(high.abs()) {
            let room = if low == 0.0 { 1.0 } else { 0.5 * low.abs() };
            (low, high) = if low >= 0.0 && low < room { (0.0, low + room) } else { (low - room, high + room) };
        }
        // Between whole numbers of things there is nothing.
        let step = round_step((high - low) / most.max(1.0)).max(if counts { 1.0 } else { 0.0 });
        // A value a hair beyond a tick, by rounding, asks for no further one.
        let (first, last) = ((low / step + 1e-9).floor(), (high / step - 1e-9).ceil());
        if whole {
            (low, high) = (first * step, last * step);
        }
        // The sum with 0 makes a zero of a negative zero.
        let ticks = (0..=(last - first) as u32).map(|i| (first + f64::from(i)) * step + 0.0);
        let room = 1e-9 * (high - low);
        Self { low, high, step, log: false, ticks: ticks.filter(|t| *t >= low - room && *t <= high + room).collect() }
    }

    /// One from 0 on that holds these values and counts by orders of magnitude: 0, 1, 10, …
    pub fn orders_of_magnitude(values: impl Iterator<Item = f64>) -> Self {
        let high = values.filter(|v| v.is_finite()).fold(1.0, f64::max);
        let powers = (0..).map(|i| 10f64.powi(i)).take_while(|power| *power <= high);
        Self { low: 0.0, high, step: 1.0, log: true, ticks: std::iter::once(0.0).chain(powers).collect() }
    }

    /// Where a value lies, from 0 to 1.
    pub fn place(&self, value: f64) -> f64 {
        match self.log {
            true => value.max(0.0).ln_1p() / self.high.ln_1p(),
            false => (value - self.low) / (self.high - self.low),
        }
    }

    /// A tick in words: as many decimals as tell neighbours apart, thousands and millions as k and M.
    pub fn label(&self, tick: f64) -> String {
        // Orders of magnitude have nothing in common that could be left out.
        let largest = if self.log { tick } else { self.ticks.iter().fold(0.0f64, |a, t| a.max(t.abs())) };
        let (unit, letter) = match largest {
            l if l >= 1e6 => (1e6, "M"),
            l if l >= 1e4 => (1e3, "k"),
            _ => (1.0, ""),
        };
        if tick == 0.0 {
            return "0".into();
        }
        let step = if self.log { unit } else { self.step };
        let decimals = (0..12).find(|d| {
            let shifted = step / unit * 10f64.powi(*d);
            (shifted - shifted.round()).abs() < 1e-6 * shifted
        });
        let decimals = decimals.unwrap_or(12) as usize;
        format!("{:.decimals$}{letter}", tick / unit).replace('-', "−")
    }
}

/// The smallest of 1, 2 or 5 times a power of ten that is at least `least`.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|f| f * power >= least * (1.0 - 1e-9)).unwrap_or(10.0);
    factor * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(low: f64, high: f64, most: f64, whole: bool) -> (Vec<f64>, Vec<String>) {
        let axis = Scale::new([low, high].into_iter(), most, whole);
        let labels = axis.ticks.iter().map(|t| axis.label(*t)).collect();
        (axis.ticks, labels)
    }

    #[test]
    fn ticks_are_round_numbers_and_labels_as_short_as_they_can_be() {
        assert_eq!(axis(0.0, 6.0, 8.0, false).1, ["0", "1", "2", "3", "4", "5", "6"]);
        assert_eq!(axis(0.0, 30_000.0, 8.0, false).1, ["0", "5k", "10k", "15k", "20k", "25k", "30k"]);
        assert_eq!(axis(300.0, 1_000_000.0, 8.0, false).1, ["0.2M", "0.4M", "0.6M", "0.8M", "1.0M"]);
        assert_eq!(axis(-0.031, 0.0, 5.0, true).1, ["−0.04", "−0.03", "−0.02", "−0.01", "0"]);
        assert_eq!(axis(0.0, 0.0, 5.0, true).1, ["0", "1"], "half a violation is none");
        assert_eq!(axis(0.0, 2.5, 5.0, true).1, ["0", "0.5", "1.0", "1.5", "2.0", "2.5"]);
        assert_eq!(axis(-7.0, 1290.0, 5.0, true).0, [-500.0, 0.0, 500.0, 1000.0, 1500.0]);
    }

    #[test]
    fn orders_of_magnitude_have_short_names() {
        let axis = Scale::orders_of_magnitude([3.0, 2e6].into_iter());
        let labels: Vec<String> = axis.ticks.iter().map(|t| axis.label(*t)).collect();
        assert_eq!(labels, ["0", "1", "10", "100", "1000", "10k", "100k", "1M"]);
    }

    #[test]
    fn ranges_of_nothing_and_of_one_value_are_defined() {
        assert_eq!(Scale::new([f64::NAN].into_iter(), 5.0, true).ticks.first(), Some(&0.0));
        for value in [0.0, 3.0, -2.0, 1e-9, 5e6] {
            let axis = Scale::new([value].into_iter(), 5.0, true);
            assert!(axis.low <= value && value <= axis.high && axis.low < axis.high, "{value}: {axis:?}");
            assert!((2..9).contains(&axis.ticks.len()), "{value}: {axis:?}");
        }
    }
}

//! Numbers and names as people read them: one way to write a duration, a count, a measurement.

use sskp_blocks::demos::Demonstrations;

/// A duration.
pub fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// "1 violation", "2 violations".
pub fn plural(n: u64, thing: &str) -> String {
    format!("{n} {}", noun(n, thing))
}

/// What demonstrations hold: "3 episodes, 2000 steps, 1 violating episode".
pub fn set_contents(demos: &Demonstrations) -> String {
    let [episodes, steps, violating] =
        [demos.trajectories().len(), demos.steps(), demos.violations()].map(|n| n as u64);
    [plural(episodes, "episode"), plural(steps, "step"), plural(violating, "violating episode")].join(", ")
}

/// "violation" of one, "violations" of others.
pub fn noun(n: u64, thing: &str) -> String {
    if n == 1 { thing.into() } else { format!("{thing}s") }
}

/// The verb of one thing, or of several: "is" or "are", "needs" or "need".
pub fn verb<'a>(n: u64, one: &'a str, several: &'a str) -> &'a str {
    if n == 1 { one } else { several }
}

/// A whole number in groups of three.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// Three significant digits, without an exponent where that is short.
pub fn significant(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if size < 1e-4 => format!("{value:.2e}"),
        size => format!("{value:.0$}", (2 - size.log10().floor() as i32).max(0) as usize),
    }
}

/// A measurement with up to three decimals, as many as its size needs.
pub fn measured(x: f64) -> String {
    measured_like(x, x)
}

/// A number with the decimals that another one needs: a deviation is as fine as its mean.
pub fn measured_like(x: f64, other: f64) -> String {
    let decimals = match other.abs() {
        a if a >= 100.0 => 0,
        a if a >= 10.0 => 1,
        a if a >= 1.0 => 2,
        _ => 3,
    };
    if x == 0.0 {
        return "0".into();
    }
    let text = format!("{x:.decimals$}");
    // What is rounded away has no sign.
    let gone = text.chars().all(|c| "-0.".contains(c));
    if gone { text.replace('-', "") } else { text.replace('-', "\u{2212}") }
}

/// "Hopper".
pub fn capital(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let texts = [0.0, 0.012_345, 0.6, 1.0, -0.25, 12.345, 1234.5, 0.000_012_34].map(significant);
        assert_eq!(texts, ["0", "0.0123", "0.600", "1.00", "-0.250", "12.3", "1234", "1.23e-5"]);
        assert_eq!([0.1234, 1.234, -12.34, 1234.5].map(measured), ["0.123", "1.23", "−12.3", "1234"]);
        assert_eq!([0.0, -0.0, -0.000_1].map(measured), ["0", "0", "0.000"]);
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1\u{202f}000", "1\u{202f}234\u{202f}567"]);
    }

    #[test]
    fn one_thing_is_not_several() {
        assert_eq!([0, 1, 2, 12_000].map(|n| plural(n, "step")), ["0 steps", "1 step", "2 steps", "12000 steps"]);
        assert_eq!([1, 2].map(|n| verb(n, "is", "are")), ["is", "are"]);
        let demos = Demonstrations::new("toy", 5, 2);
        assert_eq!(set_contents(&demos), "0 episodes, 0 steps, 0 violating episodes");
        assert_eq!(set_contents(&sskp_blocks::toy::demonstrations(1)).matches("1 episode, ").count(), 1);
        assert_eq!([29.6, 90.0, 5400.0].map(duration), ["30 s", "2 min", "1.5 h"]);
    }
}

//! Observations shifted and scaled to mean 0 and standard deviation 1, column by column, and clipped.
//!
//! Two uses: fitted once to a set of demonstrations and then frozen, because networks trained on its output must see the
//! same numbers for ever; or kept up to date as observations come in. Frozen means that nobody calls
//! [`Standardiser::update`] any more.

use crate::checkpoint::{Loader, Saver};
use crate::{Error, Result};

/// A column that varies less than this is only shifted: it carries no information, and dividing by nearly nothing would
/// turn rounding into signal. It is also added to every other column's standard deviation, as in SMBPO.
const EPSILON: f64 = 1e-6;

/// Mean and spread of each column, and how to apply them.
#[derive(Clone, Debug, PartialEq)]
pub struct Standardiser {
    /// Results lie within ± this.
    pub clip: f32,
    count: u64,
    mean: Vec<f64>,
    /// Sum of squared deviations from the mean, which Welford's update carries without cancellation.
    squares: Vec<f64>,
    // What `apply` needs, in its own precision; follows from the above.
    shift: Vec<f32>,
    scale: Vec<f32>,
}

impl Standardiser {
    /// For rows of `columns` numbers. Before any data it changes nothing but clips to ±10.
    pub fn new(columns: usize) -> Self {
        Self {
            clip: 10.0,
            count: 0,
            mean: vec![0.0; columns],
            squares: vec![0.0; columns],
            shift: vec![0.0; columns],
            scale: vec![1.0; columns],
        }
    }

    /// Fitted to these rows, laid end to end.
    pub fn fit(columns: usize, rows: &[f32]) -> Self {
        let mut fitted = Self::new(columns);
        fitted.update(rows);
        fitted
    }

    /// Length of a row.
    pub fn columns(&self) -> usize {
        self.mean.len()
    }
    /// Rows seen.
    pub fn count(&self) -> u64 {
        self.count
    }
    /// Mean of each column.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }
    /// Standard deviation of one column over the rows seen (the population's, 1/n).
    pub fn std(&self, column: usize) -> f64 {
        (self.squares[column] / self.count.max(1) as f64).sqrt()
    }

    /// Takes in one row or several, laid end to end (Welford 1962). The order of rows matters in the last bits only, but it
    /// matters: the same rows in the same order give the same bytes.
    pub fn update(&mut self, rows: &[f32]) {
        assert!(rows.len().is_multiple_of(self.columns()), "{} numbers in rows of {}", rows.len(), self.columns());
        for row in rows.chunks_exact(self.columns()) {
            self.count += 1;
            let weight = 1.0 / self.count as f64;
            for ((x, mean), squares) in row.iter().zip(&mut self.mean).zip(&mut self.squares) {
                let before = f64::from(*x) - *mean;
                *mean += before * weight;
                *squares += before * (f64::from(*x) - *mean);
            }
        }
        self.finish();
    }

    fn finish(&mut self) {
        for i in 0..self.columns() {
            let std = self.std(i);
            self.shift[i] = self.mean[i] as f32;
            self.scale[i] = if std < EPSILON { 1.0 } else { (1.0 / (std + EPSILON)) as f32 };
        }
    }

    /// Standardises one row or several into `out`, which has the same length.
    pub fn apply(&self, rows: &[f32], out: &mut [f32]) {
        assert!(rows.len() == out.len() && rows.len().is_multiple_of(self.columns()));
        let n = self.columns();
        for (row, out) in rows.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
            for i in 0..n {
                out[i] = self.one(i, row[i]);
            }
        }
    }

    /// What [`Standardiser::apply`] subtracts and multiplies by, column by column.
    pub fn shift_and_scale(&self) -> (&[f32], &[f32]) {
        (&self.shift, &self.scale)
    }

    fn one(&self, column: usize, x: f32) -> f32 {
        ((x - self.shift[column]) * self.scale[column]).clamp(-self.clip, self.clip)
    }

    /// Adds everything to a checkpoint, under a name of the form `file/name`.
    pub fn save(&self, name: &str, to: &mut Saver) {
        to.f64s(&format!("{name}.mean"), self.mean.clone());
        to.f64s(&format!("{name}.squares"), self.squares.clone());
        to.json(&format!("{name}.count"), &self.count);
    }

    /// Reads it back. The clip is a setting, not state: it stays as it is.
    pub fn load(&mut self, name: &str, from: &Loader) -> Result<()> {
        let mean = from.f64s(&format!("{name}.mean"))?;
        let squares = from.f64s(&format!("{name}.squares"))?;
        if mean.len() != self.columns() || squares.len() != self.columns() {
            let why = format!("standardiser {name} has {} columns where {} are needed", mean.len(), self.columns());
            return Err(Error::Checkpoint { path: from.path.clone(), why });
        }
        self.count = from.json(&format!("{name}.count"))?;
        self.mean = mean;
        self.squares = squares;
        self.finish();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint;
    use crate::rng::Rng;

    #[test]
    fn mean_and_deviation_by_hand() {
        // Columns 1, 2, 6 and −1, −1, −1: mean 3, variance (4 + 1 + 9)/3 = 14/3; the second does not vary.
        let fitted = Standardiser::fit(2, &[1.0, -1.0, 2.0, -1.0, 6.0, -1.0]);
        assert_eq!((fitted.count(), fitted.mean()), (3, &[3.0, -1.0][..]));
        assert!((fitted.std(0) - (14.0f64 / 3.0).sqrt()).abs() < 1e-12);
        let mut out = [0.0; 4];
        fitted.apply(&[3.0, -1.0, 6.0, 0.5], &mut out);
        assert_eq!((out[0], out[1], out[3]), (0.0, 0.0, 1.5));
        assert!((out[2] - 3.0 / (14.0f32 / 3.0).sqrt()).abs() < 1e-5);
    }

    #[test]
    fn row_by_row_is_the_same_as_all_at_once_and_large_offsets_lose_nothing() {
        let mut rng = Rng::stream(0, "t");
        let rows: Vec<f32> = (0..2000).map(|i| (1000.0 * (i % 2) as f64 + 0.5 * rng.normal()) as f32).collect();
        let whole = Standardiser::fit(2, &rows);
        let mut running = Standardiser::new(2);
        rows.chunks_exact(2).for_each(|row| running.update(row));
        assert_eq!(whole, running);
        for column in 0..2 {
            let values = || rows.iter().skip(column).step_by(2).map(|x| f64::from(*x));
            let mean = values().sum::<f64>() / 1000.0;
            let std = (values().map(|x| (x - mean).powi(2)).sum::<f64>() / 1000.0).sqrt();
            assert!((whole.mean()[column] - mean).abs() < 1e-9 && (whole.std(column) - std).abs() < 1e-9);
        }
    }

    #[test]
    fn results_are_clipped() {
        let fitted = Standardiser::fit(1, &[-1.0, 1.0]);
        let mut out = [0.0; 3];
        fitted.apply(&[50.0, -50.0, 0.5], &mut out);
        assert!(out[..2] == [10.0, -10.0] && (out[2] - 0.5).abs() < 1e-5, "{out:?}");
        let mut out = [0.0];
        fitted.apply(&[f32::NAN], &mut out);
        assert!(out[0].is_nan(), "a broken number is not hidden");
    }

    #[test]
    fn without_data_it_changes_nothing_within_the_clip() {
        let mut out = [0.0; 2];
        Standardiser::new(2).apply(&[3.5, -70.0], &mut out);
        assert_eq!(out, [3.5, -10.0]);
    }

    #[test]
    fn it_comes_back_from_a_checkpoint_and_goes_on_bit_for_bit() {
        let dir = tempfile::tempdir().unwrap();
        let mut original = Standardiser::fit(2, &[0.1, 0.2, 0.3, 0.7, -0.4, 12.5]);
        let mut saver = Saver::default();
        original.save("norm/obs", &mut saver);
        let path = checkpoint::write(dir.path(), "run", 1, &saver, 1).unwrap();
        let loader = Loader::open(&path, Some("run")).unwrap();
        let mut back = Standardiser::new(2);
        back.load("norm/obs", &loader).unwrap();
        assert_eq!(original, back);
        original.update(&[3.3, 4.4]);
        back.update(&[3.3, 4.4]);
        assert_eq!(original, back);
        let error = Standardiser::new(3).load("norm/obs", &loader).unwrap_err().to_string();
        assert!(error.contains("obs has 2 columns where 3 are needed"), "{error}");
        assert!(Standardiser::new(2).load("norm/other", &loader).is_err());
    }
}

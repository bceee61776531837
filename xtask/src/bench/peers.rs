//! Running one measurement, of ours or of other people's software.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

/// Runs one measurement and returns the line of JSON that it printed last.
pub fn measure(command: &mut Command) -> Result<String> {
    Ok(measure_all(command)?.pop().expect("one at least"))
}

/// Runs one measurement and returns the lines of JSON that it printed, one at least.
pub fn measure_all(command: &mut Command) -> Result<Vec<String>> {
    let program = Path::new(command.get_program()).to_path_buf();
    let output = command
        .stderr(Stdio::piped())
        .output()
        .with_context(|| format!("{} could not be started", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "a measurement with {} failed:\n{}",
        program.display(),
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    let lines: Vec<String> = text.lines().filter(|line| line.starts_with('{')).map(str::to_owned).collect();
    ensure!(!lines.is_empty(), "{} printed no result", program.display());
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_measurement_shows_its_own_words() {
        let error = measure(Command::new("sh").args(["-c", "echo odd >&2; exit 1"])).unwrap_err().to_string();
        assert!(error.contains("odd"), "{error}");
        assert!(measure(Command::new("sh").args(["-c", "echo nothing"])).is_err());
        let mut two = Command::new("sh");
        two.args(["-c", "echo '{1}'; echo note; echo '{2}'"]);
        assert_eq!((measure(&mut two).unwrap(), measure_all(&mut two).unwrap().len()), ("{2}".into(), 2));
    }
}

//! When a grid will be done: speeds that were measured, and the cells that wait.

use std::collections::{BTreeMap, VecDeque};

use super::cell::Cell;

/// Steps per second that were measured, by robot and method.
#[derive(Default)]
pub(super) struct Speeds(BTreeMap<(String, String), f64>);

impl Speeds {
    pub(super) fn note(&mut self, kind: (String, String), speed: f64) {
        if speed.is_finite() && speed > 0.0 {
            self.0.insert(kind, speed);
        }
    }

    /// Of the same kind, else of the same method, else of all.
    pub(super) fn of(&self, kind: &(String, String)) -> Option<f64> {
        let mean = |speeds: Vec<f64>| (!speeds.is_empty()).then(|| speeds.iter().sum::<f64>() / speeds.len() as f64);
        let method = || mean(self.0.iter().filter(|(k, _)| k.1 == kind.1).map(|(_, s)| *s).collect());
        self.0.get(kind).copied().or_else(method).or_else(|| mean(self.0.values().copied().collect()))
    }
}

/// Seconds until all is done: every waiting cell goes to the worker that is free first.
pub(super) fn time_left(
    cells: &[Cell],
    running: &[usize],
    queue: &VecDeque<usize>,
    speeds: &Speeds,
    jobs: usize,
) -> Option<f64> {
    let left = |i: usize| {
        let cell = &cells[i];
        Some(cell.config.run.total_steps.saturating_sub(cell.steps()) as f64 / speeds.of(&cell.kind())?)
    };
    let busy = running.iter().map(|i| left(*i)).collect::<Option<Vec<f64>>>()?;
    let waiting = queue.iter().map(|i| left(*i)).collect::<Option<Vec<f64>>>()?;
    Some(makespan(busy, &waiting, jobs))
}

fn makespan(busy: Vec<f64>, waiting: &[f64], jobs: usize) -> f64 {
    let mut workers = busy;
    workers.resize(jobs.max(workers.len()), 0.0);
    for cell in waiting {
        let first = workers.iter_mut().min_by(|a, b| a.total_cmp(b)).expect("one job at least");
        *first += cell;
    }
    workers.into_iter().fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_cells_go_to_the_worker_that_is_free_first() {
        // Two workers with 4 and 1 seconds to go; 5, 2, 2 wait: 1+5=6, 4+2=6, then 6+2.
        assert_eq!(makespan(vec![4.0, 1.0], &[5.0, 2.0, 2.0], 2), 8.0);
        assert_eq!(makespan(vec![], &[3.0], 4), 3.0);
    }

    #[test]
    fn speeds_of_the_same_kind_come_first() {
        let kind = |env: &str, algo: &str| (env.to_string(), algo.to_string());
        let mut speeds = Speeds::default();
        assert_eq!(speeds.of(&kind("a", "x")), None);
        speeds.note(kind("a", "x"), 10.0);
        speeds.note(kind("b", "y"), 30.0);
        speeds.note(kind("c", "y"), f64::INFINITY);
        assert_eq!(speeds.of(&kind("a", "x")), Some(10.0));
        assert_eq!(speeds.of(&kind("c", "y")), Some(30.0), "another robot, the same method");
        assert_eq!(speeds.of(&kind("c", "z")), Some(20.0), "anything");
    }
}

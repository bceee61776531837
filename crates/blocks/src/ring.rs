//! Rows of numbers in one flat array, the oldest overwritten when it is full: what a replay is made of.

use crate::checkpoint::{Loader, Saver};
use crate::{Error, Result};

/// The ring. Memory is taken as it fills.
///
/// ```
/// let mut ring = sskp_blocks::ring::Ring::new(2, 3);
/// (0..4).for_each(|i| ring.place().fill(i as f32));
/// // The fourth lies where the first was.
/// assert_eq!((ring.len(), ring.row(0), ring.row(1)), (3, &[3.0, 3.0][..], &[1.0, 1.0][..]));
/// ```
#[derive(Clone, Debug)]
pub struct Ring {
    stride: usize,
    capacity: usize,
    rows: Vec<f32>,
    next: usize,
}

impl Ring {
    /// An empty ring for `capacity` rows of `stride` numbers.
    pub fn new(stride: usize, capacity: usize) -> Self {
        assert!(stride > 0 && capacity > 0);
        Self { stride, capacity, rows: Vec::new(), next: 0 }
    }

    /// Numbers of a row.
    pub fn stride(&self) -> usize {
        self.stride
    }
    /// The most rows it can hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }
    /// Rows held.
    pub fn len(&self) -> usize {
        self.rows.len() / self.stride
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The row in place `index`: of all that were ever written, the `k`-th lies in place `k` modulo the capacity until it is
    /// overwritten.
    pub fn row(&self, index: usize) -> &[f32] {
        &self.rows[index * self.stride..][..self.stride]
    }

    /// The row to write next: a new one, or the oldest.
    pub fn place(&mut self) -> &mut [f32] {
        if self.len() < self.capacity && self.next == self.len() {
            self.rows.resize(self.rows.len() + self.stride, 0.0);
        }
        let at = self.next * self.stride;
        self.next = (self.next + 1) % self.capacity;
        &mut self.rows[at..][..self.stride]
    }

    /// Adds the ring to a checkpoint, without copying it.
    pub fn save<'a>(&'a self, name: &str, to: &mut Saver<'a>) {
        to.f32s(&format!("replay/{name}"), &self.rows, self.stride);
        to.json(&format!("replay/{name}.next"), &self.next);
    }

    /// Reads it back.
    pub fn load(&mut self, name: &str, from: &Loader) -> Result<()> {
        self.rows = from.f32s(&format!("replay/{name}"))?;
        self.next = from.json(&format!("replay/{name}.next"))?;
        if !self.rows.len().is_multiple_of(self.stride) || self.len() > self.capacity || self.next > self.len() {
            let why = format!("replay {name} does not fit this run's sizes");
            return Err(Error::Checkpoint { path: from.path.clone(), why });
        }
        Ok(())
    }
}

//! A team of threads for work of tens of microseconds.
//!
//! One SAC update is four short parallel sections. A general pool puts idle threads to sleep, and on virtual machines
//! waking one takes longer than a section: with rayon, five threads were no faster than two. Here idle threads watch a
//! counter for a while before they sleep.

use std::any::Any;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

type Job = *const (dyn Fn(usize) + Sync);

/// How long an idle thread watches before it sleeps: longer than the physics between two updates.
const WATCH: Duration = Duration::from_millis(2);

struct Shared {
    /// Grows by one for each job.
    epoch: AtomicUsize,
    /// Members still working on the current job.
    busy: AtomicUsize,
    job: Mutex<Option<SendJob>>,
    quit: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

#[derive(Clone, Copy)]
struct SendJob(Job);
// SAFETY: the pointee is Sync, and `Team::run` does not return before every member has finished with it.
unsafe impl Send for SendJob {}

/// Threads that work together; the caller's own is member 0.
///
/// ```
/// use sskp_blocks::team::{Shares, Team};
///
/// let team = Team::new(2);
/// let mut numbers = vec![1.0; 1000];
/// let shares = Shares::new(&mut numbers);
/// team.run(&|member| {
///     // SAFETY: the shares of different members do not overlap.
///     let mine = unsafe { shares.part(team.share(member, 1000)) };
///     mine.iter_mut().for_each(|x| *x += 1.0);
/// });
/// assert_eq!(numbers, vec![2.0; 1000]);
/// ```
pub struct Team {
    shared: Arc<Shared>,
    members: Vec<(JoinHandle<()>, Thread)>,
}

impl Team {
    /// A team of `size` members in all; with 1 (or 0), the caller alone.
    pub fn new(size: usize) -> Self {
        let shared = Arc::new(Shared {
            epoch: AtomicUsize::new(0),
            busy: AtomicUsize::new(0),
            job: Mutex::new(None),
            quit: AtomicBool::new(false),
            panic: Mutex::new(None),
        });
        let members = (1..size.max(1))
            .map(|index| {
                let shared = Arc::clone(&shared);
                let handle = std::thread::spawn(move || work(index, &shared));
                let thread = handle.thread().clone();
                (handle, thread)
            })
            .collect();
        Self { shared, members }
    }

    /// Number of members, the caller included.
    pub fn size(&self) -> usize {
        self.members.len() + 1
    }

    /// Calls `job` once per member with the member's number, at the same time, and returns when all are done.
    pub fn run(&self, job: &(dyn Fn(usize) + Sync)) {
        if self.members.is_empty() {
            return job(0);
        }
        // SAFETY: only the lifetime is erased; this function does not return before `busy` is back at zero.
        let erased = unsafe { std::mem::transmute::<*const (dyn Fn(usize) + Sync + '_), Job>(job) };
        *self.shared.job.lock().expect("never poisoned") = Some(SendJob(erased));
        self.shared.busy.store(self.members.len(), Ordering::Relaxed);
        self.shared.epoch.fetch_add(1, Ordering::Release);
        for (_, thread) in &self.members {
            thread.unpark(); // cheap when it is not asleep
        }
        let mine = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job(0)));
        let mut spins = 0u32;
        while self.shared.busy.load(Ordering::Acquire) > 0 {
            relax(&mut spins);
        }
        // Taken before unwinding, so that the lock is not held then.
        let theirs = self.shared.panic.lock().expect("never poisoned").take();
        if let Some(theirs) = theirs {
            std::panic::resume_unwind(theirs);
        }
        if let Err(mine) = mine {
            std::panic::resume_unwind(mine);
        }
    }

    /// Member `index`'s share of `0..n`, in order and as equal as can be.
    pub fn share(&self, index: usize, n: usize) -> Range<usize> {
        n * index / self.size()..n * (index + 1) / self.size()
    }
}

/// Watches politely: other runs may want this core.
fn relax(spins: &mut u32) {
    *spins += 1;
    if spins.is_multiple_of(256) { std::thread::yield_now() } else { std::hint::spin_loop() }
}

fn work(index: usize, shared: &Shared) {
    let mut seen = 0;
    loop {
        let (mut spins, since) = (0u32, Instant::now());
        while shared.epoch.load(Ordering::Acquire) == seen {
            if shared.quit.load(Ordering::Relaxed) {
                return;
            }
            relax(&mut spins);
            if spins.is_multiple_of(1024) && since.elapsed() > WATCH {
                // A lost wake-up costs at most this timeout.
                std::thread::park_timeout(Duration::from_millis(50));
            }
        }
        seen += 1;
        let job = shared.job.lock().expect("never poisoned").expect("a job with every epoch");
        // SAFETY: `Team::run` keeps the job alive until `busy` is back at zero.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| unsafe { (*job.0)(index) }));
        if let Err(panic) = result {
            *shared.panic.lock().expect("never poisoned") = Some(panic);
        }
        shared.busy.fetch_sub(1, Ordering::Release);
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.quit.store(true, Ordering::Relaxed);
        for (handle, thread) in self.members.drain(..) {
            thread.unpark();
            let _ = handle.join();
        }
    }
}

/// A slice that the members of a team cut among themselves.
pub struct Shares<'a, T> {
    start: *mut T,
    len: usize,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: parts are only handed out by `part`, whose caller promises that they do not overlap.
unsafe impl<T: Send> Sync for Shares<'_, T> {}

impl<'a, T> Shares<'a, T> {
    /// Lends out `slice`.
    pub fn new(slice: &'a mut [T]) -> Self {
        Self { start: slice.as_mut_ptr(), len: slice.len(), borrow: PhantomData }
    }

    /// One part.
    ///
    /// # Safety
    /// While the returned part is alive nobody else may have a part that overlaps `range`.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: inside the slice (checked), not overlapping (the caller's promise).
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_works_once_per_job_and_shares_cover_everything() {
        for size in [1, 2, 5] {
            let team = Team::new(size);
            let mut sums = vec![0u64; 1003];
            for round in 1..=200 {
                let shares = Shares::new(&mut sums);
                team.run(&|i| {
                    // SAFETY: shares of different members do not overlap.
                    for x in unsafe { shares.part(team.share(i, 1003)) } {
                        *x += round;
                    }
                });
            }
            assert!(sums.iter().all(|s| *s == 200 * 201 / 2));
        }
    }

    #[test]
    fn a_team_wakes_after_a_long_sleep_and_hands_on_panics() {
        let team = Team::new(3);
        std::thread::sleep(Duration::from_millis(20));
        let count = AtomicUsize::new(0);
        team.run(&|_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(count.into_inner(), 3);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            team.run(&|i| assert!(i != 2, "member two fails"));
        }));
        assert!(caught.is_err());
        team.run(&|_| ());
    }
}

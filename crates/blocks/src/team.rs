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

/// How long whoever waits gives its core to nobody: longer than a step of a robot. Giving it away sooner costs a whole time slice,
/// milliseconds, wherever another program wants that core, however low its priority.
const HOLD: Duration = Duration::from_micros(100);

/// In `Shared::gate`: nobody may begin any more.
const CLOSED: usize = 1 << (usize::BITS - 1);

struct Shared {
    /// Grows by two for each job; odd where members may stay away from it ([`Team::each`]).
    epoch: AtomicUsize,
    /// Members still working on a job that all take part in.
    busy: AtomicUsize,
    /// Members working on a job that they may stay away from, and [`CLOSED`].
    gate: AtomicUsize,
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
            gate: AtomicUsize::new(CLOSED),
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
        self.shared.busy.store(self.members.len(), Ordering::Relaxed);
        self.announce(job, false);
        let mine = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job(0)));
        let mut wait = Wait::new();
        while self.shared.busy.load(Ordering::Acquire) > 0 {
            wait.moment();
        }
        self.unwind(mine);
    }

    /// Calls `work` once for each of `0..n`, `chunk` of them at a time by whoever is free, and returns when all are done. For work of
    /// unequal length: nobody waits for more than one chunk, and a member that other programs keep from its core is not waited for at
    /// all, unless it has begun one.
    pub fn each(&self, n: usize, chunk: usize, work: &(dyn Fn(usize) + Sync)) {
        let taken = AtomicUsize::new(0);
        let job = |_| {
            loop {
                let first = taken.fetch_add(chunk, Ordering::Relaxed);
                if first >= n {
                    return;
                }
                (first..n.min(first + chunk)).for_each(work);
            }
        };
        if self.members.is_empty() || n <= chunk {
            return job(0);
        }
        self.announce(&job, true);
        let mine = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job(0)));
        self.shared.gate.fetch_or(CLOSED, Ordering::Relaxed);
        let mut wait = Wait::new();
        while self.shared.gate.load(Ordering::Acquire) != CLOSED {
            wait.moment();
        }
        self.unwind(mine);
    }

    /// Hands a job to the members. The caller stays until nobody works on it any more.
    fn announce(&self, job: &(dyn Fn(usize) + Sync), open: bool) {
        // SAFETY: only the lifetime is erased; the caller does not return before the last member has finished with it.
        let erased = unsafe { std::mem::transmute::<*const (dyn Fn(usize) + Sync + '_), Job>(job) };
        *self.shared.job.lock().expect("never poisoned") = Some(SendJob(erased));
        if open {
            self.shared.gate.store(0, Ordering::Release);
        }
        let epoch = self.shared.epoch.load(Ordering::Relaxed);
        self.shared.epoch.store((epoch & !1) + 2 + usize::from(open), Ordering::Release);
        for (_, thread) in &self.members {
            thread.unpark(); // cheap when it is not asleep
        }
    }

    /// Hands on what a member, or the caller itself, panicked with.
    fn unwind(&self, mine: std::thread::Result<()>) {
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

/// Waiting by watching.
struct Wait {
    since: Instant,
    spins: u32,
    waited: Duration,
}

impl Wait {
    fn new() -> Self {
        Self { since: Instant::now(), spins: 0, waited: Duration::ZERO }
    }

    /// Lets a moment pass; after a while politely, since other runs may want this core.
    fn moment(&mut self) {
        self.spins += 1;
        if !self.spins.is_multiple_of(256) {
            return std::hint::spin_loop();
        }
        self.waited = self.since.elapsed();
        if self.waited > HOLD {
            std::thread::yield_now();
        }
    }
}

fn work(index: usize, shared: &Shared) {
    let mut seen = 0;
    loop {
        let mut wait = Wait::new();
        while shared.epoch.load(Ordering::Acquire) == seen {
            if shared.quit.load(Ordering::Relaxed) {
                return;
            }
            wait.moment();
            if wait.waited > WATCH {
                // A lost wake-up costs at most this timeout.
                std::thread::park_timeout(Duration::from_millis(50));
            }
        }
        seen = shared.epoch.load(Ordering::Acquire);
        let open = seen & 1 == 1;
        // Whoever has passed the gate keeps the job alive, this one or the next: it is read after that.
        let pass = |gate: usize| (gate & CLOSED == 0).then_some(gate + 1);
        if open && shared.gate.fetch_update(Ordering::Acquire, Ordering::Relaxed, pass).is_err() {
            continue;
        }
        let job = shared.job.lock().expect("never poisoned").expect("a job with every epoch");
        // SAFETY: the caller keeps the job alive until `busy`, or the count at the gate, is back at zero.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| unsafe { (*job.0)(index) }));
        if let Err(panic) = result {
            *shared.panic.lock().expect("never poisoned") = Some(panic);
        }
        let done = if open { &shared.gate } else { &shared.busy };
        done.fetch_sub(1, Ordering::Release);
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
    fn unequal_work_is_done_once_each_whoever_comes_and_between_jobs_of_the_other_kind() {
        for size in [1, 2, 5] {
            let team = Team::new(size);
            for (round, n) in [0, 1, 7, 100, 1003].into_iter().cycle().take(400).enumerate() {
                let mut sums = vec![0u64; n];
                let shares = Shares::new(&mut sums);
                team.each(n, 1 + round % 3, &|i| {
                    // SAFETY: every number is given away once.
                    let mine = unsafe { shares.part(i..i + 1) };
                    mine[0] += (0..i as u64 % 50).map(std::hint::black_box).sum::<u64>() + 1;
                });
                assert!(sums.iter().enumerate().all(|(i, s)| *s == (0..i as u64 % 50).sum::<u64>() + 1));
                let count = AtomicUsize::new(0);
                team.run(&|_| {
                    count.fetch_add(1, Ordering::Relaxed);
                });
                assert_eq!(count.into_inner(), size);
            }
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
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            team.each(100, 1, &|i| assert!(i != 57, "one fails"));
        }));
        assert!(caught.is_err());
        team.run(&|_| ());
    }
}

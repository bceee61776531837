//! Every robot, stepped and reset under an allocator that counts.

use sskp_blocks::registry::EnvOptions;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use sskp_blocks::rng::Rng;
use sskp_robots::robots;

struct Counting;

static CALLS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: hands everything to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// One test in this file: another, running at the same time, would be counted with it.
#[test]
fn stepping_does_not_allocate() {
    for robot in &robots() {
        let mut env = robot.make(EnvOptions::default()).unwrap();
        let mut rng = Rng::stream(0, "allocation test");
        let mut action = vec![0.0; env.spec().action_dim];
        env.reset(&mut rng).unwrap();
        let before = CALLS.load(Ordering::Relaxed);
        for _ in 0..300 {
            rng.fill_action(&mut action);
            if env.step(&action).unwrap().end.is_some() {
                env.reset(&mut rng).unwrap();
            }
        }
        assert_eq!(CALLS.load(Ordering::Relaxed) - before, 0, "{}", robot.name);
    }
}

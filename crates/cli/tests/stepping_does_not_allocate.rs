//! Every robot, stepped and reset under an allocator that counts.

use sskp_blocks::registry::EnvOptions;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use sskp_blocks::rng::Rng;
use sskp_robots::robots;

struct Counting;

thread_local! {
    /// Of this thread alone: the test's harness allocates in its own, whenever it likes.
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: hands everything to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
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

#[test]
fn stepping_does_not_allocate() {
    for robot in &robots() {
        let mut env = robot.make(EnvOptions::default()).unwrap();
        let mut rng = Rng::stream(0, "allocation test");
        let mut action = vec![0.0; env.spec().action_dim];
        env.reset(&mut rng).unwrap();
        let before = CALLS.get();
        for _ in 0..300 {
            rng.fill_action(&mut action);
            if env.step(&action).unwrap().end.is_some() {
                env.reset(&mut rng).unwrap();
            }
        }
        assert_eq!(CALLS.get() - before, 0, "{}", robot.name);
    }
}

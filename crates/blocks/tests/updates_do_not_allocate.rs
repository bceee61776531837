//! The update that SAC-like methods share, under an allocator that counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use sskp_blocks::env::End;
use sskp_blocks::nets::Mlp;
use sskp_blocks::replay::{Batch, Replay};
use sskp_blocks::rng::Rng;
use sskp_blocks::soft_actor_critic::{Prior, SoftActorCritic, SoftActorCriticConfig, ViolationValue};

struct Counting;

static CALLS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: hands everything to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // The library of matrix products takes its workspace anew for each: bytes, and packed rows aligned to cache lines. Numbers,
        // indices and pointers, as all of ours are, lie in between.
        if (4..=16).contains(&layout.align()) {
            CALLS.fetch_add(1, Ordering::Relaxed);
        }
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

const OBS: usize = 7;
const ACTION: usize = 3;

// One test in this file: another, running at the same time, would be counted with it.
#[test]
fn updates_do_not_allocate() {
    let mut rng = Rng::stream(0, "allocation test");
    let (mut replay, mut batch) = (Replay::new(OBS, ACTION, 500), Batch::default());
    for i in 0..500 {
        let mut row = [0.0; 2 * OBS + ACTION];
        rng.fill_normal(&mut row);
        let end = [None, Some(End::Violation), Some(End::Terminated)][i % 3];
        replay.push(&row[..OBS], &row[OBS..OBS + ACTION], row[0], end, &row[OBS + ACTION..]);
    }
    for threads in [1, 2] {
        for min_critic in [true, false] {
            let config = SoftActorCriticConfig { width: 32, min_critic, ..Default::default() };
            let prior = Prior { net: Mlp::new(&[OBS, 32, 2 * ACTION], &mut rng), bound: vec![2.0; ACTION] };
            let held = [
                SoftActorCritic::new(config.clone(), OBS, ACTION, threads, &mut rng).unwrap(),
                SoftActorCritic::near_prior(config, prior, 1.0, threads, &mut rng).unwrap(),
            ];
            for mut sac in held {
                let mut update = |times: usize| {
                    for _ in 0..times {
                        replay.sample(64, &mut rng, &mut batch);
                        sac.update(&batch, ViolationValue::Fixed(-3.0), &mut rng, None).unwrap();
                    }
                };
                // Buffers grow to their sizes.
                update(3);
                // The least of a few rounds: the test's harness, in its own thread, may allocate beside one of them.
                let rounds = [(); 5].map(|()| {
                    let before = CALLS.load(Ordering::Relaxed);
                    update(10);
                    CALLS.load(Ordering::Relaxed) - before
                });
                let calls = rounds.into_iter().min().expect("five");
                assert_eq!(calls, 0, "{threads} threads, min_critic {min_critic}");
            }
        }
    }
}

//! An allocator that keeps the workspaces of matrix products: blocks of bytes, or aligned to more than numbers need, asked for anew with
//! every product, and of few sizes. A control loop must not wait for the system's allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// Blocks kept: more than there are sizes of products in a policy.
const SLOTS: usize = 128;
/// Numbers, indices and pointers are aligned to this at most, and to more than a byte.
const ORDINARY: usize = 16;
/// Sizes of workspaces: up to those of caches.
const SIZES: std::ops::RangeInclusive<usize> = 1..=1 << 24;

/// Whether blocks are kept: while policies act, not while they are loaded, when files are read.
pub static KEEPS: AtomicBool = AtomicBool::new(false);

struct Slot {
    /// Size and alignment of its block; 0 as long as it has had none.
    key: AtomicUsize,
    /// The block, while nobody uses it.
    block: AtomicPtr<u8>,
}

static KEPT: [Slot; SLOTS] =
    [const { Slot { key: AtomicUsize::new(0), block: AtomicPtr::new(ptr::null_mut()) } }; SLOTS];

fn workspace(layout: Layout) -> bool {
    (layout.align() > ORDINARY || layout.align() == 1) && SIZES.contains(&layout.size())
}

fn key(layout: Layout) -> usize {
    layout.size() << 6 | layout.align().trailing_zeros() as usize
}

fn take(layout: Layout) -> *mut u8 {
    let of_this_size = KEPT.iter().filter(|slot| slot.key.load(Ordering::Acquire) == key(layout));
    let mut blocks = of_this_size.map(|slot| slot.block.swap(ptr::null_mut(), Ordering::AcqRel));
    blocks.find(|block| !block.is_null()).unwrap_or(ptr::null_mut())
}

/// Whether the block found a place.
fn keep(block: *mut u8, layout: Layout) -> bool {
    KEPT.iter().any(|slot| {
        let mine = match slot.key.compare_exchange(0, key(layout), Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(there) => there == key(layout),
        };
        mine && slot.block.compare_exchange(ptr::null_mut(), block, Ordering::AcqRel, Ordering::Acquire).is_ok()
    })
}

/// The allocator: the system's, but for workspaces.
pub struct Keeping;

// SAFETY: blocks come from the system's allocator with the layout they are asked for; a kept one is given out once until it comes back.
unsafe impl GlobalAlloc for Keeping {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if workspace(layout) {
            let block = take(layout);
            if !block.is_null() {
                return block;
            }
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if KEEPS.load(Ordering::Relaxed) && workspace(layout) && keep(block, layout) {
            return;
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(block, layout) }
    }
}

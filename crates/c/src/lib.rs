//! Trained policies for control loops in C: `include/sskp.h`.
//!
//! After the load nothing is allocated (`tests/c_program.rs` counts the calls of `malloc`), and a panic, which would be a mistake in sskp, does
//! not leave a function: it is caught and said in a number.

mod keeping;

use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::Ordering;

use keeping::KEEPS;
use sskp_lab::control::{Policy, Refusal};

#[global_allocator]
static ALLOCATOR: keeping::Keeping = keeping::Keeping;

const OK: c_int = 0;
const NULL: c_int = 1;
const LENGTH: c_int = 2;
const NOT_FINITE: c_int = 3;
const NONE: c_int = 4;
const BROKEN: c_int = 5;

/// Writes a sentence and its zero as far as there is room.
///
/// # Safety
/// `error` is null or has room for `size` characters.
unsafe fn say(text: &str, error: *mut c_char, size: usize) {
    if error.is_null() || size == 0 {
        return;
    }
    let bytes = text.as_bytes();
    let mut end = bytes.len().min(size - 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    // SAFETY: `end` characters and a zero fit into `size`.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), error, end);
        *error.add(end) = 0;
    }
}

/// Loads a policy; null with a sentence where that cannot be done.
///
/// # Safety
/// `path` is null or a text that ends with zero; `error` is null or has room for `size` characters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sskp_policy_load(path: *const c_char, error: *mut c_char, size: usize) -> *mut Policy {
    if path.is_null() {
        // SAFETY: the caller's promise.
        unsafe { say("no path was given", error, size) };
        return std::ptr::null_mut();
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(path) }.to_string_lossy().into_owned();
    KEEPS.store(false, Ordering::Relaxed);
    let loaded = catch_unwind(|| Policy::load(Path::new(&text)));
    KEEPS.store(true, Ordering::Relaxed);
    let loaded = catch_unwind(AssertUnwindSafe(|| {
        loaded.map(|loaded| {
            loaded.map(|mut policy| {
                // Once more, now that workspaces are kept.
                policy.warm_up();
                policy
            })
        })
    }))
    .and_then(|loaded| loaded);
    let why = match loaded {
        Ok(Ok(policy)) => return Box::into_raw(Box::new(policy)),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "a mistake in sskp".to_string(),
    };
    // SAFETY: the caller's promise.
    unsafe { say(&why, error, size) };
    std::ptr::null_mut()
}

/// Lets go of a policy.
///
/// # Safety
/// `policy` is null or came from [`sskp_policy_load`] and is used no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sskp_policy_free(policy: *mut Policy) {
    if !policy.is_null() {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(policy) });
    }
}

/// Numbers in an observation.
///
/// # Safety
/// `policy` is null or came from [`sskp_policy_load`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sskp_policy_observations(policy: *const Policy) -> usize {
    // SAFETY: the caller's promise.
    unsafe { policy.as_ref() }.map_or(0, |policy| policy.sizes().0)
}

/// Numbers in an action.
///
/// # Safety
/// `policy` is null or came from [`sskp_policy_load`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sskp_policy_actions(policy: *const Policy) -> usize {
    // SAFETY: the caller's promise.
    unsafe { policy.as_ref() }.map_or(0, |policy| policy.sizes().1)
}

/// An episode begins.
///
/// # Safety
/// `policy` is null or came from [`sskp_policy_load`], and nobody else uses it now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sskp_policy_begin(policy: *mut Policy) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { policy.as_mut() } {
        None => NULL,
        Some(policy) => {
            policy.begin();
            OK
        }
    }
}

/// The action for an observation.
///
/// # Safety
/// `policy` is null or came from [`sskp_policy_load`], and nobody else uses it now; the arrays are null or have these lengths.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sskp_policy_act(
    policy: *mut Policy,
    observation: *const f32,
    observations: usize,
    action: *mut f32,
    actions: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let Some(policy) = (unsafe { policy.as_mut() }) else { return NULL };
    if observation.is_null() || action.is_null() {
        return NULL;
    }
    // Looked at before they are read.
    if (observations, actions) != policy.sizes() {
        return LENGTH;
    }
    // SAFETY: the caller's promise.
    unsafe {
        let observation = std::slice::from_raw_parts(observation, observations);
        match policy.act(observation, std::slice::from_raw_parts_mut(action, actions)) {
            Ok(()) => OK,
            Err(Refusal::Length) => LENGTH,
            Err(Refusal::NotFinite) => NOT_FINITE,
            Err(Refusal::Broken) => BROKEN,
        }
    }
}

/// The risk predicted for the skill that is being played.
///
/// # Safety
/// `policy` is null or came from [`sskp_policy_load`], and nobody else uses it now; `risk` is null or one number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sskp_policy_risk(policy: *const Policy, risk: *mut f32) -> c_int {
    // SAFETY: the caller's promise.
    let (policy, risk) = unsafe { (policy.as_ref(), risk.as_mut()) };
    let (Some(policy), Some(risk)) = (policy, risk) else { return NULL };
    match policy.risk() {
        None => NONE,
        Some(predicted) => {
            *risk = predicted;
            OK
        }
    }
}

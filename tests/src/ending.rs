//! Threads of a test that run until a flag is set, and end with the test when it fails.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Sets the flag when it is dropped, also by a panic: a scope's threads would be waited for without an end otherwise.
#[derive(Debug)]
pub struct SetAtEnd<'a>(pub &'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

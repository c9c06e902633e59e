//! Threads that live as long as the server.
//!
//! A thread asks for memory before its work begins: the runtime maps a stack for its signals, and ends the process where the
//! system refuses that. A server that says that it is ready has that behind it.

use std::io;
use std::sync::mpsc::sync_channel;
use std::thread::{Builder, JoinHandle};

/// Starts a thread and returns when it runs `work`.
///
/// # Errors
/// When the system gives no thread.
pub(crate) fn start<T: Send + 'static>(
    name: impl Into<String>,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let (runs, wait) = sync_channel(1);
    let run = move || {
        let told = runs.send(());
        debug_assert!(told.is_ok(), "its maker waits");
        drop(runs);
        work()
    };
    let thread = Builder::new().name(name.into()).spawn(run)?;
    wait.recv().map_err(|_| io::Error::other("the thread ended before its work"))?;
    Ok(thread)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_thread_has_its_name_before_its_work_and_gives_its_result() {
        let waits = Arc::new(AtomicBool::new(true));
        let seen = Arc::clone(&waits);
        let work = move || {
            while seen.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            std::thread::current().name().map(str::to_owned)
        };
        let thread = start("a-thread", work).expect("a thread");
        let name = std::fs::read_dir("/proc/self/task").expect("Linux").flatten().find(|task| {
            std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.trim_end() == "a-thread")
        });
        assert!(name.is_some(), "it has its name before its work");
        waits.store(false, Ordering::SeqCst);
        assert_eq!(thread.join().expect("no panic").as_deref(), Some("a-thread"));
    }
}

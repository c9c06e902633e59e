//! The end that nobody asked for, and threads that stand still: reports in the log, by signals.
//!
//! ```text
//!   SIGSEGV SIGBUS SIGFPE SIGILL SIGABRT ─┐
//!   panic, memory refused ────────────────┴─▶ version, reason, stack, last command ─▶ the thread that waits: INFO
//!                                               at once, nothing allocated               within a second, or not
//!                                             ─▶ the signal's own end: the core
//!   SIGALRM (watchdog, or an operator) ─────▶ stack of the thread, which goes on
//! ```
//! INFO needs memory and locks, which the thread that crashed may hold: so another thread writes it, and is waited for no longer
//! than [`INFO_WAIT_MS`]. The rest is written where the signal came, on the small stack of signals.

use std::ffi::c_void;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};
use std::thread::Thread;

use super::report::Report;
use super::{nap_ms, stack, thread_id};
use crate::system::version;

/// The signals of a crash.
const CRASHES: [(i32, &str); 5] = [
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGABRT, "SIGABRT"),
];
/// How long a report waits for INFO.
const INFO_WAIT_MS: u32 = 1000;

/// The thread that writes the report of this process's end; 0 for none.
static REPORTER: AtomicI32 = AtomicI32::new(0);
/// Whether ends are reported, and not in one line alone.
static REPORTS: AtomicBool = AtomicBool::new(false);
/// A panic ends the process by status 1.
static EXITS: AtomicBool = AtomicBool::new(false);
/// Names the command that the calling thread ran last.
static COMMAND: OnceLock<fn() -> Option<&'static str>> = OnceLock::new();
/// The thread that writes INFO.
static INFORMER: OnceLock<Thread> = OnceLock::new();
static INFO_WANTED: AtomicBool = AtomicBool::new(false);
static INFO_DONE: AtomicBool = AtomicBool::new(false);

/// Has reports name the command that the calling thread ran last.
pub(crate) fn name_commands(command: fn() -> Option<&'static str>) {
    // A second start in one process has the same function.
    let _ = COMMAND.set(command);
}

/// Reports crashes from now on, or no longer. `exits`: a panic ends the process by status 1, without a core.
pub(crate) fn watch(reports: bool, exits: bool) {
    EXITS.store(exits, SeqCst);
    if REPORTS.swap(reports, SeqCst) == reports {
        return;
    }
    stack::prepare();
    for (signal, _) in CRASHES {
        let handler = if reports { crashed as *const () as usize } else { libc::SIG_DFL };
        handle(signal, handler, libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESETHAND);
    }
}

/// Writes stacks on SIGALRM from now on, or has that signal do nothing. An alarm may be under way to a thread that waits in
/// the kernel when the watchdog is switched off: the system's own handling would end the process.
pub(crate) fn watch_alarms(on: bool) {
    stack::prepare();
    let handler = if on { alarmed as *const () as usize } else { libc::SIG_IGN };
    handle(libc::SIGALRM, handler, libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART);
}

fn handle(signal: i32, handler: usize, flags: i32) {
    // SAFETY: a sigaction is plain integers, for which all zero bytes are a valid value: no signal blocked.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    (action.sa_sigaction, action.sa_flags) = (handler, flags);
    // SAFETY: the action is live for the call, and its handler is a function of the form that SA_SIGINFO asks for, or the
    // system's own.
    let code = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    assert!(code == 0, "these signals can be handled");
}

/// Waits until a crash wants INFO. The calling thread is the one that is woken.
pub(crate) fn await_crash() {
    let _ = INFORMER.set(std::thread::current());
    while !INFO_WANTED.swap(false, SeqCst) {
        std::thread::park();
    }
}

/// Adds INFO to the report of a crash that waits for it.
pub(crate) fn inform(info: &str) {
    let mut report = Report::open();
    report.line(format_args!("------ INFO OUTPUT ------"));
    report.bytes(info.as_bytes());
    INFO_DONE.store(true, SeqCst);
}

/// Has a thread's stack written to the log (`thread_id`). Nothing happens if there is no such thread any more.
pub(crate) fn alarm(thread: i32) {
    // SAFETY: the call touches no memory of ours; the signal has a handler while the watchdog runs.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGALRM) };
}

/// Ends the process for a reason of its own: a report, and the reason on standard error.
pub(super) fn die(reason: fmt::Arguments<'_>) -> ! {
    if begin() {
        let mut report = Report::open();
        report.line(reason);
        Report::standard_error().line(reason);
        if REPORTS.load(SeqCst) {
            body(&mut report);
        }
    }
    if EXITS.load(SeqCst) {
        // SAFETY: ends the process at once; nothing of ours runs behind it.
        unsafe { libc::_exit(1) };
    }
    handle(libc::SIGABRT, libc::SIG_DFL, 0);
    std::process::abort();
}

/// True for the first thread that reports an end. Another thread waits for that end; one that crashes within its own report
/// goes on to it.
fn begin() -> bool {
    let own = thread_id();
    match REPORTER.compare_exchange(0, own, SeqCst, SeqCst) {
        Ok(_) => true,
        Err(other) if other == own => false,
        Err(_) => loop {
            nap_ms(1000);
        },
    }
}

/// The report behind its reason.
fn body(report: &mut Report) {
    report.line(format_args!("=== VARVE BUG REPORT START: everything down to its END helps to find the fault ==="));
    let (version, redis, sha) = (version::VERSION, version::REDIS_VERSION, version::GIT_SHA);
    report.line(format_args!("version={version} redis={redis} sha={sha} build={}", version::Build));
    report.line(format_args!("------ STACK TRACE ------"));
    stack::write(report);
    report.line(format_args!("------ LAST COMMAND OF THIS THREAD, without its arguments ------"));
    let command = COMMAND.get().and_then(|command| command());
    report.line(format_args!("{}", command.unwrap_or("(none)")));
    if let Some(informer) = INFORMER.get() {
        INFO_WANTED.store(true, SeqCst);
        informer.unpark();
        let mut waited_ms = 0;
        while !INFO_DONE.load(SeqCst) && waited_ms < INFO_WAIT_MS {
            nap_ms(10);
            waited_ms += 10;
        }
    }
    report.line(format_args!("=== VARVE BUG REPORT END ==="));
    report.line(format_args!("varve-server+ADDRESS is a place in the program: addr2line -Cfie varve-server ADDRESS"));
}

/// The sender of a signal, if it was another process.
fn sender(info: *const libc::siginfo_t) -> (i32, i32) {
    // SAFETY: the system gives a handler of SA_SIGINFO a live siginfo.
    let info = unsafe { &*info };
    // SAFETY: the field is there for signals that a process has sent, which is when the code is not above 0.
    if info.si_code <= 0 { (info.si_code, unsafe { info.si_pid() }) } else { (info.si_code, 0) }
}

extern "C" fn crashed(signal: i32, info: *mut libc::siginfo_t, _: *mut c_void) {
    if begin() {
        let name = CRASHES.iter().find(|(number, _)| *number == signal).map_or("?", |(_, name)| name);
        let (code, pid) = sender(info);
        let mut report = Report::open();
        report.line(format_args!("Varve crashed by signal: {signal} ({name}), si_code: {code}"));
        if pid > 0 {
            report.line(format_args!("Killed by PID: {pid}"));
        } else {
            // SAFETY: the system gives a handler of SA_SIGINFO a live siginfo; these signals have an address.
            report.line(format_args!("Accessing address: {:p}", unsafe { (*info).si_addr() }));
        }
        body(&mut report);
    }
    // The system has taken this handler away: what comes now is the signal's own end.
    // SAFETY: raise touches no memory.
    unsafe { libc::raise(signal) };
}

extern "C" fn alarmed(_: i32, info: *mut libc::siginfo_t, _: *mut c_void) {
    let (code, pid) = sender(info);
    let mut report = Report::open();
    if code == libc::SI_TKILL && pid == std::process::id() as i32 {
        report.line(format_args!("--- WATCHDOG TIMER EXPIRED --- this thread has not come back to its loop"));
    } else {
        report.line(format_args!("Received SIGALRM"));
    }
    stack::write(&mut report);
    report.line(format_args!("------"));
    report.close();
}

//! The system layer: the few calls for which std, mio and socket2 have no safe face.
//!
//! Everything here is a thin, safe function over one libc call (or a short fixed sequence of them) and holds no state.
//! This is the only place of the server crate where `unsafe` may stand. Not here: sockets (socket2, mio), signals
//! (signal-hook), memory (varve-base).
#![allow(unsafe_code, reason = "libc calls without a safe face; each block says why it is sound")]

pub(crate) mod crash;
pub(crate) mod last_resort;
mod report;
pub(crate) mod reserve;
pub(crate) mod stack;
pub(crate) mod title;

use std::io;

/// The number of files that may be open at once: the soft limit that applies, and the hard limit it may be raised to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenFiles {
    pub(crate) soft: u64,
    pub(crate) hard: u64,
}

/// Reads the limit on open file descriptors.
pub(crate) fn open_files() -> io::Result<OpenFiles> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a live, writable rlimit for the whole call, which is all that getrlimit asks for.
    let code = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    if code != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(OpenFiles { soft: limit.rlim_cur, hard: limit.rlim_max })
}

/// Sets the limit on open file descriptors; raising `hard` needs a privilege.
pub(crate) fn set_open_files(limit: OpenFiles) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: limit.soft, rlim_max: limit.hard };
    // SAFETY: `limit` is a live, initialised rlimit that the kernel only reads.
    let code = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    if code != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Has the allocator give back what it keeps of freed memory, pages within its heaps included. Takes some milliseconds in
/// which other threads' allocations may wait.
pub(crate) fn trim_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim may be called by any thread at any time, and touches only what is not allocated.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// A moment in the time zone of the process (TZ, else /etc/localtime).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LocalTime {
    pub(crate) year: i32,
    /// 0 is January.
    pub(crate) month: u8,
    /// From 1.
    pub(crate) day: u8,
    pub(crate) hour: u8,
    pub(crate) minute: u8,
    pub(crate) second: u8,
}

/// The local time of a Unix time in seconds.
pub(crate) fn local_time(unix_s: i64) -> LocalTime {
    // SAFETY: tm is plain integers and a pointer, for which all zero bytes are a valid value.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both are live for the whole call, and only `tm` is written; any thread may call localtime_r, and this
    // process never changes its environment.
    let known = unsafe { libc::localtime_r(&raw const unix_s, &raw mut tm) };
    assert!(!known.is_null(), "a time of these centuries has a date");
    let small = |field: i32| u8::try_from(field).expect("fields of a date are small");
    LocalTime {
        year: 1900 + tm.tm_year,
        month: small(tm.tm_mon),
        day: small(tm.tm_mday),
        hour: small(tm.tm_hour),
        minute: small(tm.tm_min),
        second: small(tm.tm_sec),
    }
}

/// Bytes that the program has from its allocator now, on all threads; 0 where the allocator does not say.
pub(crate) fn heap_bytes() -> u64 {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: mallinfo2 may be called by any thread at any time; it only reads the allocator's own figures.
        let info = unsafe { libc::mallinfo2() };
        (info.uordblks + info.hblkhd) as u64
    }
    #[cfg(not(target_env = "gnu"))]
    0
}

/// CPU time used so far, in microseconds, split as the kernel splits it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTime {
    pub(crate) user_us: u64,
    pub(crate) system_us: u64,
}

/// The thread or process whose CPU time is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// All threads of this process.
    Process,
    /// Children that have ended and were waited for.
    Children,
    /// The calling thread alone.
    Thread,
}

/// Reads the CPU time of the process, its children or the calling thread.
pub(crate) fn cpu_time(whose: Whose) -> CpuTime {
    let who = match whose {
        Whose::Process => libc::RUSAGE_SELF,
        Whose::Children => libc::RUSAGE_CHILDREN,
        Whose::Thread => libc::RUSAGE_THREAD,
    };
    // SAFETY: rusage is plain integers, for which all zero bytes are a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a live, writable rusage for the whole call; `who` is one of the constants it accepts.
    let code = unsafe { libc::getrusage(who, &raw mut usage) };
    assert!(code == 0, "getrusage accepts the three constants above and a valid address");
    let micros = |t: libc::timeval| t.tv_sec as u64 * 1_000_000 + t.tv_usec as u64;
    CpuTime { user_us: micros(usage.ru_utime), system_us: micros(usage.ru_stime) }
}

/// Which side of a fork the caller is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Parent,
    Child,
}

/// Leaves the terminal: the calling process ends with status 0 and a child of its own session goes on with standard
/// input, output and error on /dev/null. Must be called while the process has one thread.
pub(crate) fn daemonize() -> io::Result<()> {
    assert!(threads() <= 1, "a fork keeps the calling thread alone: daemonize comes before the workers");
    if fork()? == Side::Parent {
        std::process::exit(0);
    }
    // SAFETY: setsid takes no arguments and touches no memory of ours.
    if unsafe { libc::setsid() } < 0 {
        return Err(io::Error::last_os_error());
    }
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    for standard in 0..=2 {
        use std::os::fd::AsRawFd;
        // SAFETY: both are descriptors that are open, or about to be made so; dup2 touches no memory of ours. The
        // standard descriptors are never owned by a File of ours, so nobody closes them twice.
        if unsafe { libc::dup2(null.as_raw_fd(), standard) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

fn fork() -> io::Result<Side> {
    // SAFETY: the process has one thread (asserted by the only caller), so the child holds no lock of another thread
    // and may go on as a normal process.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Side::Child),
        _ => Ok(Side::Parent),
    }
}

/// Keeps the calling thread on these processors, below 1024 each.
pub(crate) fn keep_thread_on(cpus: &[usize]) -> io::Result<()> {
    assert!(cpus.iter().all(|&cpu| cpu < libc::CPU_SETSIZE as usize), "a set has a bit for each");
    // SAFETY: a set of processors is plain bits, for which all zero bytes are a valid value: none.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &cpu in cpus {
        // SAFETY: the number was checked above; only the set is written.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    // SAFETY: 0 is the calling thread; the set is live, and only read.
    let code = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) };
    if code != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Number of threads of this process, 1 where the system does not say.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(1, |tasks| tasks.count())
}

/// The system's number of the calling thread.
pub(crate) fn thread_id() -> i32 {
    // SAFETY: gettid touches no memory.
    unsafe { libc::gettid() }
}

/// Sleeps where a signal came: the library's own sleep may not be called there.
fn nap_ms(ms: u32) {
    let time = libc::timespec { tv_sec: i64::from(ms / 1000), tv_nsec: i64::from(ms % 1000) * 1_000_000 };
    // SAFETY: the time is live for the call, and nothing is written back.
    unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) };
}

/// Ends the process by a real segmentation fault (DEBUG SEGFAULT): handlers and core dumps see what they would see.
pub(crate) fn segfault() -> ! {
    // SAFETY: raising a signal touches no memory; the default action ends the process.
    unsafe { libc::raise(libc::SIGSEGV) };
    std::process::abort();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_on_open_files_reads_back() {
        let now = open_files().unwrap();
        assert!(now.soft > 0 && now.soft <= now.hard);
        set_open_files(now).unwrap();
        assert_eq!(open_files().unwrap(), now);
    }

    #[test]
    #[cfg(target_env = "gnu")]
    fn the_heap_holds_what_was_taken_from_it() {
        // Untouched, so that it costs no memory; other tests take and give back meanwhile.
        let taken = std::hint::black_box(vec![0u8; 1 << 30]);
        assert!(heap_bytes() >= taken.len() as u64);
        drop(taken);
        assert!(heap_bytes() < 1 << 30);
    }

    #[test]
    fn cpu_time_grows() {
        let before = cpu_time(Whose::Thread);
        let mut sum = 0u64;
        while cpu_time(Whose::Thread) == before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let whole = cpu_time(Whose::Process);
        assert!(whole.user_us + whole.system_us > 0);
    }
}

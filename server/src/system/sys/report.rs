//! Lines about an end that nobody asked for, to where the log goes: nothing is allocated and no lock is taken, since memory may
//! be what is missing, and a thread may have stopped anywhere.

use std::ffi::CString;
use std::fmt::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

/// The log file, if there is one, as the system wants its path.
static LOG_FILE: OnceLock<CString> = OnceLock::new();

/// From now on lines go to the end of this file, whose path is absolute, in the place of standard output.
pub(crate) fn set_log_file(path: &Path) {
    if let Ok(path) = CString::new(path.as_os_str().as_bytes()) {
        // A second start of the log in one process keeps the first file.
        let _ = LOG_FILE.set(path);
    }
}

/// Bytes that are written by one call; the stack of a signal is small.
const AT_ONCE: usize = 256;

/// The end of the log. A part that cannot be written is left out.
pub(super) struct Report {
    file: i32,
    bytes: [u8; AT_ONCE],
    len: usize,
}

impl Report {
    /// The log file, else standard output.
    pub(super) fn open() -> Report {
        let file = LOG_FILE.get().map_or(libc::STDOUT_FILENO, |path| {
            // SAFETY: the path is a C string that lives for the call. The descriptor is not closed: the process ends, or, for
            // a watchdog's report, `close` does it.
            unsafe {
                libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC, 0o644)
            }
        });
        Report { file, bytes: [0; AT_ONCE], len: 0 }
    }

    /// Standard error.
    pub(super) fn standard_error() -> Report {
        Report { file: libc::STDERR_FILENO, bytes: [0; AT_ONCE], len: 0 }
    }

    /// Writes a line.
    pub(super) fn line(&mut self, text: fmt::Arguments<'_>) {
        // A part that cannot be formatted is left out.
        let _ = self.write_fmt(text);
        let _ = self.write_str("\n");
        self.flush();
    }

    /// Writes bytes as they are.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(AT_ONCE) {
            self.flush();
            self.bytes[..part.len()].copy_from_slice(part);
            self.len = part.len();
        }
        self.flush();
    }

    fn flush(&mut self) {
        let mut done = 0;
        while done < self.len {
            // SAFETY: the bytes are initialised and live for the call; a failing call changes nothing of ours.
            let count = unsafe { libc::write(self.file, self.bytes[done..].as_ptr().cast(), self.len - done) };
            match usize::try_from(count) {
                Ok(count) if count > 0 => done += count,
                _ => break,
            }
        }
        self.len = 0;
    }

    /// Closes the log file.
    pub(super) fn close(self) {
        if self.file > libc::STDERR_FILENO {
            // SAFETY: `open` opened it, and nobody else has it.
            unsafe { libc::close(self.file) };
        }
    }
}

impl Write for Report {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if self.len == AT_ONCE {
                self.flush();
            }
            self.bytes[self.len] = byte;
            self.len += 1;
        }
        Ok(())
    }
}

//! A browser without a window: Debian's Chromium shows a page, and its tree and its console are read.
//!
//! ```text
//!   address --chromium--> the tree as HTML, once the page has run for some time of its own clock
//!                    \--> the console's lines
//!                    \--> a picture
//! ```
//! The browser resolves no name: a page that asks for something of another machine fails, which its console names. Its own
//! clock runs as fast as the page lets it, so a page that works each second is seen at work without waiting for it.

use std::path::Path;
use std::process::Command;
use std::{fs, io};

/// The browser and its options.
pub(crate) const WORDS: [&str; 10] = [
    "chromium",
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    // The browser's own wishes stay on this machine too.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
];
/// Seconds that the browser may take.
const PATIENCE_S: &str = "120";

/// A page as the browser has it.
#[derive(Debug)]
pub struct Opened {
    /// Its tree, as HTML.
    pub tree: String,
    /// The lines of its console.
    pub console: Vec<String>,
}

/// The window that a page is shown in. The browser makes none that is narrower than 500 pixels.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// Pixels.
    pub width: u32,
    /// Pixels.
    pub height: u32,
    /// A user who wishes dark pages; else light ones.
    pub dark: bool,
}

impl Window {
    /// A light one that is 900 pixels high.
    #[must_use]
    pub fn light(width: u32) -> Window {
        Window { width, height: 900, dark: false }
    }
}

/// Shows a page in a window that is `width` pixels wide, until `clock_ms` of the page's own clock have passed. The browser keeps
/// its files in `folder`, which is made, and removed again.
///
/// # Errors
/// The browser does not start, or ends badly.
pub fn open(address: &str, width: u32, clock_ms: u32, folder: &Path) -> io::Result<Opened> {
    open_in(Window::light(width), address, clock_ms, folder)
}

/// [`open`] in a window of any kind.
///
/// # Errors
/// Those of [`open`].
pub fn open_in(window: Window, address: &str, clock_ms: u32, folder: &Path) -> io::Result<Opened> {
    run(window, &["--dump-dom"], address, clock_ms, folder)
}

/// Shows a page, and writes a picture of the window, a PNG, to `file`.
///
/// # Errors
/// The browser does not start, ends badly, or has made no picture.
pub fn picture(window: Window, address: &str, clock_ms: u32, file: &Path, folder: &Path) -> io::Result<()> {
    let _ = fs::remove_file(file);
    run(window, &[&format!("--screenshot={}", file.display()), "--hide-scrollbars"], address, clock_ms, folder)?;
    let begin = fs::read(file)?;
    if begin.starts_with(b"\x89PNG") {
        Ok(())
    } else {
        Err(io::Error::other(format!("{}: no picture", file.display())))
    }
}

fn run(window: Window, wish: &[&str], address: &str, clock_ms: u32, folder: &Path) -> io::Result<Opened> {
    fs::create_dir_all(folder)?;
    let console = folder.join("console");
    let mut browser = Command::new("timeout");
    browser.arg(PATIENCE_S).args(WORDS).arg("--enable-logging=stderr").args(wish);
    browser.args(window.dark.then_some("--force-dark-mode"));
    browser.arg(format!("--user-data-dir={}", folder.display()));
    browser.arg(format!("--window-size={},{}", window.width, window.height));
    browser.arg(format!("--virtual-time-budget={clock_ms}")).arg(address);
    let output = browser.stderr(fs::File::create(&console)?).output()?;
    let said = fs::read(&console).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    if !output.status.success() {
        return Err(io::Error::other(format!("chromium: {}\n{said}", output.status)));
    }
    let lines = said.lines().filter(|line| line.contains(":CONSOLE")).map(str::to_owned).collect();
    let _ = fs::remove_dir_all(folder);
    Ok(Opened { tree: String::from_utf8_lossy(&output.stdout).into_owned(), console: lines })
}

//! The page of the metrics port, opened in a browser: its server, some load, its windows.

use std::sync::atomic::{AtomicBool, Ordering};

use varve_testkit::server::{free_port, target_dir};
use varve_testkit::skip::has_or_skipped;
use varve_testkit::tab::{Tab, Window};
use varve_testkit::{Launch, Server};

/// A window on a desk.
pub const DESK: Window = Window { width: 1280, height: 900, is_dark: false, is_phone: false };

/// Whether there is a browser; else a line says that the test is skipped.
#[must_use]
pub fn has_browser() -> bool {
    has_or_skipped("chromium")
}

/// A server with more settings, and its metrics port.
///
/// # Panics
/// It does not start.
#[must_use]
pub fn server(settings: &[&str]) -> (Server, u16) {
    let port = free_port().expect("a free port");
    let launch = Launch::varve().config(format!("metrics-port {port}"));
    let launch = settings.iter().fold(launch, |launch, line| launch.config(*line));
    (launch.start().expect("a server"), port)
}

/// Commands of several kinds until told to stop.
pub fn work(server: &Server, stops: &AtomicBool) {
    let mut client = server.client();
    let mut round = 0_u64;
    while !stops.load(Ordering::Relaxed) {
        round += 1;
        let key = format!("key:{}", round % 5000);
        for command in
            [&["SET", &key, "some value"][..], &["GET", &key], &["LPUSH", "list", "x"], &["LTRIM", "list", "0", "99"]]
        {
            let _ = client.call(command);
        }
    }
}

/// A browser for a test of this length, with its files in a folder of this name.
///
/// # Panics
/// It does not start.
#[must_use]
pub fn tab(name: &str, seconds: u64) -> Tab {
    Tab::start(&target_dir().join(name), seconds).expect("a browser")
}

//! CPU time that a server under test has used so far, by its own account.

use varve_testkit::Client;

/// CPU time of the server so far in seconds, threads that have ended included.
///
/// # Panics
/// If INFO has no such figures.
pub fn cpu_s(client: &mut Client) -> f64 {
    let info = client.cmd("INFO cpu").text();
    let field = |name: &str| {
        let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.and_then(|value| value.parse::<f64>().ok()).unwrap_or_else(|| panic!("{name}: {info}"))
    };
    field("used_cpu_sys") + field("used_cpu_user")
}

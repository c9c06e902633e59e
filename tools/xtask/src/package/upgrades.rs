//! The service through removals, second installations and upgrades: what an administrator has decided stays.
//!
//! ```text
//!   install     enabled, runs          remove, install     the same
//!   upgrade     started anew           disabled by hand, then any of these     disabled, does not run
//! ```
//! No service manager runs in the trial's root. A stand-in for `systemctl` notes what Debian's helpers ask of it, and makes the
//! link when they ask for it; whether they ask is their own work.

use super::trial::{Root, expect};
use super::{deb, folder, read};
use crate::shell::{command, run};
use std::fs;
use std::os::unix::fs::PermissionsExt;

const TOOL: &str = "/usr/bin/systemctl";
const FOLDER: &str = "/run/systemd";
/// There while the service runs.
const RUNS: &str = "/tmp/service-runs";
/// The calls of the stand-in since the last look.
const CALLS: &str = "/tmp/service-calls";
const LINK: &str = "/etc/systemd/system/multi-user.target.wants/varve-server.service";
const NEWER: &str = "99.0.0";

const STAND_IN: &str = "#!/bin/sh
echo \"$*\" >> /tmp/service-calls
case \"$*\" in
*preset*) mkdir -p /etc/systemd/system/multi-user.target.wants
  ln -sf /usr/lib/systemd/system/varve-server.service /etc/systemd/system/multi-user.target.wants/;;
*is-enabled*) if [ -L /etc/systemd/system/multi-user.target.wants/varve-server.service ]; then echo enabled; else echo disabled; exit 1; fi;;
*is-active*) [ -e /tmp/service-runs ];;
*stop*) rm -f /tmp/service-runs;;
*start*) touch /tmp/service-runs;;
esac
";

/// A root where nothing of the package is left has it installed, removed and upgraded.
pub(super) fn run_all(root: &Root) -> Result<(), String> {
    let failed = |error: std::io::Error| error.to_string();
    fs::create_dir_all(root.at(FOLDER).join("system")).map_err(failed)?;
    fs::write(root.at(TOOL), STAND_IN).map_err(failed)?;
    fs::set_permissions(root.at(TOOL), fs::Permissions::from_mode(0o755)).map_err(failed)?;
    let ours = deb::path(&folder())?;
    let newer = root.at("/tmp/newer.deb");
    make_newer(root, &ours, &newer)?;
    let states = [true, false].into_iter().try_for_each(|is_enabled| {
        root.install(&ours)?;
        if !is_enabled {
            fs::remove_file(root.at(LINK)).map_err(failed)?;
            fs::remove_file(root.at(RUNS)).map_err(failed)?;
        }
        let word = if is_enabled { "enabled" } else { "disabled" };
        is_so(root, is_enabled, &format!("{word}, installed"))?;
        root.run(&["dpkg", "-r", "varve"])?;
        expect(&format!("{word}, removed: it does not run"), !root.at(RUNS).exists())?;
        root.install(&ours)?;
        is_so(root, is_enabled, &format!("{word}, installed again"))?;
        fs::remove_file(root.at(CALLS)).map_err(failed)?;
        root.install(&newer)?;
        is_so(root, is_enabled, &format!("{word}, upgraded"))?;
        let asked = read(&root.at(CALLS))?;
        let restarts = asked.lines().any(|call| call.contains("restart "));
        expect(&format!("{word}, upgraded: started anew if it may run: {asked}"), restarts == is_enabled)?;
        root.run(&["dpkg", "--purge", "varve"])
    });
    states?;
    for left in [TOOL, CALLS, "/tmp/newer.deb"] {
        fs::remove_file(root.at(left)).map_err(failed)?;
    }
    fs::remove_dir_all(root.at(FOLDER)).map_err(failed)
}

fn is_so(root: &Root, is_enabled: bool, when: &str) -> Result<(), String> {
    expect(&format!("{when}: it is enabled: {is_enabled}"), root.at(LINK).is_symlink() == is_enabled)?;
    expect(&format!("{when}: it runs: {is_enabled}"), root.at(RUNS).exists() == is_enabled)
}

/// Makes the package once more, under the number of a later version.
fn make_newer(root: &Root, ours: &std::path::Path, newer: &std::path::Path) -> Result<(), String> {
    let content = root.at("/tmp/newer");
    run(command("dpkg-deb", &["-R"]).arg(ours).arg(&content))?;
    let control = content.join("DEBIAN/control");
    let text: String = read(&control)?
        .lines()
        .map(|line| if line.starts_with("Version:") { format!("Version: {NEWER}\n") } else { format!("{line}\n") })
        .collect();
    fs::write(&control, text).map_err(|error| error.to_string())?;
    run(command("dpkg-deb", &["--root-owner-group", "--build"]).arg(&content).arg(newer))?;
    fs::remove_dir_all(&content).map_err(|error| error.to_string())
}

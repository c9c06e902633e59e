//! `varve.conf`: the configuration of a package, each setting explained, with those of a service set.

use std::fmt::Write;

use varve_server::settings;

const HEAD: &str = "\
# The configuration of Varve.
#
# A line is a setting; a line with '#' before it shows a setting's default. Sizes have units: 1k is 1000 bytes, 1kb is 1024,
# and so on with m, mb, g, gb. Files of Redis 7.0 are taken as they are. More: varve.conf(5), varve-server(1).
";

/// The settings of a service that differ from the defaults.
const SERVICE: &[(&str, &str)] = &[
    ("bind", "127.0.0.1 -::1"),
    ("supervised", "systemd"),
    ("dir", "/var/lib/varve"),
    ("logfile", "/var/log/varve/varve-server.log"),
    ("pidfile", "/run/varve/varve-server.pid"),
];

/// The file.
pub(crate) fn file() -> String {
    let mut file = HEAD.to_owned();
    let mut chapter = "";
    for setting in settings().iter().filter(|setting| setting.no_effect.is_none()) {
        if setting.chapter != chapter {
            chapter = setting.chapter;
            let _ = write!(file, "\n#### {chapter}\n");
        }
        file.push('\n');
        for line in wrapped(&format!("{} Values: {}.", setting.about, setting.values.replace('`', "")), 118) {
            let _ = writeln!(file, "# {line}");
        }
        match SERVICE.iter().find(|(name, _)| *name == setting.name) {
            Some((name, value)) => {
                let _ = writeln!(file, "{name} {value}");
            }
            None => {
                let _ = writeln!(file, "{}", format!("# {} {}", setting.name, setting.default).trim_end());
            }
        }
    }
    file
}

/// Lines of at most `width` bytes, broken at blanks.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("one at least");
        if !line.is_empty() && line.len() + 1 + word.len() > width {
            lines.push(word.to_owned());
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{SERVICE, file, wrapped};

    #[test]
    fn the_settings_of_a_service_are_set_once() {
        let file = file();
        for (name, value) in SERVICE {
            let line = format!("{name} {value}");
            assert_eq!(file.lines().filter(|other| *other == line).count(), 1, "{line}");
        }
        let set = file.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).count();
        assert_eq!(set, SERVICE.len());
    }

    #[test]
    fn lines_are_broken_at_blanks() {
        assert_eq!(wrapped("a bc def  g", 4), ["a bc", "def", "g"]);
    }
}

//! The template of the process's title, as `proc-title-template` has it.
//!
//! ```text
//!   {title} {listen-addr} {server-mode}  -->  varve-server *:6379        `{{` is one brace; blanks at the ends go
//! ```
//! Not here: where the title is shown (system/sys/title.rs).

/// The values that a template may name.
#[derive(Clone, Debug)]
pub(crate) struct TitleFacts<'f> {
    /// The name under which the program was started.
    pub(crate) title: &'f str,
    /// First address of `bind`, empty for none.
    pub(crate) address: &'f str,
    pub(crate) port: u16,
    pub(crate) tls_port: u16,
    /// Path of the Unix socket, empty for none.
    pub(crate) unix_socket: &'f str,
    /// Path of the configuration's file, empty for none.
    pub(crate) config_file: &'f str,
}

impl TitleFacts<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        let address = if self.address.is_empty() { "*" } else { self.address };
        let port = if self.port > 0 { self.port } else { self.tls_port };
        Some(match name {
            "title" => self.title.to_owned(),
            "listen-addr" if port > 0 => format!("{address}:{port}"),
            "listen-addr" => format!("unixsocket:{}", self.unix_socket),
            // Modes that there are not are named here in redis-server.
            "server-mode" => String::new(),
            "port" => self.port.to_string(),
            "tls-port" => self.tls_port.to_string(),
            "unixsocket" => self.unix_socket.to_owned(),
            "config-file" => self.config_file.to_owned(),
            _ => return None,
        })
    }
}

/// The title that a template makes of `facts`; None if the template names something unknown, ends within a name, or comes to
/// nothing.
pub(crate) fn title(template: &str, facts: &TitleFacts<'_>) -> Option<String> {
    let (mut title, mut rest) = (String::new(), template);
    while let Some((before, behind)) = rest.split_once('{') {
        title.push_str(before);
        if let Some(behind) = behind.strip_prefix('{') {
            title.push('{');
            rest = behind;
            continue;
        }
        let (name, behind) = behind.split_once('}')?;
        title.push_str(&facts.variable(name)?);
        rest = behind;
    }
    title.push_str(rest);
    let title = title.trim_matches(' ');
    (!title.is_empty()).then(|| title.to_owned())
}

/// True for a template that makes a title of nothing but what each server has.
pub(super) fn is_fine(template: &str) -> bool {
    let facts = TitleFacts { title: "", address: "", port: 0, tls_port: 0, unix_socket: "", config_file: "" };
    title(template, &facts).is_some()
}

#[cfg(test)]
mod tests {
    use super::{TitleFacts, is_fine, title};

    #[test]
    fn templates_make_titles() {
        let facts = TitleFacts {
            title: "./varve",
            address: "::1",
            port: 1,
            tls_port: 2,
            unix_socket: "/s",
            config_file: "/etc/v.conf",
        };
        let of = |template| title(template, &facts);
        assert_eq!(of("{title} {listen-addr} {server-mode}").unwrap(), "./varve ::1:1");
        assert_eq!(of("A {{b} {port} {tls-port} {unixsocket} {config-file}").unwrap(), "A {b} 1 2 /s /etc/v.conf");
        let nowhere = TitleFacts { port: 0, tls_port: 0, ..facts.clone() };
        assert_eq!(title("{listen-addr}", &nowhere).unwrap(), "unixsocket:/s");
        let tls = TitleFacts { port: 0, address: "", ..facts };
        assert_eq!(title("{listen-addr}", &tls).unwrap(), "*:2");
    }

    /// The templates that redis-server 7.0.15 takes and refuses.
    #[test]
    fn templates_are_refused_that_say_nothing() {
        for good in ["{port}", "x", "{title} {port}", "a}", "{{"] {
            assert!(is_fine(good), "{good}");
        }
        for bad in ["", " ", "{foo}", "x{", "x{port", "{title}"] {
            assert!(!is_fine(bad), "{bad}");
        }
    }
}

//! Manual pages: varve-server(1), varve-check(1), varve-top(1), varve.conf(5).

use std::fmt::Write;

use varve_server::{Changeable, settings};

const SERVER: &str = r#".SH SYNOPSIS
.B varve\-server
[\fIfile\fR] [\fB\-\-\fIsetting value\fR ...] [\fB\-\fR]
.br
.B varve\-server \-\-check\-system
.br
.B varve\-server \-\-version
.SH DESCRIPTION
Varve keeps keys and values in memory and serves them to clients of Redis, by the same protocol and with the same replies as
Redis 7.0.15. It reads and writes its files: RDB and append\-only files. All settings are explained in
.BR varve.conf (5);
each is an option of the command line as well. A file, standard input
.RB ( \- )
and options are read in this order, and the last word counts.
.SH OPTIONS
.TP
.BI \-\- "setting value"
A setting, as in \fB\-\-port 7000\fR.
.TP
.B \-
Reads settings from standard input.
.TP
.B \-\-check\-system
Looks at the machine, says what may hinder the server, and ends: by status 1 if there is something.
.TP
.BR \-v ", " \-\-version
Prints the version.
.TP
.BR \-h ", " \-\-help
Prints the usage.
.SH COMMANDS
Clients send the commands of Redis 7.0.15, and some that are newer or our own.
.I /usr/share/doc/varve/commands.md
lists them all with their arguments, cost and history; a server that runs answers \fBredis\-cli COMMAND DOCS\fR \fIname\fR.
.SH SIGNALS
.TP
.BR SIGTERM ", " SIGINT
End the server as \fBshutdown\-on\-sigterm\fR and \fBshutdown\-on\-sigint\fR say; by default it saves if there are save points. A
second SIGINT ends it at once.
.SH FILES
.TP
.I /etc/varve/varve.conf
The configuration of the service.
.TP
.I /var/lib/varve
Its data.
.TP
.I /var/log/varve
Its log. The file may be moved away at any time; the next line is in a new one.
.TP
.I /usr/share/doc/varve/commands.md
The commands that clients may send.
.SH EXIT STATUS
0 after an orderly end; 1 if the server could not start, or could not go on.
.SH SEE ALSO
.BR varve.conf (5),
.BR varve\-check (1),
.BR varve\-top (1),
.BR redis\-cli (1)
"#;

const CHECK: &str = r#".SH SYNOPSIS
.B varve\-check rdb
.I file
[\fB\-\-json\fR] [\fB\-\-largest\fR \fIN\fR] [\fB\-\-databases\fR \fIN\fR]
.br
.B varve\-check aof
.I file
[\fB\-\-fix\fR [\fB\-\-yes\fR]] [\fB\-\-databases\fR \fIN\fR]
.br
.B varve\-check manifest
.I file
[\fB\-\-fix\fR [\fB\-\-yes\fR]]
.SH DESCRIPTION
Reads the files that keep a data set, without a server, and says what is in them: keys by type, sizes, the largest keys,
expiries. Files of Redis and Valkey are read as well. A file is judged by the pieces of the server that load it: values are built
as at a start, libraries of functions are compiled.
.SH OPTIONS
.TP
.B \-\-json
The report as JSON.
.TP
.BI \-\-largest " N"
How many of the largest keys are named.
.TP
.B \-\-fix
Cuts the last file of an append\-only file where it is torn or ends in zeros. Where something in the middle of it is no command,
it is cut there too, which loses all that was written behind: how much that is, is said, and asked first. Takes files out of a
manifest that are not there: history at once, the last increments when that was confirmed.
In an RDB file nothing can be mended: behind a fault nobody can tell where the next key begins.
.TP
.B \-\-yes
Takes what \-\-fix asks for confirmed. Otherwise a line of standard input that begins with y confirms it.
.TP
.BI \-\-databases " N"
Databases of the server that is to load it, 16 by default: one with fewer refuses keys of the others.
.SH EXIT STATUS
0 if the file is sound, 1 if it is damaged or cannot be read, 2 if the command line is wrong.
.SH SEE ALSO
.BR varve\-server (1)
"#;

const TOP: &str = r#".SH SYNOPSIS
.B varve\-top
[\fB\-h\fR \fIhost\fR] [\fB\-p\fR \fIport\fR] [\fB\-s\fR \fIsocket\fR] [\fB\-a\fR \fIpassword\fR] [\fB\-\-user\fR \fIname\fR]
[\fB\-\-tls\fR] [\fB\-\-view\fR \fIview\fR] [\fB\-\-once\fR]
.SH DESCRIPTION
Shows in a terminal what a running server does: throughput, CPU and memory now and over the last minutes, commands with their
latency, the segment map, keys that are used most, prefixes, large keys, expiries, clients and what they wait for, slow commands,
files, work under way, replicas. It asks for what is shown alone, and changes nothing on the server.
.SH OPTIONS
.TP
\fB\-h\fR, \fB\-\-host\fR \fIhost\fR; \fB\-p\fR, \fB\-\-port\fR \fIport\fR; \fB\-s\fR, \fB\-\-socket\fR \fIpath\fR
The server: 127.0.0.1 and 6379 unless told, or the path of its Unix socket.
.TP
\fB\-a\fR, \fB\-\-pass\fR \fIpassword\fR; \fB\-\-user\fR \fIname\fR
The user. The environment variable REDISCLI_AUTH has the password as well.
.TP
.BI \-\-tls "\fR, \fP\-\-cacert" " file" "\fR, \fP\-\-cert" " file" "\fR, \fP\-\-key" " file" "\fR, \fP\-\-sni" " name" "\fR, \fP\-\-insecure"
TLS: authorities that are trusted, the certificate that is shown and its key, the server's name, and whether any certificate is trusted.
.TP
\fB\-i\fR, \fB\-\-interval\fR \fIseconds\fR
Time between two looks: 1 second unless told.
.TP
.BI \-\-view " view"
The first view: overview, commands, segments, keys, clients, slow or files.
.TP
.B \-\-once
Prints the view as plain text after two looks, and ends; \fB\-\-width\fR and \fB\-\-height\fR are its size.
.SH KEYS
.TP
.B 1 \fRto\fP 7\fR, Tab, left, right
Another view.
.TP
.B \fRUp, down, page up, page down, home
Scroll.
.TP
.B \fRSpace
Stops looking, and goes on.
.TP
.B q
Ends.
.SH EXIT STATUS
0 after its work, 1 if the server does not answer, 2 if the command line is wrong.
.SH SEE ALSO
.BR varve\-server (1),
.BR redis\-cli (1)
"#;

/// varve-server(1).
pub(crate) fn server() -> String {
    format!("{}{SERVER}", head("varve-server", 1, "a data store in memory for clients of Redis"))
}

/// varve-check(1).
pub(crate) fn check() -> String {
    format!("{}{CHECK}", head("varve-check", 1, "checks the files of a data set"))
}

/// varve-top(1).
pub(crate) fn top() -> String {
    format!("{}{TOP}", head("varve-top", 1, "shows what a server does"))
}

/// varve.conf(5).
pub(crate) fn configuration() -> String {
    let mut page = head("varve.conf", 5, "the configuration of varve-server");
    page.push_str(
        ".SH DESCRIPTION\nA line is a setting: its name and its values. A line that begins with # is a comment. Sizes have units: \
         1k is 1000 bytes, 1kb is 1024, and so on with m, mb, g, gb. Files of Redis 7.0 are taken as they are. \
         Settings that can be changed while the server runs are changed by CONFIG SET.\n",
    );
    let all = settings();
    let mut chapter = "";
    for setting in all.iter().filter(|setting| setting.no_effect.is_none()) {
        if setting.chapter != chapter {
            chapter = setting.chapter;
            let _ = writeln!(page, ".SH {}", chapter.to_uppercase());
        }
        let at_start = if setting.change == Changeable::AtStart { " Only at start." } else { "" };
        let default = if setting.default.is_empty() { "the machine's" } else { &setting.default };
        let about = format!("{} Values: {}. Default: {default}.{at_start}", setting.about, setting.values);
        let _ = write!(page, ".TP\n.B {}\n{}\n", escaped(setting.name), escaped(&about));
    }
    page.push_str(".SH SETTINGS WITHOUT AN EFFECT\nThey are taken, kept and answered, and do nothing.\n");
    for setting in &all {
        if let Some(reason) = setting.no_effect {
            let _ = write!(page, ".TP\n.B {}\n{}\n", escaped(setting.name), escaped(reason));
        }
    }
    page.push_str(".SH SEE ALSO\n.BR varve\\-server (1)\n");
    page
}

fn head(name: &str, section: u8, about: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let (title, name) = (name.to_uppercase(), escaped(name));
    format!(".TH {title} {section} \"\" \"Varve {version}\" \"\"\n.SH NAME\n{name} \\- {}\n", escaped(about))
}

/// A text in which nothing is an instruction: hyphens stay hyphens, and no line begins with a dot or a quote.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('`', "");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn texts_are_no_instructions() {
        assert_eq!(escaped(".a-b `c` \\"), "\\&.a\\-b c \\e");
    }
}

//! `docs/configuration.md`: every setting, and why some do nothing.

use std::fmt::Write;

use varve_server::{Changeable, Setting, settings};

const HEAD: &str = "\
# Configuration

<!-- Made by `cargo xtask docs` of the server's tables; edit server/src/config/guide.txt and table.rs. -->

A setting is a line of the configuration file (`maxmemory 1gb`), an option of the command line (`--maxmemory 1gb`), or an
argument of `CONFIG SET`. Files of Redis 7.0 are taken as they are: Varve knows every setting of Redis 7.0.15, under all of
its names, and answers `CONFIG GET` alike. Sizes have units: `k` is 1000, `kb` is 1024, and `m`, `mb`, `g`, `gb`.

`CONFIG REWRITE` writes what `CONFIG SET` has changed into the file. A setting marked *at start* is not changed by
`CONFIG SET`; one marked *guarded* only where `enable-protected-configs` allows it.
";

/// The page.
pub(crate) fn page() -> String {
    let mut page = HEAD.to_owned();
    let all = settings();
    let mut chapter = "";
    for setting in all.iter().filter(|setting| setting.no_effect.is_none()) {
        if setting.chapter != chapter {
            chapter = setting.chapter;
            let _ = write!(page, "\n## {chapter}\n\n| setting | values | default | |\n|---|---|---|---|\n");
        }
        let _ = writeln!(
            page,
            "| {} | {} | {} | {}{} |",
            name(setting),
            setting.values,
            default(setting),
            setting.about,
            change(setting.change)
        );
    }
    page.push_str(
        "\n## Settings without an effect\n\nThey are taken, kept and answered, and do nothing; the log says so when one is \
         set.\n\n| setting | why |\n|---|---|\n",
    );
    for setting in &all {
        if let Some(reason) = setting.no_effect {
            let _ = writeln!(page, "| {} | {reason} |", name(setting));
        }
    }
    page
}

fn name(setting: &Setting) -> String {
    let alias = setting.alias.map(|alias| format!(", also `{alias}`")).unwrap_or_default();
    format!("`{}`{alias}", setting.name)
}

fn default(setting: &Setting) -> String {
    if setting.default.is_empty() { "the machine's".into() } else { format!("`{}`", setting.default) }
}

fn change(change: Changeable) -> &'static str {
    match change {
        Changeable::Running => "",
        Changeable::Protected => " *Guarded.*",
        Changeable::AtStart => " *At start.*",
    }
}

//! The words that shells complete behind the programs: options, their values where these are words, files.
//!
//! ```text
//!   settings of the table, options of the other programs --> Program --> varve-server.bash, _varve-server, varve-server.fish
//!                                                                        and so for varve-check, varve-top
//! ```
//! The options of `varve-check` and `varve-top` stand here once more. `cargo xtask long package` compares them with what
//! `--help` prints.

use std::fmt::Write;

use varve_server::settings;

/// Words behind an option.
enum Takes {
    Nothing,
    Value,
    File,
    /// One of these, with blanks between them.
    Words(String),
}

/// An option with two hyphens.
struct Choice {
    name: String,
    about: String,
    takes: Takes,
}

/// A program as shells know it.
pub(crate) struct Program {
    name: &'static str,
    /// The first word behind the program, if it is one of these; else files follow anywhere.
    commands: &'static [&'static str],
    choices: Vec<Choice>,
}

type Row = (&'static str, &'static str, fn() -> Takes);

const SERVER: &[Row] = &[
    ("check-system", "Looks at the machine and ends", || Takes::Nothing),
    ("version", "Prints the version", || Takes::Nothing),
    ("help", "Prints the usage", || Takes::Nothing),
];

const CHECK: &[Row] = &[
    ("json", "The report as JSON", || Takes::Nothing),
    ("largest", "How many of the largest keys are named", || Takes::Value),
    ("databases", "Databases of the server that is to load it", || Takes::Value),
    ("fix", "Cuts what is torn or damaged", || Takes::Nothing),
    ("yes", "Takes everything that --fix asks for a yes", || Takes::Nothing),
    ("version", "Prints the version", || Takes::Nothing),
    ("help", "Prints the usage", || Takes::Nothing),
];

const TOP: &[Row] = &[
    ("host", "The server", || Takes::Value),
    ("port", "Its port", || Takes::Value),
    ("socket", "The path of its Unix socket", || Takes::File),
    ("pass", "The password of the user", || Takes::Value),
    ("user", "The name of the user", || Takes::Value),
    ("tls", "Connects by TLS", || Takes::Nothing),
    ("sni", "The name that the certificate has to have", || Takes::Value),
    ("cacert", "The authorities that are trusted", || Takes::File),
    ("insecure", "Trusts any certificate", || Takes::Nothing),
    ("cert", "The certificate that is shown", || Takes::File),
    ("key", "The key of that certificate", || Takes::File),
    ("interval", "Seconds between two looks", || Takes::Value),
    ("view", "The view that is shown first", || {
        Takes::Words("overview commands segments keys clients slow files".into())
    }),
    ("once", "Prints the view as text and ends", || Takes::Nothing),
    ("width", "Columns of that text", || Takes::Value),
    ("height", "Lines of that text", || Takes::Value),
    ("version", "Prints the version", || Takes::Nothing),
    ("help", "Prints the usage", || Takes::Nothing),
];

fn choices(rows: &[Row]) -> Vec<Choice> {
    rows.iter()
        .map(|(name, about, takes)| Choice { name: (*name).into(), about: (*about).into(), takes: takes() })
        .collect()
}

/// `varve-server`: its settings are options too.
pub(crate) fn server() -> Program {
    let live = settings().into_iter().filter(|setting| setting.no_effect.is_none());
    let settings = live.map(|setting| Choice {
        name: setting.name.to_owned(),
        about: first_sentence(setting.about),
        takes: words(&setting.values).map_or(Takes::Value, Takes::Words),
    });
    Program { name: "varve-server", commands: &[], choices: choices(SERVER).into_iter().chain(settings).collect() }
}

/// `varve-check`.
pub(crate) fn check() -> Program {
    Program { name: "varve-check", commands: &["rdb", "aof", "manifest"], choices: choices(CHECK) }
}

/// `varve-top`.
pub(crate) fn top() -> Program {
    Program { name: "varve-top", commands: &[], choices: choices(TOP) }
}

/// The words that a setting takes, where its values are nothing else.
fn words(values: &str) -> Option<String> {
    let words: Vec<&str> = values.split(", ").collect();
    let all_quoted = words.iter().all(|word| word.len() > 2 && word.starts_with('`') && word.ends_with('`'));
    all_quoted.then(|| words.join(" ").replace('`', ""))
}

impl Program {
    /// For bash.
    pub(crate) fn bash(&self) -> String {
        let Program { name, commands, choices } = self;
        let function = format!("_{}", name.replace('-', "_"));
        let options: Vec<String> = choices.iter().map(|choice| format!("--{}", choice.name)).collect();
        let mut cases = String::new();
        for Choice { name, takes, .. } in choices {
            let wanted = match takes {
                Takes::Words(words) => format!("-W \"{words}\""),
                Takes::File => "-f".into(),
                Takes::Nothing | Takes::Value => continue,
            };
            let _ = writeln!(cases, "        --{name}) COMPREPLY=($(compgen {wanted} -- \"$word\")); return ;;");
        }
        let first = match commands.join(" ") {
            words if words.is_empty() => String::new(),
            words => format!(
                "    elif [[ $COMP_CWORD == 1 ]]; then\n        COMPREPLY=($(compgen -W \"{words}\" -- \"$word\"))\n"
            ),
        };
        format!(
            "# Completion of {name} for bash.\n{function}() {{\n    local word=\"${{COMP_WORDS[COMP_CWORD]}}\"\n    \
             case \"${{COMP_WORDS[COMP_CWORD-1]}}\" in\n{cases}    esac\n    if [[ $word == -* ]]; then\n        \
             COMPREPLY=($(compgen -W \"{}\" -- \"$word\"))\n{first}    else\n        \
             COMPREPLY=($(compgen -f -- \"$word\"))\n    fi\n}}\ncomplete -o filenames -F {function} {name}\n",
            options.join(" ")
        )
    }

    /// For zsh.
    pub(crate) fn zsh(&self) -> String {
        let Program { name, commands, choices } = self;
        let mut lines = String::new();
        for Choice { name, about, takes } in choices {
            let action = match takes {
                Takes::Nothing => String::new(),
                Takes::Value => ":value: ".into(),
                Takes::File => ":file:_files".into(),
                Takes::Words(words) => format!(":value:({words})"),
            };
            let _ = writeln!(lines, "    '--{name}[{}]{action}' \\", zsh_text(about));
        }
        if !commands.is_empty() {
            let _ = writeln!(lines, "    '1:file:({})' \\", commands.join(" "));
        }
        format!("#compdef {name}\n# Completion of {name} for zsh.\n_arguments \\\n{lines}    '*:file:_files'\n")
    }

    /// For fish.
    pub(crate) fn fish(&self) -> String {
        let Program { name: program, commands, choices } = self;
        let mut file = format!("# Completion of {program} for fish.\n");
        if !commands.is_empty() {
            let words = commands.join(" ");
            let _ = writeln!(file, "complete -c {program} -n __fish_use_subcommand -a '{words}'");
        }
        for Choice { name, about, takes } in choices {
            let values = match takes {
                Takes::Nothing => String::new(),
                Takes::Value => " -x".into(),
                Takes::File => " -r".into(),
                Takes::Words(words) => format!(" -x -a '{words}'"),
            };
            let about = about.replace('\\', "\\\\").replace('\'', "\\'");
            let _ = writeln!(file, "complete -c {program} -l {name}{values} -d '{about}'");
        }
        file
    }
}

fn first_sentence(text: &str) -> String {
    let end = text.find(['.', ';', ':']).unwrap_or(text.len());
    text[..end].replace('`', "")
}

/// A text between brackets and single quotes.
fn zsh_text(text: &str) -> String {
    text.replace('\'', "'\\''").replace('[', "(").replace(']', ")").replace(':', "\\:")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn words_are_completed_where_there_are_only_words() {
        assert!(server().bash().contains("--appendfsync) COMPREPLY=($(compgen -W \"everysec always no\""));
        assert!(server().zsh().contains("'--appendonly[Each change is appended to a file]:value:(yes no)' \\"));
        assert!(server().fish().contains("complete -c varve-server -l port -x -d 'TCP port'"));
        assert!(top().zsh().contains("'--cacert[The authorities that are trusted]:file:_files' \\"));
    }

    /// The words that bash offers for the last of these.
    fn offered(program: &Program, words: &[&str]) -> Vec<String> {
        let function = format!("_{}", program.name.replace('-', "_"));
        let line = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
        let script = format!(
            "{}\nCOMP_WORDS=({} {line}); COMP_CWORD={}; {function}; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            program.bash(),
            program.name,
            words.len()
        );
        let output = Command::new("bash").args(["-c", &script]).output().expect("bash runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    }

    #[test]
    fn bash_offers_commands_options_and_values() {
        assert_eq!(offered(&check(), &[""]), ["rdb", "aof", "manifest"]);
        assert_eq!(offered(&check(), &["rdb", "--j"]), ["--json"]);
        assert_eq!(offered(&top(), &["--view", "s"]), ["segments", "slow"]);
        assert_eq!(offered(&top(), &["--cacert", "/etc/os-rel"])[0], "/etc/os-release");
        assert_eq!(offered(&server(), &["--appendfsync", "al"]), ["always"]);
        assert_eq!(offered(&server(), &["/etc/os-rel"])[0], "/etc/os-release");
    }

    #[test]
    fn each_shell_takes_its_file() {
        for program in [server(), check(), top()] {
            for (shell, text) in [("bash", program.bash()), ("zsh", program.zsh()), ("fish", program.fish())] {
                let name = format!("{}-{}.{shell}", program.name, std::process::id());
                let path = std::env::temp_dir().join(name);
                std::fs::write(&path, text).expect("a file");
                let checked = Command::new(shell).arg("-n").arg(&path).status();
                std::fs::remove_file(&path).expect("the file");
                // A shell that is not there has nothing to say.
                assert!(checked.is_err() || checked.is_ok_and(|status| status.success()), "{shell} refuses its file");
            }
        }
    }
}

//! The words that shells complete behind `varve-server`: a file of the configuration, or a setting as an option.

use std::fmt::Write;

use varve_server::{Setting, settings};

const OWN: &[(&str, &str)] = &[
    ("--check-system", "Looks at the machine and ends"),
    ("--version", "Prints the version"),
    ("--help", "Prints the usage"),
];

fn live() -> Vec<Setting> {
    settings().into_iter().filter(|setting| setting.no_effect.is_none()).collect()
}

/// The words that a setting takes, where its values are nothing else.
fn words(setting: &Setting) -> Option<String> {
    let words: Vec<&str> = setting.values.split(", ").collect();
    let all_quoted = words.iter().all(|word| word.len() > 2 && word.starts_with('`') && word.ends_with('`'));
    all_quoted.then(|| words.join(" ").replace('`', ""))
}

/// For bash.
pub(crate) fn bash() -> String {
    let mut options: String = OWN.iter().map(|(option, _)| format!("{option} ")).collect();
    let mut cases = String::new();
    for setting in live() {
        let _ = write!(options, "--{} ", setting.name);
        if let Some(words) = words(&setting) {
            let _ = writeln!(
                cases,
                "        --{}) COMPREPLY=($(compgen -W \"{words}\" -- \"$word\")); return ;;",
                setting.name
            );
        }
    }
    format!(
        "# Completion of varve-server for bash.\n_varve_server() {{\n    local word=\"${{COMP_WORDS[COMP_CWORD]}}\"\n    \
         case \"${{COMP_WORDS[COMP_CWORD-1]}}\" in\n{cases}    esac\n    if [[ $word == -* ]]; then\n        \
         COMPREPLY=($(compgen -W \"{}\" -- \"$word\"))\n    else\n        COMPREPLY=($(compgen -f -- \"$word\"))\n    fi\n}}\n\
         complete -o filenames -F _varve_server varve-server\n",
        options.trim_end()
    )
}

/// For zsh.
pub(crate) fn zsh() -> String {
    let mut lines = String::new();
    for (option, about) in OWN {
        let _ = writeln!(lines, "    '{option}[{about}]' \\");
    }
    for setting in live() {
        let action = words(&setting).map_or_else(|| ":value: ".into(), |words| format!(":value:({words})"));
        let _ = writeln!(lines, "    '--{}[{}]{action}' \\", setting.name, zsh_text(&first_sentence(setting.about)));
    }
    format!("#compdef varve-server\n# Completion of varve-server for zsh.\n_arguments \\\n{lines}    '*:file:_files'\n")
}

/// For fish.
pub(crate) fn fish() -> String {
    let mut file = "# Completion of varve-server for fish.\n".to_owned();
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('\'', "\\'");
    for (option, about) in OWN {
        let _ = writeln!(file, "complete -c varve-server -l {} -d '{about}'", option.trim_start_matches('-'));
    }
    for setting in live() {
        let values = words(&setting).map(|words| format!(" -a '{words}'")).unwrap_or_default();
        let about = quoted(&first_sentence(setting.about));
        let _ = writeln!(file, "complete -c varve-server -l {} -x{values} -d '{about}'", setting.name);
    }
    file
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
    use super::{bash, fish, zsh};

    #[test]
    fn words_are_completed_where_there_are_only_words() {
        assert!(bash().contains("--appendfsync) COMPREPLY=($(compgen -W \"everysec always no\""));
        assert!(zsh().contains("'--appendonly[Each change is appended to a file]:value:(yes no)' \\"));
        assert!(fish().contains("complete -c varve-server -l port -x -d 'TCP port'"));
    }

    #[test]
    fn each_shell_takes_its_file() {
        for (shell, text) in [("bash", bash()), ("zsh", zsh()), ("fish", fish())] {
            let path = std::env::temp_dir().join(format!("varve-completion-{}.{shell}", std::process::id()));
            std::fs::write(&path, text).expect("a file");
            let checked = std::process::Command::new(shell).arg("-n").arg(&path).status();
            std::fs::remove_file(&path).expect("the file");
            // A shell that is not there has nothing to say.
            assert!(checked.is_err() || checked.is_ok_and(|status| status.success()), "{shell} refuses its file");
        }
    }
}

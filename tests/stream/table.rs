//! The table of effects: cases, steps, and what each step must leave in the stream. Its head says how it is written.

use super::Words;
use std::fmt::Write;

/// The steps of one story, which begins with empty databases.
#[derive(Debug)]
pub(crate) struct Case {
    /// The command that the case is about.
    pub(crate) command: String,
    /// The behaviour that it shows.
    pub(crate) title: String,
    /// Why it is Varve's own, if it is.
    pub(crate) reason: Option<String>,
    pub(crate) steps: Vec<Step>,
}

/// A step with the effects that it must leave.
#[derive(Debug)]
pub(crate) struct Step {
    /// The line of the table, from 0.
    pub(crate) line: usize,
    pub(crate) act: Act,
    /// The lines behind it that begin with `<`.
    pub(crate) effects: Vec<String>,
}

/// The act of a step.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// A command of a connection, 1 to 3.
    Run { who: usize, words: Words },
    /// The clock moves on by milliseconds.
    Wait(u64),
    /// Keys whose time has come are removed by themselves.
    Background,
    /// A setting is changed until the case ends: CONFIG SET of redis-server.
    Setting { name: String, value: String },
}

/// The settings that cases change, as each case begins.
pub(crate) const SETTINGS: [(&str, &str); 4] = [
    ("lazyfree-lazy-user-del", "no"),
    ("lazyfree-lazy-expire", "no"),
    ("lazyfree-lazy-eviction", "no"),
    ("lazyfree-lazy-server-del", "no"),
];

/// Reads the table.
pub(crate) fn read(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut command = String::new();
    for (line, text) in text.lines().enumerate() {
        let (mark, rest) = text.split_once(' ').unwrap_or((text, ""));
        let act = match mark {
            "" | "#" => continue,
            "==" => {
                rest.clone_into(&mut command);
                continue;
            }
            "--" => {
                let (command, title) = (command.clone(), rest.to_owned());
                cases.push(Case { command, title, reason: None, steps: Vec::new() });
                continue;
            }
            _ if cases.is_empty() => panic!("line {}: a step before the first case", line + 1),
            "!" => {
                cases.last_mut().expect("a case").reason = Some(rest.to_owned());
                continue;
            }
            "<" => {
                let step = cases.last_mut().expect("a case").steps.last_mut();
                step.expect("a step before its effects").effects.push(rest.to_owned());
                continue;
            }
            ">" => Act::Run { who: 1, words: split(rest) },
            "2>" => Act::Run { who: 2, words: split(rest) },
            "3>" => Act::Run { who: 3, words: split(rest) },
            "wait" => Act::Wait(rest.parse().expect("milliseconds")),
            "background" => Act::Background,
            "setting" => {
                let (name, value) = rest.split_once(' ').expect("a name and a value");
                Act::Setting { name: name.to_owned(), value: value.to_owned() }
            }
            _ => panic!("line {}: no step begins with {mark}", line + 1),
        };
        cases.last_mut().expect("a case").steps.push(Step { line, act, effects: Vec::new() });
    }
    cases
}

/// Words as redis-cli takes them: apart by spaces, in quotes where they have some; `\xNN` for any byte.
pub(crate) fn split(line: &str) -> Words {
    let (mut words, mut rest) = (Vec::new(), line.trim().as_bytes());
    while let [first, ..] = rest {
        let mut word = Vec::new();
        if *first == b'"' {
            rest = &rest[1..];
            while let [byte, behind @ ..] = rest {
                rest = behind;
                match byte {
                    b'"' => break,
                    b'\\' if rest[0] == b'x' => {
                        let digits = std::str::from_utf8(&rest[1..3]).expect("two digits");
                        word.push(u8::from_str_radix(digits, 16).expect("two digits"));
                        rest = &rest[3..];
                    }
                    byte => word.push(*byte),
                }
            }
        } else {
            let length = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
            word.extend_from_slice(&rest[..length]);
            rest = &rest[length..];
        }
        words.push(word);
        rest = rest.trim_ascii_start();
    }
    words
}

/// The table with other effects behind the steps of the cases without a reason: `found` has them by line.
pub(crate) fn write(text: &str, cases: &[Case], found: &dyn Fn(usize) -> Option<Vec<String>>) -> String {
    let own: Vec<usize> = cases.iter().filter(|case| case.reason.is_some()).flat_map(step_lines).collect();
    let (mut out, mut kept) = (String::new(), false);
    for (line, text) in text.lines().enumerate() {
        if text.starts_with('>') || text.starts_with("2>") || text.starts_with("3>") {
            kept = own.contains(&line);
        }
        if kept || !text.starts_with("< ") {
            let _ = writeln!(out, "{text}");
        }
        for effect in found(line).into_iter().flatten() {
            let _ = writeln!(out, "< {effect}");
        }
    }
    out
}

fn step_lines(case: &Case) -> impl Iterator<Item = usize> {
    case.steps.iter().map(|step| step.line)
}

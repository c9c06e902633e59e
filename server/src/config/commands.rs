//! The CONFIG command's subcommands: arguments in, replies out.
//!
//! Arity is checked by the dispatcher. Not here: who may call them, and what a change does (`live`).

use varve_protocol::{Args, Reply};

use super::live::{Effects, Live};

/// CONFIG GET pattern [pattern ...]
pub(crate) fn get(live: &Live, args: Args<'_>, out: &mut Reply) {
    let found = live.get(args.skip(2).iter());
    out.map(found.len());
    for (name, value) in &found {
        out.bulk(name);
        out.bulk(value);
    }
}

/// CONFIG SET name value [name value ...]. `local`: the client is on this machine.
pub(crate) fn set(live: &Live, args: Args<'_>, local: bool, effects: &dyn Effects, out: &mut Reply) {
    let words: Vec<&[u8]> = args.skip(2).iter().collect();
    if !words.len().is_multiple_of(2) {
        return out.error("ERR syntax error");
    }
    let pairs: Vec<(&[u8], &[u8])> = words.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    done(live.set(&pairs, local, effects), out);
}

/// CONFIG REWRITE
pub(crate) fn rewrite(live: &Live, out: &mut Reply) {
    done(live.rewrite(false), out);
}

/// CONFIG HELP
pub(crate) fn help(out: &mut Reply) {
    const LINES: [&str; 11] = [
        "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "GET <pattern>",
        "    Return parameters matching the glob-like <pattern> and their values.",
        "SET <directive> <value>",
        "    Set the configuration <directive> to <value>.",
        "RESETSTAT",
        "    Reset statistics reported by the INFO command.",
        "REWRITE",
        "    Rewrite the configuration file.",
        "HELP",
        "    Prints this help.",
    ];
    out.array(LINES.len());
    LINES.iter().for_each(|line| out.simple(line));
}

fn done(result: Result<(), String>, out: &mut Reply) {
    match result {
        Ok(()) => out.ok(),
        Err(error) => out.error(&error),
    }
}

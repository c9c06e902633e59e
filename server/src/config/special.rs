//! The directives whose values have a grammar of their own, and the typed form of those that Varve acts on.
//!
//! Messages are seen by clients and are those of Redis 7.0.15, except where they speak of something that Varve does not
//! have.

use super::grammar::{Refusal, bytes_of, integer, memory, not_one_of, path_of, strict_i64};
use crate::system::error_text;

/// One class of `client-output-buffer-limit`: a client is closed when its pending replies pass the hard limit, or stay
/// over the soft one for so long. 0 is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutputLimit {
    pub(crate) hard_bytes: u64,
    pub(crate) soft_bytes: u64,
    pub(crate) soft_s: u64,
}

impl OutputLimit {
    /// The limit, with bounds that are none or this number of bytes at least.
    pub(crate) fn at_least(self, bytes: u64) -> OutputLimit {
        let raised = |bound: u64| if bound == 0 { 0 } else { bound.max(bytes) };
        OutputLimit { hard_bytes: raised(self.hard_bytes), soft_bytes: raised(self.soft_bytes), ..self }
    }
}

/// The grammars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    /// Pairs of seconds and changes.
    Save,
    /// Up to 16 addresses.
    Bind,
    /// Quadruples of class, hard limit, soft limit, seconds; classes not named keep theirs.
    OutputLimits,
    /// Several of the shutdown options.
    ShutdownOptions,
    /// Whether and how the system's weight of the process is set.
    OomScore,
    /// Three integers.
    OomValues,
    /// Numbers from 0 to 100.
    Percentiles,
    /// Letters of event classes.
    KeyspaceEvents,
    /// A host and a port, or `no one`.
    Master,
    /// A name without a slash.
    FileName { directive: &'static str, what: &'static str, may_be_empty: bool },
    /// An existing directory.
    Directory,
    /// Letters, digits, hyphens and dots.
    HostName,
    /// One of Redis's eviction policies.
    Policy,
    /// A number of which only 0 or a power of two makes sense.
    PowerOfTwo { max: u64 },
    /// A number of milliseconds, 0 for never; below `least` it is that.
    Period { least: i64 },
    /// A template of the process title.
    Title,
}

const SHUTDOWN: [&str; 5] = ["default", "save", "nosave", "now", "force"];
const EVENTS: &[u8] = b"g$lshzxetd";
const POLICIES: [&str; 8] = [
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "noeviction",
];

impl Special {
    pub(crate) fn takes_many(self) -> bool {
        matches!(
            self,
            Special::Save
                | Special::Bind
                | Special::OutputLimits
                | Special::ShutdownOptions
                | Special::OomValues
                | Special::Percentiles
                | Special::Master
        )
    }

    /// The values in words, for documents.
    pub(super) fn in_words(self) -> String {
        match self {
            Special::Save => "pairs of seconds and changes, or `\"\"`".into(),
            Special::Bind => "up to 16 addresses".into(),
            Special::OutputLimits => "class, hard limit, soft limit, seconds; several may follow".into(),
            Special::ShutdownOptions => format!("words of {}", backquoted(&SHUTDOWN)),
            Special::OomScore => "`no`, `yes`, `relative` or `absolute`".into(),
            Special::OomValues => "three numbers".into(),
            Special::Percentiles => "numbers from 0 to 100".into(),
            Special::KeyspaceEvents => "letters of classes".into(),
            Special::Master => "host and port, or `no one`".into(),
            Special::FileName { .. } => "a name without a slash".into(),
            Special::Directory => "an existing folder".into(),
            Special::HostName => "a host's name".into(),
            Special::Policy => backquoted(&POLICIES),
            Special::PowerOfTwo { max } => format!("0 or a power of two up to {max}"),
            Special::Period { least } => format!("0, or a number from {least}"),
            Special::Title => "a template".into(),
        }
    }

    /// See `Kind::parse`.
    pub(crate) fn parse(self, arguments: &[Vec<u8>], current: &[u8]) -> Result<Vec<u8>, Refusal> {
        if self.takes_many() && arguments.iter().flatten().any(u8::is_ascii_control) {
            return Err("the words of a list have no control characters".into());
        }
        match self {
            Special::Save => save(arguments),
            Special::Bind => bind(arguments),
            Special::OutputLimits => limits(arguments, current),
            Special::ShutdownOptions => shutdown_options(arguments),
            Special::OomValues => oom_values(arguments),
            Special::Percentiles => percentiles(arguments),
            Special::Master => master(arguments),
            _ => match arguments {
                [argument] => self.parse_one(argument),
                _ => Err("wrong number of arguments".into()),
            },
        }
    }

    fn parse_one(self, argument: &[u8]) -> Result<Vec<u8>, Refusal> {
        match self {
            Special::KeyspaceEvents => keyspace_events(argument),
            Special::FileName { directive, what, may_be_empty } => file_name(argument, directive, what, may_be_empty),
            Special::Directory => directory(argument),
            Special::HostName => host_name(argument),
            Special::Policy => policy(argument),
            Special::PowerOfTwo { max } => power_of_two(argument, max),
            Special::OomScore => oom_score(argument),
            Special::Period { least } => period(argument, least),
            Special::Title => title(argument),
            _ => unreachable!("the list kinds are handled by parse"),
        }
    }
}

fn joined(words: &[Vec<u8>]) -> Vec<u8> {
    words.join(&b' ')
}

fn save(arguments: &[Vec<u8>]) -> Result<Vec<u8>, Refusal> {
    let refused = "Invalid save parameters";
    if !arguments.len().is_multiple_of(2) {
        return Err(refused.into());
    }
    for pair in arguments.chunks(2) {
        let (seconds, changes) = (strict_i64(&pair[0]), strict_i64(&pair[1]));
        if seconds.is_none_or(|s| s < 1) || changes.is_none_or(|c| !(0..=i64::from(i32::MAX)).contains(&c)) {
            return Err(refused.into());
        }
    }
    Ok(joined(arguments))
}

pub(super) fn numbers(canonical: &[u8]) -> impl Iterator<Item = u64> {
    canonical.split(|&byte| byte == b' ').filter_map(|word| std::str::from_utf8(word).ok()?.parse().ok())
}

fn bind(arguments: &[Vec<u8>]) -> Result<Vec<u8>, Refusal> {
    if arguments.len() > 16 {
        return Err("Too many bind addresses specified.".into());
    }
    Ok(joined(arguments))
}

/// Words as a document lists them.
pub(super) fn backquoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

const CLASSES: [&str; 3] = ["normal", "slave", "pubsub"];

fn limits(arguments: &[Vec<u8>], current: &[u8]) -> Result<Vec<u8>, Refusal> {
    if !arguments.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.".into());
    }
    let mut limits = output_limits(current);
    for quadruple in arguments.chunks_exact(4) {
        let class = match quadruple[0].to_ascii_lowercase().as_slice() {
            b"normal" => 0,
            b"slave" | b"replica" => 1,
            b"pubsub" => 2,
            _ => return Err("Invalid client class specified in buffer limit configuration.".into()),
        };
        let seconds = strict_i64(&quadruple[3]).and_then(|s| u64::try_from(s).ok());
        let (Some(hard_bytes), Some(soft_bytes), Some(soft_s)) =
            (memory(&quadruple[1]), memory(&quadruple[2]), seconds.filter(|&s| s <= i32::MAX as u64))
        else {
            return Err("Error in hard, soft or soft_seconds setting in buffer limit configuration.".into());
        };
        limits[class] = OutputLimit { hard_bytes, soft_bytes, soft_s };
    }
    let texts: Vec<String> = CLASSES
        .iter()
        .zip(&limits)
        .map(|(class, limit)| format!("{class} {} {} {}", limit.hard_bytes, limit.soft_bytes, limit.soft_s))
        .collect();
    Ok(texts.join(" ").into_bytes())
}

/// The limits of a canonical `client-output-buffer-limit` value: normal, replica, pub/sub.
pub(crate) fn output_limits(canonical: &[u8]) -> [OutputLimit; 3] {
    let numbers: Vec<u64> = numbers(canonical).collect();
    assert!(numbers.len() == 9, "the canonical form names three classes with three numbers each");
    std::array::from_fn(|class| OutputLimit {
        hard_bytes: numbers[class * 3],
        soft_bytes: numbers[class * 3 + 1],
        soft_s: numbers[class * 3 + 2],
    })
}

fn shutdown_options(arguments: &[Vec<u8>]) -> Result<Vec<u8>, Refusal> {
    let mut chosen = [false; SHUTDOWN.len()];
    for argument in arguments {
        let at = SHUTDOWN.iter().position(|word| word.as_bytes().eq_ignore_ascii_case(argument));
        chosen[at.ok_or_else(|| not_one_of(&SHUTDOWN))?] = true;
    }
    if arguments.is_empty() {
        return Err(not_one_of(&SHUTDOWN));
    }
    if chosen[1] && chosen[2] {
        return Err("shutdown options SAVE and NOSAVE can't be used simultaneously".into());
    }
    let words: Vec<&str> = (1..SHUTDOWN.len()).filter(|&i| chosen[i]).map(|i| SHUTDOWN[i]).collect();
    Ok(if words.is_empty() { b"default".to_vec() } else { words.join(" ").into_bytes() })
}

fn oom_values(arguments: &[Vec<u8>]) -> Result<Vec<u8>, Refusal> {
    if arguments.len() != 3 {
        return Err("wrong number of arguments".into());
    }
    let fine = |word: &Vec<u8>| strict_i64(word).is_some_and(|n| (-2000..=2000).contains(&n));
    if !arguments.iter().all(fine) {
        return Err("Invalid oom-score-adj-values, elements must be between -2000 and 2000.".into());
    }
    let of = |word: &Vec<u8>| strict_i64(word).unwrap_or_default();
    if arguments.windows(2).any(|pair| of(&pair[0]) > of(&pair[1])) {
        tracing::warn!(
            "The oom-score-adj-values configuration may not work for non-privileged processes! \
             Please consult the documentation."
        );
    }
    Ok(joined(arguments))
}

fn percentiles(arguments: &[Vec<u8>]) -> Result<Vec<u8>, Refusal> {
    let mut words = Vec::new();
    for argument in arguments {
        let text = std::str::from_utf8(argument).unwrap_or_default();
        let number: f64 = text.parse().map_err(|_| "Invalid latency-tracking-info-percentiles parameters")?;
        if !(0.0..=100.0).contains(&number) {
            return Err("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]".into());
        }
        words.push(number.to_string());
    }
    Ok(words.join(" ").into_bytes())
}

/// The numbers of a canonical `latency-tracking-info-percentiles` value.
pub(crate) fn percentile_list(canonical: &[u8]) -> Vec<f64> {
    let words = canonical.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    let number = |word| std::str::from_utf8(word).ok().and_then(|text: &str| text.parse().ok());
    words.map(|word| number(word).expect("the canonical form holds numbers")).collect()
}

fn master(arguments: &[Vec<u8>]) -> Result<Vec<u8>, Refusal> {
    let [host, port] = arguments else {
        return Err("wrong number of arguments".into());
    };
    if host.eq_ignore_ascii_case(b"no") && port.eq_ignore_ascii_case(b"one") {
        return Ok(Vec::new());
    }
    if strict_i64(port).is_none_or(|port| !(0..=65535).contains(&port)) {
        return Err("Invalid master port".into());
    }
    Ok(joined(arguments))
}

/// `A` stands for all classes of `EVENTS`; `K`, `E` are the two kinds of channel; `m` misses; `n` new keys.
fn keyspace_events(argument: &[u8]) -> Result<Vec<u8>, Refusal> {
    if !argument.iter().all(|c| EVENTS.contains(c) || b"AKEmn".contains(c)) {
        return Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".into());
    }
    let has = |c: u8| argument.contains(&c) || (EVENTS.contains(&c) && argument.contains(&b'A'));
    let mut text = Vec::new();
    if EVENTS.iter().all(|&c| has(c)) {
        text.push(b'A');
    } else {
        text.extend(EVENTS.iter().filter(|&&c| has(c)));
        text.extend(Some(b'n').filter(|&c| has(c)));
    }
    text.extend(b"KEm".iter().filter(|&&c| has(c)));
    // 7.0 leaves it out beside A, and so forgets it in a file that it writes; later versions show it here.
    text.extend(Some(b'n').filter(|&c| has(c) && text.starts_with(b"A")));
    Ok(text)
}

fn file_name(argument: &[u8], directive: &str, what: &str, may_be_empty: bool) -> Result<Vec<u8>, Refusal> {
    if argument.contains(&b'/') {
        return Err(format!("{directive} can't be a path, just a {what}").into());
    }
    if argument.is_empty() && !may_be_empty {
        return Err(format!("{directive} can't be empty").into());
    }
    Ok(argument.to_vec())
}

fn directory(argument: &[u8]) -> Result<Vec<u8>, Refusal> {
    let path = path_of(argument);
    let absolute = path.canonicalize().map_err(|error| error_text(&error))?;
    std::fs::read_dir(&absolute).map_err(|error| error_text(&error))?;
    Ok(bytes_of(&absolute))
}

fn host_name(argument: &[u8]) -> Result<Vec<u8>, Refusal> {
    if argument.len() >= 256 {
        return Err("Hostnames must be less than 256 characters".into());
    }
    if !argument.iter().all(|&c| c.is_ascii_alphanumeric() || c == b'-' || c == b'.') {
        return Err("Hostnames may only contain alphanumeric characters, hyphens or dots".into());
    }
    Ok(argument.to_vec())
}

fn policy(argument: &[u8]) -> Result<Vec<u8>, Refusal> {
    let lower = argument.to_ascii_lowercase();
    if POLICIES.iter().any(|policy| policy.as_bytes() == lower) { Ok(lower) } else { Err(not_one_of(&POLICIES)) }
}

fn power_of_two(argument: &[u8], max: u64) -> Result<Vec<u8>, Refusal> {
    let number = memory(argument).ok_or("argument must be a memory value")?;
    if number > max || (number != 0 && !number.is_power_of_two()) {
        return Err(format!("argument must be 0 or a power of two up to {max}").into());
    }
    Ok(number.to_string().into_bytes())
}

fn title(argument: &[u8]) -> Result<Vec<u8>, Refusal> {
    if !std::str::from_utf8(argument).is_ok_and(super::title::is_fine) {
        return Err("template format is invalid or contains unknown variables".into());
    }
    Ok(argument.to_vec())
}

/// `relative` is another word for `yes`, which is the one that is answered.
fn oom_score(argument: &[u8]) -> Result<Vec<u8>, Refusal> {
    const WORDS: [&str; 4] = ["no", "yes", "relative", "absolute"];
    match WORDS.iter().find(|word| word.as_bytes().eq_ignore_ascii_case(argument)) {
        Some(&"relative") => Ok(b"yes".to_vec()),
        Some(word) => Ok(word.as_bytes().to_vec()),
        None => Err(not_one_of(&WORDS)),
    }
}

fn period(argument: &[u8], least: i64) -> Result<Vec<u8>, Refusal> {
    let number = integer(argument, 0, i64::from(i32::MAX))?;
    Ok((if number == 0 { 0 } else { number.max(least) }).to_string().into_bytes())
}

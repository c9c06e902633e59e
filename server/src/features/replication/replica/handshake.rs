//! The conversation at the begin of a link, up to how the primary goes on.
//!
//! ```text
//!   step        sends                                                 `+`    an error
//!   Ping        PING                                                  next   next if the primary wants a password, else the end
//!   Auth        AUTH [user] password            with `masterauth`     next   the end
//!   Port        REPLCONF listening-port p                             next   next, and the log says so
//!   Address     REPLCONF ip-address a           if one is announced   next   next, and the log says so
//!   Abilities   REPLCONF capa eof capa psync2                         next   next, and the log says so
//!   then        PSYNC id offset [FAILOVER]      +FULLRESYNC id offset   +CONTINUE [id]   an error: the end
//! ```
//! An answer to PSYNC FAILOVER may be lost: the replica is asked again, and its error says what became of the first question. Where it
//! may lack something, INFO is asked first whose history it goes on with.
//!
//! Not here: receiving data (`sync.rs`) and the stream (`stream.rs`).

use std::time::Instant;

use varve_base::number::parse_i64;

use super::Thread;
use super::link::{End, Line};
use crate::config::Config;
use crate::errors;
use crate::features::replication::handing;
use crate::features::replication::state::failover::Asked;

/// How the primary goes on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// With all of its data. The stream behind it is this history's, from this offset on.
    Full { id: String, offset: u64 },
    /// With the stream where this server's ends. Its history may have another id by now.
    Continue { id: Option<String> },
}

/// See the module's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Ping,
    Auth,
    Port,
    Address,
    Abilities,
}

/// The end of a line.
const END: &str = "\r\n";
const STEPS: [Step; 5] = [Step::Ping, Step::Auth, Step::Port, Step::Address, Step::Abilities];

/// Begins the link.
///
/// # Errors
/// The link ends: why.
pub(super) fn shake(thread: &mut Thread, line: &mut Line) -> Result<Start, End> {
    let config = thread.state.config().snapshot();
    for step in STEPS {
        let Some(words) = step.words(&config) else { continue };
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let until = Instant::now() + thread.timeout();
        line.send(thread, &words, until)?;
        let reply = text(&line.line(thread)?);
        step.judge(&reply)?;
    }
    synchronise(thread, line)
}

impl Step {
    /// The request; None if it is left out.
    fn words(self, config: &Config) -> Option<Vec<Vec<u8>>> {
        let replica = &config.replica;
        let words = |all: &[&[u8]]| Some(all.iter().map(|word| word.to_vec()).collect());
        match self {
            Step::Ping => words(&[b"PING"]),
            Step::Auth if replica.password.0.is_empty() => None,
            Step::Auth if replica.user.is_empty() => words(&[b"AUTH", &replica.password.0]),
            Step::Auth => words(&[b"AUTH", &replica.user, &replica.password.0]),
            Step::Port => {
                let own = if replica.by_tls && config.tls.port > 0 { config.tls.port } else { config.port };
                let port = if replica.announced_port > 0 { replica.announced_port } else { own };
                words(&[b"REPLCONF", b"listening-port", port.to_string().as_bytes()])
            }
            Step::Address if replica.announced_ip.is_empty() => None,
            Step::Address => words(&[b"REPLCONF", b"ip-address", replica.announced_ip.as_bytes()]),
            Step::Abilities => words(&[b"REPLCONF", b"capa", b"eof", b"capa", b"psync2"]),
        }
    }

    /// Goes on behind the reply, or not.
    fn judge(self, reply: &str) -> Result<(), End> {
        let is_error = reply.starts_with('-');
        match self {
            Step::Ping
                if reply.starts_with('+') || errors::PASSWORD_WANTED.iter().any(|begin| reply.starts_with(begin)) =>
            {
                tracing::info!("Master replied to PING, replication can continue...");
                Ok(())
            }
            Step::Ping => Err(End::Broken(format!("Error reply to PING from master: '{reply}'"))),
            Step::Auth if is_error => Err(End::Broken(format!("Unable to AUTH to MASTER: {reply}"))),
            Step::Auth => Ok(()),
            Step::Port | Step::Address | Step::Abilities => {
                if is_error {
                    let what = match self {
                        Step::Port => "listening-port",
                        Step::Address => "ip-address",
                        _ => "capa",
                    };
                    tracing::info!("(Non critical) Master does not understand REPLCONF {what}: {reply}");
                }
                Ok(())
            }
        }
    }
}

/// Asks the primary to go on where this server's stream ends; in a failover, the replica to take this server's place as well.
fn synchronise(thread: &mut Thread, line: &mut Line) -> Result<Start, End> {
    let (replication, number) = (thread.state.replication(), thread.goal.number);
    let start = match replication.failover().ask(|| replication.replica().goal_number() == number) {
        None => parse(&psync(thread, line, None)?)?,
        Some(asked) => hand_over(thread, line, asked)?,
    };
    match &start {
        Start::Full { id, offset } => tracing::info!("Full resync from master: {id}:{offset}"),
        Start::Continue { .. } => tracing::info!("Successful partial resynchronization with master."),
    }
    Ok(start)
}

/// Asks the replica to take this server's place. Where no answer comes, or none that says whether it leads, the link ends and the
/// failover goes on: the replica is asked again over the next link.
fn hand_over(thread: &mut Thread, line: &mut Line, asked: Asked) -> Result<Start, End> {
    let reply = psync(thread, line, Some(b"FAILOVER"))?;
    let start = match Answer::of(&reply, asked.was_asked) {
        Answer::Takes => parse(&reply)?,
        Answer::HasTaken => {
            let may_lack = match asked.given_up_behind {
                Some(offset) => goes_on_behind(thread, line, offset)?,
                None => false,
            };
            let reply = psync(thread, line, None)?;
            match parse(&reply)? {
                start @ Start::Continue { .. } => {
                    tracing::info!("The failover target leads since it was asked before");
                    start
                }
                start @ Start::Full { .. } if may_lack => {
                    tracing::info!("The failover target leads since it was asked before: what it lacks is given up");
                    start
                }
                // It may have lost its data when it lost the question: this server's are not given up for those of another history.
                Start::Full { .. } => {
                    let reason =
                        format!("Failover target leads, but does not go on with this server's history: {reply}");
                    return Err(End::Broken(reason));
                }
            }
        }
        Answer::Refuses => {
            handing::abort(&thread.state, Some(asked.number), "Failover target rejected psync request");
            return Err(End::Broken(format!("Failover target replied to PSYNC: {reply}")));
        }
        Answer::Unclear => return Err(End::Broken(format!("Failover target does not say whether it leads: {reply}"))),
    };
    handing::done(&thread.state, asked.number);
    Ok(start)
}

/// Whether the replica, which leads, took over from this server's history behind this offset or a later one: INFO has the second id
/// of a server whose history goes on under another one. No, if it does not show that.
fn goes_on_behind(thread: &mut Thread, line: &mut Line, offset: u64) -> Result<bool, End> {
    line.send(thread, &[b"INFO", b"replication"], Instant::now() + thread.timeout())?;
    let head = text(&line.line(thread)?);
    let Some(bytes) = head.strip_prefix('$').and_then(|bytes| bytes.parse::<usize>().ok()) else { return Ok(false) };
    // An end of a line stands behind each line, and behind the whole.
    let (mut left, mut told) = (bytes + END.len(), String::new());
    while left > 0 {
        let next = text(&line.line(thread)?);
        left = left.saturating_sub(next.len() + END.len());
        told = told + &next + "\n";
    }
    let id = thread.state.replication().ids().history().id;
    Ok(took_over(&told, &id, offset))
}

/// Whether these lines of INFO are those of a server whose history is the one of this id at least up to this offset.
fn took_over(info: &str, id: &str, offset: u64) -> bool {
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let end = field("second_repl_offset").and_then(|end| end.parse::<u64>().ok());
    field("master_replid2") == Some(id) && end.is_some_and(|end| end > offset)
}

/// Whether the replica leads, by its reply to PSYNC FAILOVER.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// It does from now on.
    Takes,
    /// It does, and did so when it was asked again: its answer was lost, or it took no place and has started anew.
    HasTaken,
    /// It does not.
    Refuses,
    /// That cannot be told.
    Unclear,
}

impl Answer {
    /// An error to the first question says that the replica does not lead: it was asked nothing else. An error to a later one
    /// does not tell what became of the first, except for the two that name the replica's part.
    fn of(reply: &str, was_asked: bool) -> Answer {
        match (reply, was_asked) {
            (errors::TARGET_LEADS, true) => Answer::HasTaken,
            (errors::TARGET_OF_ANOTHER, _) => Answer::Refuses,
            (reply, false) if reply.starts_with('-') => Answer::Refuses,
            (reply, _) if parse(reply).is_ok() => Answer::Takes,
            _ => Answer::Unclear,
        }
    }
}

/// Sends PSYNC for what is behind this server's stream, with this word, and waits for the line that answers it.
fn psync(thread: &mut Thread, line: &mut Line, word: Option<&[u8]>) -> Result<String, End> {
    let (id, next) = (thread.state.replication().ids().history().id, (thread.offset() + 1).to_string());
    tracing::info!("Trying a partial resynchronization (request {id}:{next}).");
    let until = Instant::now() + thread.timeout();
    let words: Vec<&[u8]> = [b"PSYNC", id.as_bytes(), next.as_bytes()].into_iter().chain(word).collect();
    line.send(thread, &words, until)?;
    loop {
        // Empty lines keep the link alive while the primary is busy.
        let reply = text(&line.line(thread)?);
        if !reply.is_empty() {
            return Ok(reply);
        }
    }
}

/// How the primary goes on, by its reply to PSYNC.
fn parse(reply: &str) -> Result<Start, End> {
    let mut words = reply.split_ascii_whitespace();
    let first = words.next().unwrap_or_default();
    let id = words.next().map(str::to_owned);
    let is_id = |id: &String| id.len() == super::ID_DIGITS && id.bytes().all(|digit| digit.is_ascii_graphic());
    match first {
        "+FULLRESYNC" => {
            let offset = words.next().and_then(|word| parse_i64(word.as_bytes()));
            let offset = offset.and_then(|offset| u64::try_from(offset).ok());
            match (id.filter(is_id), offset) {
                (Some(id), Some(offset)) => Ok(Start::Full { id, offset }),
                _ => Err(End::Broken("Master replied with wrong +FULLRESYNC syntax.".to_owned())),
            }
        }
        "+CONTINUE" => Ok(Start::Continue { id: id.filter(is_id) }),
        "-NOMASTERLINK" | "-LOADING" => {
            let reason = format!("Master is currently unable to PSYNC but should be in the future: {reply}");
            Err(End::Broken(reason))
        }
        _ => Err(End::Broken(format!("Unexpected reply to PSYNC from master: {reply}"))),
    }
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reply_to_psync_says_how_it_goes_on() {
        let id = "0123456789abcdef0123456789abcdef01234567";
        let full = Start::Full { id: id.to_owned(), offset: 12 };
        assert_eq!(parse(&format!("+FULLRESYNC {id} 12")).ok(), Some(full));
        assert_eq!(parse("+CONTINUE").ok(), Some(Start::Continue { id: None }));
        assert_eq!(parse(&format!("+CONTINUE {id}")).ok(), Some(Start::Continue { id: Some(id.to_owned()) }));
        for wrong in ["+FULLRESYNC", "+FULLRESYNC x 1", "-LOADING x", "-NOMASTERLINK x", "-ERR unknown", "nonsense"] {
            assert!(matches!(parse(wrong), Err(End::Broken(_))), "{wrong}");
        }
        assert!(parse(&format!("+FULLRESYNC {id} -1")).is_err());
    }

    #[test]
    fn issue_17_whether_the_target_leads_is_what_it_says() {
        let id = "0123456789abcdef0123456789abcdef01234567";
        for (reply, first, later) in [
            (format!("+CONTINUE {id}"), Answer::Takes, Answer::Takes),
            (format!("+FULLRESYNC {id} 1"), Answer::Takes, Answer::Takes),
            (errors::TARGET_LEADS.to_owned(), Answer::Refuses, Answer::HasTaken),
            (errors::TARGET_OF_ANOTHER.to_owned(), Answer::Refuses, Answer::Refuses),
            ("-NOPERM no".to_owned(), Answer::Refuses, Answer::Unclear),
            ("-LOADING data".to_owned(), Answer::Refuses, Answer::Unclear),
            ("+CONT".to_owned(), Answer::Unclear, Answer::Unclear),
        ] {
            assert_eq!([Answer::of(&reply, false), Answer::of(&reply, true)], [first, later], "{reply}");
        }
    }

    #[test]
    fn issue_17_the_second_id_says_whose_place_was_taken() {
        let info = |id: &str, end: i64| format!("# Replication\nmaster_replid2:{id}\nsecond_repl_offset:{end}\n");
        let id = "0123456789abcdef0123456789abcdef01234567";
        assert!(took_over(&info(id, 101), id, 100), "its first byte that is not ours is the one behind the 100th");
        assert!(!took_over(&info(id, 100), id, 100), "it has less than it had acknowledged");
        assert!(!took_over(&info(&"0".repeat(40), 101), id, 100) && !took_over(&info(id, -1), id, 0));
        assert!(!took_over("", id, 0));
    }

    #[test]
    fn steps_go_on_behind_what_redis_server_goes_on_behind() {
        for (step, reply, goes_on) in [
            (Step::Ping, "+PONG", true),
            (Step::Ping, "-NOAUTH Authentication required.", true),
            (Step::Ping, "-LOADING Redis is loading the dataset in memory", false),
            (Step::Auth, "-WRONGPASS", false),
            (Step::Port, "-ERR unknown", true),
        ] {
            assert_eq!(step.judge(reply).is_ok(), goes_on, "{step:?} {reply}");
        }
    }

    #[test]
    fn what_is_announced_goes_before_what_is() {
        let mut config = Config { port: 7000, ..Config::default() };
        let words = |step: Step, config: &Config| step.words(config).map(|all| all.concat());
        assert_eq!(words(Step::Port, &config), Some(b"REPLCONFlistening-port7000".to_vec()));
        assert_eq!((words(Step::Auth, &config), words(Step::Address, &config)), (None, None));
        config.replica.announced_port = 1;
        config.replica.announced_ip = "10.0.0.1".to_owned();
        config.replica.password.0 = b"secret".to_vec();
        assert_eq!(words(Step::Port, &config), Some(b"REPLCONFlistening-port1".to_vec()));
        assert_eq!(words(Step::Address, &config), Some(b"REPLCONFip-address10.0.0.1".to_vec()));
        assert_eq!(words(Step::Auth, &config), Some(b"AUTHsecret".to_vec()));
        config.replica.user = b"copier".to_vec();
        assert_eq!(words(Step::Auth, &config), Some(b"AUTHcopiersecret".to_vec()));
    }
}

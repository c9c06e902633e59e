//! EXEC with commands of the server in it, and connections that end in the middle of a transaction.

use super::{Client, Server, request, wait_until};

/// Sends commands and reads until the last one's reply has come, which ends with `end`.
fn exchange(client: &mut super::Client, commands: &[&str], end: &str) -> String {
    use std::io::Read;
    for command in commands {
        client.send(&request(&command.split(' ').collect::<Vec<_>>()));
    }
    let mut got = Vec::new();
    let mut part = [0; 4096];
    while !got.ends_with(end.as_bytes()) {
        let count = client.stream.read(&mut part).unwrap();
        assert!(count > 0, "the end came after {}", got.escape_ascii());
        got.extend_from_slice(&part[..count]);
    }
    String::from_utf8(got).unwrap()
}

#[test]
fn commands_of_the_server_run_in_their_place() {
    let server = Server::start(3, "enable-debug-command yes\n");
    let mut client = server.connect();
    let commands =
        ["MULTI", "CLIENT SETNAME x", "SET a 1", "CONFIG SET maxclients 77", "INCR a", "CONFIG GET maxclients"];
    let replies = exchange(&mut client, &[&commands[..], &["CLIENT GETNAME", "EXEC", "GET a"]].concat(), "$1\r\n2\r\n");
    let exec = "*6\r\n+OK\r\n+OK\r\n+OK\r\n:2\r\n*2\r\n$10\r\nmaxclients\r\n$2\r\n77\r\n$1\r\nx\r\n";
    assert!(replies.ends_with(&format!("{exec}$1\r\n2\r\n")), "{replies}");
    // The keyspace at rest, asked for by who has it already.
    let replies =
        exchange(&mut client, &["MULTI", "SET b 1", "DEBUG DIGEST", "INFO keyspace", "PING", "EXEC"], "+PONG\r\n");
    assert!(replies.contains("db0:keys=2"), "{replies}");
    assert!(!replies.contains("\r\n-ERR"), "{replies}");
}

#[test]
fn a_command_that_no_transaction_takes_spoils_it() {
    let server = Server::start(1, "");
    let mut client = server.connect();
    client.ask(&["MULTI"], "+OK\r\n");
    client.ask(&["SHUTDOWN"], "-ERR Command not allowed inside a transaction\r\n");
    client.ask(&["EXEC"], "-EXECABORT Transaction discarded because of previous errors.\r\n");
    client.ask(&["PING"], "+PONG\r\n");
}

/// A SELECT that the user may not run changes nothing for the commands behind it, whether the user came in the transaction or lost
/// the right while it waited.
#[test]
fn issue_11_a_select_that_is_denied_selects_nothing() {
    let server = Server::start(2, "");
    let mut boss = server.connect();
    boss.ask(&["ACL", "SETUSER", "bob", "on", ">pw", "~*", "+@all", "-select"], "+OK\r\n");
    let denied = "-NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This \
                  command is no longer allowed for the following reason: no permission to execute the command or \
                  subcommand\r\n";
    let mut client = server.connect();
    for line in [&["MULTI"][..], &["AUTH", "bob", "pw"], &["SELECT", "1"], &["SET", "k", "v"]] {
        client.ask(line, if line.len() == 1 { "+OK\r\n" } else { "+QUEUED\r\n" });
    }
    client.ask(&["EXEC"], &format!("*3\r\n+OK\r\n{denied}+OK\r\n"));
    client.ask(&["GET", "k"], "$1\r\nv\r\n");
    boss.ask(&["ACL", "SETUSER", "bob", "+select"], "+OK\r\n");
    for line in [&["MULTI"][..], &["SELECT", "1"], &["SET", "k", "w"]] {
        client.ask(line, if line.len() == 1 { "+OK\r\n" } else { "+QUEUED\r\n" });
    }
    boss.ask(&["ACL", "SETUSER", "bob", "-select"], "+OK\r\n");
    client.ask(&["EXEC"], &format!("*2\r\n{denied}+OK\r\n"));
    client.ask(&["GET", "k"], "$1\r\nw\r\n");
    boss.ask(&["DBSIZE"], ":1\r\n");
}

/// The replies behind a question to all workers have the ceiling of those before it; so have questions without any.
#[test]
fn issue_11_what_stands_behind_a_question_has_the_limit_of_replies() {
    let server = Server::start(2, "client-output-buffer-limit normal 1mb 0 0\n");
    let value = "v".repeat(15_000);
    server.connect().ask(&["SET", "k", &value], "+OK\r\n");
    let list = ["CLIENT", "LIST", "TYPE", "replica"];
    // Below the limit the client gets everything.
    let mut client = server.connect();
    client.ask(&["MULTI"], "+OK\r\n");
    client.ask(&list, "+QUEUED\r\n");
    (0..20).for_each(|_| client.ask(&["GET", "k"], "+QUEUED\r\n"));
    client.ask(&["EXEC"], &format!("*21\r\n$0\r\n\r\n{}", format!("$15000\r\n{value}\r\n").repeat(20)));
    for (nth, (questions, gets)) in [(1, 100), (30, 100), (10_000, 0)].into_iter().enumerate() {
        let mut client = server.connect();
        client.ask(&["MULTI"], "+OK\r\n");
        for n in 0..questions.max(gets) {
            let queued = [(n < questions).then(|| request(&list)), (n < gets).then(|| request(&["GET", "k"]))];
            let queued: Vec<Vec<u8>> = queued.into_iter().flatten().collect();
            client.send(&queued.concat());
            client.expect("+QUEUED\r\n".repeat(queued.len()).as_bytes());
        }
        client.send(&request(&["EXEC"]));
        wait_until(&format!("{questions} questions are closed"), || {
            server.state().total(|s| &s.output_limit_closed) == nth as u64 + 1
        });
    }
    client.ask(&["PING"], "+PONG\r\n");
}

#[test]
fn large_values_wait_in_a_transaction() {
    let server = Server::start(2, "");
    let mut client = server.connect();
    let value = "v".repeat(1 << 20);
    client.ask(&["MULTI"], "+OK\r\n");
    client.ask(&["SET", "a", &value], "+QUEUED\r\n");
    client.ask(&["APPEND", "a", &value], "+QUEUED\r\n");
    client.ask(&["GET", "a"], "+QUEUED\r\n");
    client.ask(&["CLIENT", "ID"], "+QUEUED\r\n");
    client.ask(&["EXEC"], &format!("*4\r\n+OK\r\n:2097152\r\n$2097152\r\n{value}{value}\r\n:1\r\n"));
    client.ask(&["STRLEN", "a"], ":2097152\r\n");
}

#[test]
fn questions_to_all_workers_are_answered_in_their_place() {
    let server = Server::start(3, "");
    let mut others: Vec<_> = (0..6).map(|_| server.connect()).collect();
    others.iter_mut().for_each(|other| other.ask(&["PING"], "+PONG\r\n"));
    let mut client = server.connect();
    let commands = ["MULTI", "SET a 1", "CLIENT LIST", "GET a", "CLIENT LIST ID 1", "CLIENT LIST", "INCR a", "EXEC"];
    let replies = exchange(&mut client, &commands, ":2\r\n");
    let (_, exec) = replies.split_once("*6\r\n").unwrap();
    assert!(exec.starts_with("+OK\r\n$"), "{exec}");
    assert_eq!(exec.matches("id=").count(), 7 + 1 + 7, "{exec}");
    assert!(exec.contains("\n\r\n$1\r\n1\r\n$"), "{exec}");
    client.ask(&["GET", "a"], "$1\r\n2\r\n");
    // In RESP3 what stands behind an answer is in RESP3 too.
    client.send(&request(&["HELLO", "3"]));
    let replies = exchange(&mut client, &["MULTI", "CLIENT LIST", "GET none", "EXEC"], "\r\n_\r\n");
    assert!(replies.contains("*2\r\n="), "{replies}");
}

#[test]
fn replies_turned_off_in_the_middle_stay_off() {
    let server = Server::start(2, "");
    let mut client = server.connect();
    let commands = ["MULTI", "SET a 1", "CLIENT REPLY OFF", "CLIENT LIST", "GET a", "EXEC", "PING", "CLIENT REPLY ON"];
    for command in commands {
        client.send(&request(&command.split(' ').collect::<Vec<_>>()));
    }
    client.expect(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*4\r\n+OK\r\n+OK\r\n");
    let commands = ["MULTI", "CLIENT REPLY SKIP", "PING", "CLIENT ID", "EXEC", "PING", "ECHO x"];
    let replies = exchange(&mut client, &commands, "$1\r\nx\r\n");
    assert!(replies.contains("*3\r\n+PONG\r\n:"), "{replies}");
    assert_eq!(replies.matches("PONG").count(), 1, "{replies}");
}

#[test]
fn a_connection_that_ends_in_a_transaction_leaves_nothing() {
    let server = Server::start(2, "");
    let store = &server.state().store();
    let mut client = server.connect();
    client.ask(&["WATCH", "a", "b"], "+OK\r\n");
    client.ask(&["MULTI"], "+OK\r\n");
    client.ask(&["SET", "a", "1"], "+QUEUED\r\n");
    assert_eq!(store.watched_keys(), 2);
    drop(client);
    let mut other = server.connect();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while store.watched_keys() > 0 {
        assert!(std::time::Instant::now() < until, "the keys are still watched");
        std::thread::yield_now();
    }
    other.ask(&["EXISTS", "a"], ":0\r\n");
    other.ask(&["WATCH", "a"], "+OK\r\n");
    other.ask(&["MULTI"], "+OK\r\n");
    other.ask(&["RESET"], "+RESET\r\n");
    other.ask(&["EXEC"], "-ERR EXEC without MULTI\r\n");
    assert_eq!(store.watched_keys(), 0);
}

/// EXEC that is refused ends its transaction, whatever it is refused for.
#[test]
fn a_refused_exec_ends_the_transaction() {
    let server = Server::start(2, "");
    let mut client = server.connect();
    client.ask(&["WATCH", "k"], "+OK\r\n");
    client.ask(&["SUBSCRIBE", "c"], "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    client.ask(
        &["EXEC"],
        "-EXECABORT Transaction discarded because of: Can't execute 'exec': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING \
         / QUIT / RESET are allowed in this context\r\n",
    );
    assert_eq!(server.state().store().watched_keys(), 0);
    let locked = Server::start(1, "requirepass secret");
    locked.connect().ask(&["EXEC"], "-EXECABORT Transaction discarded because of: NOAUTH Authentication required.\r\n");
}

#[test]
fn shard_channels_are_not_subscribed_to_in_a_transaction() {
    let server = Server::start(2, "");
    let mut client = server.connect();
    let subscribed = "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n";
    client.send(
        &[request(&["MULTI"]), request(&["SSUBSCRIBE", "c"]), request(&["SUBSCRIBE", "c"]), request(&["EXEC"])]
            .concat(),
    );
    client.expect(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n");
    client.expect(b"-ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client\r\n");
    client.expect(subscribed.as_bytes());
    let mut other = server.connect();
    other.ask(&["PUBSUB", "SHARDCHANNELS"], "*0\r\n");
}

#[test]
fn the_letters_of_a_clients_flags_stand_in_the_peers_order() {
    let server = Server::start(1, "");
    let (mut client, mut other) = (server.connect(), server.connect());
    client.ask(&["WATCH", "k"], "+OK\r\n");
    client.ask(&["CLIENT", "NO-EVICT", "ON"], "+OK\r\n");
    client.ask(&["CLIENT", "TRACKING", "ON", "BCAST"], "+OK\r\n");
    client.ask(&["MULTI"], "+OK\r\n");
    other.ask(&["SET", "k", "v"], "+OK\r\n");
    assert!(other.bulk(&["CLIENT", "LIST"]).contains(" flags=xtBde "));
}

#[test]
fn the_classes_of_events_are_configuration() {
    let server = Server::start(1, "notify-keyspace-events Ex\n");
    let store = &server.state().store();
    let mut client = server.connect();
    client.ask(&["CONFIG", "SET", "notify-keyspace-events", "KEA"], "+OK\r\n");
    assert_eq!(store.event_mask(), varve_exec::notify::mask(b"KEA"));
    client.ask(&["CONFIG", "SET", "notify-keyspace-events", ""], "+OK\r\n");
    assert_eq!(store.event_mask(), 0);
}

/// A long command of another worker is alone behind the gate: commands that ask for the gate meanwhile are put back, and their
/// worker serves others.
#[test]
fn issue_11_nobody_sleeps_before_the_gate() {
    let server = Server::start(1, "enable-debug-command yes\n");
    let [mut exec, mut debug, mut quoted, mut other] = [(); 4].map(|()| server.connect());
    exec.ask(&["MULTI"], "+OK\r\n");
    exec.ask(&["SET", "a", "1"], "+QUEUED\r\n");
    exec.ask(&["CONFIG", "SET", "maxclients", "77"], "+QUEUED\r\n");
    for client in [&mut debug, &mut quoted, &mut other] {
        client.ask(&["PING"], "+PONG\r\n");
    }
    let alone = server.state().store().gate().exclusive(0);
    exec.send(&request(&["EXEC"]));
    debug.send(&request(&["DEBUG", "DIGEST-VALUE", "none"]));
    // Its quotes are parsed anew with each try.
    quoted.send(b"DEBUG \"DIGEST-VALUE\" \"no\\x6ee\"\r\n");
    (0..100).for_each(|_| other.ask(&["PING"], "+PONG\r\n"));
    drop(alone);
    exec.expect(b"*2\r\n+OK\r\n+OK\r\n");
    let digest = format!("*1\r\n+{}\r\n", "0".repeat(40));
    debug.expect(digest.as_bytes());
    quoted.expect(digest.as_bytes());
    exec.ask(&["GET", "a"], "$1\r\n1\r\n");
}

/// A transaction of thousands of commands rests with its shards held, and its worker serves others.
#[test]
fn issue_11_a_long_transaction_does_not_keep_its_worker() {
    const COMMANDS: usize = 1100;
    let server = Server::start(1, "");
    let (mut long, mut other) = (server.connect(), server.connect());
    // A string of a megabyte: each command takes a part of a millisecond.
    long.ask(&["SETBIT", "bits", "8388607", "1"], ":0\r\n");
    long.ask(&["MULTI"], "+OK\r\n");
    long.send(&request(&["BITCOUNT", "bits"]).repeat(COMMANDS));
    long.expect(&b"+QUEUED\r\n".repeat(COMMANDS));
    long.send(&request(&["EXEC"]));
    long.stream.set_nonblocking(true).unwrap();
    let mut answered = 0;
    while long.stream.peek(&mut [0]).is_err() {
        other.ask(&["PING"], "+PONG\r\n");
        answered += 1;
    }
    long.stream.set_nonblocking(false).unwrap();
    long.expect(format!("*{COMMANDS}\r\n{}", ":1\r\n".repeat(COMMANDS)).as_bytes());
    // One may come before the worker reads EXEC, and one may wait until it ends.
    assert!(answered >= 4, "{answered} PINGs were answered before the transaction");
    // The stage is free again, and whoever wants to be alone finds the gate open.
    other.ask(&["EVAL", "return redis.call('INCR', 'count')", "0"], ":1\r\n");
    other.ask(&["FLUSHALL"], "+OK\r\n");
    long.ask(&["DBSIZE"], ":0\r\n");
}

/// The histogram of holds knew nothing of the longest ones.
#[test]
fn issue_11_the_hold_of_a_transaction_is_counted() {
    let server = Server::start(1, "");
    let mut client = server.connect();
    let (before, _) = client.holds();
    client.ask(&["MULTI"], "+OK\r\n");
    client.ask(&["SET", "k", "v"], "+QUEUED\r\n");
    client.ask(&["GET", "k"], "+QUEUED\r\n");
    client.ask(&["EXEC"], "*2\r\n+OK\r\n$1\r\nv\r\n");
    assert_eq!(client.holds().0 - before, 1);
}

/// The reply of a transaction is lost: who loses the right to be there by it has lost it all the same.
#[test]
fn issue_11_questions_are_asked_although_the_reply_is_too_long() {
    for workers in [1, 2] {
        let server = Server::start(workers, "");
        let mut control = server.connect();
        control.ask(&["ACL", "SETUSER", "bob", "on", ">p", "~*", "&*", "+@all"], "+OK\r\n");
        control.ask(&["SET", "k", &"v".repeat(100_000)], "+OK\r\n");
        control.ask(&["CONFIG", "SET", "client-output-buffer-limit", "normal 1mb 0 0"], "+OK\r\n");
        let long: Vec<&[&str]> = vec![&["GET", "k"]; 100];
        // The reply is too long behind the questions, and before them.
        for is_first in [true, false] {
            let mut bobs: Vec<Client> = (0..4).map(|_| server.connect()).collect();
            for bob in &mut bobs {
                bob.ask(&["AUTH", "bob", "p"], "+OK\r\n");
            }
            let questions: [&[&str]; 4] = [
                &["CLIENT", "UNBLOCK", "999999"],
                &["CLIENT", "LIST"],
                &["CLIENT", "KILL", "USER", "bob"],
                &["CLIENT", "UNBLOCK", "999999", "ERROR"],
            ];
            let commands = if is_first { [&questions[..], &long].concat() } else { [&long, &questions[..]].concat() };
            let mut asker = server.connect();
            asker.send(&request(&["MULTI"]));
            asker.send(&commands.iter().flat_map(|words| request(words)).collect::<Vec<_>>());
            asker.expect(format!("+OK\r\n{}", "+QUEUED\r\n".repeat(commands.len())).as_bytes());
            asker.send(&request(&["EXEC"]));
            assert!(asker.is_closed(), "nobody gets a part of a reply");
            assert!(bobs.iter_mut().all(Client::is_closed), "{workers} workers, first: {is_first}");
        }
        control.ask(&["PING"], "+PONG\r\n");
    }
}

/// Each question of a transaction was answered within the one before it, on one stack. A client that is gone is answered no more.
#[test]
fn issue_11_many_questions_of_a_transaction_are_asked_one_by_one() {
    const QUESTIONS: usize = 5000;
    for workers in [1, 2] {
        let server = Server::start(workers, "");
        let mut client = server.connect();
        let questions = request(&["CLIENT", "UNBLOCK", "999999"]).repeat(QUESTIONS);
        let transaction = [request(&["MULTI"]), questions, request(&["EXEC"])].concat();
        client.send(&transaction);
        let queued = "+QUEUED\r\n".repeat(QUESTIONS);
        client.expect(format!("+OK\r\n{queued}*{QUESTIONS}\r\n{}", ":0\r\n".repeat(QUESTIONS)).as_bytes());
        client.send(&transaction);
        drop(client);
        let mut other = server.connect();
        wait_until("it is gone", || server.state().connections() == 1);
        other.ask(&["PING"], "+PONG\r\n");
    }
}

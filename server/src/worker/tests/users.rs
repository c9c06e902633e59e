//! Users over real sockets: their rights before every command, and connections whose user changes or is gone.

use varve_exec::Exec;

use super::*;

const NO_KEY: &str = "-NOPERM this user has no permissions to access one of the keys used as arguments\r\n";
const NO_CHANNEL: &str = "-NOPERM this user has no permissions to access one of the channels used as arguments\r\n";

fn no_command(name: &str) -> String {
    format!("-NOPERM this user has no permissions to run the '{name}' command\r\n")
}

/// Commands that write files into the folder of the tests, whatever their words: they are only asked for (ACL DRYRUN).
const ASKED_FOR: [&str; 4] = ["save", "bgrewriteaof", "sync", "psync"];

/// Requests of as few words as each command and subcommand takes, with its full name.
fn requests() -> Vec<(&'static str, Vec<&'static str>)> {
    let all = commands().commands().iter().flat_map(|command| std::iter::once(command).chain(command.subcommands));
    all.filter(|command| !matches!(command.exec, Exec::Container))
        .map(|command| {
            let mut words: Vec<&str> = command.full_name.split('|').collect();
            words.resize(words.len().max(command.arity.unsigned_abs() as usize), "x");
            (command.full_name, words)
        })
        .collect()
}

/// A client of this user, which needs no password.
fn user(server: &Server, name: &str) -> Client {
    let mut client = server.connect();
    client.ask(&["AUTH", name, "any"], "+OK\r\n");
    client
}

/// Makes or changes a user by these rules.
fn set_user(admin: &mut Client, rules: &str) {
    let words: Vec<&str> = ["ACL", "SETUSER"].into_iter().chain(rules.split(' ')).collect();
    admin.ask(&words, "+OK\r\n");
}

#[test]
fn no_command_runs_without_the_right_to_it() {
    let server = Server::start(2, "");
    let mut admin = server.connect();
    set_user(&mut admin, "nobody on nopass ~* &*");
    let mut nobody = user(&server, "nobody");
    let mut asked = 0;
    for (name, words) in requests() {
        // These are everybody's.
        if !["auth", "hello", "quit", "reset"].contains(&name) {
            let denied = no_command(name);
            let aborted = format!("-EXECABORT Transaction discarded because of: {}", &denied[1..]);
            nobody.ask(&words, if name == "exec" { &aborted } else { &denied });
            asked += 1;
        }
    }
    assert!(asked > 250, "{asked} commands");
}

#[test]
fn the_right_to_one_command_is_the_right_to_it_alone() {
    let server = Server::start(2, "enable-debug-command yes");
    let mut admin = server.connect();
    for (name, mut words) in requests() {
        set_user(&mut admin, &format!("one reset on nopass ~* &* +{name}"));
        if ASKED_FOR.contains(&name) {
            admin.ask(&[&["ACL", "DRYRUN", "one"], &words[..]].concat(), "+OK\r\n");
        } else {
            // They would end the server, or write a file: a word too many is an error, which comes behind the rights.
            words.extend(["shutdown", "bgsave"].contains(&name).then_some("x"));
            let mut one = user(&server, "one");
            one.send(&request(&words));
            let reply = one.line();
            assert!(!reply.starts_with("-NOPERM"), "{name}: {reply}");
        }
        let mut other = user(&server, "one");
        let foreign = if name == "echo" { "ping" } else { "echo" };
        other.ask(&if name == "echo" { vec!["PING"] } else { vec!["ECHO", "x"] }, &no_command(foreign));
    }
}

#[test]
fn rights_change_before_the_next_request() {
    let server = Server::start(2, "");
    let mut admin = server.connect();
    set_user(&mut admin, "u on nopass +@all ~a* %R~b* &c*");
    let mut clients: Vec<Client> = (0..6).map(|_| user(&server, "u")).collect();
    for client in &mut clients {
        client.ask(&["SET", "a", "1"], "+OK\r\n");
        client.ask(&["SET", "b", "1"], NO_KEY);
        client.ask(&["GET", "b"], "$-1\r\n");
        client.ask(&["MGET", "a", "x"], NO_KEY);
        client.ask(&["PUBLISH", "d", "m"], NO_CHANNEL);
        // All of a pipeline is looked at, one by one.
        client.send(&[request(&["GET", "a"]), request(&["GET", "x"]), request(&["PING"])].concat());
        client.expect(format!("$1\r\n1\r\n{NO_KEY}+PONG\r\n").as_bytes());
    }
    set_user(&mut admin, "u -get");
    clients.iter_mut().for_each(|client| client.ask(&["GET", "a"], &no_command("get")));
    set_user(&mut admin, "u +@all allkeys allchannels");
    clients.iter_mut().for_each(|client| client.ask(&["GET", "x"], "$-1\r\n"));
    // RESET is the way back to the default user.
    clients[0].ask(&["RESET"], "+RESET\r\n");
    clients[0].ask(&["ACL", "WHOAMI"], "$7\r\ndefault\r\n");
}

/// The answer to a condition on the value tells whether a guess was right: it takes the right to read.
#[test]
fn a_condition_on_the_value_reads_it() {
    let server = Server::start(1, "");
    let mut admin = server.connect();
    set_user(&mut admin, "u on nopass +@all %W~k");
    admin.ask(&["SET", "k", "sekret"], "+OK\r\n");
    let mut client = user(&server, "u");
    for word in ["IFEQ", "IFNE", "ifdeq", "IFDNE"] {
        client.ask(&["SET", "k", "x", word, "0123456789abcdef"], NO_KEY);
        client.ask(&["DELEX", "k", word, "0123456789abcdef"], NO_KEY);
    }
    client.ask(&["DELIFEQ", "k", "sekret"], NO_KEY);
    client.ask(&["SET", "k", "x", "GET"], NO_KEY);
    client.ask(&["SET", "k", "x", "XX", "KEEPTTL"], "+OK\r\n");
    client.ask(&["DELEX", "k"], ":1\r\n");
    set_user(&mut admin, "u ~k");
    client.ask(&["SET", "k", "x", "IFNE", "y"], "+OK\r\n");
    client.ask(&["DELEX", "k", "IFEQ", "x"], ":1\r\n");
}

#[test]
fn exec_asks_again() {
    let server = Server::start(2, "");
    let mut admin = server.connect();
    set_user(&mut admin, "u on nopass +@all ~*");
    let mut client = user(&server, "u");
    client.ask(&["MULTI"], "+OK\r\n");
    for words in [&["SET", "k", "1"][..], &["INCR", "k"], &["DBSIZE"], &["CLIENT", "ID"], &["GET", "k"]] {
        client.ask(words, "+QUEUED\r\n");
    }
    set_user(&mut admin, "u -incr -dbsize -client|id");
    client.send(&request(&["EXEC"]));
    let denied = "-NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This \
                  command is no longer allowed for the following reason: no permission to execute the command or \
                  subcommand\r\n";
    client.expect(format!("*5\r\n+OK\r\n{denied}{denied}{denied}$1\r\n1\r\n").as_bytes());
    // A command that is denied while it is queued spoils the transaction.
    client.ask(&["MULTI"], "+OK\r\n");
    client.ask(&["INCR", "k"], &no_command("incr"));
    client.ask(&["EXEC"], "-EXECABORT Transaction discarded because of previous errors.\r\n");
    // A client that becomes another user in the middle has that one's rights from there on.
    set_user(&mut admin, "little on nopass +ping +exec");
    client.ask(&["MULTI"], "+OK\r\n");
    client.ask(&["AUTH", "little", "x"], "+QUEUED\r\n");
    client.ask(&["SET", "k", "2"], "+QUEUED\r\n");
    client.ask(&["PING"], "+QUEUED\r\n");
    client.ask(&["EXEC"], &format!("*3\r\n+OK\r\n{denied}+PONG\r\n"));
    // The log has them, newest first: EXEC's own denials are of transactions.
    admin.send(&request(&["ACL", "LOG", "1"]));
    let entry: Vec<String> = (0..16).map(|_| admin.line()).collect();
    assert_eq!(entry[5..], ["$6", "reason", "$7", "command", "$7", "context", "$5", "multi", "$6", "object", "$3"]);
}

#[test]
fn clients_of_deleted_users_are_closed_on_every_worker() {
    let server = Server::start(3, "");
    let mut admin = server.connect();
    set_user(&mut admin, "gone on nopass +@all ~* &*");
    set_user(&mut admin, "stays on nopass +@all ~* &*");
    let mut gone: Vec<Client> = (0..9).map(|_| user(&server, "gone")).collect();
    let mut stays: Vec<Client> = (0..9).map(|_| user(&server, "stays")).collect();
    gone[0].send(&request(&["BLPOP", "list", "0"]));
    gone[1].ask(&["SUBSCRIBE", "c"], "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    gone[2].ask(&["MULTI"], "+OK\r\n");
    admin.ask(&["ACL", "DELUSER", "gone", "nobody"], ":1\r\n");
    assert!(gone.iter_mut().all(Client::is_closed));
    stays.iter_mut().for_each(|client| client.ask(&["PING"], "+PONG\r\n"));
    // A client that deletes its own user gets its reply.
    set_user(&mut admin, "self on nopass +acl");
    let mut own = user(&server, "self");
    own.ask(&["ACL", "DELUSER", "self"], ":1\r\n");
    assert!(own.is_closed());
}

#[test]
fn a_client_that_listens_or_waits_without_right_does_so_no_longer() {
    let server = Server::start(2, "");
    let mut admin = server.connect();
    set_user(&mut admin, "u on nopass +@all ~* &c &p* &s");
    let mut listeners: Vec<Client> = (0..3).map(|_| user(&server, "u")).collect();
    for (client, (command, name)) in
        listeners.iter_mut().zip([("subscribe", "c"), ("psubscribe", "p*"), ("ssubscribe", "s")])
    {
        let confirmed = format!("*3\r\n${}\r\n{command}\r\n${}\r\n{name}\r\n:1\r\n", command.len(), name.len());
        client.ask(&[command, name], &confirmed);
    }
    let mut waiting: Vec<Client> = (0..4).map(|_| user(&server, "u")).collect();
    waiting.iter_mut().for_each(|client| client.send(&request(&["BLPOP", "list", "0"])));
    wait_until("four clients wait", || server.state().total(|stats| &stats.blocked) == 4);
    // Nothing is lost that matters to them.
    set_user(&mut admin, "u &more -get");
    listeners[0].ask(&["PING"], "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
    set_user(&mut admin, "u resetchannels &c &p* resetkeys ~other");
    waiting.iter_mut().for_each(|client| client.expect(NO_KEY.as_bytes()));
    waiting[0].ask(&["RPUSH", "other", "x"], ":1\r\n");
    assert!(listeners[2].is_closed(), "its shard channel is no longer allowed");
    listeners[1].ask(&["PING"], "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
    set_user(&mut admin, "u resetchannels");
    assert!(listeners[0].is_closed() && listeners[1].is_closed());
}

#[test]
fn a_broadcast_names_no_key_that_may_not_be_read() {
    let server = Server::start(2, "");
    let mut admin = server.connect();
    set_user(&mut admin, "u on nopass +@all ~a* %W~b*");
    let mut client = user(&server, "u");
    super::tracking::speak_resp3(&mut client.stream);
    client.ask(&["CLIENT", "TRACKING", "on", "BCAST"], "+OK\r\n");
    admin.ask(&["MSET", "a1", "1", "b1", "1", "c1", "1"], "+OK\r\n");
    client.ask(&["PING"], &format!("{}+PONG\r\n", super::tracking::stale(&["a1"])));
    admin.ask(&["SET", "c2", "1"], "+OK\r\n");
    client.ask(&["PING"], "+PONG\r\n");
}

#[test]
fn strangers_follow_the_default_user() {
    let server = Server::start(2, "requirepass secret");
    let mut stranger = server.connect();
    stranger.ask(&["PING"], "-NOAUTH Authentication required.\r\n");
    let mut admin = server.connect();
    admin.ask(&["AUTH", "secret"], "+OK\r\n");
    set_user(&mut admin, "default nopass");
    stranger.ask(&["PING"], "+PONG\r\n");
    set_user(&mut admin, "default off");
    stranger.ask(&["PING"], "-NOAUTH Authentication required.\r\n");
    admin.ask(&["PING"], "+PONG\r\n");
    set_user(&mut admin, "other on >pw");
    stranger.ask(&["AUTH", "other", "pW"], "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
    stranger.ask(&["AUTH", "other", "pw"], "+OK\r\n");
    stranger.ask(&["PING"], &no_command("ping"));
    admin.ask(&["CONFIG", "SET", "requirepass", "new"], "+OK\r\n");
    set_user(&mut admin, "default on");
    server.connect().ask(&["AUTH", "new"], "+OK\r\n");
}

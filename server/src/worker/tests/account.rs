//! Memory outside of the store that counts against `maxmemory` all the same: each kind of it grows the account, and leaves it.

use super::tracking::speak_resp3;
use super::*;

/// Bytes outside of the store that the limit sees.
fn outside(server: &Server) -> u64 {
    server.state().store().outside_bytes()
}

/// Waits until the account has grown by this number of bytes, then has `shrink` end what takes them, and waits until
/// nearly all of them have left the account.
fn grows_and_shrinks(server: &Server, before: u64, bytes: u64, shrink: impl FnOnce()) {
    wait_until("they are in the account", || outside(server) >= before + bytes);
    assert!(server.state().store().used_memory() >= before + bytes, "the limit sees the account");
    shrink();
    wait_until("they have left the account", || outside(server) < before + bytes / 4);
}

#[test]
fn issue_11_tracked_keys_are_in_the_account() {
    let server = Server::start(2, "");
    let (mut control, mut reader) = (server.connect(), server.connect());
    speak_resp3(&mut reader.stream);
    reader.ask(&["CLIENT", "TRACKING", "on"], "+OK\r\n");
    let before = outside(&server);
    let name = "n".repeat(500);
    for nth in 0..2000 {
        reader.ask(&["GET", &format!("{name}{nth}")], "_\r\n");
    }
    grows_and_shrinks(&server, before, 2000 * 500, || reader.ask(&["CLIENT", "TRACKING", "off"], "+OK\r\n"));
    control.ask(&["PING"], "+PONG\r\n");
}

#[test]
fn issue_11_half_requests_are_in_the_account() {
    let server = Server::start(2, "");
    let mut clients: Vec<Client> = (0..8).map(|_| server.connect()).collect();
    let before = outside(&server);
    for client in &mut clients {
        client.send(b"*2\r\n$3\r\nGET\r\n$150000\r\n");
        client.send(&[b'k'; 100_000]);
    }
    grows_and_shrinks(&server, before, 8 * 100_000, || drop(clients));
}

/// A value that is received lies in the store from its first byte on.
#[test]
fn issue_11_half_a_large_value_is_in_the_account() {
    let server = Server::start(1, "");
    let mut client = server.connect();
    let used = || server.state().store().used_memory();
    let before = used();
    client.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$9000000\r\n");
    client.send(&[b'v'; 6_000_000]);
    wait_until("it is in the account", || used() >= before + 6_000_000);
    drop(client);
    wait_until("it has left the account", || used() < before + 1_000_000);
}

/// A script may run for long before its state is looked at again at its end.
#[test]
fn issue_11_the_memory_of_a_script_is_in_the_account_while_it_runs() {
    let server = Server::start(2, "");
    let (mut control, mut caller) = (server.connect(), server.connect());
    let before = outside(&server);
    let fills = "local t = {} for i = 1, 100000 do t[i] = 'element ' .. i end while true do end";
    let killed = "-ERR Error running script (call to f_";
    let functions = format!("#!lua name=lib\nredis.register_function('fills', function() {fills} end)");
    control.ask(&["FUNCTION", "LOAD", &functions], "$3\r\nlib\r\n");
    for (call, kill, flush) in [
        (&["EVAL", fills, "0"][..], ["SCRIPT", "KILL"], ["SCRIPT", "FLUSH"]),
        (&["FCALL", "fills", "0"], ["FUNCTION", "KILL"], ["FUNCTION", "FLUSH"]),
    ] {
        caller.send(&request(call));
        grows_and_shrinks(&server, before, 4 << 20, || {
            control.ask(&kill, "+OK\r\n");
            let line = caller.line();
            assert!(line.starts_with('-'), "{line} is no error like {killed}");
            control.ask(&flush, "+OK\r\n");
            // Each worker lets go of its state with its next script.
            for client in [&mut control, &mut caller] {
                client.ask(&["EVAL", "return 1", "0"], ":1\r\n");
            }
        });
    }
}

/// A command that is on its way keeps what it has gathered as long as its client does not take the reply.
#[test]
fn issue_11_what_a_command_has_gathered_is_in_the_account() {
    const MEMBERS: usize = 200_000;
    let server = Server::start(2, "");
    let (mut control, mut reader) = (server.connect(), server.connect());
    for from in (0..MEMBERS).step_by(1000) {
        let members: Vec<String> = (from..from + 1000).map(|n| format!("{n:0>200}")).collect();
        let words: Vec<&str> = ["SADD", "big"].into_iter().chain(members.iter().map(String::as_str)).collect();
        control.ask(&words, ":1000\r\n");
    }
    let before = outside(&server);
    reader.send(&request(&["SORT", "big", "ALPHA"]));
    // At most 32 MB of the 40 MB lie in the connection's output.
    grows_and_shrinks(&server, before, MEMBERS as u64 * 200, || drop(reader));
    control.ask(&["SCARD", "big"], &format!(":{MEMBERS}\r\n"));
}

#[test]
fn issue_11_users_are_in_the_account() {
    let server = Server::start(2, "");
    let mut control = server.connect();
    let before = outside(&server);
    let pattern = format!("~{}", "p".repeat(1000));
    let names: Vec<String> = (0..500).map(|nth| format!("user{nth}")).collect();
    names.iter().for_each(|name| control.ask(&["ACL", "SETUSER", name, "on", ">secret", &pattern], "+OK\r\n"));
    // A rule that changes nothing brings nothing.
    names.iter().for_each(|name| control.ask(&["ACL", "SETUSER", name, "on"], "+OK\r\n"));
    wait_until("they are in the account", || outside(&server) >= before + 500 * 2000);
    assert!(outside(&server) < before + 500 * 5000, "{} bytes for 500 users", outside(&server) - before);
    let gone: Vec<&str> = ["ACL", "DELUSER"].into_iter().chain(names.iter().map(String::as_str)).collect();
    grows_and_shrinks(&server, before, 500 * 2000, || control.ask(&gone, ":500\r\n"));
}

#[test]
fn issue_11_logged_commands_are_in_the_account() {
    let server = Server::start(2, "slowlog-log-slower-than 0\nslowlog-max-len 10000\n");
    let mut control = server.connect();
    let before = outside(&server);
    let word = "w".repeat(100);
    let words: Vec<&str> = ["EXISTS"].into_iter().chain([word.as_str(); 20]).collect();
    (0..1000).for_each(|_| control.ask(&words, ":0\r\n"));
    grows_and_shrinks(&server, before, 1000 * 2000, || control.ask(&["SLOWLOG", "RESET"], "+OK\r\n"));
}

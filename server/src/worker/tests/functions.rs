//! Functions over real sockets: one state for all workers, what changes libraries runs in the place of scripts, and they end
//! when they are told to.

use super::{Client, Server, request, wait_until};

/// A library that counts its calls in a local variable.
const COUNTER: &str =
    "#!lua name=counter\nlocal n = 0 redis.register_function('count', function() n = n + 1 return n end)";

#[test]
fn the_local_variables_of_a_library_are_one_for_all_workers() {
    let server = Server::start(4, "");
    let mut clients: Vec<Client> = (0..8).map(|_| server.connect()).collect();
    clients[0].ask(&["FUNCTION", "LOAD", COUNTER], "$7\r\ncounter\r\n");
    for round in 0..20 {
        for (at, client) in clients.iter_mut().enumerate() {
            client.ask(&["FCALL", "count", "0"], &format!(":{}\r\n", round * 8 + at + 1));
        }
    }
    clients[3].ask(&["FUNCTION", "LOAD", COUNTER], "-ERR Library 'counter' already exists\r\n");
    clients[3].ask(&["FUNCTION", "LOAD", "REPLACE", COUNTER], "$7\r\ncounter\r\n");
    clients[4].ask(&["FCALL", "COUNT", "0"], ":1\r\n");
    clients[5].ask(&["FUNCTION", "DELETE", "counter"], "+OK\r\n");
    clients[6].ask(&["FCALL", "count", "0"], "-ERR Function not found\r\n");
}

#[test]
fn libraries_that_change_while_others_call_them_are_old_or_new() {
    const TIMES: usize = 200;
    let server = Server::start(3, "");
    let mut loader = server.connect();
    let code = |n: usize| format!("#!lua name=lib\nredis.register_function('f', function() return {{{n}, {n}}} end)");
    loader.ask(&["FUNCTION", "LOAD", &code(0)], "$3\r\nlib\r\n");
    let callers: Vec<Client> = (0..3).map(|_| server.connect()).collect();
    std::thread::scope(|scope| {
        for mut caller in callers {
            scope.spawn(move || {
                let mut last = 0;
                for _ in 0..TIMES {
                    caller.send(&request(&["FCALL", "f", "0"]));
                    assert_eq!(caller.line(), "*2");
                    let (first, second) = (caller.line(), caller.line());
                    assert_eq!(first, second);
                    let n: usize = first[1..].parse().expect("a number");
                    assert!(n >= last, "a library that was replaced does not come back");
                    last = n;
                }
            });
        }
        (1..=TIMES).for_each(|n| loader.ask(&["FUNCTION", "LOAD", "REPLACE", &code(n)], "$3\r\nlib\r\n"));
    });
    loader.ask(&["FCALL", "f", "0"], &format!("*2\r\n:{TIMES}\r\n:{TIMES}\r\n"));
}

#[test]
fn a_transaction_loads_calls_and_forgets() {
    let server = Server::start(2, "");
    let mut client = server.connect();
    client.ask(&["MULTI"], "+OK\r\n");
    client.ask(&["FUNCTION", "LOAD", COUNTER], "+QUEUED\r\n");
    client.ask(&["FCALL", "count", "0"], "+QUEUED\r\n");
    client.ask(&["FUNCTION", "FLUSH"], "+QUEUED\r\n");
    client.ask(&["FCALL", "count", "0"], "+QUEUED\r\n");
    client.ask(&["EXEC"], "*4\r\n$7\r\ncounter\r\n:1\r\n+OK\r\n-ERR Function not found\r\n");
}

#[test]
fn flags_bind_functions_and_their_commands() {
    let server = Server::start(1, "");
    let mut client = server.connect();
    let code = "#!lua name=lib\nlocal function go(keys, args) return redis.call(unpack(args)) end \
                redis.register_function('plain', go) \
                redis.register_function{function_name = 'reads', callback = go, flags = {'no-writes'}} \
                redis.register_function{function_name = 'oom', callback = go, flags = {'allow-oom'}}";
    client.ask(&["FUNCTION", "LOAD", code], "$3\r\nlib\r\n");
    client.ask(&["FCALL", "plain", "0", "SET", "k", "v"], "+OK\r\n");
    client.ask(&["FCALL_RO", "reads", "0", "GET", "k"], "$1\r\nv\r\n");
    client.ask(
        &["FCALL_RO", "plain", "0", "GET", "k"],
        "-ERR Can not execute a script with write flag using *_ro command.\r\n",
    );
    client.ask(
        &["FCALL", "reads", "0", "SET", "k", "w"],
        "-ERR Write commands are not allowed from read-only scripts. script: reads, on @user_function:2.\r\n",
    );
    client.ask(&["CONFIG", "SET", "maxmemory", "1"], "+OK\r\n");
    client.ask(&["FCALL", "plain", "0", "GET", "k"], "-OOM command not allowed when used memory > 'maxmemory'.\r\n");
    client.ask(&["FCALL", "reads", "0", "GET", "k"], "$1\r\nv\r\n");
    client.ask(&["FCALL", "oom", "0", "SET", "k", "w"], "+OK\r\n");
    client.ask(&["FUNCTION", "LOAD", COUNTER], "-OOM command not allowed when used memory > 'maxmemory'.\r\n");
    client.ask(&["FUNCTION", "FLUSH"], "+OK\r\n");
}

#[test]
fn a_function_that_takes_too_long_is_shown_and_ended() {
    let server = Server::start(2, "busy-reply-threshold 20");
    let mut runner = server.connect();
    let code = "#!lua name=lib\nredis.register_function('Endless', function() while true do end end)";
    runner.ask(&["FUNCTION", "LOAD", code], "$3\r\nlib\r\n");
    runner.send(&request(&["FCALL", "endless", "1", "key"]));
    wait_until("the function runs for too long", || server.state().scripts().running().busy_for(20).is_some());
    let mut other = server.connect();
    other.ask(
        &["GET", "a"],
        "-BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.\r\n",
    );
    other.send(&request(&["FUNCTION", "STATS"]));
    let shown: Vec<String> = (0..17).map(|_| other.line()).collect();
    let shown: Vec<&str> = shown.iter().map(String::as_str).filter(|line| !line.starts_with('$')).collect();
    assert_eq!(shown[..9], ["*4", "running_script", "*6", "name", "Endless", "command", "*4", "FCALL", "endless"]);
    (0..17).for_each(|_| _ = other.line());
    other.ask(
        &["SCRIPT", "KILL"],
        "-BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.\r\n",
    );
    other.ask(&["FUNCTION", "KILL"], "+OK\r\n");
    assert!(runner.line().starts_with("-ERR Script killed by user with FUNCTION KILL."));
    other.ask(&["FUNCTION", "KILL"], "-NOTBUSY No scripts in execution right now.\r\n");
}

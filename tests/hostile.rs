//! Clients that do everything wrong, over sockets: the right error, the connection closed where the protocol is lost, bounded
//! memory, and nobody else disturbed (a second client must go on getting its answers).

#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use varve_testkit::{Client, Launch, Server, until};

const MB: u64 = 1 << 20;

fn start() -> Server {
    Launch::varve().config("io-threads 4").start().expect("varve-server starts")
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address()).expect("a connection");
    stream.set_nodelay(true).expect("set");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
    stream.set_write_timeout(Some(Duration::from_secs(20))).expect("set");
    stream
}

/// All that the server sends until it closes; a reset after it has sent something counts as closed.
fn rest(what: &str, stream: &mut TcpStream) -> Vec<u8> {
    let (mut all, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => return all,
            Ok(n) => all.extend_from_slice(&chunk[..n]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return all,
            Err(error) => panic!("{what}: not closed: {error}; so far {:?}", all.escape_ascii().to_string()),
        }
    }
}

/// Another client, which must not wait for the bad one: ten commands, each answered soon, on a busy machine too.
fn undisturbed(other: &mut Client) {
    let limit = Duration::from_secs(5);
    for n in 0..10 {
        let begin = Instant::now();
        assert_eq!(other.cmd(&format!("SET other {n}")).text(), "OK");
        assert_eq!(other.cmd("GET other").text(), n.to_string());
        assert!(begin.elapsed() < limit, "another client waited {:?}", begin.elapsed());
    }
}

fn resident(server: &Server) -> u64 {
    server.memory().expect("its memory").resident
}

/// Requests that lose the protocol, and what is answered before the connection ends.
fn broken() -> Vec<(Vec<u8>, &'static str)> {
    let long = |head: &[u8]| [head, vec![b'1'; 70_000].as_slice()].concat();
    vec![
        (b"*2147483648\r\n".to_vec(), "invalid multibulk length"),
        (b"*99999999999999999999\r\n".to_vec(), "invalid multibulk length"),
        (b"*x\r\n".to_vec(), "invalid multibulk length"),
        (b"*1\r\n$-1\r\n".to_vec(), "invalid bulk length"),
        (b"*2\r\n$3\r\nGET\r\n$-5\r\n".to_vec(), "invalid bulk length"),
        (b"*1\r\n$536870913\r\n".to_vec(), "invalid bulk length"),
        (b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4294967296\r\n".to_vec(), "invalid bulk length"),
        (b"*1\r\n$9223372036854775808\r\n".to_vec(), "invalid bulk length"),
        (b"*1\r\n$01\r\n".to_vec(), "invalid bulk length"),
        (b"*1\r\n:4\r\n".to_vec(), "expected '$', got ':'"),
        (b"*2\r\n$4\r\nPING\r\nPING\r\n".to_vec(), "expected '$', got 'P'"),
        (long(b"*"), "too big mbulk count string"),
        (long(b"*1\r\n$"), "too big bulk count string"),
        (long(b"SET k "), "too big inline request"),
        (b"SET k \"no end\r\n".to_vec(), "unbalanced quotes in request"),
        (b"SET k 'a'b\r\n".to_vec(), "unbalanced quotes in request"),
    ]
}

#[test]
fn what_is_no_request_gets_its_error_and_the_connection_ends() {
    let server = start();
    let mut other = server.client();
    for (input, text) in broken() {
        // At once, in the midst of a pipeline, and a byte at a time where that is not too long.
        let pipeline = [b"*1\r\n$4\r\nPING\r\n".as_slice(), &input].concat();
        for (sent, before) in [(&input, ""), (&pipeline, "+PONG\r\n")] {
            for size in [sent.len(), 1] {
                if size == 1 && sent.len() > 1000 {
                    continue;
                }
                let mut stream = connect(&server);
                for part in sent.chunks(size) {
                    stream.write_all(part).expect("sent");
                }
                let expected = format!("{before}-ERR Protocol error: {text}\r\n");
                let got = rest(text, &mut stream);
                assert_eq!(
                    String::from_utf8_lossy(&got),
                    expected,
                    "for {}",
                    sent[..sent.len().min(60)].escape_ascii()
                );
            }
        }
    }
    undisturbed(&mut other);
    assert_eq!(other.cmd("DEBUG VERIFY").text(), "OK");
}

#[test]
fn what_is_only_odd_is_answered_and_the_connection_stays() {
    let server = start();
    let cases: &[(&[u8], &str)] = &[
        (b"\r\n\r\n*0\r\n*-5\r\nPING\r\n", "+PONG\r\n"),
        (b"%1\r\n+a\r\n", "-ERR unknown command '%1'"),
        (b">3 x\r\n", "-ERR unknown command '>3'"),
        (b"HELLO 3 SETNAME\r\n", "-ERR Syntax error in HELLO option 'SETNAME'"),
        (b"HELLO 99999999999999999999\r\n", "-ERR Protocol version is not an integer or out of range"),
        (b"HELLO 4\r\n", "-NOPROTO unsupported protocol version"),
        (b"HELLO -3\r\n", "-NOPROTO unsupported protocol version"),
        (b"HELLO 3 AUTH default\r\n", "-ERR Syntax error in HELLO option 'AUTH'"),
        (b"HELLO 3 \"\\x00\\xff\" x\r\n", "-ERR Syntax error in HELLO option "),
        (b"*1\r\n$0\r\n\r\n", "-ERR unknown command ''"),
        (b"\"\\r\\n+OK\" 1\r\n", "-ERR unknown command '  +OK'"),
        (b"SETRANGE k 536870912 x\r\n", "-ERR string exceeds maximum allowed size"),
    ];
    for (input, start) in cases {
        let mut stream = connect(&server);
        stream.write_all(input).expect("sent");
        stream.write_all(b"\r\nECHO the-end\r\n").expect("sent");
        let mut got = Vec::new();
        let mut chunk = [0; 4096];
        while !got.ends_with(b"the-end\r\n") {
            let n = stream.read(&mut chunk).expect("an answer");
            assert!(n > 0, "closed for {}: {}", input.escape_ascii(), got.escape_ascii());
            got.extend_from_slice(&chunk[..n]);
        }
        let got = String::from_utf8_lossy(&got);
        assert!(got.starts_with(start), "for {}: {got:?}", input.escape_ascii());
    }
}

#[test]
fn half_requests_leave_nothing_behind() {
    let server = start();
    let mut other = server.client();
    let head = b"*3\r\n$3\r\nSET\r\n$4\r\nhalf\r\n$100000000\r\n";
    // The second round tells what one round leaves: the first warms the allocator's and the pool's memory.
    let mut after = [0; 3];
    for round in &mut after {
        for n in 0..100 {
            let mut stream = connect(&server);
            stream.write_all(head).expect("sent");
            stream.write_all(&vec![b'x'; 1000 * (n % 50)]).expect("sent");
            if n % 3 == 0 {
                stream.shutdown(Shutdown::Write).expect("half closed");
                assert_eq!(rest("half a request", &mut stream), b"", "nothing was asked");
            }
        }
        until("the connections are gone", || other.cmd("INFO clients").text().contains("connected_clients:1\r\n"));
        *round = resident(&server);
    }
    assert!(after[2] <= after[0] + 4 * MB, "resident after each hundred: {after:?}");
    assert!(other.cmd("EXISTS half").integer() == Some(0));
    undisturbed(&mut other);
}

/// Asks for 1000 MB in values of `size` bytes and reads nothing for a while: what that costs.
fn silent(size: u64) {
    let server = start();
    let mut other = server.client();
    other.call(&[b"SET".to_vec(), b"big".to_vec(), vec![b'v'; size as usize]]).expect("set");
    let before = resident(&server);
    let mut silent = connect(&server);
    silent.set_nonblocking(true).expect("set");
    let count = 1000 * MB / size;
    let requests = b"*2\r\n$3\r\nGET\r\n$3\r\nbig\r\n".repeat(count as usize);
    let mut sent = 0;
    let end = Instant::now() + Duration::from_secs(5);
    while sent < requests.len() && Instant::now() < end {
        match silent.write(&requests[sent..]) {
            Ok(n) => sent += n,
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    assert_eq!(sent, requests.len(), "requests are read while nothing but room for output is missing");
    undisturbed(&mut other);
    std::thread::sleep(Duration::from_millis(300));
    let grown = server.memory().expect("its memory").peak.saturating_sub(before);
    println!("a silent client that asks for 1000 MB in values of {size} bytes: resident grows by {} MB", grown / MB);
    assert!(grown < 80 * MB, "grown by {} MB", grown / MB);
    // It reads after all, and gets everything.
    silent.set_nonblocking(false).expect("set");
    let mut left = count * (size + format!("${size}\r\n\r\n").len() as u64);
    let mut chunk = vec![0; 1 << 20];
    while left > 0 {
        let n = silent.read(&mut chunk).expect("replies") as u64;
        assert!(n > 0, "closed with {left} bytes to come");
        left -= n;
    }
    undisturbed(&mut other);
}

#[test]
fn a_client_that_never_reads_is_paused_and_costs_a_bounded_amount() {
    // Sent from where they lie, and copied.
    [MB, 100_000, 2000].into_iter().for_each(silent);
}

/// A client that writes 200 MB of requests before it reads a byte gets every reply, and one that reads as it writes has
/// nothing buffered for it.
#[test]
fn a_client_may_write_everything_before_it_reads() {
    const REQUESTS: usize = 200_000;
    let server = start();
    let mut other = server.client();
    let (key, value) = (vec![b'k'; 1000], vec![b'v'; 500]);
    other.call(&[b"SET".to_vec(), key.clone(), value.clone()]).expect("set");
    let get = [b"*2\r\n$3\r\nGET\r\n$1000\r\n".to_vec(), key, b"\r\n".to_vec()].concat();
    let reply = [b"$500\r\n".to_vec(), value, b"\r\n".to_vec()].concat();
    // Bytes of requests that wait in the server, and whether output waits before them, of the client with the most.
    let waiting = |other: &mut Client| {
        let list = other.cmd("CLIENT LIST").text();
        let number =
            |line: &str, name: &str| line.split(' ').find_map(|field| field.strip_prefix(name)?.parse::<u64>().ok());
        let clients = list.lines().filter_map(|line| Some((number(line, "qbuf=")?, number(line, "oll=")? > 0)));
        clients.max().expect("a line each")
    };
    for reads_at_once in [false, true] {
        let mut client = connect(&server);
        let mut writer = client.try_clone().expect("a second handle");
        let requests = get.repeat(REQUESTS);
        let writing = std::thread::spawn(move || writer.write_all(&requests).expect("sent"));
        if reads_at_once {
            undisturbed(&mut other);
        } else {
            writing.join().expect("all is taken");
            undisturbed(&mut other);
            let all = REQUESTS as u64 * get.len() as u64;
            let (held, _) = waiting(&mut other);
            assert!(held > all / 2, "{held} bytes of {all} are held");
        }
        let mut got = vec![0; reply.len()];
        for n in 0..REQUESTS {
            client.read_exact(&mut got).expect("a reply");
            assert!(got == reply, "reply {n}");
            if reads_at_once && n % 5000 == 0 {
                // A busy machine may keep this client from reading for a while: then its output waits.
                let (held, output_waits) = waiting(&mut other);
                assert!(held <= MB || output_waits, "{held} bytes are held for a client that reads");
            }
        }
    }
    assert!(!server.log().contains("max query buffer length"));
}

#[test]
fn the_limits_of_query_and_output_close_who_passes_them() {
    let server = start();
    let mut other = server.client();
    other.call(&[b"SET".to_vec(), b"big".to_vec(), vec![b'v'; MB as usize]]).expect("set");
    // A request longer than the query limit.
    assert_eq!(other.cmd("CONFIG SET client-query-buffer-limit 1048576").text(), "OK");
    let mut talker = connect(&server);
    talker.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000000\r\n").expect("sent");
    let part = vec![b'x'; 100_000];
    let closed = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        talker.write_all(&part).is_err()
    });
    assert!(closed, "a request over the query limit ends its connection");
    assert!(server.log().contains("max query buffer length"), "the log says why");
    // A pipeline behind replies that nobody reads.
    let mut silent = connect(&server);
    let requests = b"*2\r\n$3\r\nGET\r\n$3\r\nbig\r\n".repeat(2000);
    // Much fits in the sockets' own buffers before the server has read its share.
    let closed = (0..2000).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        silent.write_all(&requests).is_err()
    });
    assert!(closed, "a paused client over the query limit is closed");
    assert_eq!(other.cmd("CONFIG SET client-query-buffer-limit 1073741824").text(), "OK");
    // The hard and the soft limit of output.
    for (nth, limit) in ["normal 4194304 0 0", "normal 0 1048576 1"].into_iter().enumerate() {
        let set = ["CONFIG", "SET", "client-output-buffer-limit", limit];
        assert_eq!(other.call(&set).expect("a reply").text(), "OK");
        let begin = Instant::now();
        let mut silent = connect(&server);
        silent.write_all(&requests).expect("sent");
        // Not by the number of clients, in which it may not stand yet; and reading would drain what waits.
        until("the silent client is closed", || {
            server.log().matches("overcoming of output buffer limits").count() > nth
        });
        println!("closed for '{limit}' after {:?}", begin.elapsed());
        if limit.ends_with(" 1") {
            assert!(begin.elapsed() > Duration::from_millis(900), "the soft limit gives a second");
        }
        rest(limit, &mut silent);
        undisturbed(&mut other);
    }
}

/// Without descriptors the server says so once, waits, and takes those who wait when there are some again.
/// A value has 1 GB at most, whatever `proto-max-bulk-len` says: a longer argument is refused where its length is read, and a
/// command makes no longer one.
#[test]
fn issue_19_values_end_at_a_gigabyte_whatever_is_set() {
    const LARGEST: u64 = 1 << 30;
    let server = start();
    let mut other = server.client();
    let before = resident(&server);
    let set = other.cmd("CONFIG SET proto-max-bulk-len 10gb client-query-buffer-limit 10gb");
    assert_eq!(set.text(), "OK");
    for length in [LARGEST + 1, u64::from(u32::MAX), 5_000_000_000] {
        let mut stream = connect(&server);
        stream.write_all(format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${length}\r\nxxx").as_bytes()).expect("sent");
        let said = rest("a long argument", &mut stream);
        assert_eq!(String::from_utf8_lossy(&said), "-ERR Protocol error: invalid bulk length\r\n", "{length}");
    }
    for command in [format!("SETRANGE k {LARGEST} x"), format!("SETBIT k {} 1", LARGEST * 8)] {
        assert!(other.cmd(&command).is_error(), "{command}");
    }
    assert_eq!(other.cmd(&format!("SETRANGE k {} x", LARGEST - 1)).integer(), Some(LARGEST as i64));
    assert!(other.cmd("APPEND k x").is_error());
    assert_eq!(other.cmd("STRLEN k").integer(), Some(LARGEST as i64));
    let grown = resident(&server).saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes for zeros");
    undisturbed(&mut other);
}

#[test]
fn connections_wait_while_there_are_no_descriptors() {
    let server = start();
    let mut other = server.client();
    undisturbed(&mut other);
    let limit = |files: usize| {
        let pid = server.pid().to_string();
        let status = Command::new("prlimit").args(["--pid", &pid, &format!("--nofile={files}:10000")]).status();
        assert!(status.is_ok_and(|status| status.success()), "prlimit sets a limit");
    };
    let open = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("its descriptors").count();
    limit(open + 5);
    let mut clients: Vec<TcpStream> = (0..30).map(|_| connect(&server)).collect();
    for client in &mut clients {
        client.write_all(b"PING\r\n").expect("sent");
    }
    let complaints = || server.log().matches("Accepting client connection").count();
    until("the server is out of descriptors", || complaints() > 0);
    let cpu = server.cpu_ns().expect("its time");
    std::thread::sleep(Duration::from_secs(1));
    let spent = server.cpu_ns().expect("its time") - cpu;
    assert!(spent < 200_000_000, "waiting for descriptors costs {spent} ns of CPU a second");
    assert_eq!(complaints(), 1, "one line, however often it is tried");
    undisturbed(&mut other);
    limit(1000);
    for client in &mut clients {
        let mut pong = [0; 7];
        client.read_exact(&mut pong).expect("an answer");
        assert_eq!(&pong, b"+PONG\r\n");
    }
    drop(clients);
    until("the connections are gone", || other.cmd("INFO clients").text().contains("connected_clients:1\r\n"));
}

#[test]
fn ten_thousand_idle_connections() {
    const IDLE: u64 = 10_000;
    let wanted = (IDLE + 1000).to_string();
    let me = std::process::id().to_string();
    let raised = Command::new("prlimit").args(["--pid", &me, &format!("--nofile={wanted}:")]).status();
    assert!(raised.is_ok_and(|status| status.success()), "this test needs {wanted} open files");
    let server = Launch::varve().config("io-threads 4").config("maxclients 10100").start().expect("it starts");
    let mut other = server.client();
    undisturbed(&mut other);
    let before = resident(&server);
    let begin = Instant::now();
    let mut idle: Vec<TcpStream> = (0..IDLE).map(|_| connect(&server)).collect();
    // Each has said something and been answered: what a connection keeps then is what it costs.
    for stream in &mut idle {
        stream.write_all(b"*1\r\n$4\r\nPING\r\n").expect("sent");
    }
    for stream in &mut idle {
        let mut pong = [0; 7];
        stream.read_exact(&mut pong).expect("an answer");
        assert_eq!(&pong, b"+PONG\r\n");
    }
    let took = begin.elapsed();
    let each = resident(&server).saturating_sub(before) / IDLE;
    println!("{IDLE} idle connections in {took:?}: {each} bytes resident each");
    assert!(each <= 2048, "{each} bytes a connection");
    undisturbed(&mut other);
    let cpu = server.cpu_ns().expect("its time");
    std::thread::sleep(Duration::from_secs(1));
    let idle_cpu = server.cpu_ns().expect("its time") - cpu;
    println!("CPU of a second of idling: {:.1} ms", idle_cpu as f64 / 1e6);
    assert!(idle_cpu < 50_000_000, "idle connections cost {idle_cpu} ns of CPU a second");
    drop(idle);
    until("the connections are gone", || other.cmd("INFO clients").text().contains("connected_clients:1\r\n"));
    undisturbed(&mut other);
}

/// While a command of one worker holds a shard, the others, whose requests need it, do not keep their processors busy with
/// trying.
#[test]
fn issue_11_workers_rest_while_a_shard_is_held() {
    const MEMBERS: usize = 400_000;
    let server = Launch::varve().config("io-threads 4").start().expect("it starts");
    let (mut holder, mut admin) = (server.client(), server.client());
    let mut others: Vec<Client> = (0..12).map(|_| server.client()).collect();
    for from in (0..MEMBERS).step_by(1000) {
        let members: Vec<String> = (from..from + 1000).map(|n| format!("member:{}", n * 7919 % MEMBERS)).collect();
        let words: Vec<&str> = ["SADD", "big"].into_iter().chain(members.iter().map(String::as_str)).collect();
        holder.queue(&words);
        holder.flush().expect("sent");
        assert_eq!(holder.read().expect("a reply").integer(), Some(1000));
    }
    for other in &mut others {
        assert_eq!(other.cmd("EXISTS big").integer(), Some(1));
    }
    // Within a script a command runs whole, and holds the shards of the script's keys to its end.
    holder.queue(&["EVAL", "return #redis.call('SORT', KEYS[1], 'ALPHA')", "1", "big"]);
    holder.flush().expect("sent");
    let begun = Instant::now();
    let cpu = server.cpu_ns().expect("its time");
    until("the script runs", || server.cpu_ns().expect("its time") > cpu + 20_000_000);
    for other in &mut others {
        other.queue(&["EXISTS", "big"]);
        other.queue(&["MSET", "small", "1", "big", "replaced"]);
        other.flush().expect("sent");
    }
    assert_eq!(admin.cmd("PING").text(), "PONG");
    for other in &mut others {
        assert_eq!(other.read().expect("a reply").integer(), Some(1));
        assert_eq!(other.read().expect("a reply").text(), "OK");
    }
    assert_eq!(holder.read().expect("a reply").integer(), Some(MEMBERS as i64));
    let (cpu, took) = (server.cpu_ns().expect("its time") - cpu, begun.elapsed());
    println!("CPU of a script of {took:?}: {:.1} ms", cpu as f64 / 1e6);
    assert!(cpu < took.as_nanos() as u64 * 3 / 2, "{cpu} ns of CPU in {took:?}");
}

/// While one worker is alone behind the gate, the others do not keep their processors busy with looking at it, and answer what
/// needs no key.
#[test]
fn issue_11_workers_sleep_while_another_is_alone() {
    let server = Launch::varve().config("io-threads 4").config("busy-reply-threshold 0").start().expect("it starts");
    let (mut alone, mut admin) = (server.client(), server.client());
    let mut others: Vec<Client> = (0..12).map(|_| server.client()).collect();
    for other in &mut others {
        assert_eq!(other.cmd("SET key value").text(), "OK");
    }
    // A transaction with a script in it holds the gate alone to its end.
    let script = "local n = 0 while n < 150000000 do n = n + 1 end redis.call('SET', 'key', 'changed')";
    for request in [&["MULTI"][..], &["EVAL", script, "0"], &["EXEC"]] {
        alone.queue(request);
    }
    alone.flush().expect("sent");
    let begun = Instant::now();
    let cpu = server.cpu_ns().expect("its time");
    // Nothing else costs as much.
    until("the script runs", || server.cpu_ns().expect("its time") > cpu + 50_000_000);
    for other in &mut others {
        other.queue(&["GET", "key"]);
        other.flush().expect("sent");
    }
    assert_eq!(admin.cmd("PING").text(), "PONG");
    for other in &mut others {
        assert_eq!(other.read().expect("a reply").text(), "changed", "the transaction came first");
    }
    let (cpu, took) = (server.cpu_ns().expect("its time") - cpu, begun.elapsed());
    println!("CPU of a transaction of {took:?}: {:.1} ms", cpu as f64 / 1e6);
    // Its own worker's, and little of three others'.
    assert!(cpu < took.as_nanos() as u64 * 3 / 2, "{cpu} ns of CPU in {took:?}");
}

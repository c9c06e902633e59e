//! Which worker gets a connection, storms of connections, and workers that are in a long command.

use super::*;

/// The number of connections of each worker.
fn assigned(server: &Server) -> Vec<u64> {
    server.state().workers().iter().map(|worker| worker.assigned()).collect()
}

/// True if a part of a reply has come.
fn has_answer(client: &mut Client) -> bool {
    client.stream.set_nonblocking(true).unwrap();
    let has = client.stream.peek(&mut [0; 1]).is_ok();
    client.stream.set_nonblocking(false).unwrap();
    has
}

#[test]
fn a_worker_in_a_long_command_keeps_nobody_from_being_served() {
    let server = Server::start(2, "enable-debug-command yes");
    // One on each worker: the first is worker 0's, as far as all have the same to do.
    let mut sleepers = [server.connect(), server.connect()];
    sleepers.iter_mut().for_each(|sleeper| sleeper.ask(&["PING"], "+PONG\r\n"));
    for sleeper in &mut sleepers {
        sleeper.send(&request(&["DEBUG", "SLEEP-WORKER", "3"]));
        // On a busy machine either worker may seem to be in a long command for a moment, so that the first newcomers may go
        // to the sleeper's. They come for two seconds: once the sleeper's worker is known to be stuck, the others are served.
        let mut newcomers: Vec<Client> = Vec::new();
        let mut answered = 0;
        wait_until("newcomers are served", || {
            if newcomers.len() < 400 {
                newcomers.push(server.connect());
                newcomers.last_mut().unwrap().send(b"PING\r\n");
            }
            answered += newcomers.extract_if(.., has_answer).count();
            answered >= 5 || has_answer(sleeper)
        });
        assert!(answered >= 5, "{answered} newcomers were served before the sleeper woke");
        sleeper.expect(b"+OK\r\n");
    }
}

/// DEBUG SLEEP stops the whole server, as it stops redis-server's one thread: those who look whether it is there get no answer.
#[test]
fn a_server_that_sleeps_answers_nobody() {
    let server = Server::start(2, "enable-debug-command yes");
    let mut clients = [server.connect(), server.connect()];
    clients.iter_mut().for_each(|client| client.ask(&["PING"], "+PONG\r\n"));
    assert_eq!(assigned(&server), [1, 1]);
    let [sleeper, other] = &mut clients;
    sleeper.send(&request(&["DEBUG", "SLEEP", "1"]));
    let mut longest = Duration::ZERO;
    while !has_answer(sleeper) {
        let begin = Instant::now();
        other.ask(&["PING"], "+PONG\r\n");
        longest = longest.max(begin.elapsed());
    }
    sleeper.expect(b"+OK\r\n");
    assert!(longest >= Duration::from_millis(700), "{longest:?}");
}

#[test]
fn a_newcomer_goes_to_the_worker_with_less_to_do() {
    let server = Server::start(2, "enable-debug-command yes");
    let mut busy = server.connect();
    busy.ask(&["PING"], "+PONG\r\n");
    let worker = assigned(&server).iter().position(|&count| count == 1).expect("it is somewhere");
    // Short commands that keep the worker at work for some seconds.
    let naps = 200;
    busy.send(&request(&["DEBUG", "SLEEP-WORKER", "0.02"]).repeat(naps));
    let load = |index: usize| server.state().workers()[index].load().busy_permille();
    wait_until("its load is measured", || load(worker) >= 500 && load(1 - worker) < 300);
    let newcomers: Vec<Client> = (0..10).map(|_| server.connect()).collect();
    wait_until("all are placed", || server.state().connections() == 11);
    assert_eq!(assigned(&server)[worker], 1, "{:?}", assigned(&server));
    busy.expect(&b"+OK\r\n".repeat(naps));
    drop(newcomers);
}

/// The server takes in as many clients as `maxclients` allows and refuses the others with an error. It keeps nothing of
/// either.
#[test]
fn a_storm_of_connections_over_maxclients() {
    const MAX: usize = 50;
    let server = Server::start(3, &format!("maxclients {MAX}"));
    for round in 1..=3 {
        let mut storm: Vec<Client> = (0..6 * MAX).map(|_| server.connect()).collect();
        wait_until("all are judged", || {
            server.state().accepting().rejected.get() == round * 5 * MAX as u64
                && server.state().accepting().accepted.get() == round * MAX as u64
        });
        let (mut served, mut refused) = (0, 0);
        for client in &mut storm {
            // One that was refused is closed: what it sends may be an error.
            let _ = client.stream.write_all(b"PING\r\n");
            match client.line().as_str() {
                "+PONG" => served += 1,
                "-ERR max number of clients reached" => refused += 1,
                other => panic!("{other}"),
            }
        }
        assert_eq!((served, refused), (MAX, 5 * MAX));
        drop(storm);
        wait_until("all are gone", || server.state().connections() == 0);
    }
}

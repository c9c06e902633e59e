//! The end of the server while clients have sent something.

use super::*;

/// SHUTDOWN writes the last save with the gate held alone. A command that waits for the gate meanwhile runs behind it, so
/// that its change is in no file.
#[test]
fn issue_13_a_command_that_waited_for_the_last_save_is_not_answered() {
    for command in [&["FLUSHALL"][..], &["RANDOMKEY"], &["SET", "k", "other"]] {
        let server = Server::start(1, "");
        let mut client = server.connect();
        client.ask(&["SET", "k", "v"], "+OK\r\n");
        let reads = || server.state().total(|stats| &stats.reads);
        let before = reads();
        let alone = server.state().store().gate().exclusive(0);
        client.send(&request(command));
        wait_until("the worker has the command", || reads() > before);
        server.state().stop();
        drop(alone);
        let mut reply = Vec::new();
        // The connection may be reset, which ends it as well.
        let _ = client.stream.read_to_end(&mut reply);
        assert!(reply.is_empty(), "{command:?}: {}", String::from_utf8_lossy(&reply));
    }
}

/// A thread that does not return is waited for no longer than allowed, and named; those that return are joined.
#[test]
fn issue_11_a_thread_that_does_not_return_is_left_behind() {
    let (go, stays) = std::sync::mpsc::channel::<()>();
    let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
    let quick = named("quick").spawn(|| ()).expect("a thread");
    let stuck = named("stuck").spawn(move || _ = stays.recv()).expect("a thread");
    wait_until("the quick one has ended", || quick.is_finished());
    assert_eq!(super::super::join_within(vec![stuck, quick], Duration::ZERO), ["stuck"]);
    drop(go);
    let ends = named("ends").spawn(|| ()).expect("a thread");
    assert!(super::super::join_within(vec![ends], Duration::from_secs(600)).is_empty(), "it has ended");
}

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

//! Links to primaries that ask who comes: by the user and the password that a replica has, and by TLS with certificates. Primary
//! and replica are Varve and redis-server in all mixtures that one of ours is part of.
//!
//! ```text
//!   AUTH user password   wrong --> the link stays down, and the log says why    right, by CONFIG SET --> the link comes up
//!   TLS on 127.0.0.1     CLIENT KILL TYPE replica, under load                   --> it comes again, and the data is equal
//! ```

#![forbid(unsafe_code)]

use varve_testkit::tls::Certificates;
use varve_testkit::{Launch, Server, figure, seed};
use varve_tests::fill::fill;
use varve_tests::replicas::{assert_equal, field, wait};

/// Primary and replica.
const PAIRS: [(Kind, Kind); 3] =
    [(Launch::varve, Launch::varve), (Launch::varve, Launch::peer), (Launch::peer, Launch::varve)];

type Kind = fn() -> Launch;

/// Times that a link is cut.
const CUTS: u64 = 5;

fn status(replica: &Server) -> String {
    field(&mut replica.client(), "replication", "master_link_status")
}

/// A user of a primary has the commands that a replica needs and no key. With a wrong user or password there is no link. The right
/// ones are taken by the next attempt, without a new REPLICAOF.
#[test]
fn issue_17_a_replica_says_who_it_is_as_user_and_password_are_set() {
    for (primary, replica) in PAIRS {
        let primary = primary().config("repl-diskless-sync-delay 0").start().expect("a server");
        let replica = replica().config("masteruser copier").config("masterauth wrong").start().expect("a server");
        let (mut theirs, mut ours) = (primary.client(), replica.client());
        assert_eq!(theirs.cmd("ACL SETUSER copier on >secret +psync +replconf +ping").text(), "OK");
        assert_eq!(theirs.cmd("ACL SETUSER default off").text(), "OK");
        assert_eq!(theirs.cmd("SET k v").text(), "OK", "a connection of before stays");
        assert_eq!(ours.cmd(&format!("REPLICAOF 127.0.0.1 {}", primary.port())).text(), "OK");
        let refused = |times: usize| {
            wait("it is refused", &replica, || replica.log().matches("Unable to AUTH to MASTER").count() >= times);
            assert_eq!(status(&replica), "down");
            replica.log().matches("Unable to AUTH to MASTER").count()
        };
        let times = refused(1);
        assert!(replica.log().contains("WRONGPASS invalid username-password pair"), "{}", replica.log());
        // A user that is not there, with the right password of another one.
        assert_eq!(ours.cmd("CONFIG SET masteruser stranger masterauth secret").text(), "OK");
        refused(times + 2);
        assert_eq!(ours.cmd("CONFIG SET masteruser copier").text(), "OK");
        wait("the link comes up", &replica, || status(&replica) == "up");
        theirs.cmd("APPEND k w");
        wait("the stream comes", &replica, || ours.cmd("GET k").text() == "vw");
        let list = theirs.cmd("CLIENT LIST TYPE replica").text();
        assert!(list.contains(" user=copier "), "{list}");
    }
}

/// A link by TLS that the primary cuts under load is made again, and goes on where it was.
#[test]
fn issue_17_a_link_by_tls_that_is_cut_comes_again() {
    let certificates = Certificates::make("replication");
    let first = seed::seed("links by TLS that are cut");
    for (nth, (primary, replica)) in (0..).zip(PAIRS) {
        let start = |launch: Launch| {
            // The stream goes on while the replica is away.
            let launch = launch.config("tls-replication yes").config("repl-backlog-size 256mb");
            let launch = launch.config("repl-diskless-sync-delay 0");
            launch.start_tls(&certificates).expect("a server")
        };
        let ((primary, port), (replica, replica_port)) = (start(primary()), start(replica()));
        fill(&primary, first + nth, 2000);
        assert_eq!(replica.client().cmd(&format!("REPLICAOF 127.0.0.1 {port}")).text(), "OK");
        assert_equal(&replica, &primary);
        let mut client = primary.client();
        std::thread::scope(|scope| {
            let filling = scope.spawn(|| fill(&primary, first + 100 + nth, 4000));
            for _ in 0..CUTS {
                let partial = figure(&mut client, "sync_partial_ok");
                wait("the replica is online", &primary, || {
                    field(&mut client, "replication", "slave0").contains("state=online")
                });
                assert_eq!(client.cmd("CLIENT KILL TYPE replica").integer(), Some(1));
                wait("it comes again", &replica, || figure(&mut client, "sync_partial_ok") > partial);
            }
            filling.join().expect("it fills");
        });
        assert_equal(&replica, &primary);
        assert_eq!(figure(&mut client, "sync_full"), 1, "no cut costs all data");
        // A replica that speaks TLS announces its port of TLS.
        let listed = field(&mut client, "replication", "slave0");
        assert!(listed.starts_with(&format!("ip=127.0.0.1,port={replica_port},state=online,")), "{listed}");
    }
}

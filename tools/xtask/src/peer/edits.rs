//! Edits of the suite's units: a text in the place of another one, in our copy, with the reason.

use super::ASSERTIONS;
use std::fs;
use std::path::Path;

/// A text of a unit, and the text in its place in our copy.
struct Edit {
    unit: &'static str,
    from: &'static str,
    to: &'static str,
}
/// All edits. A unit without the text of its edit fails.
const EDITS: &[Edit] = &[
    // Two tests use a text that others make, which are left out here.
    Edit {
        unit: "unit/violations",
        from: "        r config set stream-node-max-bytes 0\n",
        to: "        init_large_mem_vars\n        r config set stream-node-max-bytes 0\n",
    },
    // The files of the first server stay for the second one.
    Edit {
        unit: ASSERTIONS,
        from: "start_server [list overrides $config] $code",
        to: "start_server [list overrides $config keep_persistence true] $code",
    },
    // The test reads the size of the file at once behind a reply. Under `everysec` our reply does not wait for the file, so on a
    // busy machine the write of the SET came behind the first look; under `always` it is there before the reply.
    Edit {
        unit: "integration/aof",
        from: "start_server {overrides {appendonly {yes}}} {\n        test {GETEX should not append to AOF} {",
        to: "start_server {overrides {appendonly {yes} appendfsync {always}}} {\n        test {GETEX should not append to AOF} {",
    },
    // There, the slowest replica slows the writing of a data set down, which ends when the last byte has left. Here, it is written to
    // a file without a name as fast as the disk takes it: it is slowed down by itself, so that replicas are lost in the middle of it.
    Edit {
        unit: REPLICATION,
        from: "    $master debug populate 20000 test 10000\n    $master config set rdbcompression no\n    # If running on Linux",
        to: "    $master debug populate 20000 test 10000\n    $master config set rdbcompression no\n    \
             $master config set rdb-key-save-delay 400\n    # If running on Linux",
    },
    // No process writes the data set, and no pipe leads from it: the same events have other lines in our log.
    Edit {
        unit: REPLICATION,
        from: "Diskless rdb transfer, last replica dropped, killing fork child",
        to: "No replica is left that waits for the data set: it is given up",
    },
    Edit {
        unit: REPLICATION,
        from: "Diskless rdb transfer, done reading from pipe, 2 replicas still up",
        to: "Data set for replicas written; replicas that are still there: 2",
    },
    Edit {
        unit: REPLICATION,
        from: "Diskless rdb transfer, done reading from pipe, 1 replicas still up",
        to: "Data set for replicas written; replicas that are still there: 1",
    },
    Edit {
        unit: REPLICATION,
        from: "Background RDB transfer started by pid",
        to: "Starting BGSAVE for SYNC with target: replicas sockets",
    },
    // A transaction that cuts the links and then overruns the backlog is to bring about a full synchronisation. It is one chunk of
    // the stream, which stays whole here while any of it does: a replica could go on in it. So the replica sleeps meanwhile, and
    // the same is written once more. When it wakes up, its link is up until it looks: the test waits for its request. The save begins
    // at once here, with the delay that is set then, and not at the next tick: the delay is set before.
    Edit {
        unit: REPLICATION,
        from: "            # Force the replica to try another full sync (",
        to: "            set asleep [redis_deferring_client -1]\n            $asleep debug sleep 1\n            after 100\n            \
             # Force it to try another full sync (",
    },
    Edit {
        unit: REPLICATION,
        from: "            $master exec\n\n            switch $testType {",
        to: "            $master exec\n            for {set keyid 0} {$keyid < 10} {incr keyid} {\n                \
             $master set \"$keyid string_$keyid\" [string repeat A 16384]\n            }\n            \
             if {$testType eq \"Aborted\"} {$master config set rdb-key-save-delay 10000}\n            \
             $asleep read\n            $asleep close\n            wait_for_condition 50 100 {\n                \
             [s 0 sync_full] eq 2\n            } else {\n                fail \"no full synchronisation\"\n            \
             }\n\n            switch $testType {",
    },
    Edit {
        unit: REPLICATION,
        from: "                    # force the replica to try another full sync\n",
        to: "                    set asleep [redis_deferring_client -1]\n                    $asleep debug sleep 0.2\n                    \
             after 20\n                    # force it to try another full sync\n",
    },
    Edit {
        unit: REPLICATION,
        from: "                    $master exec\n                }\n",
        to: "                    $master exec\n                    for {set keyid 0} {$keyid < 10} {incr keyid} {\n                        \
             $master set \"$keyid string_$keyid\" [string repeat A 16384]\n                    }\n                    \
             $asleep read\n                    $asleep close\n                }\n",
    },
    // A link that has never come up is made anew a second later, and there when a clock of a second strikes next. So a hundred
    // attempts would last as long as the suite waits for the end of a test.
    Edit { unit: REPLICATION, from: "set attempts 100\n", to: "set attempts 60\n" },
];
/// The unit about whole synchronisations.
const REPLICATION: &str = "integration/replication";

/// Makes the edits of a unit in its file.
pub(super) fn apply_all(unit: &str, file: &Path) -> Result<(), String> {
    EDITS.iter().filter(|edit| edit.unit == unit).try_for_each(|edit| apply(edit, file))
}

/// Makes the edit, if it is not made yet: a unit may run twice.
fn apply(edit: &Edit, file: &Path) -> Result<(), String> {
    let text = fs::read_to_string(file).map_err(|error| error.to_string())?;
    if text.contains(edit.to) {
        return Ok(());
    }
    if !text.contains(edit.from) {
        return Err(format!("{}: no '{}'", edit.unit, edit.from));
    }
    fs::write(file, text.replace(edit.from, edit.to)).map_err(|error| error.to_string())
}

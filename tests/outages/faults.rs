//! Faults of a primary: it is killed, stopped, or cut off from others, while all is well or while a replica is behind.

use std::thread;
use std::time::Duration;

use super::BOXES;
use super::cluster::Cluster;

/// How long a replica is cut off or stopped before its primary is killed.
const BEFORE: Duration = Duration::from_millis(1500);

/// A fault of a primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// SIGKILL; it starts again as a replica of the new primary.
    Killed,
    /// SIGKILL; it starts again without data, as a primary, and Sentinel has it follow.
    KilledAndForgotten,
    /// SIGSTOP until there is a new primary.
    Stopped,
    /// Its machine's link is down until there is a new primary.
    Unplugged,
    /// Its machine is cut off from the other two, and clients reach all three.
    Parted,
    /// A replica is cut off from it for a while. Then it is killed, and the replica's link is mended.
    KilledAheadOfOne,
    /// A replica is stopped for a while. Then it is killed.
    KilledBesideOneStopped,
}

impl Fault {
    /// All of them; the first three are the short form of the test.
    pub(crate) const ALL: [Fault; 7] = [
        Fault::KilledAheadOfOne,
        Fault::Parted,
        Fault::Stopped,
        Fault::Killed,
        Fault::KilledAndForgotten,
        Fault::Unplugged,
        Fault::KilledBesideOneStopped,
    ];

    /// Whether the primary loses all that it has.
    pub(crate) fn is_kill(self) -> bool {
        !matches!(self, Fault::Stopped | Fault::Unplugged | Fault::Parted)
    }

    /// Lets a replica fall behind, where that belongs to the fault.
    pub(crate) fn prepare(self, cluster: &Cluster, primary: usize, replica: usize) {
        match self {
            Fault::KilledAheadOfOne => cluster.network.part(primary, replica),
            Fault::KilledBesideOneStopped => cluster.signal(replica, "STOP"),
            _ => return,
        }
        thread::sleep(BEFORE);
    }

    /// Has it happen.
    pub(crate) fn strike(self, cluster: &mut Cluster, primary: usize, replica: usize) {
        match self {
            Fault::Killed | Fault::KilledAndForgotten | Fault::KilledBesideOneStopped => cluster.kill(primary),
            Fault::KilledAheadOfOne => {
                cluster.kill(primary);
                cluster.network.join(primary, replica);
            }
            Fault::Stopped => cluster.signal(primary, "STOP"),
            Fault::Unplugged => cluster.network.unplug(primary),
            Fault::Parted => {
                (0..BOXES).filter(|nth| *nth != primary).for_each(|nth| cluster.network.part(primary, nth));
            }
        }
    }

    /// Ends it, when another server leads.
    pub(crate) fn heal(self, cluster: &mut Cluster, primary: usize, replica: usize, leader: usize) {
        match self {
            Fault::Killed | Fault::KilledAheadOfOne => cluster.start_server(primary, Some(leader)),
            Fault::KilledAndForgotten => cluster.start_server(primary, None),
            Fault::KilledBesideOneStopped => {
                cluster.signal(replica, "CONT");
                cluster.start_server(primary, Some(leader));
            }
            Fault::Stopped => cluster.signal(primary, "CONT"),
            Fault::Unplugged => cluster.network.plug(primary),
            Fault::Parted => {
                (0..BOXES).filter(|nth| *nth != primary).for_each(|nth| cluster.network.join(primary, nth));
            }
        }
    }
}

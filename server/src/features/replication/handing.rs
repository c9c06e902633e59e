//! Ends of a failover, and of following another server: this server leads, or has been taken over.

use super::state::failover::{Ended, Handing};
use crate::features::pause::state::Hold;
use crate::state::ServerState;

/// Follows nobody from now on, and the settings name nobody.
pub(super) fn lead_noted(state: &ServerState) {
    state.replication().replica().want(None);
    state.config().note_primary(None);
}

/// Ends the failover that lasts, of this number if one is given, before it has come to its end: this server leads again.
pub(super) fn abort(state: &ServerState, number: Option<u64>, why: &str) {
    state.replication().failover().end(number, |Ended { stage, target, is_asked }| {
        let to = target.map(|target| format!(" to {}:{}", target.host, target.port)).unwrap_or_default();
        tracing::info!("Aborting failover{to} while {}: {why}", stage.name());
        if number.is_none() && is_asked {
            tracing::warn!("The failover target{to} was asked to lead and has not answered: both may be masters now");
        }
        if stage == Handing::UnderWay {
            lead_noted(state);
        }
        state.release_writes(Hold::Failover);
    });
    state.replication().watchers().wake();
}

/// The replica has taken this server's place in the failover of this number: clients go on, as those of a replica.
pub(super) fn done(state: &ServerState, number: u64) {
    state.replication().failover().end(Some(number), |_| state.release_writes(Hold::Failover));
}

//! Taking from a key that has something.

use varve_protocol::{Args, Reply};
use varve_store::{Key, Tx};

use super::call::Call;
use crate::grammar::{Fault, Outcome};

impl Call {
    /// Takes and replies. The key has the type that is wanted; its shard is held, and the target's.
    pub(super) fn take(&self, _tx: &mut Tx<'_>, _args: Args<'_>, _key: &Key<'_>, _out: &mut Reply) -> Outcome {
        Err(Fault::WRONG_TYPE)
    }
}

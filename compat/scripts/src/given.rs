//! The keys and arguments that a request gives to a script or a function: `EVAL script numkeys key ... arg ...`.

use smallvec::SmallVec;
use varve_base::number::parse_i64;
use varve_exec::{CmdResult, CommandError};
use varve_protocol::Args;

use crate::errors;

/// Keys and arguments that need no memory of their own.
const FEW: usize = 16;

/// The keys and the arguments of a script.
pub(crate) struct Given<'a> {
    words: SmallVec<[&'a [u8]; FEW]>,
    /// How many of them are keys.
    keys: usize,
}

impl<'a> Given<'a> {
    /// The keys.
    pub(crate) fn keys(&self) -> &[&'a [u8]] {
        &self.words[..self.keys]
    }

    /// The words behind the keys.
    pub(crate) fn arguments(&self) -> &[&'a [u8]] {
        &self.words[self.keys..]
    }
}

/// The keys, whose number argument 2 is, and the arguments behind them.
///
/// # Errors
/// Argument 2 is no number, which `no_number` says, or not that of keys.
pub(crate) fn keys_and_arguments(args: Args<'_>, no_number: CommandError) -> CmdResult<Given<'_>> {
    let count = parse_i64(args.get(2)).ok_or(no_number)?;
    if count > args.len() as i64 - 3 {
        return Err(errors::TOO_MANY_KEYS);
    }
    let keys = usize::try_from(count).map_err(|_| errors::NEGATIVE_KEYS)?;
    Ok(Given { words: args.skip(3).iter().collect(), keys })
}

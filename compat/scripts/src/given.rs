//! The keys and arguments that a request gives to a script or a function: `EVAL script numkeys key ... arg ...`.

use varve_base::number::parse_i64;
use varve_exec::{CmdResult, CommandError};
use varve_protocol::Args;

use crate::errors;

/// The keys and the arguments of a script.
pub(crate) struct Given<'a> {
    pub(crate) keys: Vec<&'a [u8]>,
    pub(crate) arguments: Vec<&'a [u8]>,
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
    let count = usize::try_from(count).map_err(|_| errors::NEGATIVE_KEYS)?;
    let mut rest = args.skip(3).iter();
    Ok(Given { keys: rest.by_ref().take(count).collect(), arguments: rest.collect() })
}

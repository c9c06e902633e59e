//! A data set without keys, for somebody who wants the libraries of functions alone, or the stream alone.
//!
//! ```text
//!   header | fields about the file | libraries, if they are wanted | end        a file without a name
//! ```
//! It is written at once, in the turn of whoever asks for it: libraries are few.

use std::io;

use varve_rdb::{Writer, format};

use super::save;
use crate::features::replication::state::replicas::SyncFile;
use crate::state::ServerState;
use crate::system::nameless_file;

/// Writes such a data set. The gate is held alone.
///
/// # Errors
/// Those of the file system.
pub(crate) fn without_keys(state: &ServerState, with_functions: bool) -> io::Result<SyncFile> {
    let config = state.config().snapshot();
    let file = nameless_file::create(&std::env::current_dir()?, "filtered.rdb")?;
    let mut about = save::about_file(config.save.compresses);
    if with_functions {
        state.scripts().functions().texts().iter().for_each(|text| about.function(text));
    }
    let mut writer = Writer::new(&file, config.save.sums);
    writer.header(format::VERSION)?;
    writer.put(&mut about)?;
    writer.end()?;
    SyncFile::whole(file)
}

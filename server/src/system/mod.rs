//! Calls of the operating system, the log, and the version. This floor knows no setting and no connection.

pub(crate) mod logging;
pub(crate) mod open_files;
pub(crate) mod sys;
pub(crate) mod version;

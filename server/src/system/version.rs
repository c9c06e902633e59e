//! Name and version of this build.

/// Varve's own version.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The Redis whose behaviour is kept, which clients switch on.
pub(crate) const REDIS_VERSION: &str = "7.0.15";
/// The commit of this build, if whoever built it said so through the environment.
pub(crate) const GIT_SHA: &str = match option_env!("VARVE_GIT_SHA") {
    Some(sha) => sha,
    None => "00000000",
};
/// The allocator of everything but user data.
pub(crate) const ALLOCATOR: &str = "libc";

/// A number that differs between builds of different versions or commits. Shown without an allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Build;

impl std::fmt::Display for Build {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let hash = |text: &str| varve_base::hash::digest64(text.as_bytes());
        write!(f, "{:016x}", hash(VERSION).rotate_left(1) ^ hash(GIT_SHA))
    }
}

/// The line of `--version`, in the form that scripts cut redis-server's into fields by: `v=` is the Redis that it stands
/// for, since they compare it with versions of Redis. Varve's own comes last.
pub(crate) fn line() -> String {
    let bits = usize::BITS;
    let build = Build;
    format!(
        "Varve server v={REDIS_VERSION} sha={GIT_SHA}:0 malloc={ALLOCATOR} bits={bits} build={build} varve={VERSION}"
    )
}

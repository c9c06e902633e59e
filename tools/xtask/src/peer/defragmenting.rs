//! redis-server with active defragmentation, which Debian's is built without: the paper's Table 5 had it.
//!
//! ```text
//!   source archive -> .test-tools/defragmenting/source/ ──make, with the jemalloc that it brings──▶ redis-server beside it
//! ```
//! Defragmentation asks the allocator which allocations are worth moving. The system's jemalloc has no answer to that; the one in
//! Debian's source package of redis does, but Debian does not build it. It is built once.

use crate::setup;
use crate::shell::{Tally, command, run, step, tools_dir};
use std::fs;

/// Builds it where it is not there.
pub(crate) fn build() -> Tally {
    step("redis-server that defragments", || Tally::one("redis-server that defragments", build_once()))
}

/// True of the words of a bench that runs beside it: those that measure the paper's tables whole.
pub(crate) fn is_wanted(args: &[String]) -> bool {
    let has = |word: &str| args.iter().any(|arg| arg == word);
    let tables = matches!(args.first().map(String::as_str), Some("all" | "fragmentation"));
    tables && !["--quick", "--tiny", "--help", "-h"].iter().any(|word| has(word))
}

fn build_once() -> Result<(), String> {
    let folder = tools_dir().join("defragmenting");
    let (binary, source) = (folder.join("redis-server"), folder.join("source"));
    if binary.exists() {
        return Ok(());
    }
    setup::unpack_source(&source)?;
    let jobs = format!("-j{}", std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
    let settings = [jobs.as_str(), "--quiet", "MALLOC=jemalloc", "USE_SYSTEMD=no", "redis-server"];
    let log = folder.join("build.txt");
    let text = fs::File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    let errors = text.try_clone().map_err(|error| error.to_string())?;
    run(command("make", &settings).current_dir(source.join("src")).stdout(text).stderr(errors))
        .map_err(|error| format!("{error}; its words are in {}", log.display()))?;
    // A build that is stopped leaves no server that counts as built.
    fs::rename(source.join("src/redis-server"), &binary).map_err(|error| error.to_string())?;
    fs::remove_dir_all(&source).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_tables_run_beside_it_and_no_quick_run_waits_for_a_build() {
        let wanted = |words: &str| is_wanted(&words.split(' ').map(String::from).collect::<Vec<_>>());
        assert!(wanted("all") && wanted("all --only fragmentation") && wanted("fragmentation --part 10gb"));
        assert!(
            !wanted("all --quick") && !wanted("fragmentation --quick") && !wanted("point") && !wanted("all --help")
        );
        assert!(!is_wanted(&[]));
    }
}

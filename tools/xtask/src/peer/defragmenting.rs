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

/// Builds it where it is not there. Where that fails, the experiments run without it.
pub(crate) fn build() {
    let name = "redis-server that defragments";
    let built = setup::peer_source().and(|| step(name, || Tally::one(name, build_once())));
    if built.failed > 0 {
        println!("Table 5 runs without a {name}; its report says so.");
    }
}

/// True of the words of a bench that measures the paper's tables whole.
pub(crate) fn is_wanted(args: &[String]) -> bool {
    let has = |word: &str| args.iter().any(|arg| arg == word);
    let chooses = args.iter().any(|arg| arg.starts_with("--only"));
    let tables = args.iter().any(|arg| arg.trim_start_matches("--only=").starts_with("fragmentation"));
    (tables || has("all") && !chooses) && !["--quick", "--tiny", "--help", "-h"].iter().any(|word| has(word))
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
        for words in ["all", "all --only fragmentation-10gb-w1", "fragmentation --part 10gb", "--rival a=b all"] {
            assert!(wanted(words), "{words}");
        }
        for words in
            ["all --quick", "fragmentation --quick", "point", "all --only lists", "all --only=lists", "all --help"]
        {
            assert!(!wanted(words), "{words}");
        }
        assert!(wanted("all --only=fragmentation") && !is_wanted(&[]));
    }
}

//! Long work under way, of INFO: loading, saving, rewriting, receiving a primary's data.

use super::info::Info;

/// A piece of work.
#[derive(Debug, PartialEq)]
pub(crate) struct Work {
    pub(crate) name: &'static str,
    pub(crate) is_bytes: bool,
    pub(crate) done: f64,
    pub(crate) total: f64,
    /// Seconds that are left, where they are known.
    pub(crate) left_s: Option<f64>,
}

impl Work {
    /// From 0 to 1.
    pub(crate) fn share(&self) -> f64 {
        if self.total > 0.0 { (self.done / self.total).clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// All that is under way.
pub(crate) fn work(info: &Info) -> Vec<Work> {
    let mut all = Vec::new();
    let number = |name: &str| info.number(name);
    if number("loading") > 0.0 {
        all.push(Work {
            name: "loading the file",
            is_bytes: true,
            done: number("loading_loaded_bytes"),
            total: number("loading_total_bytes"),
            left_s: Some(number("loading_eta_seconds")),
        });
    }
    let (saves, rewrites) = (number("rdb_bgsave_in_progress") > 0.0, number("aof_rewrite_in_progress") > 0.0);
    if saves || rewrites {
        let field = if rewrites { "aof_current_rewrite_time_sec" } else { "rdb_current_bgsave_time_sec" };
        let (done, total) = (number("current_save_keys_processed"), number("current_save_keys_total"));
        let left_s = (done > 0.0).then(|| number(field).max(0.0) * (total - done).max(0.0) / done);
        let name = if rewrites { "rewriting the append-only file" } else { "saving" };
        all.push(Work { name, is_bytes: false, done, total, left_s });
    }
    if number("master_sync_in_progress") > 0.0 {
        let (done, total) = (number("master_sync_read_bytes"), number("master_sync_total_bytes"));
        all.push(Work {
            name: "receiving the primary's data",
            is_bytes: true,
            done,
            total: total.max(done),
            left_s: None,
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_follows_the_pace_so_far() {
        let text = "rdb_bgsave_in_progress:1\nrdb_current_bgsave_time_sec:10\ncurrent_save_keys_processed:200\n\
                    current_save_keys_total:1000\n";
        let all = work(&Info::parse(text));
        assert_eq!((all.len(), all[0].name, all[0].left_s), (1, "saving", Some(40.0)));
        assert!((all[0].share() - 0.2).abs() < 1e-9);
    }

    #[test]
    fn each_kind_has_its_line() {
        let text = "loading:1\nloading_loaded_bytes:5\nloading_total_bytes:10\naof_rewrite_in_progress:1\n\
                    master_sync_in_progress:1\nmaster_sync_read_bytes:7\nmaster_sync_total_bytes:-1\n";
        let names: Vec<_> = work(&Info::parse(text)).iter().map(|work| (work.name, work.share())).collect();
        assert_eq!(
            names,
            [("loading the file", 0.5), ("rewriting the append-only file", 0.0), ("receiving the primary's data", 1.0)]
        );
        assert!(work(&Info::default()).is_empty());
    }
}

//! Long work under way, of INFO: loading, saving, rewriting, receiving a primary's data.

use super::info::Info;

/// A piece of work.
#[derive(Debug, PartialEq)]
pub(crate) struct Work {
    pub(crate) name: String,
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
            name: "loading the file".into(),
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
        all.push(Work { name: name.into(), is_bytes: false, done, total, left_s });
    }
    all.extend((0..).map_while(|nth| sync(info.text(&format!("sync{nth}")))));
    all
}

/// A data set on its way to another server or from there: `to=HOST:PORT,bytes=N,of=N,eta_seconds=N`, -1 for what is not known.
fn sync(text: &str) -> Option<Work> {
    let (ends, figures) = text.split_once(",bytes=")?;
    let (way, peer) = ends.split_once('=')?;
    let name =
        if way == "from" { format!("receiving the data of {peer}") } else { format!("sending the data to {peer}") };
    let mut numbers = figures.split(',').map(|part| part.rsplit('=').next()?.parse::<f64>().ok());
    let [done, total, left_s] = [numbers.next()??, numbers.next()??, numbers.next()??];
    Some(Work { name, is_bytes: true, done, total: total.max(done), left_s: (left_s >= 0.0).then_some(left_s) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_follows_the_pace_so_far() {
        let text = "rdb_bgsave_in_progress:1\nrdb_current_bgsave_time_sec:10\ncurrent_save_keys_processed:200\n\
                    current_save_keys_total:1000\n";
        let all = work(&Info::parse(text));
        assert_eq!((all.len(), all[0].name.as_str(), all[0].left_s), (1, "saving", Some(40.0)));
        assert!((all[0].share() - 0.2).abs() < 1e-9);
    }

    #[test]
    fn each_kind_has_its_line() {
        let text = "loading:1\nloading_loaded_bytes:5\nloading_total_bytes:10\naof_rewrite_in_progress:1\n\
                    sync0:from=::1:6379,bytes=7,of=-1,eta_seconds=-1\nsync1:to=h:1,bytes=7,of=28,eta_seconds=3\n";
        let all = work(&Info::parse(text));
        let names: Vec<_> = all.iter().map(|work| (work.name.as_str(), work.share())).collect();
        assert_eq!(
            names,
            [
                ("loading the file", 0.5),
                ("rewriting the append-only file", 0.0),
                ("receiving the data of ::1:6379", 1.0),
                ("sending the data to h:1", 0.25)
            ]
        );
        assert!(work(&Info::default()).is_empty());
    }
}

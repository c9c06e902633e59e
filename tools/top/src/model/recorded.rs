//! Replies of a server, as tests need them: recorded, shortened, and given names that are worth a test.

use varve_testkit::RespValue;

use super::{Look, Model};
use crate::questions::Question;

/// CLIENT LIST's text.
pub(crate) const CLIENTS: &str = "\
id=7 addr=127.0.0.1:40356 laddr=127.0.0.1:7391 fd=23 name= age=3 idle=0 flags=N db=0 sub=0 psub=0 ssub=0 multi=-1 qbuf=26 \
qbuf-free=0 argv-mem=10 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=2048 events=r cmd=client|list user=default redir=-1 resp=2
id=8 addr=127.0.0.1:40357 laddr=127.0.0.1:7391 fd=24 name=batch age=9 idle=4 flags=x db=2 sub=0 psub=0 ssub=0 multi=3 qbuf=0 \
qbuf-free=0 argv-mem=0 multi-mem=60 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=900 events=r cmd=set user=eve redir=-1 resp=3
id=9 addr=[::1]:40358 laddr=[::1]:7391 fd=25 name=worker age=100 idle=50 flags=b db=0 sub=0 psub=0 ssub=0 multi=-1 qbuf=0 \
qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=970 events=r cmd=blpop user=default redir=-1 resp=2
";

/// INFO, as it stands after this number of seconds.
pub(crate) fn info(second: u64) -> RespValue {
    let calls = 1000 * second;
    let text = format!(
        "# Server\r\nredis_version:7.0.15\r\nvarve_version:0.1.0\r\nrun_id:abc\r\nuptime_in_seconds:{second}\r\n\
         # Clients\r\nconnected_clients:3\r\nblocked_clients:1\r\n\
         # Memory\r\nused_memory:1253030\r\nused_memory_rss:16801792\r\nused_memory_peak:1296873\r\nmaxmemory:524288000\r\n\
         # Persistence\r\nloading:0\r\nrdb_bgsave_in_progress:1\r\nrdb_current_bgsave_time_sec:4\r\n\
         current_save_keys_processed:1000\r\ncurrent_save_keys_total:4000\r\nrdb_changes_since_last_save:12\r\n\
         rdb_last_bgsave_status:ok\r\naof_enabled:0\r\n\
         # Stats\r\ntotal_commands_processed:{calls}\r\ntotal_net_input_bytes:{}\r\ntotal_net_output_bytes:{}\r\n\
         keyspace_hits:{}\r\nkeyspace_misses:{second}\r\nexpired_keys:5\r\nevicted_keys:0\r\n\
         # Replication\r\nrole:master\r\nconnected_slaves:1\r\nmaster_repl_offset:1000\r\n\
         slave0:ip=10.0.0.2,port=7000,state=online,offset=900,lag=1\r\n\
         # CPU\r\nused_cpu_sys:{second}.25\r\nused_cpu_user:0.5\r\n\
         # Commandstats\r\ncmdstat_get:calls={calls},usec={},usec_per_call=0.25,rejected_calls=0,failed_calls=0\r\n\
         cmdstat_zadd:calls={second},usec={calls},usec_per_call=1000,rejected_calls=0,failed_calls=0\r\n\
         cmdstat_ping:calls=7,usec=1,usec_per_call=0.1,rejected_calls=0,failed_calls=0\r\n\
         # Latencystats\r\nlatency_percentiles_usec_get:p50=0.183,p99=0.991,p99.9=5.631\r\n\
         # Background\r\nlock_holds:count=80002,p50_us=0.415,p99_us=4.607,p99.99_us=69.631,max_us=281.158\r\n\
         segments_sealed:2\r\nsegments_utilisation:0,0,0,0,0,0,0,1,0,1\r\n\
         # Keyspace\r\ndb0:keys=4913,expires=1,avg_ttl=0\r\n",
        200 * second,
        100 * second,
        19 * second,
        calls / 4,
    );
    RespValue::Bulk(text.into_bytes())
}

/// Names and values: texts are bulk strings, numbers integers.
fn map(pairs: &[(&str, RespValue)]) -> RespValue {
    RespValue::Array(pairs.iter().flat_map(|(name, value)| [bulk(name), value.clone()]).collect())
}

fn bulk(text: &str) -> RespValue {
    RespValue::Bulk(text.as_bytes().to_vec())
}

fn int(number: i64) -> RespValue {
    RespValue::Integer(number)
}

fn array(parts: Vec<RespValue>) -> RespValue {
    RespValue::Array(parts)
}

/// HOTKEYS TOP's reply.
pub(crate) fn hot_keys() -> RespValue {
    let key = |name: &str, a_second: i64, percent: i64| {
        map(&[("key", bulk(name)), ("db", int(0)), ("a-second", int(a_second)), ("percent", int(percent))])
    };
    map(&[
        ("by-calls", array(vec![key("myzset", 9947, 26), key("user:1", 9059, 24)])),
        ("by-cpu-time-ns", array(vec![key("myzset", 18_691_634, 62)])),
        ("by-net-bytes", array(vec![key("big", 457_570, 39)])),
    ])
}

/// MEMORY PREFIXES' reply.
pub(crate) fn prefixes() -> RespValue {
    let one =
        |name: &str, keys: i64, bytes: i64| map(&[("prefix", bulk(name)), ("keys", int(keys)), ("bytes", int(bytes))]);
    array(vec![one("user:", 4912, 194_571), one("big", 1, 5777)])
}

/// MEMORY LARGEST's reply.
pub(crate) fn largest() -> RespValue {
    array(vec![map(&[
        ("key", bulk("big")),
        ("type", bulk("list")),
        ("db", int(0)),
        ("bytes", int(3846)),
        ("seen-seconds-ago", int(1)),
    ])])
}

/// MEMORY EXPIRIES' reply.
pub(crate) fn expiries() -> RespValue {
    let one = |within: i64, keys: i64, bytes: i64| {
        map(&[("within-seconds", int(within)), ("keys", int(keys)), ("bytes", int(bytes))])
    };
    array(vec![one(60, 1, 50), one(3600, 12, 700), one(86_400, 0, 0), one(604_800, 0, 0)])
}

/// SLOWLOG GET's reply.
pub(crate) fn slow() -> RespValue {
    let words = array(["sort", "a\x1b[31m", "by", "nosort"].map(bulk).to_vec());
    let entry = vec![int(3), int(1_795_457_234), int(12_345), words, bulk("127.0.0.1:40302"), bulk("worker")];
    array(vec![array(entry)])
}

/// SEGMENTS' reply.
pub(crate) fn segments() -> RespValue {
    let one = |state: &str, used: i64, live: i64| {
        let class = ("class", bulk("ordinary"));
        map(&[("state", bulk(state)), class, ("segment", int(0)), ("used", int(used)), ("live-bytes", int(live))])
    };
    array(vec![one("open", 1000, 750), one("sealed", 0, 0), one("draining", 8_388_608, 100)])
}

/// LATENCY HISTOGRAM's reply after this number of calls of GET.
pub(crate) fn histograms(calls: i64) -> RespValue {
    let sums = [1, calls / 2, 2, calls - 10, 66, calls].map(int).to_vec();
    map(&[("get", map(&[("calls", int(calls)), ("histogram_usec", array(sums))]))])
}

/// The answers to everything, after this number of seconds.
pub(crate) fn look(second: u64) -> Look {
    let calls = i64::try_from(1000 * second).expect("a small number");
    Look::of([
        (Question::Info, Ok(info(second))),
        (Question::Histogram, Ok(histograms(calls))),
        (Question::HotKeys, Ok(hot_keys())),
        (Question::Prefixes, Ok(prefixes())),
        (Question::Largest, Ok(largest())),
        (Question::Expiries, Ok(expiries())),
        (Question::Clients, Ok(RespValue::Bulk(CLIENTS.into()))),
        (Question::SlowLog, Ok(slow())),
        (Question::Segments, Ok(segments())),
    ])
}

/// A model of two looks, a second apart.
pub(crate) fn model() -> Model {
    let mut model = Model::default();
    let (before, mut now) = (look(1), look(2));
    now.at = before.at + std::time::Duration::from_secs(1);
    model.add(before);
    model.add(now);
    model
}

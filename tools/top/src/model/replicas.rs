//! Replication, of INFO: whom the server follows, and who follows it.

use super::info::Info;

/// A server that follows this one.
#[derive(Debug, PartialEq)]
pub(crate) struct Replica {
    pub(crate) address: String,
    pub(crate) state: String,
    /// Bytes of the stream that it has not acknowledged.
    pub(crate) behind: f64,
    /// Seconds since it was heard.
    pub(crate) lag_s: f64,
}

/// The replicas, in the order of their numbers in INFO.
pub(crate) fn replicas(info: &Info) -> Vec<Replica> {
    let offset = info.number("master_repl_offset");
    let mut all: Vec<(u32, Replica)> = Vec::new();
    for (number, list) in info.family("slave") {
        // Other fields begin with the same word.
        let Ok(number) = number.parse() else { continue };
        let replica = Replica {
            address: format!("{}:{}", list.text("ip"), list.text("port")),
            state: list.text("state").to_owned(),
            behind: (offset - list.number("offset")).max(0.0),
            lag_s: list.number("lag"),
        };
        all.push((number, replica));
    }
    all.sort_by_key(|(number, _)| *number);
    all.into_iter().map(|(_, replica)| replica).collect()
}

/// A sentence about the server that this one follows.
pub(crate) fn primary(info: &Info) -> String {
    if info.text("role") != "slave" {
        return "follows nobody".into();
    }
    let (host, port) = (info.text("master_host"), info.text("master_port"));
    let (link, heard_s) = (info.text("master_link_status"), info.number("master_last_io_seconds_ago"));
    let heard = if heard_s < 0.0 { String::new() } else { format!(", heard {heard_s} s ago") };
    format!("follows {host}:{port}: the link is {link}{heard}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_is_behind_by_what_it_has_not_acknowledged() {
        let text = "role:master\nslave_expires_tracked_keys:0\nmaster_repl_offset:1000\n\
                    slave1:ip=::1,port=7001,state=wait_bgsave,offset=0,lag=0\n\
                    slave0:ip=10.0.0.2,port=7000,state=online,offset=900,lag=1\n";
        let info = Info::parse(text);
        let all = replicas(&info);
        assert_eq!((all.len(), &*all[0].address, all[0].behind), (2, "10.0.0.2:7000", 100.0));
        assert_eq!(primary(&info), "follows nobody");
        let info = Info::parse(
            "role:slave\nmaster_host:a\nmaster_port:1\nmaster_link_status:up\nmaster_last_io_seconds_ago:2\n",
        );
        assert_eq!(primary(&info), "follows a:1: the link is up, heard 2 s ago");
    }
}

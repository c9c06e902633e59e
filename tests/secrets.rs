//! Core dumps of the server: by the kernel's flags of its mappings, data is left out unless the setting says otherwise.

#![forbid(unsafe_code)]

use varve_testkit::{Launch, Server};

/// Bytes of addresses that only the range of the segments has.
const RANGE_BYTES_MIN: u64 = 4 << 30;

/// The kernel's flags of the mappings that a server's data lies in: those of the range of the segments.
fn flags_of_data(server: &Server) -> Vec<String> {
    let text = std::fs::read_to_string(format!("/proc/{}/smaps", server.pid())).expect("its mappings");
    let (mut flags, mut bytes) = (Vec::new(), 0);
    for line in text.lines() {
        if let Some(found) = line.strip_prefix("VmFlags:") {
            if bytes >= RANGE_BYTES_MIN {
                flags.push(found.to_owned());
            }
        } else if let Some(size) = line.strip_prefix("Size:") {
            bytes = size.trim().trim_end_matches(" kB").parse::<u64>().expect("a size") << 10;
        }
    }
    flags
}

#[test]
fn core_dumps_have_no_data_unless_the_setting_says_so() {
    for (setting, is_left_out) in [("no", true), ("yes", false)] {
        let server = Launch::varve().config(format!("core-dumps-with-data {setting}")).start().expect("Varve starts");
        assert_eq!(server.client().cmd("SET key value").text(), "OK");
        let flags = flags_of_data(&server);
        assert!(!flags.is_empty(), "the range of the segments");
        assert!(flags.iter().all(|flags| flags.contains(" dd") == is_left_out), "{setting}: {flags:?}");
    }
}

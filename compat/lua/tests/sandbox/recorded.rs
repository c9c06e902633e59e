//! Scripts and the replies that redis-server 7.0.15 gave to them.
//!
//! `cases/*.txt`: a line `> ` and the script, a line `< ` and the reply with its bytes escaped. Another reply than the
//! recorded one stands in a line `= `, with the reason in a line `# ` above. `VARVE_RECORD=127.0.0.1:6379` writes the
//! replies of the server there into the files.

use crate::host::{TestHost, eval_with, state};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

fn files() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/sandbox/cases");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// EVAL on a server; the whole reply, which ends when nothing more comes for a while.
fn ask(server: &str, script: &str) -> String {
    let mut stream = TcpStream::connect(server).unwrap();
    let request = format!("*3\r\n$4\r\nEVAL\r\n${}\r\n{script}\r\n$1\r\n0\r\n", script.len());
    stream.write_all(request.as_bytes()).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut reply = Vec::new();
    let mut buffer = [0; 1 << 16];
    while let Ok(n @ 1..) = stream.read(&mut buffer) {
        reply.extend_from_slice(&buffer[..n]);
    }
    reply.escape_ascii().to_string()
}

#[test]
fn replies_are_those_of_redis_server() {
    let server = std::env::var("VARVE_RECORD").ok();
    let mut wrong = Vec::new();
    for path in files() {
        let text = fs::read_to_string(&path).unwrap();
        let (mut state, mut host) = (state(), TestHost::default());
        let (mut script, mut recorded) = ("", String::new());
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            if let Some(text) = line.strip_prefix("> ") {
                script = text;
                recorded += &format!("{line}\n");
                if let Some(server) = &server {
                    recorded += &format!("< {}\n", ask(server, script));
                }
                continue;
            }
            if server.is_none() || !line.starts_with("< ") {
                recorded += &format!("{line}\n");
            }
            let differs = lines.peek().is_some_and(|next| next.starts_with("= ") || next.starts_with("# "));
            if let Some(expected) = line.strip_prefix("< ").filter(|_| !differs).or(line.strip_prefix("= ")) {
                let reply = eval_with(&mut state, &mut host, script.as_bytes(), &[], &[]).escape_ascii().to_string();
                if reply != expected {
                    wrong.push(format!("{script}\n  recorded {expected}\n  got      {reply}"));
                }
            }
        }
        if server.is_some() {
            fs::write(&path, recorded).unwrap();
        }
    }
    assert!(server.is_some() || wrong.is_empty(), "{} replies differ:\n{}", wrong.len(), wrong.join("\n"));
}

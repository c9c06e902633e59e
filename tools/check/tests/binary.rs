//! The program itself: how it ends, what goes to which of its outputs, what it asks and what it does to a file.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use varve_testkit::skip::has_or_skipped;

const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n";

/// A folder that ends with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("varve-check-binary-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder for temporary files");
        Folder(path)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).expect("room");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs the program with these words behind its name and this on its standard input.
fn run(words: &[&str], file: Option<&Path>, input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_varve-check"));
    command.args(words).args(file).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program runs");
    // A program that asks nothing may be gone already.
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    child.wait_with_output().expect("it ends")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("no signal ends it")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

/// An RDB file with this number of keys, and no sum.
fn rdb(keys: u32) -> Vec<u8> {
    let mut file = b"REDIS0010\xfe\x00".to_vec();
    for key in 0..keys {
        file.extend_from_slice(&[&[0, 4][..], &key.to_be_bytes(), b"\x05value"].concat());
    }
    [&file[..], &[0xff], &[0; 8]].concat()
}

#[test]
fn a_program_learns_from_the_exit_code_whether_a_file_is_sound() {
    let folder = Folder::new("codes");
    let sound = folder.file("sound.rdb", &rdb(3));
    let cut = folder.file("cut.rdb", &rdb(3)[..20]);
    let whole = folder.file("whole.aof", SET);
    let torn = folder.file("torn.aof", &SET[..20]);
    let manifest = folder.file("a.manifest", b"file whole.aof seq 1 type i\n");
    let lost = folder.file("lost.manifest", b"file gone.aof seq 1 type i\n");
    let gone = folder.0.join("gone");
    for (words, file, expected) in [
        (&["rdb"][..], &sound, 0),
        (&["rdb"], &cut, 1),
        (&["rdb", "--json"], &cut, 1),
        (&["rdb"], &gone, 1),
        (&["aof"], &whole, 0),
        (&["aof"], &torn, 1),
        (&["aof"], &manifest, 0),
        (&["aof"], &lost, 1),
        (&["aof"], &gone, 1),
        (&["manifest"], &manifest, 0),
        (&["manifest"], &lost, 1),
        (&["manifest"], &gone, 1),
        // Nothing of an RDB file is mended, and nothing is taken for a yes where nothing is asked.
        (&["rdb", "--fix"], &sound, 2),
        (&["aof", "--yes"], &whole, 2),
        (&["other"], &sound, 2),
    ] {
        let output = run(words, Some(file), "");
        assert_eq!(code(&output), expected, "{words:?} {}: {}", file.display(), text(&output.stderr));
    }
    assert_eq!(code(&run(&[], None, "")), 2, "without a word there is nothing to do");
    let gone = run(&["rdb"], Some(&gone), "");
    assert!(gone.stdout.is_empty() && text(&gone.stderr).starts_with("varve-check: "), "{}", text(&gone.stderr));
    assert!(text(&gone.stderr).contains("No such file"), "{}", text(&gone.stderr));
}

#[test]
fn the_report_is_json_where_that_is_asked_for() {
    let folder = Folder::new("json");
    let file = folder.file("a.rdb", &rdb(3));
    let output = run(&["rdb", "--json", "--largest", "2"], Some(&file), "");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON and nothing else");
    assert_eq!((&report["keys"], &report["magic"], &report["version"]), (&3.into(), &"Redis".into(), &10.into()));
    assert_eq!(report["types"]["string"]["keys"], 3);
    assert_eq!(report["largest"].as_array().map(Vec::len), Some(2));
    assert!(report["damage"].is_null() && output.stderr.is_empty());
    let damaged = [&rdb(1)[..rdb(1).len() - 9], b"\x1c\x03key", &[0xff], &[0; 8]].concat();
    let file = folder.file("damaged.rdb", &damaged);
    let output = run(&["rdb", "--json"], Some(&file), "");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON of a damaged file too");
    assert_eq!(code(&output), 1);
    assert_eq!((&report["damage"]["key"], &report["keys"]), (&"key".into(), &1.into()));
    assert!(report["damage"]["offset"].as_u64().is_some_and(|at| at < damaged.len() as u64), "{report}");
}

/// A file of Valkey in its envelope, as one block that is not compressed.
fn enclosed(plain: &[u8]) -> Vec<u8> {
    let length = plain.len() as u32 | 1 << 31;
    let head = b"VCS\x01\x01\x00\x01\x04\x22\x4d\x18\x60\x40\x82";
    [&head[..], &length.to_le_bytes(), plain, &[0; 4]].concat()
}

#[test]
fn files_of_valkey_are_checked_compressed_or_not_and_as_bases() {
    let folder = Folder::new("valkey");
    let plain = [&b"VALKEY081\x00\x01k\x01v\xff"[..], &[0; 8]].concat();
    let manifest = b"file base.rdb seq 1 type b\nfile whole.aof seq 1 type i\n";
    let manifest = folder.file("a.manifest", manifest);
    folder.file("whole.aof", SET);
    for file in [plain.clone(), enclosed(&plain)] {
        let path = folder.file("base.rdb", &file);
        let output = run(&["rdb", "--json"], Some(&path), "");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!((code(&output), &report["keys"], &report["version"]), (0, &1.into(), &81.into()));
        assert_eq!(report["read_bytes"], file.len());
        let output = run(&["aof"], Some(&manifest), "");
        assert_eq!(code(&output), 0, "{}", text(&output.stdout));
        assert!(text(&output.stdout).contains("1 keys, 0 commands, whole"), "{}", text(&output.stdout));
    }
    let damaged = [&b"VALKEY081\x1c\x01k\xff"[..], &[0; 8]].concat();
    let output = run(&["rdb"], Some(&folder.file("damaged.rdb", &enclosed(&damaged))), "");
    let place = "at byte 12, in a value, at key \"k\": type 28 of version 81 of Valkey is not known";
    let expected = format!("damaged {place} (the byte is one of the uncompressed file)\n");
    assert!(code(&output) == 1 && text(&output.stdout).ends_with(&expected), "{}", text(&output.stdout));
}

/// More keys than lie between two looks at the bar, so that one would be drawn.
#[test]
fn nothing_but_the_report_is_written_where_nobody_looks() {
    let folder = Folder::new("bar");
    let file = folder.file("long.rdb", &rdb(20_000));
    let output = run(&["rdb"], Some(&file), "");
    assert_eq!((code(&output), text(&output.stderr)), (0, ""), "standard error is no terminal: there is no bar");
    assert!(!output.stdout.contains(&0x1b) && !output.stdout.contains(&b'\r'), "no control characters");
    assert!(text(&output.stdout).ends_with("sound: every byte was read, and a start takes it\n"));
}

/// The program `script` gives it a terminal. The bar is gone again when the report is written.
#[test]
fn issue_13_a_bar_is_drawn_on_a_terminal() {
    if !has_or_skipped("script") {
        return;
    }
    let folder = Folder::new("terminal");
    let file = folder.file("long.rdb", &rdb(20_000));
    let line = format!("'{}' rdb '{}'", env!("CARGO_BIN_EXE_varve-check"), file.display());
    let mut command = Command::new("script");
    // No bar is drawn on a terminal that cannot move its cursor.
    command.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").stdin(Stdio::null());
    let output = command.output().expect("it runs");
    let shown = text(&output.stdout);
    assert_eq!(code(&output), 0, "{shown}");
    assert!(shown.contains("░ ") && shown.contains(" KiB of ") && shown.contains(" left"), "{shown:?}");
    let report = shown.rsplit('\x1b').next().expect("a piece");
    assert!(!report.contains('░') && report.contains("sound: every byte was read"), "{shown:?}");
}

#[test]
fn fix_cuts_a_torn_file_and_asks_before_it_cuts_a_damaged_one() {
    let folder = Folder::new("fix");
    let file = folder.file("a.aof", &[SET, &SET[..9]].concat());
    let output = run(&["aof", "--fix"], Some(&file), "");
    assert_eq!((code(&output), text(&output.stderr)), (0, ""), "what is torn was never whole: nothing is asked");
    assert_eq!(fs::read(&file).expect("it is there"), SET);
    assert!(text(&output.stdout).contains("is cut at byte 27"), "{}", text(&output.stdout));

    let damaged = [SET, b"*1\r\n?", SET].concat();
    for (answer, is_cut) in [("", false), ("n\n", false), ("\n", false), ("y\n", true), ("Yes\n", true)] {
        fs::write(&file, &damaged).expect("room");
        let output = run(&["aof", "--fix"], Some(&file), answer);
        assert!(text(&output.stderr).ends_with("Continue? [y/N]: "), "{}", text(&output.stderr));
        assert_eq!(code(&output), i32::from(!is_cut), "{answer:?}");
        let left = if is_cut { SET } else { &damaged };
        assert_eq!(fs::read(&file).expect("it is there"), left, "{answer:?}");
    }
    fs::write(&file, &damaged).expect("room");
    let output = run(&["aof", "--fix", "--yes"], Some(&file), "");
    assert_eq!((code(&output), text(&output.stderr)), (0, ""), "nothing is asked");
    assert_eq!(fs::read(&file).expect("it is there"), SET);
    // Without --fix nothing is touched.
    fs::write(&file, &damaged).expect("room");
    assert_eq!(code(&run(&["aof"], Some(&file), "y\n")), 1);
    assert_eq!(fs::read(&file).expect("it is there"), damaged);
}

#[test]
fn help_says_what_is_mended_and_what_is_not() {
    let of = |words: &[&str]| {
        let output = run(words, None, "");
        assert_eq!((code(&output), text(&output.stderr)), (0, ""));
        // Lines are as wide as the terminal.
        text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let help = of(&["rdb", "--help"]);
    assert!(help.contains("nothing in it can be mended") && !help.contains("--fix"), "{help}");
    assert!(of(&["aof", "--help"]).contains("--fix"));
    assert!(of(&["--help"]).contains("rdb") && of(&["--version"]).starts_with("varve-check "));
}

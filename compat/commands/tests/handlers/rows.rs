//! Tests of the rows together: lookup, renames, and the errors of dispatch.

use varve_catalog::RenameError;
use varve_commands::commands;
use varve_exec::{Command, CommandTable};
use varve_protocol::{OwnedArgs, Reply};

fn all() -> &'static [Command] {
    commands().commands()
}

/// The error that dispatch answers to a request that cannot run.
fn refusal(request: &[&str]) -> String {
    let owned = OwnedArgs::from_parts(request);
    let mut out = Reply::new();
    let unresolved = CommandTable::new(commands()).resolve(owned.args()).expect_err("refused");
    unresolved.error(owned.args()).reply(&mut out);
    String::from_utf8(out.to_vec()).unwrap()
}

#[test]
fn every_command_is_found_in_any_case() {
    let table = CommandTable::new(commands());
    for command in all() {
        for name in [command.name.to_owned(), command.name.to_uppercase()] {
            assert!(std::ptr::eq(table.get(name.as_bytes()).unwrap(), command), "{name}");
        }
    }
    assert_eq!((table.len(), table.iter().count()), (all().len(), all().len()));
    for name in ["", "pin", "pingg", "p\u{e9}ng", "a name longer than any command has"] {
        assert!(table.get(name.as_bytes()).is_none(), "{name}");
    }
}

#[test]
fn ids_are_dense() {
    let mut ids: Vec<u16> =
        all().iter().flat_map(|c| std::iter::once(c.id).chain(c.subcommands.iter().map(|s| s.id))).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..commands().ids() as u16).collect::<Vec<_>>());
}

#[test]
fn renamed_commands_answer_to_the_new_name_only() {
    let mut table = CommandTable::new(commands());
    table.rename(b"PING", b"pong").unwrap();
    assert!(table.get(b"ping").is_none() && table.get(b"PONG").unwrap().name == "ping");
    assert_eq!(table.rename(b"ping", b"x"), Err(RenameError::Unknown));
    assert_eq!(table.rename(b"echo", b"pong"), Err(RenameError::Taken));
    assert!(table.get(b"echo").is_some());
    table.rename(b"pong", b"").unwrap();
    assert_eq!(table.len(), all().len() - 1);
}

#[test]
fn refusals_have_the_texts_of_redis() {
    assert_eq!(refusal(&["foo", "a", "b"]), "-ERR unknown command 'foo', with args beginning with: 'a' 'b' \r\n");
    assert_eq!(refusal(&["foo\0bar", "a\nb"]), "-ERR unknown command 'foo', with args beginning with: 'a b' \r\n");
    assert_eq!(refusal(&[""]), "-ERR unknown command '', with args beginning with: \r\n");
    let (long, a) = ("x".repeat(200), "a".repeat(128));
    let expected = format!("-ERR unknown command '{}', with args beginning with: '{a}' \r\n", "x".repeat(128));
    assert_eq!(refusal(&[&long, &"a".repeat(200), "b"]), expected);
    assert_eq!(refusal(&["ECHO"]), "-ERR wrong number of arguments for 'echo' command\r\n");
}

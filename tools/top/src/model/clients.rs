//! CLIENT LIST's lines.

use super::reply::shown;

/// A client.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Client {
    pub(crate) id: u64,
    pub(crate) address: String,
    pub(crate) name: String,
    pub(crate) user: String,
    pub(crate) db: String,
    pub(crate) command: String,
    /// The thing that it waits for; empty where it waits for nothing.
    pub(crate) waits_for: &'static str,
    pub(crate) age_s: u64,
    pub(crate) idle_s: u64,
    pub(crate) bytes: u64,
}

/// The clients of a list: those that wait first, then those that take most memory.
pub(crate) fn clients(list: &str) -> Vec<Client> {
    let mut clients: Vec<Client> = list.lines().filter(|line| !line.is_empty()).map(client).collect();
    clients.sort_by_key(|client| (client.waits_for.is_empty(), std::cmp::Reverse(client.bytes), client.id));
    clients
}

fn client(line: &str) -> Client {
    let (mut client, mut flags, mut unsent) = (Client::default(), "", 0);
    for (field, value) in line.split(' ').filter_map(|word| word.split_once('=')) {
        let number = || value.parse().unwrap_or(0);
        let text = || shown(value.as_bytes());
        match field {
            "id" => client.id = number(),
            "addr" => client.address = text(),
            "name" => client.name = text(),
            "user" => client.user = text(),
            "db" => client.db = text(),
            "cmd" => client.command = text(),
            "age" => client.age_s = number(),
            "idle" => client.idle_s = number(),
            "tot-mem" => client.bytes = number(),
            "omem" => unsent = number(),
            "flags" => flags = value,
            _ => {}
        }
    }
    client.waits_for = waits_for(flags, &client.command, unsent);
    client
}

/// Of the letters of `flags`, as CLIENT LIST documents them, the last command and the bytes of replies that are unsent.
fn waits_for(flags: &str, command: &str, unsent: u64) -> &'static str {
    let has = |letter: char| flags.contains(letter);
    match () {
        () if has('c') => "its end",
        () if has('b') && (command == "wait" || command == "waitaof") => "replicas",
        () if has('b') && is_blocking(command) => "keys",
        () if has('b') => "the end of a pause",
        () if unsent > 0 && !has('S') => "itself: unread replies",
        () if has('x') => "EXEC",
        () => "",
    }
}

/// Does this command wait for keys?
fn is_blocking(command: &str) -> bool {
    command.starts_with('b') || command.starts_with("xread")
}

#[cfg(test)]
mod tests {
    use super::super::recorded;
    use super::*;

    #[test]
    fn those_that_wait_stand_first() {
        let clients = clients(recorded::CLIENTS);
        let shown: Vec<_> = clients.iter().map(|client| (client.id, client.waits_for)).collect();
        assert_eq!(shown, [(9, "keys"), (8, "EXEC"), (7, "")]);
        assert_eq!((&*clients[0].command, &*clients[0].user, clients[0].bytes), ("blpop", "default", 970));
    }

    #[test]
    fn reasons_follow_flags() {
        assert_eq!(waits_for("b", "wait", 0), "replicas");
        assert_eq!(waits_for("b", "set", 0), "the end of a pause");
        assert_eq!((waits_for("N", "get", 10), waits_for("S", "replconf", 10)), ("itself: unread replies", ""));
    }
}

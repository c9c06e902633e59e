//! MIGRATE: its row, and its beginning.

use varve_catalog::{
    Acl, ArgKind, Argument, Begin, Find, Flags, Group, KeyFlags, KeySpec, KeysOption, Row, Secret, SecretOption, arg,
    block, key, one_of, word,
};
use varve_exec::{CmdResult, Command, CommandError, Ctx, Exec, FileRows};

use super::options::Options;
use super::transfer::{Moved, Transfer};
use crate::grammar::integer;

pub(super) const ROWS: FileRows = &[MIGRATE];

/// MIGRATE host port key | "" db timeout [COPY] [REPLACE] [AUTH password | AUTH2 name password] [KEYS key [key ...]]
fn migrate(ctx: &mut Ctx<'_, '_>) -> CmdResult {
    let options = Options::parse(&ctx.args)?;
    let mut named = Vec::new();
    for at in options.keys.0..options.keys.1 {
        let key = ctx.key(at);
        if ctx.tx.touch(&key) {
            named.push(key.bytes);
        }
    }
    if named.is_empty() {
        ctx.out.simple("NOKEY");
        return Ok(());
    }
    // It waits for another server, which a transaction cannot.
    if !ctx.session.takes_late_reply() {
        return Err(CommandError::IN_TRANSACTION);
    }
    named.sort_unstable();
    named.dedup();
    let moved = named.into_iter().map(Moved::new).collect();
    let host = String::from_utf8_lossy(ctx.args.get(1)).into_owned();
    let port = integer(ctx.args.get(2)).ok().and_then(|port| u16::try_from(port).ok()).unwrap_or(0);
    let idle_max = options.idle_max;
    let mut rest = Transfer::new((host, port, idle_max), ctx.tx.db(), options, moved);
    rest.pin_version(ctx.session.rdb_version());
    ctx.go_on(Box::new(rest));
    Ok(())
}

/// The option behind which the keys are, where there are several. The words are those of [`Options`].
const KEYS: KeysOption = KeysOption { word: "KEYS", from: 6, takes: &[("AUTH", 1), ("AUTH2", 2)], told_from: -2 };

/// A key is taken away.
const MOVES: KeyFlags = KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE);

const AUTHENTICATION: Argument = one_of(
    "authentication",
    &[
        arg("password", ArgKind::String).token("AUTH").since("4.0.7").optional(),
        block("username_password", &[arg("username", ArgKind::String), arg("password", ArgKind::String)])
            .token("AUTH2")
            .since("6.0.0")
            .optional(),
    ],
)
.optional();

const MIGRATE: Command = Command::new(
    Exec::Keys(migrate),
    Row::new("migrate", Group::Generic, -6, "2.6.0")
        .about(
            "Moves keys to another server.",
            "O(N) in the bytes of the values, here and at the other server, and on the way there",
        )
        .flags(&[Flags::WRITE])
        .acl(&[Acl::KEYSPACE, Acl::DANGEROUS])
        .keys(&[
            KeySpec {
                begin: Begin::IndexWithout(3, KEYS),
                find: Find::Range { last: 0, step: 1, limit: 0 },
                flags: MOVES,
                notes: "",
            },
            KeySpec {
                begin: Begin::Option(KEYS),
                find: Find::Range { last: -1, step: 1, limit: 0 },
                flags: MOVES.and(KeyFlags::INCOMPLETE),
                notes: "",
            },
        ])
        .secret(Secret::Options {
            first: 6,
            options: &[
                SecretOption { word: "COPY", takes: 0, secret: false },
                SecretOption { word: "REPLACE", takes: 0, secret: false },
                SecretOption { word: "AUTH", takes: 1, secret: true },
                SecretOption { word: "AUTH2", takes: 2, secret: true },
                SecretOption { word: "KEYS", takes: 1, secret: false },
            ],
        })
        .tips(&["nondeterministic_output"])
        .history(&[
            ("3.0.0", "`COPY` and `REPLACE`."),
            ("3.0.6", "`KEYS`."),
            ("4.0.7", "`AUTH`."),
            ("6.0.0", "`AUTH2`."),
        ])
        .args(&[
            arg("host", ArgKind::String),
            arg("port", ArgKind::Integer),
            one_of("key_or_empty_string", &[key("key", 0), word("empty_string", "")]),
            arg("destination-db", ArgKind::Integer),
            arg("timeout", ArgKind::Integer),
            word("copy", "COPY").since("3.0.0").optional(),
            word("replace", "REPLACE").since("3.0.0").optional(),
            AUTHENTICATION,
            key("key", 1).token("KEYS").since("3.0.6").optional().multiple(),
        ]),
);

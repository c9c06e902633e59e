//! The texts of errors and other fixed replies, one by one, in RESP2 and RESP3: every command with too few and too many
//! arguments, options that exclude each other, numbers that are none, and what COMMAND says of each. All mismatches are
//! listed at once, so that one run shows what is left.

#![forbid(unsafe_code)]

use varve_testkit::{Client, Launch, RespValue, seed};
use varve_tests::compare::{self, Rule, sorted};

/// The commands of the groups, all of which the peer has.
const COMMANDS: &[&str] = &[
    "append",
    "decr",
    "decrby",
    "get",
    "getdel",
    "getex",
    "getrange",
    "getset",
    "incr",
    "incrby",
    "incrbyfloat",
    "lcs",
    "mget",
    "mset",
    "msetnx",
    "psetex",
    "set",
    "setex",
    "setnx",
    "setrange",
    "strlen",
    "substr",
    "copy",
    "del",
    "exists",
    "expire",
    "expireat",
    "expiretime",
    "keys",
    "move",
    "object",
    "persist",
    "pexpire",
    "pexpireat",
    "pexpiretime",
    "pttl",
    "randomkey",
    "rename",
    "renamenx",
    "scan",
    "touch",
    "ttl",
    "type",
    "unlink",
    "auth",
    "echo",
    "hello",
    "ping",
    "select",
    "client",
    "info",
    "config",
    "dbsize",
    "flushall",
    "flushdb",
    "swapdb",
    "time",
    "memory",
    "slowlog",
    "debug",
    "lolwut",
];

/// Containers and their subcommands.
const SUBCOMMANDS: &[(&str, &[&str])] = &[
    ("object", &["encoding", "freq", "idletime", "refcount", "help"]),
    ("client", &["id", "getname", "setname", "list", "info", "kill", "no-evict", "reply", "help"]),
    ("config", &["get", "set", "resetstat", "rewrite", "help"]),
    ("memory", &["usage", "doctor", "stats", "malloc-stats", "purge", "help"]),
    ("slowlog", &["get", "len", "reset", "help"]),
    ("command", &["count", "docs", "getkeys", "getkeysandflags", "info", "list", "help"]),
];

/// Lines that say something of their own. A space separates arguments; `~` stands for an empty one.
const LINES: &str = "\
set k v nx xx|set k v xx nx|set k v ex|set k v ex 0|set k v ex -1|set k v ex x|set k v px 10 ex 10|set k v keepttl ex 10|\
set k v exat 0|set k v pxat -5|set k v ex 9223372036854775807|set k v foo|set k v get get|set k v nx get|set k v get xx|\
getex k ex|getex k persist ex 1|getex k ex 0|getex k px x|getex k exat -1|getex k foo|getex nothing ex 10|\
setex k 0 v|setex k -1 v|setex k x v|psetex k 0 v|psetex k 9223372036854775807 v|setrange k -1 v|setrange k 536870912 v|\
setrange k x v|setrange nothing 0 ~|getrange k x 1|getrange k 0 x|incrby k x|incrby k 9223372036854775808|decrby k -9223372036854775808|\
incrbyfloat k x|incrbyfloat k inf|incrbyfloat k nan|incrbyfloat k ~|mset a|mset a 1 b|msetnx a 1 b|lcs a b idx len|lcs a b foo|\
lcs a b minmatchlen|lcs a b minmatchlen x idx|expire k x|expire k 10 nx xx|expire k 10 gt lt|expire k 10 nx gt|expire k 10 foo|\
expire k 9223372036854775807|pexpire k 9223372036854775807|expireat k x|pexpireat k 9223372036854775808|copy a a|copy k b db x|\
copy k b db 16|copy k b db -1|copy k k db 0|copy k b foo|copy k b db|move k 0|move k 16|move k x|move k -1|rename nothing a|\
renamenx nothing a|rename k k|renamenx k k|select x|select 16|select -1|select 99999999999|swapdb 0 16|swapdb a b|swapdb 0 b|\
scan x|scan 0 count 0|scan 0 count x|scan 0 foo|scan 0 match|scan 0 type|scan -1 x|scan 18446744073709551616|\
object foo|object encoding nothing|object freq nothing|object freq k|object idletime nothing|object refcount nothing|\
auth x|auth a b|auth default x|hello 1|hello 4|hello x|hello 2 auth a|hello 2 auth a b|hello 2 setname|hello 2 foo|\
hello 2 setname a\u{1}b|hello 3 setname x|hello|client foo|client setname a\u{1}b|client kill foo|client kill id x|client kill id 0|\
client kill type foo|client kill user nobody|client kill skipme foo|client kill addr 1.2.3.4:5|client kill 1.2.3.4:5|client kill laddr x|\
client list type foo|client list type master|client list id|client list id x|client list foo|client no-evict foo|client no-evict on|\
client reply foo|client id x|client getname x|config foo|config set foo 1|config set maxmemory x|config set maxmemory -1|\
config set maxmemory 1 maxmemory 2|config set databases 1|config set maxmemory-policy foo|config set timeout x|\
config set hash-max-listpack-entries x|config set appendonly foo|config set save x|config set port x|config set maxclients 0|\
config set client-output-buffer-limit foo|config set loglevel foo|config set lfu-log-factor -1|config set maxmemory 1gx|\
config get|config resetstat x|config rewrite x|memory foo|memory usage|memory usage k foo|memory usage k samples x|\
memory usage k samples -1|memory usage nothing|slowlog foo|slowlog get x|slowlog get -2|slowlog len x|slowlog reset x|\
command foo|command getkeys|command getkeys get|command getkeys ping|command getkeys foo|command getkeys set a b|\
command getkeys mset a b c d|command getkeys object encoding a|command getkeysandflags set a b|command getkeysandflags set a b get|\
command getkeysandflags getex a|command getkeysandflags copy a b|command getkeysandflags del a b c|command getkeysandflags rename a b|\
command getkeysandflags lcs a b|command getkeysandflags getdel a|command getkeysandflags expire a 1|command getkeysandflags touch a|\
command list filterby foo bar|command list filterby|command list foo|command count x|command info nothing|command docs nothing|\
flushall foo|flushdb foo|flushall sync async|flushdb async sync|dbsize x|time x|randomkey x|keys|shutdown foo|shutdown abort|shutdown save nosave|\
shutdown nosave abort|debug foo|debug sleep|debug object nothing|debug set-active-expire|debug protocol foo|debug protocol string|\
debug protocol integer|debug protocol double|debug protocol null|debug protocol array|debug protocol set|debug protocol map|\
debug protocol attrib|debug protocol verbatim|debug protocol true|debug protocol false|debug protocol bignum|lolwut version x|\
foo|foo bar|foo bar baz a b c d e f g h i j k l m n o p q r s t u v w x y z|config|client|~|get|GET|gEt k k|ping a b|echo|info a b c|\
substr k 0 1|substr k 0|type|type a b|persist|ttl|object|memory|slowlog|command info get|quit";

fn pair(resp: u8) -> (varve_testkit::Server, varve_testkit::Server, Client, Client) {
    let ours = Launch::varve().start().expect("varve-server starts");
    let theirs = Launch::peer().start().expect("redis-server starts");
    let (mut a, mut b) = (ours.client(), theirs.client());
    for client in [&mut a, &mut b] {
        let hello = client.cmd(&format!("HELLO {resp}"));
        assert!(!hello.is_error(), "HELLO {resp}: {hello:?}");
        assert_eq!(client.cmd("SET k value").text(), "OK");
    }
    (ours, theirs, a, b)
}

/// Every command and subcommand with 0 to 8 arguments that mean nothing, and the lines of their own.
fn battery() -> Vec<Vec<Vec<u8>>> {
    let mut list = Vec::new();
    let words =
        |line: &str| line.split(' ').map(|w| if w == "~" { Vec::new() } else { w.as_bytes().to_vec() }).collect();
    list.extend(LINES.split('|').filter(|line| *line != "quit").map(words));
    let mut heads: Vec<Vec<&str>> = COMMANDS.iter().map(|name| vec![*name]).collect();
    heads.extend(SUBCOMMANDS.iter().flat_map(|(name, subs)| subs.iter().map(|sub| vec![*name, *sub])));
    for head in heads {
        // CLIENT KILL of its own address and REPLY OFF would end the conversation; these words do neither.
        for count in 0..9 {
            let tail = (0..count).map(|i| format!("w{i}").into_bytes());
            list.push(head.iter().map(|word| word.as_bytes().to_vec()).chain(tail).collect());
        }
    }
    list
}

fn fixed_replies(resp: u8) {
    let (_ours, _theirs, mut a, mut b) = pair(resp);
    let mut mismatches = Vec::new();
    for args in battery() {
        let (ours, theirs) = (a.call(&args), b.call(&args));
        let (Ok(ours), Ok(theirs)) = (ours, theirs) else {
            mismatches.push(format!("{}: a connection was lost", varve_tests::run::line(&args)));
            break;
        };
        if !compare::equal(compare::rule(&args), &ours, &theirs) {
            mismatches.push(format!("{}\n    varve: {ours:?}\n    peer:  {theirs:?}", varve_tests::run::line(&args)));
        }
    }
    assert!(mismatches.is_empty(), "{} mismatches in RESP{resp}:\n{}", mismatches.len(), mismatches.join("\n"));
}

#[test]
fn fixed_replies_in_resp2() {
    fixed_replies(2);
}

#[test]
fn fixed_replies_in_resp3() {
    fixed_replies(3);
}

/// COMMAND INFO of every command of the groups: flags, categories, tips and key specifications in any order, subcommands
/// only those that Varve has.
#[test]
fn command_info() {
    let (_ours, _theirs, mut a, mut b) = pair(2);
    let mut mismatches = Vec::new();
    for name in COMMANDS {
        let ours = a.cmd(&format!("COMMAND INFO {name}"));
        let theirs = b.cmd(&format!("COMMAND INFO {name}"));
        let (ours, theirs) = (without_subcommands(&ours), without_subcommands(&theirs));
        if !compare::equal(Rule::Exact, &sorted(&ours), &sorted(&theirs)) {
            mismatches.push(format!("{name}\n    varve: {ours:?}\n    peer:  {theirs:?}"));
        }
    }
    assert!(mismatches.is_empty(), "{} mismatches:\n{}", mismatches.len(), mismatches.join("\n"));
}

fn without_subcommands(reply: &RespValue) -> RespValue {
    let one = |command: &RespValue| match command {
        RespValue::Array(fields) if fields.len() == 10 => RespValue::Array(fields[..9].to_vec()),
        other => other.clone(),
    };
    reply.elements().map_or_else(|| reply.clone(), |list| RespValue::Array(list.iter().map(one).collect()))
}

/// Random bytes where a request should be: the same first reply, or none, from both; and both live on.
#[test]
fn broken_requests() {
    let seed = seed::seed("broken requests");
    let (ours, theirs, _, _) = pair(2);
    let fixed: &[&[u8]] = &[
        b"*3\r\n$3\r\nSET\r\n$1\r\nx\r\nfooz\r\n",
        b"*1\r\n$-1\r\n",
        b"*-10\r\nPING\r\n",
        b"*3000000000\r\n",
        b"*x\r\n",
        b"*1\r\nfoo\r\n",
        b"*1\r\n$2000000000\r\n",
        b"*1\r\n$x\r\n",
        b"set \"\"\"a\"\"\" b\r\nping\r\n",
        b"\r\nPING\r\n",
        b"*0\r\nPING\r\n",
        b"PING\n",
        b"  PING  \r\n",
        b"GET 'a\r\n",
        b"SET \"a\\x41\\n\" 'it\\'s'\r\n",
        b"*2147483648\r\n",
        b"*1048577\r\n",
        b"*1\r\n$536870913\r\n",
        b"*2\r\n$4\r\nECHO\r\n$3\r\nabcd\r\n",
        b"\x00\r\n",
        b"SET a \"\\x00\"\r\nGET a\r\n",
        b"*1\r\n$4\r\nPINGxx",
    ];
    let mut random = varve_testkit::Random::new(seed);
    let mut cases: Vec<Vec<u8>> = fixed.iter().map(|case| case.to_vec()).collect();
    for _ in 0..500 {
        let mut case = fixed[random.below(fixed.len())].to_vec();
        for _ in 0..=random.below(3) {
            let at = random.below(case.len());
            case[at] = *random.pick(b"*$\r\n0123456789-x\"' \0");
        }
        cases.push(case);
    }
    let mut mismatches = Vec::new();
    for case in cases {
        let first = |server: &varve_testkit::Server| {
            let mut client = server.client();
            client.queue_raw(&case);
            client.flush().expect("sent");
            // Nothing more will come: what was incomplete stays without a reply, and the end of the connection follows.
            client.stream().shutdown(std::net::Shutdown::Write).expect("half closed");
            let mut replies = Vec::new();
            while let Ok(reply) = client.read() {
                replies.push(reply);
            }
            replies
        };
        let (a, b) = (first(&ours), first(&theirs));
        if a != b {
            mismatches.push(format!("{}\n    varve: {a:?}\n    peer:  {b:?}", case.escape_ascii()));
        }
    }
    assert!(mismatches.is_empty(), "{} mismatches:\n{}", mismatches.len(), mismatches.join("\n"));
    assert_eq!(ours.client().cmd("PING").text(), "PONG");
}

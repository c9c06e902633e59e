//! Three machines, each with a server and one of Debian's Sentinels: one server leads, two follow it.
//!
//! ```text
//!   box 0: server, Sentinel ---- box 1: server, Sentinel ---- box 2: server, Sentinel
//!        `------------ all are reached by the test, which listens to what the Sentinels announce
//! ```

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use varve_testkit::{Client, Launch, RespValue, Server};
use varve_tests::network::Network;

use super::BOXES;

/// Ports of servers and of Sentinels.
const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;
/// How long a client waits for a connection, and for a reply.
const CONNECT_LIMIT: Duration = Duration::from_millis(300);
const REPLY_LIMIT: Duration = Duration::from_secs(1);
/// How long the machines may take for anything that the test waits for.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// A program under test.
#[derive(Clone, Copy)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) launch: fn() -> Launch,
}

/// Where servers and Sentinels are.
#[derive(Clone)]
pub(crate) struct Addresses {
    pub(crate) servers: [SocketAddr; BOXES],
    pub(crate) sentinels: [SocketAddr; BOXES],
}

impl Addresses {
    /// The box with this address.
    pub(crate) fn place(&self, ip: &str) -> Option<usize> {
        let ip: IpAddr = ip.parse().ok()?;
        self.servers.iter().position(|server| server.ip() == ip)
    }

    /// The box whose server this Sentinel calls the primary.
    ///
    /// # Errors
    /// The Sentinel is not reached, or names nobody.
    pub(crate) fn primary_by(&self, sentinel: usize) -> io::Result<usize> {
        let reply = connect(self.sentinels[sentinel])?.call(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "watched"])?;
        let ip = reply.elements().and_then(|reply| reply.first()?.bytes()).unwrap_or_default();
        self.place(&String::from_utf8_lossy(ip)).ok_or_else(|| io::Error::other("no primary"))
    }
}

/// A connection that does not wait for long.
///
/// # Errors
/// Errors of the operating system.
pub(crate) fn connect(address: SocketAddr) -> io::Result<Client> {
    let stream = TcpStream::connect_timeout(&address, CONNECT_LIMIT)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(REPLY_LIMIT))?;
    stream.set_write_timeout(Some(REPLY_LIMIT))?;
    Ok(Client::over(stream))
}

/// The value of a field of a text that INFO has answered.
pub(crate) fn field_of<'t>(info: &'t str, name: &str) -> &'t str {
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_default().trim_end()
}

/// A message of a Sentinel.
struct Message {
    at: Instant,
    sentinel: usize,
    channel: String,
    text: String,
}

/// All that the Sentinels have announced.
#[derive(Default)]
struct News {
    messages: Mutex<Vec<Message>>,
    is_over: AtomicBool,
}

impl News {
    fn listen(&self, sentinel: usize, address: SocketAddr) {
        while !self.is_over.load(Relaxed) {
            let heard = connect(address).and_then(|mut client| {
                client.call(&["PSUBSCRIBE", "*"])?;
                client.set_timeout(Duration::from_millis(200))?;
                self.hear(sentinel, &mut client)
            });
            drop(heard);
            thread::sleep(LOOK);
        }
    }

    fn hear(&self, sentinel: usize, client: &mut Client) -> io::Result<()> {
        while !self.is_over.load(Relaxed) {
            let message = match client.read() {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => continue,
                message => message?,
            };
            let Some([_, _, channel, text]) = message.elements() else { continue };
            let [channel, text] = [channel, text].map(RespValue::text);
            self.messages.lock().expect("a lock").push(Message { at: Instant::now(), sentinel, channel, text });
        }
        Ok(())
    }

    /// The servers that were announced as the primary behind this moment: when for the first time, and the box.
    fn switches(&self, since: Instant, addresses: &Addresses) -> Vec<(Instant, usize)> {
        let mut switches: Vec<(Instant, usize)> = Vec::new();
        for message in self.messages.lock().expect("a lock").iter().filter(|message| message.at > since) {
            let place = message.text.split(' ').nth(3).and_then(|ip| addresses.place(ip));
            if let Some(place) = place.filter(|_| message.channel == "+switch-master")
                && switches.iter().all(|(_, known)| *known != place)
            {
                switches.push((message.at, place));
            }
        }
        switches
    }

    fn text(&self, since: Instant) -> String {
        let messages = self.messages.lock().expect("a lock");
        let lines = messages.iter().filter(|message| message.at > since).map(|message| {
            let ms = (message.at - since).as_millis();
            format!("{ms:6} ms, Sentinel {}: {} {}\n", message.sentinel, message.channel, message.text)
        });
        lines.collect()
    }
}

/// The machines.
pub(crate) struct Cluster {
    pub(crate) network: Network,
    pub(crate) addresses: Addresses,
    program: Program,
    servers: [Option<Server>; BOXES],
    sentinels: Vec<Server>,
    news: Arc<News>,
    listeners: Vec<JoinHandle<()>>,
}

impl Cluster {
    /// Starts all of them, and waits until they know each other.
    pub(crate) fn start(program: Program, number: u8) -> Cluster {
        let network = Network::new(number, BOXES);
        let servers = std::array::from_fn(|nth| (network.ip(nth), PORT).into());
        let sentinels = std::array::from_fn(|nth| (network.ip(nth), SENTINEL_PORT).into());
        let addresses = Addresses { servers, sentinels };
        let (servers, news) = ([const { None }; BOXES], Arc::new(News::default()));
        let (sentinels, listeners) = (Vec::new(), Vec::new());
        let mut cluster = Cluster { network, addresses, program, servers, sentinels, news, listeners };
        (0..BOXES).for_each(|nth| cluster.start_server(nth, (nth > 0).then_some(0)));
        cluster.wait("replicas follow", Instant::now(), |cluster| cluster.are_followers_ready(0));
        for (nth, address) in cluster.addresses.sentinels.into_iter().enumerate() {
            let sentinel = Launch::peer()
                .config(format!("sentinel monitor watched {} {PORT} 2", cluster.network.ip(0)))
                // A Sentinel makes a connection anew after a second at the earliest, and counts that second as silence: with less
                // than this it takes a server for dead that has just been promoted, and promotes the other one.
                .config("sentinel down-after-milliseconds watched 1500")
                .config("sentinel failover-timeout watched 3000")
                .config("sentinel parallel-syncs watched 2")
                .config("protected-mode no")
                .arg("--sentinel")
                .under(cluster.network.under(nth))
                .at(address);
            cluster.sentinels.push(sentinel.start().expect("Sentinel starts"));
            let news = Arc::clone(&cluster.news);
            cluster.listeners.push(thread::spawn(move || news.listen(nth, address)));
        }
        cluster
    }

    /// The program's name.
    pub(crate) fn name(&self) -> &'static str {
        self.program.name
    }

    /// Starts the server of a box, as a replica of another box's or as a primary.
    pub(crate) fn start_server(&mut self, nth: usize, primary: Option<usize>) {
        let mut launch = (self.program.launch)()
            .config("protected-mode no")
            .config("repl-diskless-sync-delay 0")
            .config("repl-backlog-size 16mb")
            .under(self.network.under(nth))
            .at(self.addresses.servers[nth]);
        if let Some(primary) = primary {
            launch = launch.config(format!("replicaof {} {PORT}", self.network.ip(primary)));
        }
        self.servers[nth] = Some(launch.start().expect("the server starts"));
    }

    /// Sends a server a signal.
    pub(crate) fn signal(&self, nth: usize, name: &str) {
        self.servers[nth].as_ref().expect("a server").signal(name).expect("a signal");
    }

    /// Kills a server, and waits for its end.
    pub(crate) fn kill(&mut self, nth: usize) {
        self.signal(nth, "KILL");
        self.servers[nth] = None;
    }

    /// Waits until a Sentinel announces another primary, which it made behind this moment; when, and which box it is.
    pub(crate) fn switched(&self, since: Instant) -> (Instant, usize) {
        self.wait("Sentinel makes a replica the primary", since, |cluster| cluster.switches(since).into_iter().next())
    }

    /// All servers that became the primary behind this moment.
    pub(crate) fn switches(&self, since: Instant) -> Vec<(Instant, usize)> {
        self.news.switches(since, &self.addresses)
    }

    /// Waits until all Sentinels name one primary, which leads, both others follow, and everybody sees everybody; returns its box.
    pub(crate) fn healthy(&self, since: Instant) -> usize {
        self.wait("all is as at the beginning", since, |cluster| {
            let mut named = (0..BOXES).map(|sentinel| cluster.addresses.primary_by(sentinel).ok());
            let primary = named.next()??;
            if !named.all(|name| name == Some(primary)) {
                return None;
            }
            let is_seen = (0..BOXES).all(|sentinel| cluster.sees_all(sentinel).unwrap_or(false));
            (is_seen && cluster.are_followers_ready(primary).is_some()).then_some(primary)
        })
    }

    /// Whether a Sentinel finds nothing wrong.
    fn sees_all(&self, sentinel: usize) -> io::Result<bool> {
        let mut client = connect(self.addresses.sentinels[sentinel])?;
        let mut flags = Vec::new();
        for line in ["SENTINEL MASTERS", "SENTINEL REPLICAS watched", "SENTINEL SENTINELS watched"] {
            let words: Vec<&str> = line.split(' ').collect();
            let reply = client.call(&words)?;
            for instance in reply.elements().unwrap_or_default() {
                let words: Vec<String> = instance.elements().unwrap_or_default().iter().map(RespValue::text).collect();
                flags.extend(words.chunks(2).filter(|pair| pair[0] == "flags").map(|pair| pair[1].clone()));
            }
        }
        flags.sort();
        Ok(flags == ["master", "sentinel", "sentinel", "slave", "slave"])
    }

    /// Some if this server leads and both others have all that it has sent up to a write of now.
    fn are_followers_ready(&self, primary: usize) -> Option<()> {
        let ready = || -> io::Result<bool> {
            let mut client = connect(self.addresses.servers[primary])?;
            let is_written = !client.call(&["SET", "probe", "set"])?.is_error();
            let copies = client.call(&["WAIT", "2", "500"])?.integer();
            let others = (0..BOXES).filter(|nth| *nth != primary);
            let mut are_up = true;
            for nth in others {
                let info = connect(self.addresses.servers[nth])?.call(&["INFO", "replication"])?.text();
                are_up &= field_of(&info, "master_link_status") == "up";
            }
            Ok(is_written && copies == Some(2) && are_up)
        };
        ready().unwrap_or(false).then_some(())
    }

    fn wait<T>(&self, what: &str, since: Instant, mut look: impl FnMut(&Cluster) -> Option<T>) -> T {
        let end = Instant::now() + LIMIT;
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            assert!(Instant::now() < end, "{}: {what}:\n{}", self.program.name, self.text(since));
            thread::sleep(LOOK);
        }
    }

    /// The Sentinels' messages since that moment, a line each.
    pub(crate) fn news(&self, since: Instant) -> String {
        self.news.text(since)
    }

    /// The Sentinels' messages since that moment, and the servers' logs.
    pub(crate) fn text(&self, since: Instant) -> String {
        let logs = self.servers.iter().flatten().map(Server::log).collect::<Vec<_>>().join("\n----\n");
        format!("{}----\n{logs}", self.news.text(since))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.news.is_over.store(true, Relaxed);
        self.listeners.drain(..).for_each(|listener| drop(listener.join()));
        self.sentinels.clear();
    }
}

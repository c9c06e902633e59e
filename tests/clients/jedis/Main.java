// A program of Jedis against a server: PORT PROTOCOL (2 or 3). VARVE_TLS is a folder with ca.crt, client.crt and client.key,
// by which it speaks TLS. Ends with "jedis: N checks" and status 0, or with what failed.
//
//   pipelines | transactions with WATCH | a blocking work queue | publish/subscribe over a lost connection | collections
//
// Each part has keys of its own; the server is taken to be empty.

import java.io.ByteArrayInputStream;
import java.nio.file.*;
import java.security.*;
import java.security.cert.*;
import java.security.cert.Certificate;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;
import java.util.stream.*;
import javax.net.ssl.*;
import redis.clients.jedis.*;
import redis.clients.jedis.args.*;
import redis.clients.jedis.exceptions.*;
import redis.clients.jedis.params.*;
import redis.clients.jedis.resps.*;

public class Main {
    static final AtomicLong checks = new AtomicLong();
    static HostAndPort server;
    static JedisClientConfig config;

    static void same(String what, Object got, Object want) {
        if (!Objects.equals(got, want)) {
            throw new AssertionError(what + ": got " + got + ", not " + want);
        }
        checks.incrementAndGet();
    }

    static Certificate certificate(Path folder, String name) throws Exception {
        byte[] text = Files.readAllBytes(folder.resolve(name));
        return CertificateFactory.getInstance("X.509").generateCertificate(new ByteArrayInputStream(text));
    }

    /** Makes sockets by TLS: they trust the folder's authority, and show the client's certificate. */
    static SSLSocketFactory sockets(Path folder) throws Exception {
        String text = Files.readString(folder.resolve("client.key")).replaceAll("-----[A-Z ]+-----|\\s", "");
        PKCS8EncodedKeySpec spec = new PKCS8EncodedKeySpec(Base64.getDecoder().decode(text));
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        store.setCertificateEntry("authority", certificate(folder, "ca.crt"));
        PrivateKey key = KeyFactory.getInstance("EC").generatePrivate(spec);
        store.setKeyEntry("own", key, new char[0], new Certificate[] {certificate(folder, "client.crt")});
        KeyManagerFactory own = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        own.init(store, new char[0]);
        TrustManagerFactory trusted = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trusted.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(own.getKeyManagers(), trusted.getTrustManagers(), null);
        return context.getSocketFactory();
    }

    static Jedis connect() {
        return new Jedis(server, config);
    }

    static void until(String what, BooleanSupplier test) throws InterruptedException {
        for (int n = 0; n < 500; n++) {
            if (test.getAsBoolean()) {
                return;
            }
            Thread.sleep(10);
        }
        throw new AssertionError("in vain: " + what);
    }

    /** Runs tasks in threads of their own and waits for all of them. */
    static void together(List<Callable<Void>> tasks) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(tasks.size());
        try {
            for (Future<Void> task : threads.invokeAll(tasks)) {
                task.get();
            }
        } finally {
            threads.shutdownNow();
        }
    }

    static void pipelines(Jedis jedis) {
        Pipeline pipeline = jedis.pipelined();
        List<Response<String>> values = new ArrayList<>();
        for (int n = 0; n < 1000; n++) {
            pipeline.set("p:" + n, "v" + n);
            pipeline.incr("p:count");
            values.add(pipeline.get("p:" + n));
        }
        pipeline.sync();
        for (int n = 0; n < 1000; n++) {
            same("a value", values.get(n).get(), "v" + n);
        }
        same("count", jedis.get("p:count"), "1000");
        pipeline = jedis.pipelined();
        pipeline.set("p:s", "text");
        pipeline.lpush("p:s", "x");
        pipeline.get("p:nothing");
        pipeline.get("p:s");
        List<Object> replies = pipeline.syncAndReturnAll();
        same("an error within", ((JedisDataException) replies.get(1)).getMessage(),
            "WRONGTYPE Operation against a key holding the wrong kind of value");
        same("nothing", replies.get(2), null);
        same("after an error", replies.get(3), "text");
        byte[] large = new byte[3_000_000];
        Arrays.fill(large, (byte) 7);
        jedis.set("p:large".getBytes(), large);
        same("large value", Arrays.equals(jedis.get("p:large".getBytes()), large), true);
    }

    static void transfer(Jedis jedis, String from, String to) {
        while (true) {
            jedis.watch(from, to);
            long a = Long.parseLong(jedis.get(from)), b = Long.parseLong(jedis.get(to));
            Transaction transaction = jedis.multi();
            transaction.set(from, Long.toString(a - 1));
            transaction.set(to, Long.toString(b + 1));
            if (transaction.exec() != null) {
                return;
            }
        }
    }

    static void transactions(Jedis jedis) throws Exception {
        jedis.set("t:k", "1");
        jedis.watch("t:k");
        try (Jedis other = connect()) {
            other.set("t:k", "2");
        }
        Transaction transaction = jedis.multi();
        transaction.set("t:k", "3");
        same("a watched key was changed", transaction.exec(), null);
        transaction = jedis.multi();
        Response<Long> later = transaction.incr("t:k");
        transaction.lpush("t:k", "x");
        List<Object> replies = transaction.exec();
        same("within", later.get(), 3L);
        same("an error within", ((Exception) replies.get(1)).getMessage().startsWith("WRONGTYPE"), true);
        transaction = jedis.multi();
        transaction.set("t:k", "9");
        transaction.discard();
        same("nothing was done", jedis.get("t:k"), "3");

        List<String> accounts = List.of("t:a", "t:b", "t:c", "t:d");
        accounts.forEach(account -> jedis.set(account, "100"));
        together(IntStream.range(0, 6).<Callable<Void>>mapToObj(id -> () -> {
            try (Jedis own = connect()) {
                for (int n = 0; n < 50; n++) {
                    int from = (id + n) % 4;
                    transfer(own, accounts.get(from), accounts.get((from + 1 + n % 3) % 4));
                }
            }
            return null;
        }).toList());
        same("the sum", jedis.mget(accounts.toArray(String[]::new)).stream().mapToLong(Long::parseLong).sum(), 400L);
    }

    /** Takes jobs until a "stop": even consumers pop, odd ones move. */
    static void consume(int id, Queue<String> done) {
        try (Jedis own = connect()) {
            while (true) {
                boolean pops = id % 2 == 0;
                String doing = "q:doing:" + id;
                String job = pops ? own.blpop(10, "q:urgent", "q:jobs").get(1)
                    : own.blmove("q:jobs", doing, ListDirection.LEFT, ListDirection.RIGHT, 10);
                if (job.equals("stop")) {
                    return;
                }
                if (!pops) {
                    same("taken from those in work", own.lrem(doing, 1, job), 1L);
                }
                done.add(job);
            }
        }
    }

    static void queue(Jedis jedis) throws Exception {
        same("nothing to pop", jedis.blpop(0.05, "q:nothing"), null);
        same("nothing to move", jedis.blmove("q:nothing", "q:x", ListDirection.LEFT, ListDirection.RIGHT, 0.05), null);
        Queue<String> done = new ConcurrentLinkedQueue<>();
        CountDownLatch made = new CountDownLatch(2);
        List<Callable<Void>> tasks = new ArrayList<>();
        for (int n = 0; n < 4; n++) {
            int id = n;
            tasks.add(() -> {
                consume(id, done);
                return null;
            });
        }
        for (int n = 0; n < 2; n++) {
            int id = n;
            tasks.add(() -> {
                try (Jedis own = connect()) {
                    for (int job = 0; job < 250; job++) {
                        own.rpush("q:jobs", id + ":" + job);
                    }
                }
                made.countDown();
                return null;
            });
        }
        tasks.add(() -> {
            made.await();
            jedis.rpush("q:jobs", "stop", "stop", "stop", "stop");
            return null;
        });
        together(tasks);
        same("jobs done", List.of(done.size(), new HashSet<>(done).size()), List.of(500, 500));
        same("jobs left", jedis.llen("q:jobs"), 0L);
    }

    /** Listens until it is told to stop, and again on a new connection when the old one is lost. */
    static class Listener extends JedisPubSub implements Callable<Void> {
        final BlockingQueue<String> heard = new LinkedBlockingQueue<>();
        final AtomicLong connections = new AtomicLong();

        @Override
        public void onMessage(String channel, String message) {
            heard.add(message);
        }

        @Override
        public Void call() {
            while (true) {
                connections.incrementAndGet();
                try (Jedis own = connect()) {
                    own.subscribe(this, "news", "more");
                    return null;
                } catch (JedisConnectionException lost) {
                    // The next turn connects again.
                }
            }
        }
    }

    static void publishing(Jedis jedis) throws Exception {
        Listener listener = new Listener();
        ExecutorService thread = Executors.newSingleThreadExecutor();
        Future<Void> listening = thread.submit(listener);
        for (int from = 0; from < 200; from += 100) {
            until("a subscription", () -> jedis.pubsubNumSub("news", "more").values().stream().allMatch(n -> n == 1));
            for (int n = from; n < from + 100; n++) {
                same("receivers", jedis.publish(n % 2 == 0 ? "news" : "more", "m" + n), 1L);
            }
            for (int n = from; n < from + 100; n++) {
                same("a message", listener.heard.poll(10, TimeUnit.SECONDS), "m" + n);
            }
            if (from == 0) {
                same("killed", jedis.clientKill(new ClientKillParams().type(ClientType.PUBSUB)), 1L);
            }
        }
        same("connections", listener.connections.get(), 2L);
        listener.unsubscribe();
        listening.get(10, TimeUnit.SECONDS);
        thread.shutdownNow();
        same("nobody", jedis.publish("news", "m"), 0L);
    }

    static void collections(Jedis jedis) {
        for (int count : new int[] {10, 5000}) {
            String key = "c:" + count + ":";
            List<Integer> range = IntStream.range(0, count).boxed().toList();
            String[] items = range.stream().map(String::valueOf).toArray(String[]::new);
            Map<String, String> fields = range.stream().collect(Collectors.toMap(n -> "f" + n, n -> "v" + n));
            same("fields", jedis.hset(key + "hash", fields), (long) count);
            same("all fields", jedis.hgetAll(key + "hash"), fields);
            same("field by field", jedis.hmget(key + "hash", "f1", "no"), Arrays.asList("v1", null));
            same("elements", jedis.rpush(key + "list", items), (long) count);
            same("a range", jedis.lrange(key + "list", 2, 4), List.of("2", "3", "4"));
            same("a place", jedis.lpos(key + "list", "7"), 7L);
            same("members", jedis.sadd(key + "set", items), (long) count);
            jedis.sadd(key + "other", "x", "y", "3");
            same("common members", jedis.sinter(key + "set", key + "other"), Set.of("3"));
            same("all members", jedis.sunionstore(key + "all", key + "set", key + "other"), count + 2L);
            Map<String, Double> scores = range.stream().collect(Collectors.toMap(n -> "m" + n, n -> n / 2.0));
            same("scores", jedis.zadd(key + "zset", scores), (long) count);
            same("first", jedis.zrangeWithScores(key + "zset", 0, 1), List.of(new Tuple("m0", 0.0), new Tuple("m1", 0.5)));
            same("between", jedis.zrangeByScore(key + "zset", "(1", "2"), List.of("m3", "m4"));
            same("raised", jedis.zincrby(key + "zset", 0.25, "m0"), 0.25);
            same("greatest", jedis.zpopmax(key + "zset").getElement(), "m" + (count - 1));
            Set<String> seen = new HashSet<>();
            String cursor = "0";
            do {
                ScanResult<String> part = jedis.sscan(key + "set", cursor, new ScanParams().count(100));
                seen.addAll(part.getResult());
                cursor = part.getCursor();
            } while (!cursor.equals("0"));
            same("scanned", seen, Set.of(items));
        }
        same("sorted", jedis.sort("c:10:set", new SortingParams().desc().limit(0, 2)), List.of("9", "8"));
        same("expiry", jedis.expire("c:10:set", 100), 1L);
        same("time left", jedis.ttl("c:10:set") > 90, true);
        same("type", jedis.type("c:10:zset"), "zset");
    }

    public static void main(String[] args) throws Exception {
        server = new HostAndPort("127.0.0.1", Integer.parseInt(args[0]));
        RedisProtocol protocol = args[1].equals("3") ? RedisProtocol.RESP3 : RedisProtocol.RESP2;
        DefaultJedisClientConfig.Builder builder = DefaultJedisClientConfig.builder();
        builder.protocol(protocol).socketTimeoutMillis(20_000);
        String folder = System.getenv("VARVE_TLS");
        if (folder != null) {
            builder.ssl(true).sslSocketFactory(sockets(Path.of(folder)));
        }
        config = builder.build();
        try (Jedis jedis = connect()) {
            pipelines(jedis);
            transactions(jedis);
            queue(jedis);
            publishing(jedis);
            collections(jedis);
        }
        System.out.println("jedis: " + checks.get() + " checks");
    }
}

// A program of Redisson against a server: PORT PROTOCOL (2 or 3). VARVE_TLS is a folder with ca.crt, client.crt and client.key, by
// which it speaks TLS. Ends with "redisson: N checks" and status 0, or with what failed.
//
//   locks: held, again, expired, fair, many at once | queues: blocking, delayed | map caches: entries that expire, events
//   semaphores, limiters of rates, counters
//
// Nearly all of it is scripts. Each part has keys of its own; the server is taken to be empty.

import java.io.*;
import java.nio.file.*;
import java.security.*;
import java.security.cert.*;
import java.security.cert.Certificate;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import java.util.function.BooleanSupplier;
import org.redisson.Redisson;
import org.redisson.api.*;
import org.redisson.api.map.event.*;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.*;

public class Main {
    static final AtomicLong checks = new AtomicLong();

    static void same(String what, Object got, Object want) {
        if (!Objects.equals(got, want)) {
            throw new AssertionError(what + ": got " + got + ", not " + want);
        }
        checks.incrementAndGet();
    }

    static void until(String what, BooleanSupplier test) throws Exception {
        for (int n = 0; n < 1000 && !test.getAsBoolean(); n++) {
            Thread.sleep(10);
        }
        same(what, test.getAsBoolean(), true);
    }

    static Config config(String port, String protocol) throws Exception {
        Config config = new Config();
        config.setCodec(StringCodec.INSTANCE).setProtocol(protocol.equals("3") ? Protocol.RESP3 : Protocol.RESP2);
        String folder = System.getenv("VARVE_TLS");
        SingleServerConfig server = config.useSingleServer().setConnectionMinimumIdleSize(2).setConnectionPoolSize(24);
        if (folder == null) {
            server.setAddress("redis://127.0.0.1:" + port);
            return config;
        }
        Path trusted = store(Path.of(folder), "trusted", false);
        Path own = store(Path.of(folder), "own", true);
        server.setAddress("rediss://127.0.0.1:" + port).setSslKeystorePassword("").setSslTruststorePassword("");
        server.setSslTruststore(trusted.toUri().toURL()).setSslKeystore(own.toUri().toURL());
        server.setSslEnableEndpointIdentification(false);
        return config;
    }

    /** Writes the authority's certificate, or the client's with its key, in the form that Java keeps them in. */
    static Path store(Path folder, String name, boolean withKey) throws Exception {
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        if (withKey) {
            String text = Files.readString(folder.resolve("client.key")).replaceAll("-----[A-Z ]+-----|\\s", "");
            PrivateKey key = KeyFactory.getInstance("EC").generatePrivate(new PKCS8EncodedKeySpec(Base64.getDecoder().decode(text)));
            store.setKeyEntry("own", key, new char[0], new Certificate[] {certificate(folder, "client.crt")});
        } else {
            store.setCertificateEntry("authority", certificate(folder, "ca.crt"));
        }
        Path path = Files.createTempFile(folder, name, ".p12");
        try (OutputStream out = Files.newOutputStream(path)) {
            store.store(out, new char[0]);
        }
        return path;
    }

    static Certificate certificate(Path folder, String name) throws Exception {
        byte[] text = Files.readAllBytes(folder.resolve(name));
        return CertificateFactory.getInstance("X.509").generateCertificate(new ByteArrayInputStream(text));
    }

    static void locks(RedissonClient client) throws Exception {
        RLock lock = client.getLock("lock");
        lock.lock(30, TimeUnit.SECONDS);
        same("held twice by one thread", lock.tryLock(0, 30, TimeUnit.SECONDS), true);
        same("held twice", lock.getHoldCount(), 2);
        ExecutorService other = Executors.newSingleThreadExecutor();
        same("refused to another", other.submit(() -> lock.tryLock(0, 30, TimeUnit.SECONDS)).get(), false);
        Future<Boolean> waiting = other.submit(() -> client.getLock("lock").tryLock(20, 30, TimeUnit.SECONDS));
        lock.unlock();
        same("still held", lock.isLocked(), true);
        lock.unlock();
        same("the one that waited has it", waiting.get(), true);
        same("not ours", lock.isHeldByCurrentThread(), false);
        other.submit(() -> client.getLock("lock").unlock()).get();
        other.shutdown();
        lock.lock(50, TimeUnit.MILLISECONDS);
        until("it expires", () -> !lock.isLocked());
        try {
            lock.unlock();
            throw new AssertionError("unlocked twice");
        } catch (IllegalMonitorStateException expected) {
            checks.incrementAndGet();
        }
        int[] number = {0};
        List<Thread> threads = new ArrayList<>();
        for (int n = 0; n < 8; n++) {
            threads.add(new Thread(() -> {
                for (int step = 0; step < 20; step++) {
                    RLock fair = client.getFairLock("fair");
                    fair.lock(30, TimeUnit.SECONDS);
                    int seen = number[0];
                    Thread.yield();
                    number[0] = seen + 1;
                    fair.unlock();
                }
            }));
        }
        for (Thread thread : threads) thread.start();
        for (Thread thread : threads) thread.join();
        same("nobody's step was lost", number[0], 160);
        RReadWriteLock both = client.getReadWriteLock("both");
        both.readLock().lock(30, TimeUnit.SECONDS);
        same("readers share", CompletableFuture.supplyAsync(() -> both.readLock().tryLock()).get(), true);
        same("a writer waits", CompletableFuture.supplyAsync(() -> both.writeLock().tryLock()).get(), false);
    }

    static void queues(RedissonClient client) throws Exception {
        RBlockingQueue<String> queue = client.getBlockingQueue("queue");
        Future<List<String>> taken = Executors.newSingleThreadExecutor(Main::daemon).submit(() -> {
            List<String> all = new ArrayList<>();
            while (all.size() < 100) all.add(queue.poll(20, TimeUnit.SECONDS));
            return all;
        });
        List<String> given = new ArrayList<>();
        for (int n = 0; n < 100; n++) {
            given.add("job " + n);
            queue.add("job " + n);
        }
        same("in order", taken.get(), given);
        RDelayedQueue<String> delayed = client.getDelayedQueue(queue);
        delayed.offer("later", 1, TimeUnit.HOURS);
        delayed.offer("soon", 50, TimeUnit.MILLISECONDS);
        same("it comes when its time has come", queue.poll(20, TimeUnit.SECONDS), "soon");
        same("the other waits", delayed.readAll(), List.of("later"));
        same("taken back", delayed.remove("later"), true);
        delayed.destroy();
        RBoundedBlockingQueue<String> bounded = client.getBoundedBlockingQueue("bounded");
        same("a bound", bounded.trySetCapacity(2), true);
        same("room for two", List.of(bounded.offer("a"), bounded.offer("b"), bounded.offer("c")), List.of(true, true, false));
        same("room again", List.of(bounded.poll(), bounded.offer("c")), List.of("a", true));
        RPriorityQueue<String> sorted = client.getPriorityQueue("sorted");
        sorted.addAll(List.of("c", "a", "b"));
        same("by priority", List.of(sorted.poll(), sorted.poll(), sorted.poll()), List.of("a", "b", "c"));
    }

    static Thread daemon(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        return thread;
    }

    static void mapCaches(RedissonClient client) throws Exception {
        RMapCache<String, String> map = client.getMapCache("map");
        List<String> events = new CopyOnWriteArrayList<>();
        map.addListener((EntryCreatedListener<String, String>) event -> events.add("new " + event.getKey()));
        map.addListener((EntryUpdatedListener<String, String>) event -> events.add("set " + event.getKey()));
        map.addListener((EntryRemovedListener<String, String>) event -> events.add("gone " + event.getKey()));
        same("new", map.put("a", "1", 1, TimeUnit.HOURS), null);
        same("before", map.put("a", "2"), "1");
        same("there already", map.putIfAbsent("a", "3", 1, TimeUnit.HOURS), "2");
        same("compared", map.replace("a", "2", "4"), true);
        map.put("short", "x", 30, TimeUnit.MILLISECONDS);
        until("it expires", () -> map.get("short") == null);
        same("what is left", new HashMap<>(map.readAllMap()), Map.of("a", "4"));
        map.put("idle", "y", 0, null, 1, TimeUnit.HOURS);
        same("its time", map.remainTimeToLive("idle") > 3_500_000, true);
        same("removed", map.remove("a"), "4");
        until("events of each change", () -> events.containsAll(List.of("new a", "set a", "gone a")));
        Map<String, String> many = new HashMap<>();
        for (int n = 0; n < 1000; n++) many.put("k" + n, "v" + n);
        map.putAll(many, 1, TimeUnit.HOURS);
        same("many at once", map.getAll(many.keySet()), many);
        same("all of them", map.readAllMap().size(), 1001);
        RMapCache<String, Integer> counts = client.getMapCache("counts");
        same("trimmed to a size", counts.trySetMaxSize(10), true);
        for (int n = 0; n < 50; n++) counts.fastPut("k" + n, n);
        same("the size that it may have", counts.size(), 10);
        map.destroy();
    }

    static void rest(RedissonClient client) throws Exception {
        RSemaphore semaphore = client.getSemaphore("semaphore");
        same("permits", semaphore.trySetPermits(3), true);
        same("two are taken", List.of(semaphore.tryAcquire(2), semaphore.tryAcquire(2)), List.of(true, false));
        semaphore.release(2);
        same("given back", semaphore.availablePermits(), 3);
        RPermitExpirableSemaphore expiring = client.getPermitExpirableSemaphore("expiring");
        same("one permit", expiring.trySetPermits(1), true);
        same("taken", expiring.tryAcquire(0, 50, TimeUnit.MILLISECONDS) != null, true);
        same("again when it has expired", expiring.tryAcquire(10, 30, TimeUnit.SECONDS) != null, true);
        RRateLimiter limiter = client.getRateLimiter("rate");
        same("a rate", limiter.trySetRate(RateType.OVERALL, 5, 1, RateIntervalUnit.HOURS), true);
        int granted = 0;
        for (int n = 0; n < 8; n++) granted += limiter.tryAcquire() ? 1 : 0;
        same("let through", granted, 5);
        RCountDownLatch latch = client.getCountDownLatch("latch");
        same("a latch", latch.trySetCount(2), true);
        Thread opener = daemon(() -> {
            latch.countDown();
            latch.countDown();
        });
        opener.start();
        same("open", latch.await(20, TimeUnit.SECONDS), true);
        RAtomicLong number = client.getAtomicLong("number");
        same("compared and set", List.of(number.compareAndSet(0, 7), number.compareAndSet(0, 8)), List.of(true, false));
        RScript script = client.getScript();
        same("a script", script.eval(RScript.Mode.READ_ONLY, "return redis.call('get', KEYS[1])", RScript.ReturnType.VALUE, List.of("number")), "7");
        RBatch batch = client.createBatch();
        for (int n = 0; n < 100; n++) batch.getAtomicLong("number").incrementAndGetAsync();
        same("a batch", batch.execute().getResponses().get(99), 107L);
    }

    public static void main(String[] args) throws Exception {
        RedissonClient client = Redisson.create(config(args[0], args[1]));
        locks(client);
        queues(client);
        mapCaches(client);
        rest(client);
        client.shutdown();
        System.out.println("redisson: " + checks.get() + " checks");
        System.exit(0);
    }
}

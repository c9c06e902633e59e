// A replica that shares no code with us: PORT of the primary, and a KEY. It follows by redis-replicator, keeps what it is sent in
// Java's own collections, and prints all it has as lines when the KEY is written, then ends.
//
//   PSYNC -> events of an RDB file, then events of commands -> maps, lists, sets -> lines   db type key [element ...] [px time]
//
// Bytes are printed as hexadecimal digits, scores as the bits of a double. A command without a case here is an error.

import com.moilioncircle.redis.replicator.*;
import com.moilioncircle.redis.replicator.cmd.impl.*;
import com.moilioncircle.redis.replicator.event.*;
import com.moilioncircle.redis.replicator.rdb.datatype.*;
import com.moilioncircle.redis.replicator.rdb.datatype.Stream;
import java.nio.charset.StandardCharsets;
import java.util.*;

public class Main {
    /** A stream's entries by id, each with its fields and values. */
    static class Log {
        final TreeMap<Stream.ID, List<String>> entries = new TreeMap<>();
        Stream.ID last = new Stream.ID(0, 0);
    }

    static final TreeMap<Integer, TreeMap<String, Object>> databases = new TreeMap<>();
    static final Map<String, Long> times = new HashMap<>();
    static int db;
    static int synchronisations;

    static String hex(byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }

    static byte[] bytes(String hex) {
        return HexFormat.of().parseHex(hex);
    }

    static String hex(long number) {
        return hex(Long.toString(number).getBytes(StandardCharsets.US_ASCII));
    }

    static long number(String hex) {
        return Long.parseLong(new String(bytes(hex), StandardCharsets.US_ASCII));
    }

    static TreeMap<String, Object> keys() {
        return databases.computeIfAbsent(db, number -> new TreeMap<>());
    }

    @SuppressWarnings("unchecked")
    static <T> T value(byte[] key, T empty) {
        return (T) keys().computeIfAbsent(hex(key), name -> empty);
    }

    static List<String> list(byte[] key) {
        return value(key, new ArrayList<>());
    }

    static TreeMap<String, String> hash(byte[] key) {
        return value(key, new TreeMap<>());
    }

    static TreeSet<String> set(byte[] key) {
        return value(key, new TreeSet<>());
    }

    static HashMap<String, Double> zset(byte[] key) {
        return value(key, new HashMap<>());
    }

    static Log log(byte[] key) {
        return value(key, new Log());
    }

    static void remove(byte[] key) {
        keys().remove(hex(key));
        times.remove(db + " " + hex(key));
    }

    /** A collection that has lost its last element is no key any more. */
    static void drop(byte[] key) {
        Object value = keys().get(hex(key));
        boolean isEmpty = value instanceof Collection<?> all ? all.isEmpty() : value instanceof Map<?, ?> map && map.isEmpty();
        if (isEmpty) {
            remove(key);
        }
    }

    static void expire(byte[] key, long ms) {
        times.put(db + " " + hex(key), ms);
    }

    static Map<String, String> pairs(Map<byte[], byte[]> map) {
        Map<String, String> pairs = new LinkedHashMap<>();
        map.forEach((field, value) -> pairs.put(hex(field), hex(value)));
        return pairs;
    }

    static List<String> flat(Map<byte[], byte[]> map) {
        List<String> flat = new ArrayList<>();
        map.forEach((field, value) -> flat.addAll(List.of(hex(field), hex(value))));
        return flat;
    }

    /** A key of an RDB file. */
    static void load(KeyValuePair<byte[], ?> pair) {
        db = (int) pair.getDb().getDbNumber();
        byte[] key = pair.getKey();
        if (pair instanceof KeyStringValueString string) {
            keys().put(hex(key), hex(string.getValue()));
        } else if (pair instanceof KeyStringValueList list) {
            list.getValue().forEach(element -> list(key).add(hex(element)));
        } else if (pair instanceof KeyStringValueHash hash) {
            hash(key).putAll(pairs(hash.getValue()));
        } else if (pair instanceof KeyStringValueSet set) {
            set.getValue().forEach(member -> set(key).add(hex(member)));
        } else if (pair instanceof KeyStringValueZSet zset) {
            zset.getValue().forEach(entry -> zset(key).put(hex(entry.getElement()), entry.getScore()));
        } else if (pair instanceof KeyStringValueStream stream) {
            Log log = log(key);
            log.last = stream.getValue().getLastId();
            for (Stream.Entry entry : stream.getValue().getEntries().values()) {
                if (!entry.isDeleted()) {
                    log.entries.put(entry.getId(), flat(entry.getFields()));
                }
            }
        } else {
            throw new IllegalStateException("a value of type " + pair.getValueRdbType());
        }
        if (pair.getExpiredMs() != null) {
            expire(key, pair.getExpiredMs());
        }
    }

    static void move(byte[] from, boolean isFromLeft, byte[] to, boolean isToLeft) {
        List<String> source = list(from);
        String element = source.remove(isFromLeft ? 0 : source.size() - 1);
        List<String> target = list(to);
        target.add(isToLeft ? 0 : target.size(), element);
        drop(from);
    }

    static void pop(byte[] key, boolean isLeft, Count count) {
        List<String> list = list(key);
        for (int left = count == null ? 1 : count.getCount(); left > 0 && !list.isEmpty(); left--) {
            list.remove(isLeft ? 0 : list.size() - 1);
        }
        drop(key);
    }

    /** Places of Redis's commands count from the end when they are negative. */
    static int place(long place, int size) {
        return (int) (place < 0 ? size + place : place);
    }

    static void trim(byte[] key, long start, long stop) {
        List<String> list = list(key);
        int from = Math.max(place(start, list.size()), 0);
        int to = Math.min(place(stop, list.size()) + 1, list.size());
        List<String> kept = from < to ? new ArrayList<>(list.subList(from, to)) : List.of();
        list.clear();
        list.addAll(kept);
        drop(key);
    }

    static void removeEqual(byte[] key, long count, String element) {
        List<String> list = list(key);
        for (long left = count == 0 ? Long.MAX_VALUE : Math.abs(count); left > 0; left--) {
            int place = count < 0 ? list.lastIndexOf(element) : list.indexOf(element);
            if (place < 0) {
                break;
            }
            list.remove(place);
        }
        drop(key);
    }

    /** Gives a member its score, as the command's options have it. */
    static void score(ZAddCommand add, ZSetEntry entry) {
        Map<String, Double> zset = zset(add.getKey());
        Double old = zset.get(hex(entry.getElement()));
        boolean isNew = old == null;
        double score = add.isIncr() && !isNew ? old + entry.getScore() : entry.getScore();
        boolean isRefused = add.getExistType() == (isNew ? ExistType.XX : ExistType.NX)
            || !isNew && add.getCompareType() == CompareType.GT && score <= old
            || !isNew && add.getCompareType() == CompareType.LT && score >= old;
        if (!isRefused) {
            zset.put(hex(entry.getElement()), score);
        }
        drop(add.getKey());
    }

    static void popLeast(byte[] key, int count) {
        Map<String, Double> zset = zset(key);
        Comparator<Map.Entry<String, Double>> order = Map.Entry.comparingByValue();
        List<Map.Entry<String, Double>> all = new ArrayList<>(zset.entrySet());
        all.sort(order.thenComparing(Map.Entry.comparingByKey()));
        all.subList(0, Math.min(count, all.size())).stream().map(Map.Entry::getKey).toList().forEach(zset::remove);
        drop(key);
    }

    static void append(XAddCommand add) {
        Log log = log(add.getKey());
        log.last = Stream.ID.valueOf(new String(add.getId(), StandardCharsets.US_ASCII));
        log.entries.put(log.last, flat(add.getFields()));
        shorten(log, add.getMaxLen());
    }

    static void shorten(Log log, MaxLen most) {
        if (most != null) {
            if (most.isApproximation()) {
                throw new IllegalStateException("a stream is trimmed to about a length: replicas need the exact one");
            }
            while (log.entries.size() > most.getCount()) {
                log.entries.pollFirstEntry();
            }
        }
    }

    static void store(SetCommand set) {
        String name = db + " " + hex(set.getKey());
        keys().put(hex(set.getKey()), hex(set.getValue()));
        if (set.getXatType() == XATType.PXAT) {
            times.put(name, set.getXatValue());
        } else if (!set.getKeepTtl()) {
            times.remove(name);
        }
    }

    static void rename(RenameCommand rename) {
        Object value = keys().get(hex(rename.getKey()));
        Long time = times.get(db + " " + hex(rename.getKey()));
        remove(rename.getKey());
        remove(rename.getNewKey());
        keys().put(hex(rename.getNewKey()), value);
        if (time != null) {
            expire(rename.getNewKey(), time);
        }
    }

    /** A command of the stream. */
    static void apply(Event event) {
        if (event instanceof SelectCommand select) {
            db = select.getIndex();
        } else if (event instanceof SetCommand set) {
            store(set);
        } else if (event instanceof AppendCommand append) {
            keys().merge(hex(append.getKey()), hex(append.getValue()), (all, more) -> (String) all + more);
        } else if (event instanceof IncrCommand raise) {
            keys().merge(hex(raise.getKey()), hex(1), (old, by) -> hex(number((String) old) + 1));
        } else if (event instanceof DecrCommand lower) {
            keys().merge(hex(lower.getKey()), hex(-1), (old, by) -> hex(number((String) old) - 1));
        } else if (event instanceof IncrByCommand raise) {
            keys().merge(hex(raise.getKey()), hex(raise.getValue()), (old, by) -> hex(number((String) old) + raise.getValue()));
        } else if (event instanceof MSetCommand set) {
            set.getKv().forEach((key, value) -> {
                remove(key);
                keys().put(hex(key), hex(value));
            });
        } else if (event instanceof DelCommand del) {
            Arrays.stream(del.getKeys()).forEach(Main::remove);
        } else if (event instanceof UnLinkCommand del) {
            Arrays.stream(del.getKeys()).forEach(Main::remove);
        } else if (event instanceof RenameCommand rename) {
            rename(rename);
        } else if (event instanceof PExpireAtCommand expire) {
            expire(expire.getKey(), expire.getEx());
        } else if (event instanceof PersistCommand persist) {
            times.remove(db + " " + hex(persist.getKey()));
        } else if (!applyToList(event) && !applyToMembers(event)) {
            throw new IllegalStateException("no case for " + event.getClass().getName());
        }
    }

    static boolean applyToList(Event event) {
        if (event instanceof RPushCommand push) {
            Arrays.stream(push.getValues()).forEach(element -> list(push.getKey()).add(hex(element)));
        } else if (event instanceof LPushCommand push) {
            Arrays.stream(push.getValues()).forEach(element -> list(push.getKey()).add(0, hex(element)));
        } else if (event instanceof LPopCommand pop) {
            pop(pop.getKey(), true, pop.getCount());
        } else if (event instanceof RPopCommand pop) {
            pop(pop.getKey(), false, pop.getCount());
        } else if (event instanceof LTrimCommand trim) {
            trim(trim.getKey(), trim.getStart(), trim.getStop());
        } else if (event instanceof LRemCommand rem) {
            removeEqual(rem.getKey(), rem.getIndex(), hex(rem.getValue()));
        } else if (event instanceof LSetCommand set) {
            list(set.getKey()).set(place(set.getIndex(), list(set.getKey()).size()), hex(set.getValue()));
        } else if (event instanceof LInsertCommand insert) {
            int place = list(insert.getKey()).indexOf(hex(insert.getPivot()));
            list(insert.getKey()).add(insert.getlInsertType() == LInsertType.BEFORE ? place : place + 1, hex(insert.getValue()));
        } else if (event instanceof LMoveCommand move) {
            boolean isFromLeft = move.getFrom() == DirectionType.LEFT;
            move(move.getSource(), isFromLeft, move.getDestination(), move.getTo() == DirectionType.LEFT);
        } else if (event instanceof RPopLPushCommand move) {
            move(move.getSource(), false, move.getDestination(), true);
        } else {
            return false;
        }
        return true;
    }

    static boolean applyToMembers(Event event) {
        if (event instanceof HSetCommand set) {
            hash(set.getKey()).putAll(pairs(set.getFields()));
        } else if (event instanceof HSetNxCommand set) {
            hash(set.getKey()).putIfAbsent(hex(set.getField()), hex(set.getValue()));
        } else if (event instanceof HDelCommand del) {
            Arrays.stream(del.getFields()).forEach(field -> hash(del.getKey()).remove(hex(field)));
            drop(del.getKey());
        } else if (event instanceof HIncrByCommand raise) {
            long by = raise.getIncrement();
            hash(raise.getKey()).merge(hex(raise.getField()), hex(by), (old, more) -> hex(number(old) + by));
        } else if (event instanceof SAddCommand add) {
            Arrays.stream(add.getMembers()).forEach(member -> set(add.getKey()).add(hex(member)));
        } else if (event instanceof SRemCommand rem) {
            Arrays.stream(rem.getMembers()).forEach(member -> set(rem.getKey()).remove(hex(member)));
            drop(rem.getKey());
        } else if (event instanceof SMoveCommand move) {
            if (set(move.getSource()).remove(hex(move.getMember()))) {
                set(move.getDestination()).add(hex(move.getMember()));
            }
            drop(move.getSource());
        } else if (event instanceof ZAddCommand add) {
            Arrays.stream(add.getZSetEntries()).forEach(entry -> score(add, entry));
        } else if (event instanceof ZIncrByCommand raise) {
            zset(raise.getKey()).merge(hex(raise.getMember()), raise.getIncrement(), Double::sum);
        } else if (event instanceof ZPopMinCommand pop) {
            popLeast(pop.getKey(), pop.getCount());
        } else if (event instanceof ZRemCommand rem) {
            Arrays.stream(rem.getMembers()).forEach(member -> zset(rem.getKey()).remove(hex(member)));
            drop(rem.getKey());
        } else if (event instanceof XAddCommand add) {
            append(add);
        } else if (event instanceof XDelCommand del) {
            for (byte[] id : del.getIds()) {
                log(del.getKey()).entries.remove(Stream.ID.valueOf(new String(id, StandardCharsets.US_ASCII)));
            }
        } else if (event instanceof XTrimCommand trim) {
            shorten(log(trim.getKey()), trim.getMaxLen());
        } else {
            return false;
        }
        return true;
    }

    static String bits(double score) {
        return String.format("%016x", Double.doubleToLongBits(score));
    }

    /** The words of a value; those of sets, hashes and sorted sets in the order of their bytes. */
    static String words(Object value) {
        StringJoiner words = new StringJoiner(" ");
        if (value instanceof String string) {
            words.add("string").add("key").add(string);
        } else if (value instanceof List<?> list) {
            words.add("list").add("key");
            list.forEach(element -> words.add((String) element));
        } else if (value instanceof TreeSet<?> set) {
            words.add("set").add("key");
            set.forEach(member -> words.add((String) member));
        } else if (value instanceof TreeMap<?, ?> hash) {
            words.add("hash").add("key");
            hash.forEach((field, content) -> words.add((String) field).add((String) content));
        } else if (value instanceof HashMap<?, ?> zset) {
            words.add("zset").add("key");
            new TreeMap<>(zset).forEach((member, score) -> words.add((String) member).add(bits((Double) score)));
        } else if (value instanceof Log log) {
            words.add("stream").add("key").add(log.last.toString());
            log.entries.forEach((id, fields) -> words.add(id.toString()).add(String.join(" ", fields)));
        }
        return words.toString();
    }

    static void print() {
        StringBuilder lines = new StringBuilder();
        databases.forEach((number, keys) -> keys.forEach((key, value) -> {
            Long time = times.get(number + " " + key);
            lines.append(number).append(' ').append(words(value).replaceFirst("key", key));
            lines.append(time == null ? "" : " px " + time).append('\n');
        }));
        System.out.print(lines);
        System.out.println("replicator: " + synchronisations + " synchronisations");
        System.out.flush();
    }

    public static void main(String[] args) throws Exception {
        String end = hex(args[1].getBytes(StandardCharsets.UTF_8));
        Configuration configuration = Configuration.defaultSetting().setRetryTimeInterval(100).setHeartbeatPeriod(100);
        Replicator replicator = new RedisReplicator("127.0.0.1", Integer.parseInt(args[0]), configuration);
        replicator.addEventListener((source, event) -> {
            try {
                take(event, end);
            } catch (RuntimeException error) {
                error.printStackTrace();
                Runtime.getRuntime().halt(1);
            }
        });
        replicator.open();
        throw new IllegalStateException("the primary is lost");
    }

    @SuppressWarnings("unchecked")
    static void take(Event event, String end) {
        if (event instanceof PreRdbSyncEvent) {
            synchronisations++;
            databases.clear();
            times.clear();
        } else if (event instanceof KeyValuePair<?, ?> pair) {
            load((KeyValuePair<byte[], ?>) pair);
        } else if (event instanceof PostRdbSyncEvent) {
            db = 0;
        } else if (!isSilent(event)) {
            apply(event);
            if (event instanceof SetCommand set && hex(set.getKey()).equals(end)) {
                print();
                Runtime.getRuntime().halt(0);
            }
        }
    }

    /** Events that change no key. */
    static boolean isSilent(Event event) {
        boolean isOfFile = event instanceof AuxField || event instanceof PreCommandSyncEvent || event instanceof PostCommandSyncEvent;
        boolean isOfStream = event instanceof PingCommand || event instanceof MultiCommand || event instanceof ExecCommand;
        return isOfFile || isOfStream || event instanceof ReplConfGetAckCommand || event instanceof ReplConfCommand;
    }
}

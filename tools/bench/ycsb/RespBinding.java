import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import site.ycsb.ByteArrayByteIterator;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;

/**
 * YCSB's records as hashes of a server that speaks RESP: one connection a thread, one request at a time.
 *
 * <p>The properties are {@code resp.host} and {@code resp.port}. There are no scans: hashes have no order of keys, so that
 * workload E needs another structure beside them, and measures that.
 */
public class RespBinding extends DB {
  private Socket socket;
  private OutputStream out;
  private InputStream in;

  @Override
  public void init() throws DBException {
    try {
      String host = getProperties().getProperty("resp.host", "127.0.0.1");
      socket = new Socket(host, Integer.parseInt(getProperties().getProperty("resp.port", "6379")));
      socket.setTcpNoDelay(true);
      out = socket.getOutputStream();
      in = new BufferedInputStream(socket.getInputStream(), 1 << 16);
    } catch (IOException error) {
      throw new DBException(error);
    }
  }

  @Override
  public void cleanup() throws DBException {
    try {
      socket.close();
    } catch (IOException error) {
      throw new DBException(error);
    }
  }

  @Override
  public Status read(String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
    List<byte[]> words = new ArrayList<>();
    words.add(bytes(fields == null ? "HGETALL" : "HMGET"));
    words.add(bytes(key));
    List<String> names = fields == null ? null : new ArrayList<>(fields);
    if (names != null) {
      names.forEach(name -> words.add(bytes(name)));
    }
    Object reply = ask(words);
    if (!(reply instanceof List) || ((List<?>) reply).isEmpty()) {
      return reply instanceof List ? Status.NOT_FOUND : Status.ERROR;
    }
    List<?> values = (List<?>) reply;
    int step = names == null ? 2 : 1;
    for (int i = 0; i < values.size(); i += step) {
      String name = names == null ? new String((byte[]) values.get(i), StandardCharsets.UTF_8) : names.get(i);
      byte[] value = (byte[]) values.get(i + step - 1);
      if (value == null) {
        return Status.NOT_FOUND;
      }
      result.put(name, new ByteArrayByteIterator(value));
    }
    return Status.OK;
  }

  @Override
  public Status insert(String table, String key, Map<String, ByteIterator> values) {
    return update(table, key, values);
  }

  @Override
  public Status update(String table, String key, Map<String, ByteIterator> values) {
    List<byte[]> words = new ArrayList<>();
    words.add(bytes("HSET"));
    words.add(bytes(key));
    for (Map.Entry<String, ByteIterator> field : values.entrySet()) {
      words.add(bytes(field.getKey()));
      words.add(field.getValue().toArray());
    }
    return ask(words) instanceof Long ? Status.OK : Status.ERROR;
  }

  @Override
  public Status delete(String table, String key) {
    return Long.valueOf(1).equals(ask(List.of(bytes("DEL"), bytes(key)))) ? Status.OK : Status.NOT_FOUND;
  }

  @Override
  public Status scan(String table, String start, int count, Set<String> fields, Vector<HashMap<String, ByteIterator>> to) {
    return Status.NOT_IMPLEMENTED;
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  /** The reply: Long, byte[], null, List, or an IOException for an error or a lost connection. */
  private Object ask(List<byte[]> words) {
    ByteArrayOutputStream request = new ByteArrayOutputStream(2048);
    try {
      request.write(bytes("*" + words.size() + "\r\n"));
      for (byte[] word : words) {
        request.write(bytes("$" + word.length + "\r\n"));
        request.write(word);
        request.write('\r');
        request.write('\n');
      }
      request.writeTo(out);
      return reply();
    } catch (IOException error) {
      return error;
    }
  }

  private Object reply() throws IOException {
    String head = line();
    String rest = head.substring(1);
    switch (head.charAt(0)) {
      case ':':
        return Long.parseLong(rest);
      case '+':
        return bytes(rest);
      case '-':
        return new IOException(rest);
      case '$':
        return text(Integer.parseInt(rest));
      case '*':
        int count = Integer.parseInt(rest);
        List<Object> all = new ArrayList<>(Math.max(count, 0));
        for (int i = 0; i < count; i++) {
          all.add(reply());
        }
        return all;
      default:
        throw new IOException("a reply of an unknown kind: " + head);
    }
  }

  private byte[] text(int length) throws IOException {
    if (length < 0) {
      return null;
    }
    byte[] text = in.readNBytes(length);
    if (text.length < length || in.read() != '\r' || in.read() != '\n') {
      throw new EOFException("the connection has ended");
    }
    return text;
  }

  private String line() throws IOException {
    StringBuilder line = new StringBuilder();
    for (int next = in.read(); next != '\r'; next = in.read()) {
      if (next < 0) {
        throw new EOFException("the connection has ended");
      }
      line.append((char) next);
    }
    if (in.read() != '\n' || line.length() == 0) {
      throw new IOException("no line of a reply");
    }
    return line.toString();
  }
}

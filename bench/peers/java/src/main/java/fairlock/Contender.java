package fairlock;

import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A contender process in Java. Its arguments, its lines and its record file are those of the Go package bench/contend. System.nanoTime
 * reads CLOCK_MONOTONIC on Linux.
 */
public final class Contender {
  private static final OperatingSystemMXBean SYSTEM =
      (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

  private final Locker locker;
  private final long hold; // nanoseconds
  private final List<long[]> records = new ArrayList<>(); // of the loop's thread

  // Guarded by this. The loop's thread may be interrupted only where it waits or holds: a client that is interrupted while it gives back
  // leaves the lock behind.
  private boolean stopping;
  private boolean interruptible;
  private Thread loop;

  private Contender(Locker locker, long hold) {
    this.locker = locker;
    this.hold = hold;
  }

  public static void main(String[] args) {
    try {
      serve(args);
    } catch (Throwable e) {
      e.printStackTrace();
      System.exit(1);
    }
    System.exit(0); // clients leave threads behind
  }

  private static void serve(String[] args) throws Exception {
    Map<String, String> flags = new HashMap<>();
    for (int i = 0; i + 1 < args.length; i += 2) {
      flags.put(args[i], args[i + 1]);
    }
    for (String name : List.of("-kind", "-target", "-lock", "-hold", "-records")) {
      if (!flags.containsKey(name)) {
        throw new IllegalArgumentException(name + " must be set");
      }
    }
    long hold = duration(flags.get("-hold"));
    try (FileChannel file = FileChannel.open(Path.of(flags.get("-records")),
        StandardOpenOption.CREATE, StandardOpenOption.TRUNCATE_EXISTING, StandardOpenOption.WRITE)) {
      Locker locker = open(flags.get("-kind"), flags.get("-target"), flags.get("-lock"));
      System.out.println("ready");
      BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
      if (!"go".equals(in.readLine())) {
        locker.close();
        System.out.println("done {\"cpu_ns\":0,\"commands\":0}");
        return;
      }
      Contender c = new Contender(locker, hold);
      long before = SYSTEM.getProcessCpuTime();
      c.run(in);
      long cpu = SYSTEM.getProcessCpuTime() - before;
      locker.close();
      write(file, c.records);
      System.out.println("done {\"cpu_ns\":" + cpu + ",\"commands\":0}");
    }
  }

  private static Locker open(String kind, String target, String lock) throws Exception {
    return switch (kind) {
      case "redisson-fair" -> new RedissonFair(target, lock);
      case "curator-mutex" -> new CuratorMutex(target, lock);
      default -> throw new IllegalArgumentException("-kind " + kind + " is none of this program's");
    };
  }

  /** Loops until the input says stop, or ends. */
  private void run(BufferedReader in) throws Exception {
    Thread reader = new Thread(() -> {
      try {
        for (String line = in.readLine(); line != null && !line.equals("stop"); line = in.readLine()) {
          // "mark" is for contenders that can count.
        }
      } catch (IOException e) {
        e.printStackTrace(); // no way to be told to stop is left: stop
      }
      stop();
    }, "input");
    reader.setDaemon(true);
    synchronized (this) {
      loop = Thread.currentThread();
    }
    reader.start();
    while (cycle()) {
      // until stopped
    }
  }

  /** Takes and gives back the lock once. Returns false when the contender has been stopped. */
  private boolean cycle() throws Exception {
    long[] r = new long[6]; // asked, queued, granted, unlocking, unlocked, token
    if (!enter()) {
      return false;
    }
    r[0] = System.nanoTime();
    try {
      locker.lock();
    } catch (Exception e) {
      leave();
      if (!stopped()) {
        throw e;
      }
      records.add(r);
      return false;
    }
    r[2] = System.nanoTime();
    if (hold > 0) {
      try {
        TimeUnit.NANOSECONDS.sleep(hold);
      } catch (InterruptedException e) {
        // stopped: give back early
      }
    }
    leave();
    r[3] = System.nanoTime();
    locker.unlock();
    r[4] = System.nanoTime();
    records.add(r);
    return true;
  }

  private synchronized boolean enter() {
    interruptible = !stopping;
    return interruptible;
  }

  private synchronized void leave() {
    interruptible = false;
    Thread.interrupted(); // forget an interrupt that nothing has noticed
  }

  private synchronized boolean stopped() {
    return stopping;
  }

  private synchronized void stop() {
    stopping = true;
    if (interruptible) {
      loop.interrupt();
    }
  }

  private static void write(FileChannel file, List<long[]> records) throws IOException {
    ByteBuffer buffer = ByteBuffer.allocate(records.size() * 6 * Long.BYTES).order(ByteOrder.LITTLE_ENDIAN);
    for (long[] r : records) {
      for (long v : r) {
        buffer.putLong(v);
      }
    }
    buffer.flip();
    while (buffer.hasRemaining()) {
      file.write(buffer);
    }
  }

  /** Reads a duration as Go writes it, such as 1m2.5s, 5ms or 0s, in nanoseconds. */
  static long duration(String text) {
    Matcher m = Pattern.compile("(\\d+(?:\\.\\d+)?)(h|ms|m|s|us|µs|ns)").matcher(text);
    double total = 0;
    int end = 0;
    while (m.find() && m.start() == end) {
      end = m.end();
      total += Double.parseDouble(m.group(1)) * switch (m.group(2)) {
        case "h" -> 3600e9;
        case "m" -> 60e9;
        case "s" -> 1e9;
        case "ms" -> 1e6;
        case "ns" -> 1;
        default -> 1e3;
      };
    }
    if (end == 0 || end != text.length()) {
      throw new IllegalArgumentException("-hold " + text + " is no duration");
    }
    return (long) total;
  }
}

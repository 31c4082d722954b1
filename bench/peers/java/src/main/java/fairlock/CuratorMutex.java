package fairlock;

import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Curator's InterProcessMutex, with the retry policy of its guide and default time-outs. */
final class CuratorMutex implements Locker {
  private static final int CONNECT_SECONDS = 50;

  private final CuratorFramework client;
  private final InterProcessMutex mutex;

  CuratorMutex(String target, String name) throws Exception {
    client = CuratorFrameworkFactory.newClient(target, new ExponentialBackoffRetry(1000, 3));
    client.start();
    if (!client.blockUntilConnected(CONNECT_SECONDS, TimeUnit.SECONDS)) {
      client.close();
      throw new IllegalStateException("no ZooKeeper at " + target);
    }
    mutex = new InterProcessMutex(client, "/bench/" + name);
  }

  @Override
  public void lock() throws Exception {
    mutex.acquire();
  }

  @Override
  public void unlock() throws Exception {
    mutex.release();
  }

  @Override
  public void close() {
    client.close();
  }
}

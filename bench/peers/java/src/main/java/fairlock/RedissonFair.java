package fairlock;

import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson's fair lock on one server, with the defaults: a lease of 30 s that its watchdog renews. */
final class RedissonFair implements Locker {
  private final RedissonClient client;
  private final RLock lock;

  RedissonFair(String target, String name) {
    Config config = new Config();
    config.useSingleServer().setAddress("redis://" + target);
    client = Redisson.create(config);
    lock = client.getFairLock(name);
  }

  @Override
  public void lock() throws InterruptedException {
    lock.lockInterruptibly();
  }

  @Override
  public void unlock() {
    lock.unlock();
  }

  @Override
  public void close() {
    client.shutdown();
  }
}

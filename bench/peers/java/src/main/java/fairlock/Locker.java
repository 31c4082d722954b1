package fairlock;

/** One contender's client of one lock. */
interface Locker extends AutoCloseable {
  /** Waits, however long, until the lock is held. An interrupt ends the wait. */
  void lock() throws Exception;

  /** Gives back what lock took. */
  void unlock() throws Exception;

  @Override
  void close() throws Exception;
}

package interop;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.DistributedFileSystem;

/**
 * Fast operations on a namespace, chosen by a seed: names, modes and snapshots are the same each time, whatever the
 * order of the threads, because each thread has its own directory. Each step is at least one transaction.
 */
final class NamespaceLoad implements Callable<Void> {
  private static final int MOST = 400;
  private static final String SNAPSHOT = "s";
  private final DistributedFileSystem files;
  private final Path base;
  private final Random random;
  private final int steps;
  private final List<Path> directories = new ArrayList<>();
  private final List<Path> made = new ArrayList<>();
  private final List<String> snapshots = new ArrayList<>();
  private int names;

  private NamespaceLoad(DistributedFileSystem files, Path base, int steps, long seed) {
    this.files = files;
    this.base = base;
    this.steps = steps;
    this.random = new Random(seed);
  }

  /** Make `steps` steps below `base` with `threads` threads, each in `base`/t0, t1 ... */
  static void run(Configuration conf, Path base, int steps, long seed, int threads) throws Exception {
    DistributedFileSystem files = (DistributedFileSystem) FileSystem.get(conf);
    ExecutorService workers = Executors.newFixedThreadPool(threads);
    List<Future<Void>> running = new ArrayList<>();
    for (int i = 0; i < threads; i++) {
      int share = steps / threads + (i < steps % threads ? 1 : 0);
      running.add(workers.submit(new NamespaceLoad(files, new Path(base, "t" + i), share, seed + i)));
    }
    workers.shutdown();
    for (Future<Void> worker : running) {
      worker.get();
    }
  }

  @Override
  public Void call() throws IOException {
    if (files.mkdirs(base)) {
      files.allowSnapshot(base);
    }
    directories.add(base);
    for (int i = 0; i < steps; i++) {
      step();
    }
    return null;
  }

  private void step() throws IOException {
    int choice = made.size() < MOST ? random.nextInt(100) : 85 + random.nextInt(15);
    if (choice < 15) {
      directories.add(fresh());
      files.mkdirs(directories.get(directories.size() - 1));
    } else if (choice < 55 || made.isEmpty()) {
      Path path = fresh();
      files.create(path).close();
      made.add(path);
    } else if (choice < 70) {
      int chosen = random.nextInt(made.size());
      Path target = fresh();
      rename(made.get(chosen), target);
      made.set(chosen, target);
    } else if (choice < 80) {
      files.setPermission(anyFile(), new FsPermission((short) random.nextInt(01000)));
    } else if (choice < 84) {
      files.setReplication(anyFile(), (short) (1 + random.nextInt(9)));
    } else if (choice < 85) {
      snapshot();
    } else if (choice < 95) {
      files.delete(made.remove(random.nextInt(made.size())), false);
    } else {
      files.setOwner(anyFile(), "user" + random.nextInt(20), "group" + random.nextInt(5));
    }
  }

  private void rename(Path source, Path target) throws IOException {
    if (!files.rename(source, target)) {
      throw new IOException("rename of " + source + " to " + target + " was refused");
    }
  }

  private void snapshot() throws IOException {
    if (snapshots.size() > 5) {
      files.deleteSnapshot(base, snapshots.remove(random.nextInt(snapshots.size())));
    } else {
      String name = SNAPSHOT + names++;
      files.createSnapshot(base, name);
      snapshots.add(name);
    }
  }

  private Path anyFile() {
    return made.get(random.nextInt(made.size()));
  }

  private Path fresh() {
    return new Path(directories.get(random.nextInt(directories.size())), "n" + names++);
  }
}

package interop;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.ClientProtocol;
import org.apache.hadoop.hdfs.security.token.delegation.DelegationTokenIdentifier;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.security.token.Token;

/**
 * Operations on a namespace, chosen by a seed and a mode, with a model of the namespace. An operation that the NameNode
 * refuses is not an error; the next operation follows.
 */
final class RandomWork {
  /** Weights of the operations by mode, in the order of `one`. */
  private static final Map<String, int[]> WEIGHTS = new TreeMap<>();

  static {
    // create open more append truncate concat mkdir delete rename_old rename snapshot attribute recover link cache token
    WEIGHTS.put("snapshot", new int[] {16, 3, 4, 6, 5, 2, 6, 10, 9, 8, 16, 13, 1, 1, 0, 0});
    WEIGHTS.put("files", new int[] {30, 3, 4, 7, 4, 3, 8, 9, 13, 5, 0, 13, 1, 0, 0, 0});
    WEIGHTS.put("mixed", new int[] {20, 4, 5, 6, 4, 3, 9, 8, 8, 5, 4, 16, 1, 2, 3, 2});
  }

  private static final long[] BLOCK_SIZES = {1024, 4096, 1 << 20, 64L << 20, 128L << 20, 256L << 20, 2L << 30};
  private static final int MOST_OPEN = 12;
  private static final int LONGEST_PATH = 700;

  private static final class Node {
    boolean directory;
    boolean link;
    boolean open;
    long length;
    long blockSize;
  }

  private final DistributedFileSystem files;
  private final ClientProtocol node;
  private final SimulatedDataNode dataNode;
  private final String mode;
  private final Random random;
  private final RandomNames names;
  private final RandomAttributes attributes;
  private final TreeMap<String, Node> tree = new TreeMap<>();
  private final TreeMap<String, List<String>> snapshots = new TreeMap<>();
  private final List<SimulatedWriter> open = new ArrayList<>();
  private final List<Token<DelegationTokenIdentifier>> tokens = new ArrayList<>();
  private List<String> paths;
  private int clients;

  /** `key` is the key of encryption zones, or null. */
  RandomWork(DistributedFileSystem files, SimulatedDataNode dataNode, String mode, long seed, String key)
      throws Exception {
    if (!WEIGHTS.containsKey(mode)) {
      throw new IllegalArgumentException("no mode " + mode + " but " + WEIGHTS.keySet());
    }
    this.files = files;
    this.node = files.getClient().getNamenode();
    this.dataNode = dataNode;
    this.mode = mode;
    random = new Random(seed * 1000003L + 17);
    names = new RandomNames(random);
    attributes = new RandomAttributes(files, random, names);
    for (int i = 0; i < 14; i++) {
      String path = i < 6 ? "/d" + i : child(directory());
      files.mkdirs(new Path(path));
      put(path, true);
      if (key != null && (i == 1 || i == 4)) {
        files.createEncryptionZone(new Path(path), key);
      }
    }
    for (int i = 0; i < 4 && mode.equals("snapshot"); i++) {
      files.allowSnapshot(new Path("/d" + i));
      snapshots.put("/d" + i, new ArrayList<>());
    }
  }

  void run(int steps) throws InterruptedException {
    for (int i = 0; i < steps; i++) {
      try {
        one();
      } catch (InterruptedException stop) {
        throw stop;
      } catch (Exception refused) {
        System.err.println("refused: " + refused);
      }
    }
  }

  private void one() throws Exception {
    int[] weights = WEIGHTS.get(mode);
    int left = 0;
    for (int weight : weights) {
      left += weight;
    }
    left = random.nextInt(left);
    int choice = 0;
    while (left >= weights[choice]) {
      left -= weights[choice++];
    }
    switch (choice) {
      case 0:
        create(false);
        break;
      case 1:
        if (open.size() < MOST_OPEN) {
          create(true);
        }
        break;
      case 2:
        more();
        break;
      case 3:
        append();
        break;
      case 4:
        truncate();
        break;
      case 5:
        concat();
        break;
      case 6:
        mkdir();
        break;
      case 7:
        delete();
        break;
      case 8:
        renameOld();
        break;
      case 9:
        rename();
        break;
      case 10:
        snapshot();
        break;
      case 11:
        String path = any();
        if (!tree.get(path).link) {
          attributes.change(new Path(path), tree.get(path).directory);
        }
        break;
      case 12:
        recover();
        break;
      case 13:
        String link = child(directory());
        files.createSymlink(new Path(random.nextBoolean() ? any() : names.foreign()), new Path(link), random.nextBoolean());
        put(link, false).link = true;
        break;
      case 14:
        attributes.changeCache(new Path(random.nextBoolean() ? any() : "/" + names.foreign()));
        break;
      default:
        token();
    }
  }

  // ---- the model -----------------------------------------------------------------------------------------

  private Node put(String path, boolean directory) {
    Node made = new Node();
    made.directory = directory;
    tree.put(path, made);
    for (String above = parent(path); !above.equals("/"); above = parent(above)) {
      Node holder = tree.computeIfAbsent(above, missing -> new Node());
      holder.directory = true;
    }
    paths = null;
    return made;
  }

  private static boolean isBelow(String path, String top) {
    return path.equals(top) || path.startsWith(top + "/");
  }

  private Map<String, Node> below(String path) {
    return tree.subMap(path + "/", path + "0");
  }

  private void remove(String path) {
    tree.remove(path);
    below(path).clear();
    snapshots.keySet().removeIf(each -> isBelow(each, path));
    open.removeIf(writer -> isBelow(writer.path, path));
    paths = null;
  }

  private void move(String source, String target) {
    Map<String, Node> moved = new TreeMap<>(below(source));
    below(source).clear();
    tree.put(target, tree.remove(source));
    moved.forEach((path, each) -> tree.put(target + path.substring(source.length()), each));
    for (String path : new ArrayList<>(snapshots.keySet())) {
      if (isBelow(path, source)) {
        snapshots.put(target + path.substring(source.length()), snapshots.remove(path));
      }
    }
    for (SimulatedWriter writer : open) {
      if (isBelow(writer.path, source)) {
        writer.path = target + writer.path.substring(source.length());
      }
    }
    paths = null;
  }

  private static String parent(String path) {
    int end = path.lastIndexOf('/');
    return end == 0 ? "/" : path.substring(0, end);
  }

  private String any() {
    if (paths == null) {
      paths = new ArrayList<>(tree.keySet());
    }
    return paths.get(random.nextInt(paths.size()));
  }

  private String directory() {
    for (int i = 0; i < 60 && !tree.isEmpty(); i++) {
      String path = any();
      if (tree.get(path).directory && path.length() < 300) {
        return path;
      }
    }
    return "/d0";
  }

  /** Return a closed file, or null if none is found. */
  private String file() {
    for (int i = 0; i < 60; i++) {
      String path = any();
      Node found = tree.get(path);
      if (!found.directory && !found.link && !found.open) {
        return path;
      }
    }
    return null;
  }

  private String child(String directory) {
    return (directory.equals("/") ? "" : directory) + "/" + names.fresh();
  }

  private String client() {
    return "DFSClient_NONMAPREDUCE_" + random.nextInt() + "_" + ++clients;
  }

  private long upTo(long most) {
    return 1 + random.nextInt((int) Math.min(most, 1 << 30));
  }

  private long length(long blockSize) {
    switch (random.nextInt(6)) {
      case 0:
        return 0;
      case 1:
        return blockSize;
      case 2:
        return blockSize * (1 + random.nextInt(4));
      case 3:
        return upTo(blockSize);
      default:
        return blockSize * random.nextInt(3) + upTo(blockSize);
    }
  }

  // ---- files ---------------------------------------------------------------------------------------------

  private void create(boolean stays) throws Exception {
    String path = child(directory());
    int sizes = random.nextInt(4) == 0 ? BLOCK_SIZES.length : 3;
    long blockSize = BLOCK_SIZES[random.nextInt(sizes)];
    long length = length(blockSize);
    EnumSet<CreateFlag> flags = EnumSet.of(CreateFlag.CREATE);
    String old = random.nextInt(10) == 0 ? file() : null;
    if (old != null) {
      path = old;
      flags.add(CreateFlag.OVERWRITE);
    }
    if (random.nextInt(30) == 0) {
      flags.add(CreateFlag.LAZY_PERSIST);
    }
    SimulatedWriter writer =
        SimulatedWriter.create(
            node, dataNode, client(), path, attributes.permission(), flags, attributes.replication(), blockSize);
    if (old != null) {
      remove(path);
    }
    Node made = put(path, false);
    made.blockSize = blockSize;
    made.length = length;
    made.open = true;
    writer.write(length);
    if (!stays) {
      writer.close();
      made.open = false;
      return;
    }
    if (random.nextBoolean()) {
      writer.hsync();
    } else {
      writer.hflush();
    }
    open.add(writer);
  }

  /** Continue to write an open file. */
  private void more() throws Exception {
    if (open.isEmpty()) {
      return;
    }
    int chosen = random.nextInt(open.size());
    SimulatedWriter writer = open.get(chosen);
    Node written = tree.get(writer.path);
    int choice = random.nextInt(5);
    if (choice <= 2 || written == null) {
      open.remove(chosen);
      if (written != null) {
        written.open = false;
      }
      writer.close();
    } else if (choice == 3) {
      long bytes = 1 + random.nextInt(3000);
      writer.write(bytes);
      written.length += bytes;
      writer.hsync();
    } else {
      writer.hflush();
      writer.recoverPipeline();
    }
  }

  private void append() throws Exception {
    String path = file();
    if (path == null) {
      return;
    }
    Node written = tree.get(path);
    boolean stays = random.nextInt(6) == 0;
    SimulatedWriter writer = SimulatedWriter.append(node, dataNode, client(), path, random.nextInt(4) == 0);
    written.open = true;
    long bytes = random.nextInt(8) == 0 ? 0 : upTo(written.blockSize * 2);
    writer.write(bytes);
    written.length += bytes;
    if (stays) {
      writer.hflush();
      open.add(writer);
    } else {
      writer.close();
      written.open = false;
    }
  }

  private void truncate() throws Exception {
    String path = file();
    if (path == null || tree.get(path).length == 0) {
      return;
    }
    Node cut = tree.get(path);
    boolean atBlock = random.nextInt(3) == 0;
    long length = atBlock ? cut.length / cut.blockSize * cut.blockSize : (long) (random.nextDouble() * cut.length);
    if (!node.truncate(path, length, client())) {
      settle(path);
    }
    cut.length = length;
  }

  /** Wait until the DataNode has recovered a block at the request of the NameNode. */
  private void settle(String path) throws Exception {
    for (int i = 0; i < 200 && !files.isFileClosed(new Path(path)); i++) {
      dataNode.heartbeat();
      Thread.sleep(i < 5 ? 2 : 50);
    }
  }

  private void concat() throws Exception {
    for (int i = 0; i < 20; i++) {
      String path = file();
      if (path == null) {
        return;
      }
      List<String> among = new ArrayList<>();
      below(parent(path))
          .forEach(
              (each, found) -> {
                boolean closed = !found.directory && !found.link && !found.open;
                if (closed && found.length > 0 && parent(each).equals(parent(path))) {
                  among.add(each);
                }
              });
      if (among.size() < 3) {
        continue;
      }
      Collections.shuffle(among, random);
      if (random.nextInt(4) != 0) {
        // the blocks of the target must not be smaller than those of the sources
        among.sort((a, b) -> Long.compare(tree.get(b).blockSize, tree.get(a).blockSize));
      }
      int count = 1 + random.nextInt(Math.min(3, among.size() - 1));
      List<String> sources = among.subList(1, 1 + count);
      files.concat(new Path(among.get(0)), sources.stream().map(Path::new).toArray(Path[]::new));
      for (String source : sources) {
        tree.get(among.get(0)).length += tree.get(source).length;
        remove(source);
      }
      return;
    }
  }

  private void recover() throws Exception {
    if (open.isEmpty()) {
      return;
    }
    SimulatedWriter writer = open.remove(random.nextInt(open.size()));
    if (!node.recoverLease(writer.path, client())) {
      settle(writer.path);
    }
    Node found = tree.get(writer.path);
    if (found != null) {
      found.length = files.getFileStatus(new Path(writer.path)).getLen();
      found.open = false;
    }
  }

  // ---- the tree ------------------------------------------------------------------------------------------

  private void mkdir() throws IOException {
    String path = child(random.nextInt(12) == 0 ? "/" : directory());
    if (random.nextInt(5) == 0) {
      path = child(path);
    }
    files.mkdirs(new Path(path), attributes.permission());
    put(path, true);
  }

  private static boolean isTop(String path) {
    return path.indexOf('/', 1) < 0;
  }

  private void delete() throws IOException {
    String path = any();
    if (isTop(path) && random.nextInt(10) != 0) {
      return;
    }
    if (tree.get(path).directory && below(path).size() > 40 && random.nextInt(5) != 0) {
      return;
    }
    if (files.delete(new Path(path), random.nextInt(6) != 0)) {
      remove(path);
    }
  }

  /** Return the target of a move, or null if the target would be below the source. */
  private String target(String source) {
    String target;
    if (random.nextInt(4) == 0) {
      target = any();
    } else if (random.nextInt(3) == 0) {
      target = child(parent(source));
    } else {
      target = child(directory());
    }
    return isBelow(target, source) || target.length() > LONGEST_PATH ? null : target;
  }

  /** Return the source of a move, or null if this path is not moved. */
  private String source() {
    String path = any();
    return isTop(path) && random.nextInt(6) != 0 ? null : path;
  }

  private void renameOld() throws IOException {
    String source = source();
    String target = source == null ? null : target(source);
    if (target != null && files.rename(new Path(source), new Path(target))) {
      Node into = tree.get(target);
      boolean inside = into != null && into.directory;
      move(source, inside ? target + source.substring(source.lastIndexOf('/')) : target);
    }
  }

  @SuppressWarnings("deprecation")
  private void rename() throws IOException {
    String source = source();
    String target = source == null ? null : target(source);
    if (target == null) {
      return;
    }
    Options.Rename option = random.nextInt(3) != 0 ? Options.Rename.OVERWRITE : Options.Rename.NONE;
    files.rename(new Path(source), new Path(target), option);
    if (tree.containsKey(target)) {
      remove(target);
    }
    move(source, target);
  }

  private void snapshot() throws IOException {
    int choice = random.nextInt(20);
    List<String> known = new ArrayList<>(snapshots.keySet());
    if (known.isEmpty() || choice == 0) {
      String path = directory();
      files.allowSnapshot(new Path(path));
      snapshots.computeIfAbsent(path, fresh -> new ArrayList<>());
      return;
    }
    String path = known.get(random.nextInt(known.size()));
    List<String> taken = snapshots.get(path);
    if (choice <= 10) {
      String name = random.nextInt(6) == 0 ? names.foreign() : "s" + names.plain();
      files.createSnapshot(new Path(path), name);
      taken.add(name);
    } else if (choice <= 15 && !taken.isEmpty()) {
      int chosen = random.nextInt(taken.size());
      files.deleteSnapshot(new Path(path), taken.get(chosen));
      taken.remove(chosen);
    } else if (choice <= 18 && !taken.isEmpty()) {
      int chosen = random.nextInt(taken.size());
      String name = "r" + names.plain();
      files.renameSnapshot(new Path(path), taken.get(chosen), name);
      taken.set(chosen, name);
    } else if (choice == 19 && taken.isEmpty()) {
      files.disallowSnapshot(new Path(path));
      snapshots.remove(path);
    }
  }

  // ---- delegation tokens ---------------------------------------------------------------------------------

  private void token() throws IOException {
    int choice = random.nextInt(6);
    if (tokens.isEmpty() || choice <= 2) {
      tokens.add(node.getDelegationToken(new Text(UserGroupInformation.getCurrentUser().getShortUserName())));
    } else if (choice <= 4) {
      node.renewDelegationToken(tokens.get(random.nextInt(tokens.size())));
    } else {
      node.cancelDelegationToken(tokens.remove(random.nextInt(tokens.size())));
    }
  }
}

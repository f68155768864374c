package interop;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.crypto.key.KeyProvider;
import org.apache.hadoop.crypto.key.KeyProviderFactory;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.protocol.HdfsConstants.SafeModeAction;
import org.apache.hadoop.hdfs.server.namenode.NameNode;
import org.apache.hadoop.hdfs.server.namenode.SecondaryNameNode;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.util.ExitUtil;

/**
 * Records random work behind a pipe: reads one command per line from standard input, with tabs between its words, and
 * answers each with one line: "ok", or "refused" and the reason why the SecondaryNameNode made no checkpoint, or "ended"
 * and the reason why the NameNode exited when it saved the first third, or "error" and its cause.
 *
 * <pre>
 * record FOLDER MODE SEED STEPS   a NameNode in FOLDER/name, RandomWork on it: an image after the first third of the
 *                                 steps, the edits of the rest, and in FOLDER/secondary the checkpoint that a
 *                                 SecondaryNameNode makes of both
 * </pre>
 *
 * MODE is a mode of RandomWork. Words after a + configure the NameNode: `slices` (compressed images with sub-sections),
 * `zones` or `sm4` (encryption zones, with AES or SM4), `locks` (the fine-grained lock). A release ignores unknown
 * keys.
 */
public final class RandomRecorder {
  private static final String HOST = "127.0.0.1";
  private static final String[] CODECS = {"DefaultCodec", "GzipCodec", "BZip2Codec"};
  private static final String KEY = "key";
  private static final String KEYS = "dfs.encryption.key.provider.uri";
  private static final String LOCKS = "org.apache.hadoop.hdfs.server.namenode.fgl.FineGrainedFSNamesystemLock";
  private final PrintStream log;

  private RandomRecorder(PrintStream log) {
    this.log = log;
  }

  public static void main(String[] arguments) throws IOException {
    PrintStream answers = new PrintStream(System.out, true, "UTF-8");
    System.setOut(System.err);
    // otherwise Java does not read the objects that Hadoop writes into a key store
    System.setProperty("jceks.key.serialFilter", "java.lang.*;java.security.*;javax.crypto.**;org.apache.hadoop.**;!*");
    DefaultMetricsSystem.setMiniClusterMode(true);
    FileSystem.enableSymlinks();
    ExitUtil.disableSystemExit();
    RandomRecorder recorder = new RandomRecorder(System.err);
    BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = commands.readLine(); line != null; line = commands.readLine()) {
      answers.println(recorder.answer(line.split("\t")));
    }
    // threads of Hadoop are still running
    Runtime.getRuntime().halt(0);
  }

  private String answer(String[] words) {
    try {
      return record(new File(words[1]), words[2], Long.parseLong(words[3]), Integer.parseInt(words[4]));
    } catch (Throwable error) {
      error.printStackTrace(log);
      return "error\t" + oneLine(error);
    }
  }

  private String record(File folder, String mode, long seed, int steps) throws Exception {
    List<String> words = Arrays.asList(mode.split("\\+"));
    Configuration conf = configuration(folder);
    configure(conf, folder, words, seed);
    String key = conf.get(KEYS) == null ? null : KEY;
    UserGroupInformation.setConfiguration(conf);
    NameNode.format(conf);
    NameNode node = NameNode.createNameNode(new String[0], conf);
    try {
      conf.set("fs.defaultFS", "hdfs://" + HOST + ":" + node.getNameNodeAddress().getPort());
      conf.set("dfs.namenode.http-address", HOST + ":" + node.getHttpAddress().getPort());
      try (DistributedFileSystem files = (DistributedFileSystem) FileSystem.newInstance(conf)) {
        SimulatedDataNode dataNode = new SimulatedDataNode(node.getRpcServer(), 1);
        files.setSafeMode(SafeModeAction.SAFEMODE_LEAVE);
        RandomWork work = new RandomWork(files, dataNode, words.get(0), seed, key);
        work.run(steps / 3);
        files.setSafeMode(SafeModeAction.SAFEMODE_ENTER);
        try {
          files.saveNamespace();
        } catch (IOException ended) {
          if (!ExitUtil.terminateCalled()) {
            throw ended;
          }
          ExitUtil.resetFirstExitException();
          return "ended\t" + oneLine(ended);
        }
        files.setSafeMode(SafeModeAction.SAFEMODE_LEAVE);
        work.run(steps - steps / 3);
      }
      return checkpoint(conf);
    } finally {
      node.stop();
      node.join();
    }
  }

  private String checkpoint(Configuration conf) throws IOException {
    SecondaryNameNode secondary = new SecondaryNameNode(conf);
    try {
      secondary.doCheckpoint();
      return "ok";
    } catch (Exception | AssertionError refused) {
      refused.printStackTrace(log);
      return "refused\t" + oneLine(refused);
    } finally {
      secondary.shutdown();
    }
  }

  private static Configuration configuration(File folder) {
    Configuration conf = new HdfsConfiguration();
    conf.set("fs.defaultFS", "hdfs://" + HOST + ":0");
    conf.set("dfs.namenode.http-address", HOST + ":0");
    conf.set("dfs.namenode.secondary.http-address", HOST + ":0");
    conf.set("hadoop.tmp.dir", new File(folder, "tmp").getPath());
    conf.set("dfs.namenode.name.dir", new File(folder, "name").toURI().toString());
    conf.set("dfs.namenode.checkpoint.dir", new File(folder, "secondary").toURI().toString());
    conf.set("dfs.namenode.num.checkpoints.retained", "20");
    conf.set("dfs.namenode.edits.noeditlogchannelflush", "true");
    conf.set("dfs.namenode.delegation.token.always-use", "true");
    conf.set("dfs.namenode.acls.enabled", "true");
    conf.set("dfs.namenode.fs-limits.min-block-size", "512");
    conf.set("dfs.namenode.handler.count", "3");
    conf.set("dfs.namenode.safemode.extension", "0");
    conf.set("dfs.replication", "1");
    conf.set("dfs.webhdfs.enabled", "false");
    conf.set("ipc.client.connection.maxidletime", "300");
    return conf;
  }

  private static void configure(Configuration conf, File folder, List<String> words, long seed) throws Exception {
    for (String word : words.subList(1, words.size())) {
      switch (word) {
        case "slices":
          conf.setBoolean("dfs.image.compress", true);
          conf.set("dfs.image.compression.codec", "org.apache.hadoop.io.compress." + CODECS[(int) (seed % CODECS.length)]);
          conf.setBoolean("dfs.image.parallel.load", true);
          conf.setInt("dfs.image.parallel.target.sections", 4);
          conf.setInt("dfs.image.parallel.inode.threshold", 10);
          break;
        case "zones":
        case "sm4":
          conf.set(KEYS, "jceks://file" + new File(folder, "keys.jceks").toURI().getPath());
          KeyProvider keys = KeyProviderFactory.get(new URI(conf.get(KEYS)), conf);
          String cipher = word.equals("sm4") ? "SM4/CTR/NoPadding" : "AES/CTR/NoPadding";
          keys.createKey(KEY, new byte[16], KeyProvider.options(conf).setBitLength(128).setCipher(cipher));
          keys.flush();
          break;
        case "locks":
          conf.set("dfs.namenode.lock.model.provider.class", LOCKS);
          break;
        default:
          throw new IllegalArgumentException("a mode has no " + word);
      }
    }
  }

  private static String oneLine(Throwable error) {
    StringBuilder text = new StringBuilder();
    for (Throwable cause = error; cause != null; cause = cause.getCause()) {
      text.append(text.length() == 0 ? "" : " <- ").append(cause);
    }
    return text.toString().replaceAll("\\s+", " ");
  }
}

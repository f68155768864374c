package interop;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.protocol.HdfsConstants.SafeModeAction;
import org.apache.hadoop.hdfs.server.namenode.NameNode;
import org.apache.hadoop.hdfs.server.namenode.SecondaryNameNode;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.security.UserGroupInformation;

/**
 * Records random work behind a pipe: reads commands from standard input, one a line with tabs between its words, and
 * answers each with one line, "ok", or "refused" and why the SecondaryNameNode made no checkpoint, or "error" and
 * what went wrong.
 *
 * <pre>
 * record FOLDER MODE SEED STEPS   a NameNode in FOLDER/name, RandomWork on it: an image after the first third of the
 *                                 steps, the edits of the rest, and what a SecondaryNameNode makes of both in
 *                                 FOLDER/secondary
 * </pre>
 */
public final class RandomRecorder {
  private static final String HOST = "127.0.0.1";
  private final PrintStream log;

  private RandomRecorder(PrintStream log) {
    this.log = log;
  }

  public static void main(String[] arguments) throws IOException {
    PrintStream answers = new PrintStream(System.out, true, "UTF-8");
    System.setOut(System.err);
    DefaultMetricsSystem.setMiniClusterMode(true);
    FileSystem.enableSymlinks();
    RandomRecorder recorder = new RandomRecorder(System.err);
    BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = commands.readLine(); line != null; line = commands.readLine()) {
      answers.println(recorder.answer(line.split("\t")));
    }
    // Hadoop leaves threads behind
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
    Configuration conf = configuration(folder);
    UserGroupInformation.setConfiguration(conf);
    NameNode.format(conf);
    NameNode node = NameNode.createNameNode(new String[0], conf);
    try {
      conf.set("fs.defaultFS", "hdfs://" + HOST + ":" + node.getNameNodeAddress().getPort());
      conf.set("dfs.namenode.http-address", HOST + ":" + node.getHttpAddress().getPort());
      try (DistributedFileSystem files = (DistributedFileSystem) FileSystem.newInstance(conf)) {
        SimulatedDataNode dataNode = new SimulatedDataNode(node.getRpcServer(), 1);
        files.setSafeMode(SafeModeAction.SAFEMODE_LEAVE);
        RandomWork work = new RandomWork(files, dataNode, mode, seed);
        work.run(steps / 3);
        files.setSafeMode(SafeModeAction.SAFEMODE_ENTER);
        files.saveNamespace();
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

  private static String oneLine(Throwable error) {
    StringBuilder text = new StringBuilder();
    for (Throwable cause = error; cause != null; cause = cause.getCause()) {
      text.append(text.length() == 0 ? "" : " <- ").append(cause);
    }
    return text.toString().replaceAll("\\s+", " ");
  }
}

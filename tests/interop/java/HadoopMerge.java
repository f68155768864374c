package org.apache.hadoop.hdfs.server.namenode;

import com.sun.management.OperatingSystemMXBean;
import java.io.File;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.net.URI;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.server.common.Storage.StorageDirectory;
import org.apache.hadoop.hdfs.server.namenode.NNStorage.NameNodeFile;
import org.apache.hadoop.hdfs.server.protocol.RemoteEditLog;
import org.apache.hadoop.hdfs.server.protocol.RemoteEditLogManifest;

/**
 * The steps of SecondaryNameNode.doMerge, each timed: load the newest image of a checkpoint directory, replay the
 * finalized segments in it, and save the namespace there.
 *
 * <pre>
 * HadoopMerge CHECKPOINT_DIR
 * </pre>
 *
 * Prints one JSON object per line after each part: its name, wall seconds, CPU seconds, and the time of its end on the
 * clock of System.nanoTime. This class is in Hadoop's package because doMerge is not public.
 */
public final class HadoopMerge {
  private static final Pattern SEGMENT = Pattern.compile("edits_(\\d+)-(\\d+)");
  private final OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
  private final PrintStream answers;
  private long started;
  private long startedProcessors;

  private HadoopMerge(PrintStream answers) {
    this.answers = answers;
  }

  public static void main(String[] arguments) throws IOException {
    PrintStream answers = new PrintStream(System.out, true, "UTF-8");
    System.setOut(System.err);
    new HadoopMerge(answers).merge(new File(arguments[0]));
    // threads of Hadoop are still running
    Runtime.getRuntime().halt(0);
  }

  /** The steps of SecondaryNameNode.initialize and doMerge. */
  private void merge(File folder) throws IOException {
    Configuration conf = new HdfsConfiguration();
    conf.set("fs.defaultFS", "hdfs://127.0.0.1:1");
    conf.set("dfs.namenode.acls.enabled", "true");
    List<URI> folders = Collections.singletonList(folder.toURI());
    SecondaryNameNode.CheckpointStorage image = new SecondaryNameNode.CheckpointStorage(conf, folders, folders);
    image.recoverCreate(false);
    FSNamesystem namesystem = new FSNamesystem(conf, image, true);
    namesystem.dir.disableQuotaChecks();
    NNStorage storage = image.getStorage();
    StorageDirectory directory = storage.getStorageDir(0);
    storage.readProperties(directory);
    long txid = newestImage(directory.getCurrentDir());

    begin();
    File file = storage.findImageFile(NameNodeFile.IMAGE, txid);
    namesystem.writeLock();
    try {
      image.reloadFromImageFile(file, namesystem);
    } finally {
      namesystem.writeUnlock();
    }
    namesystem.imageLoadComplete();
    end("load");

    begin();
    Checkpointer.rollForwardByApplyingLogs(segments(directory.getCurrentDir(), txid), image, namesystem);
    end("replay");

    begin();
    image.saveFSImageInAllDirs(namesystem, image.getLastAppliedTxId());
    storage.writeAll();
    end("write");
  }

  private void begin() {
    started = System.nanoTime();
    startedProcessors = system.getProcessCpuTime();
  }

  private void end(String part) {
    long now = System.nanoTime();
    double processors = (system.getProcessCpuTime() - startedProcessors) / 1e9;
    answers.printf(
        java.util.Locale.ROOT,
        "{\"phase\": \"%s\", \"seconds\": %.6f, \"cpu\": %.6f, \"at\": %.6f}%n",
        part,
        (now - started) / 1e9,
        processors,
        now / 1e9);
  }

  private static long newestImage(File current) {
    long newest = -1;
    for (String name : current.list()) {
      if (name.matches("fsimage_\\d+")) {
        newest = Math.max(newest, Long.parseLong(name.substring("fsimage_".length())));
      }
    }
    return newest;
  }

  private static RemoteEditLogManifest segments(File current, long after) {
    List<RemoteEditLog> found = new ArrayList<>();
    for (String name : current.list()) {
      Matcher matcher = SEGMENT.matcher(name);
      if (matcher.matches() && Long.parseLong(matcher.group(1)) > after) {
        found.add(new RemoteEditLog(Long.parseLong(matcher.group(1)), Long.parseLong(matcher.group(2))));
      }
    }
    Collections.sort(found);
    return new RemoteEditLogManifest(found);
  }
}

package org.apache.hadoop.hdfs.server.namenode;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.server.common.HdfsServerConstants.NamenodeRole;
import org.apache.hadoop.hdfs.server.common.HdfsServerConstants.StartupOption;
import org.apache.hadoop.hdfs.server.common.Storage.StorageDirectory;
import org.apache.hadoop.hdfs.server.namenode.NNStorage.NameNodeFile;
import org.apache.hadoop.hdfs.tools.offlineEditsViewer.OfflineEditsViewer;
import org.apache.hadoop.hdfs.tools.offlineEditsViewer.OfflineEditsVisitorFactory;
import org.apache.hadoop.hdfs.tools.offlineImageViewer.OfflineImageViewerPB;
import org.apache.hadoop.hdfs.util.Canceler;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.util.ExitUtil;

/**
 * Hadoop's own loader and viewers behind a pipe: reads one command per line from standard input, with tabs between
 * its words, and answers each with one line: "ok" and a result, or "error" and a chain of exceptions.
 *
 * <pre>
 * reload NAME_DIR OUT_DIR          load a storage directory as a NameNode does, save the namespace again: its txid
 * replay NAME_DIR OUT_DIR KEYS     load image and edits of a storage directory, save the namespace: its txid; after an
 *                                  error the response begins with the last txid that was applied. KEYS are any number
 *                                  of words KEY=VALUE, the configuration of the NameNode
 * oiv IMAGE OUT FORMAT             OfflineImageViewerPB -p FORMAT (XML, Delimited)
 * oev EDITS OUT FORMAT             OfflineEditsViewer -p FORMAT (xml, binary)
 * </pre>
 *
 * This class is in Hadoop's package because the methods with which a NameNode loads and saves are not public.
 */
public final class HadoopTools {
  private final Configuration base;

  private HadoopTools() {
    // by default, a NameNode of this release refuses symlinks, which some recorded namespaces contain
    FileSystem.enableSymlinks();
    ExitUtil.disableSystemExit();
    // several name systems in one JVM
    DefaultMetricsSystem.setMiniClusterMode(true);
    base = new HdfsConfiguration();
    base.set("fs.defaultFS", "hdfs://127.0.0.1:1");
    base.set("dfs.namenode.acls.enabled", "true");
    // from Hadoop 3 on, a separate thread logs the edits and counts them
    base.set("dfs.namenode.edits.asynclogging", "false");
    NameNode.initMetrics(base, NamenodeRole.NAMENODE);
  }

  public static void main(String[] arguments) throws IOException {
    PrintStream answers = new PrintStream(System.out, true, "UTF-8");
    System.setOut(System.err);
    HadoopTools tools = new HadoopTools();
    BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = commands.readLine(); line != null; line = commands.readLine()) {
      answers.println(tools.answer(line.split("\t")));
    }
    // threads of Hadoop are still running
    Runtime.getRuntime().halt(0);
  }

  private String answer(String[] words) {
    try {
      return "ok\t" + run(words);
    } catch (Throwable error) {
      String found = chain(error);
      System.err.println(found);
      return "error\t" + found;
    }
  }

  private long run(String[] words) throws Exception {
    switch (words[0]) {
      case "reload":
        return reload(new File(words[1]), new File(words[2]));
      case "replay":
        return replay(words);
      case "oiv":
        return OfflineImageViewerPB.run(new String[] {"-p", words[3], "-i", words[1], "-o", words[2]});
      case "oev":
        if (words[3].equals("binary") && !words[1].endsWith(".xml")) {
          // From Hadoop 3 on, the command line refuses binary to binary; by XML, the block of a truncate is lost.
          return new OfflineEditsViewer()
              .go(
                  words[1],
                  words[2],
                  "copy",
                  new OfflineEditsViewer.Flags(),
                  OfflineEditsVisitorFactory.getEditsVisitor(words[2], "binary", false));
        }
        return new OfflineEditsViewer().run(new String[] {"-p", words[3], "-i", words[1], "-o", words[2]});
      default:
        throw new IllegalArgumentException("unknown command " + words[0]);
    }
  }

  private long reload(File name, File out) throws IOException {
    Configuration conf = new Configuration(base);
    conf.set("dfs.namenode.name.dir", name.toURI().toString());
    FSNamesystem namesystem = FSNamesystem.loadFromDisk(conf);
    FSImage image = namesystem.getFSImage();
    try {
      long txid = image.getLastAppliedTxId();
      StorageDirectory directory = new StorageDirectory(out);
      directory.getCurrentDir().mkdirs();
      image.saveFSImage(new SaveNamespaceContext(namesystem, txid, new Canceler()), directory, NameNodeFile.IMAGE);
      return txid;
    } finally {
      namesystem.close();
      image.close();
    }
  }

  /** Do what a NameNode does at its start, until it would begin its own segment. */
  private long replay(String[] words) throws Exception {
    File name = new File(words[1]);
    File out = new File(words[2]);
    Configuration conf = new Configuration(base);
    for (int at = 3; at < words.length; at++) {
      String[] pair = words[at].split("=", 2);
      conf.set(pair[0], pair[1]);
    }
    conf.set("dfs.namenode.name.dir", name.toURI().toString());
    FSImage image =
        new FSImage(conf, FSNamesystem.getNamespaceDirs(conf), FSNamesystem.getNamespaceEditsDirs(conf));
    FSNamesystem namesystem = new FSNamesystem(conf, image, false);
    try {
      try {
        image.recoverTransitionRead(StartupOption.REGULAR, namesystem, null);
        namesystem.imageLoadComplete();
      } catch (Throwable error) {
        throw new Exception(Long.toString(image.getLastAppliedTxId()), error);
      }
      long txid = image.getLastAppliedTxId();
      StorageDirectory directory = new StorageDirectory(out);
      directory.getCurrentDir().mkdirs();
      image.saveFSImage(new SaveNamespaceContext(namesystem, txid, new Canceler()), directory, NameNodeFile.IMAGE);
      return txid;
    } finally {
      namesystem.close();
      image.close();
    }
  }

  /**
   * Return the text of an exception, with the method of Hadoop if the exception has no message. In some exceptions of
   * Hadoop, the method for the message fails.
   */
  private static String told(Throwable cause) {
    try {
      return cause.getMessage() == null ? cause + method(cause) : cause.toString();
    } catch (RuntimeException error) {
      return cause.getClass().getName();
    }
  }

  private static String method(Throwable cause) {
    for (StackTraceElement frame : cause.getStackTrace()) {
      if (!frame.getClassName().endsWith("Preconditions")) {
        return " in " + frame.getClassName().replaceAll(".*\\.", "") + "." + frame.getMethodName();
      }
    }
    return "";
  }

  private static String chain(Throwable error) {
    StringBuilder text = new StringBuilder();
    for (Throwable cause = error; cause != null; cause = cause.getCause()) {
      text.append(text.length() == 0 ? "" : " <- ").append(told(cause));
    }
    return text.toString().replaceAll("\\s+", " ");
  }
}

package interop;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.security.PrivilegedExceptionAction;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.util.Tool;
import org.apache.hadoop.util.ToolRunner;

/**
 * Hadoop's command line tools behind a pipe, because the start of a JVM takes longer than a command.
 *
 * Reads one command per line from standard input: words in Base64, separated by spaces. The first three words are the
 * folder of the configuration, the user (empty: the user of this process) and the kind of the command. Answers each
 * command with a line: the exit code, and the contents of standard output and standard error in Base64.
 *
 * <pre>
 * tool CLASS WORD...           the main class of a tool, such as org.apache.hadoop.fs.FsShell, with its arguments
 * walk PATH                    NamespaceWalk
 * load PATH STEPS SEED THREADS NamespaceLoad
 * </pre>
 */
public final class HadoopClient {
  private final Map<String, Configuration> configurations = new HashMap<>();

  public static void main(String[] arguments) throws IOException {
    PrintStream answers = new PrintStream(System.out, true, "UTF-8");
    PrintStream log = System.err;
    System.setOut(log);
    // the jars of a server of Hadoop 3 have a web framework
    boolean without = HadoopClient.class.getResource("MediaTypes.class") != null;
    for (String prefix : without ? new String[] {"", "org.apache.hadoop.shaded."} : new String[0]) {
      System.setProperty(prefix + "javax.ws.rs.ext.RuntimeDelegate", "interop.MediaTypes");
    }
    // loggers keep the standard error that is set when they are first used
    UserGroupInformation.getLoginUser();
    HadoopClient client = new HadoopClient();
    BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
    for (String line = commands.readLine(); line != null; line = commands.readLine()) {
      answers.println(client.answer(line, log));
    }
    // threads of Hadoop are still running
    Runtime.getRuntime().halt(0);
  }

  private String answer(String line, PrintStream log) throws IOException {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    ByteArrayOutputStream err = new ByteArrayOutputStream();
    PrintStream printed = new PrintStream(out, true, "UTF-8");
    PrintStream complained = new PrintStream(err, true, "UTF-8");
    int code;
    System.setOut(printed);
    System.setErr(complained);
    try {
      code = runAs(words(line));
    } catch (Throwable error) {
      error.printStackTrace(complained);
      code = -1;
    } finally {
      System.setOut(log);
      System.setErr(log);
    }
    printed.flush();
    complained.flush();
    return code + " " + encode(out) + " " + encode(err);
  }

  private int runAs(String[] words) throws Exception {
    String user = words[1];
    UserGroupInformation caller =
        user.isEmpty() ? UserGroupInformation.getLoginUser() : UserGroupInformation.createRemoteUser(user);
    Configuration conf = configuration(words[0]);
    try {
      return caller.doAs(
          (PrivilegedExceptionAction<Integer>)
              () -> run(conf, words[2], Arrays.copyOfRange(words, 3, words.length)));
    } finally {
      // a file system that stays open would keep the address of a stopped NameNode
      FileSystem.closeAllForUGI(caller);
    }
  }

  private static int run(Configuration conf, String command, String[] words) throws Exception {
    switch (command) {
      case "tool":
        return ToolRunner.run(conf, tool(words[0], conf), Arrays.copyOfRange(words, 1, words.length));
      case "walk":
        new NamespaceWalk(FileSystem.get(conf), System.out).walk(new Path(words[0]));
        return 0;
      case "load":
        int threads = Integer.parseInt(words[3]);
        NamespaceLoad.run(conf, new Path(words[0]), Integer.parseInt(words[1]), Long.parseLong(words[2]), threads);
        return 0;
      default:
        throw new IllegalArgumentException("unknown command " + command);
    }
  }

  private static Tool tool(String name, Configuration conf) throws ReflectiveOperationException {
    Class<?> type = Class.forName(name);
    try {
      return (Tool) type.getDeclaredConstructor().newInstance();
    } catch (NoSuchMethodException none) {
      return (Tool) type.getDeclaredConstructor(Configuration.class).newInstance(conf);
    }
  }

  private Configuration configuration(String folder) {
    // tools change the configuration that they get
    return new Configuration(
        configurations.computeIfAbsent(
            folder,
            path -> {
              Configuration conf = new HdfsConfiguration();
              // an idle connection must not outlive a restart of its server
              conf.setInt("ipc.client.connection.maxidletime", 300);
              conf.addResource(new Path(path, "core-site.xml"));
              conf.addResource(new Path(path, "hdfs-site.xml"));
              return conf;
            }));
  }

  private static String[] words(String line) {
    String[] words = line.split(" ", -1);
    for (int i = 0; i < words.length; i++) {
      words[i] = new String(Base64.getDecoder().decode(words[i]), StandardCharsets.UTF_8);
    }
    return words;
  }

  private static String encode(ByteArrayOutputStream bytes) {
    return Base64.getEncoder().encodeToString(bytes.toByteArray());
  }
}

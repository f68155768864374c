package interop;

import java.io.IOException;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.fs.ContentSummary;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.SnapshottableDirectoryStatus;

/** Prints everything below a path as a client sees it, one JSON object per line, snapshots included. */
final class NamespaceWalk {
  private final DistributedFileSystem files;
  private final PrintStream out;

  NamespaceWalk(FileSystem files, PrintStream out) {
    this.files = (DistributedFileSystem) files;
    this.out = out;
  }

  /** Print the path itself, everything below it, and the snapshots of all snapshottable directories below it. */
  void walk(Path root) throws IOException {
    visit(files.getFileStatus(root), true);
    SnapshottableDirectoryStatus[] roots = files.getSnapshottableDirListing();
    if (roots == null) {
      return;
    }
    for (SnapshottableDirectoryStatus directory : roots) {
      if (isBelow(root, directory.getFullPath())) {
        // the folder of a root's snapshots has no status of its own
        for (FileStatus snapshot : files.listStatus(new Path(directory.getFullPath(), ".snapshot"))) {
          visit(snapshot, false);
        }
      }
    }
  }

  private void visit(FileStatus status, boolean live) throws IOException {
    print(status, live);
    if (status.isDirectory()) {
      for (FileStatus child : files.listStatus(status.getPath())) {
        visit(child, live);
      }
    }
  }

  private void print(FileStatus status, boolean live) throws IOException {
    Path path = status.getPath();
    FsPermission permission = status.getPermission();
    List<String> fields = new ArrayList<>();
    fields.add(field("path", path.toUri().getPath()));
    fields.add(field("type", status.isDirectory() ? "directory" : status.isSymlink() ? "symlink" : "file"));
    fields.add(field("owner", status.getOwner()));
    fields.add(field("group", status.getGroup()));
    fields.add(field("mode", String.format("%o", permission.toShort())));
    fields.add(field("replication", status.getReplication()));
    fields.add(field("block_size", status.getBlockSize()));
    fields.add(field("length", status.getLen()));
    fields.add(field("mtime", status.getModificationTime()));
    fields.add(field("atime", status.getAccessTime()));
    fields.add(field("xattrs", status.isSymlink() ? "" : xattrs(path)));
    fields.add(field("acl", permission.getAclBit() ? files.getAclStatus(path).getEntries().toString() : ""));
    if (live && status.isDirectory()) {
      ContentSummary summary = files.getContentSummary(path);
      fields.add(field("quota", summary.getQuota()));
      fields.add(field("space_quota", summary.getSpaceQuota()));
    }
    out.println("{" + String.join(", ", fields) + "}");
  }

  private String xattrs(Path path) throws IOException {
    Map<String, String> shown = new TreeMap<>();
    for (Map.Entry<String, byte[]> entry : files.getXAttrs(path).entrySet()) {
      shown.put(entry.getKey(), Arrays.toString(entry.getValue()));
    }
    return shown.isEmpty() ? "" : shown.toString();
  }

  private static boolean isBelow(Path root, Path path) {
    return root.isRoot() || path.equals(root) || path.toUri().getPath().startsWith(root.toUri().getPath() + "/");
  }

  private static String field(String name, long value) {
    return "\"" + name + "\": " + value;
  }

  private static String field(String name, String value) {
    StringBuilder text = new StringBuilder("\"" + name + "\": \"");
    for (char unit : value.toCharArray()) {
      if (unit == '"' || unit == '\\' || unit < ' ' || unit > '~') {
        text.append(String.format("\\u%04x", (int) unit));
      } else {
        text.append(unit);
      }
    }
    return text.append('"').toString();
  }
}

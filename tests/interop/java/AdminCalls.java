package interop;

import java.util.Arrays;
import java.util.Collections;
import java.util.EnumSet;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configured;
import org.apache.hadoop.fs.BlockStoragePolicySpi;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.AddErasureCodingPolicyResponse;
import org.apache.hadoop.hdfs.protocol.CacheDirectiveEntry;
import org.apache.hadoop.hdfs.protocol.CacheDirectiveInfo;
import org.apache.hadoop.hdfs.protocol.CachePoolEntry;
import org.apache.hadoop.hdfs.protocol.CachePoolInfo;
import org.apache.hadoop.hdfs.protocol.ErasureCodingPolicy;
import org.apache.hadoop.hdfs.protocol.ErasureCodingPolicyInfo;
import org.apache.hadoop.hdfs.protocol.OpenFileEntry;
import org.apache.hadoop.hdfs.protocol.OpenFilesIterator.OpenFilesType;
import org.apache.hadoop.hdfs.protocol.SnapshotDiffReport;
import org.apache.hadoop.io.erasurecode.ECSchema;
import org.apache.hadoop.util.Tool;

/**
 * The calls of `hdfs ec`, `hdfs storagepolicies`, `hdfs cacheadmin`, `hdfs snapshotDiff` and `hdfs dfsadmin` of Hadoop 3:
 * the client's jars contain the calls, but not these tools. Each invocation makes one call, and prints one item per line.
 */
public final class AdminCalls extends Configured implements Tool {
  @Override
  public int run(String[] words) throws Exception {
    DistributedFileSystem dfs = (DistributedFileSystem) FileSystem.get(getConf());
    Path path = words.length > 1 && words[1].startsWith("/") ? new Path(words[1]) : null;
    switch (words[0]) {
      case "openFiles":
        RemoteIterator<OpenFileEntry> open = dfs.listOpenFiles(EnumSet.of(OpenFilesType.ALL_OPEN_FILES), words[1]);
        while (open.hasNext()) {
          OpenFileEntry file = open.next();
          print(file.getFilePath() + " " + file.getClientName() + " " + file.getClientMachine());
        }
        break;
      case "metaSave":
        dfs.metaSave(words[1]);
        break;
      case "refreshNodes":
        dfs.refreshNodes();
        break;
      case "storagePolicies":
        for (BlockStoragePolicySpi policy : dfs.getAllStoragePolicies()) {
          print(policy);
        }
        break;
      case "storagePolicy":
        print(dfs.getStoragePolicy(path).getName());
        break;
      case "setStoragePolicy":
        dfs.setStoragePolicy(path, words[2]);
        break;
      case "unsetStoragePolicy":
        dfs.unsetStoragePolicy(path);
        break;
      case "policies":
        for (ErasureCodingPolicyInfo policy : dfs.getAllErasureCodingPolicies()) {
          print(policy.getPolicy().getName() + " " + policy.getState());
        }
        break;
      case "policy":
        ErasureCodingPolicy found = dfs.getErasureCodingPolicy(path);
        print((found == null ? "none" : found.getName()) + " " + dfs.getFileStatus(path).isErasureCoded());
        break;
      case "setPolicy":
        dfs.setErasureCodingPolicy(path, words.length > 2 ? words[2] : null);
        break;
      case "unsetPolicy":
        dfs.unsetErasureCodingPolicy(path);
        break;
      case "addPolicy":
        ECSchema schema = new ECSchema(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]));
        ErasureCodingPolicy wanted = new ErasureCodingPolicy(schema, Integer.parseInt(words[4]));
        for (AddErasureCodingPolicyResponse answer :
            dfs.addErasureCodingPolicies(new ErasureCodingPolicy[] {wanted})) {
          print(answer.isSucceed() ? answer.getPolicy().getName() : answer.getErrorMsg());
        }
        break;
      case "removePolicy":
        dfs.removeErasureCodingPolicy(words[1]);
        break;
      case "enablePolicy":
        dfs.enableErasureCodingPolicy(words[1]);
        break;
      case "disablePolicy":
        dfs.disableErasureCodingPolicy(words[1]);
        break;
      case "verify":
        print(dfs.getECTopologyResultForPolicies(Arrays.copyOfRange(words, 1, words.length)).isSupported());
        break;
      case "codecs":
        for (Map.Entry<String, String> codec : new TreeMap<>(dfs.getAllErasureCodingCodecs()).entrySet()) {
          print(codec.getKey() + " " + codec.getValue());
        }
        break;
      case "addPool":
        dfs.addCachePool(new CachePoolInfo(words[1]).setGroupName("staff").setDefaultReplication((short) 3));
        break;
      case "pools":
        for (RemoteIterator<CachePoolEntry> pools = dfs.listCachePools(); pools.hasNext(); ) {
          CachePoolInfo pool = pools.next().getInfo();
          print(pool.getPoolName() + " " + pool.getGroupName() + " " + pool.getMode() + " " + pool.getDefaultReplication());
        }
        break;
      case "addDirective":
        print(dfs.addCacheDirective(new CacheDirectiveInfo.Builder().setPath(path).setPool(words[2]).build()));
        break;
      case "directives":
        RemoteIterator<CacheDirectiveEntry> directives =
            dfs.listCacheDirectives(new CacheDirectiveInfo.Builder().build());
        while (directives.hasNext()) {
          CacheDirectiveInfo info = directives.next().getInfo();
          print(info.getId() + " " + info.getPath().toUri().getPath() + " " + info.getPool() + " " + info.getReplication());
        }
        break;
      case "diff":
        SnapshotDiffReport report = dfs.getSnapshotDiffReport(path, words[2], words.length > 3 ? words[3] : "");
        for (SnapshotDiffReport.DiffReportEntry entry : sorted(report)) {
          print(entry);
        }
        break;
      default:
        throw new IllegalArgumentException("unknown call " + words[0]);
    }
    return 0;
  }

  private static Iterable<SnapshotDiffReport.DiffReportEntry> sorted(SnapshotDiffReport report) {
    SnapshotDiffReport.DiffReportEntry[] entries =
        report.getDiffList().toArray(new SnapshotDiffReport.DiffReportEntry[0]);
    Arrays.sort(entries, (left, right) -> left.toString().compareTo(right.toString()));
    return Collections.unmodifiableList(Arrays.asList(entries));
  }

  private static void print(Object item) {
    System.out.println(item);
  }
}

package interop;

import java.io.IOException;
import java.util.EnumSet;
import org.apache.hadoop.crypto.CryptoProtocolVersion;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.protocol.ClientProtocol;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.protocol.HdfsFileStatus;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.hdfs.server.protocol.BlockReportContext;
import org.apache.hadoop.hdfs.server.protocol.DatanodeRegistration;
import org.apache.hadoop.hdfs.server.protocol.DatanodeStorage;
import org.apache.hadoop.hdfs.server.protocol.HeartbeatResponse;
import org.apache.hadoop.hdfs.server.protocol.NamenodeProtocols;
import org.apache.hadoop.hdfs.server.protocol.SlowDiskReports;
import org.apache.hadoop.hdfs.server.protocol.SlowPeerReports;
import org.apache.hadoop.hdfs.server.protocol.StorageReport;
import org.apache.hadoop.io.EnumSetWritable;

/** Arguments that calls of Hadoop 3 require. */
final class Shims {
  /** BLOCKID_BASED_LAYOUT_32_by_32 or older; a NameNode does not compare it with its own. */
  static final int DATA_NODE_LAYOUT = -57;

  private Shims() {}

  static BlockReportContext onlyReport() {
    return new BlockReportContext(1, 0, 1, 0);
  }

  static StorageReport room(DatanodeStorage storage) {
    return new StorageReport(storage, false, 1L << 50, 1L << 20, 1L << 49, 1L << 20, 0);
  }

  static HeartbeatResponse heartbeat(NamenodeProtocols node, DatanodeRegistration registration, StorageReport[] reports)
      throws IOException {
    return node.sendHeartbeat(registration, reports, 1L << 40, 0, 0, 1, 0, null, false, SlowPeerReports.EMPTY_REPORT, SlowDiskReports.EMPTY_REPORT);
  }

  static HdfsFileStatus create(
      ClientProtocol node,
      String path,
      FsPermission permission,
      String client,
      EnumSet<CreateFlag> flags,
      int replication,
      long blockSize)
      throws IOException {
    CryptoProtocolVersion[] supported = CryptoProtocolVersion.supported();
    EnumSetWritable<CreateFlag> how = new EnumSetWritable<>(flags);
    return node.create(path, permission, client, how, true, (short) replication, blockSize, supported, null, null);
  }

  static LocatedBlock addBlock(ClientProtocol node, String path, String client, ExtendedBlock last, long fileId)
      throws IOException {
    return node.addBlock(path, client, last, null, fileId, null, null);
  }
}

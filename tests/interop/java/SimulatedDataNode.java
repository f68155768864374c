package interop;

import java.io.IOException;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.fs.StorageType;
import org.apache.hadoop.hdfs.protocol.Block;
import org.apache.hadoop.hdfs.protocol.BlockListAsLongs;
import org.apache.hadoop.hdfs.protocol.DatanodeID;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.security.token.block.ExportedBlockKeys;
import org.apache.hadoop.hdfs.server.common.HdfsServerConstants.NodeType;
import org.apache.hadoop.hdfs.server.common.StorageInfo;
import org.apache.hadoop.hdfs.server.protocol.BlockRecoveryCommand;
import org.apache.hadoop.hdfs.server.protocol.BlockRecoveryCommand.RecoveringBlock;
import org.apache.hadoop.hdfs.server.protocol.DatanodeCommand;
import org.apache.hadoop.hdfs.server.protocol.DatanodeRegistration;
import org.apache.hadoop.hdfs.server.protocol.DatanodeStorage;
import org.apache.hadoop.hdfs.server.protocol.NamenodeProtocols;
import org.apache.hadoop.hdfs.server.protocol.NamespaceInfo;
import org.apache.hadoop.hdfs.server.protocol.ReceivedDeletedBlockInfo;
import org.apache.hadoop.hdfs.server.protocol.StorageBlockReport;
import org.apache.hadoop.hdfs.server.protocol.StorageReceivedDeletedBlocks;
import org.apache.hadoop.hdfs.server.protocol.StorageReport;
import org.apache.hadoop.util.VersionInfo;

/**
 * A DataNode that speaks DatanodeProtocol and stores only the lengths of blocks: it registers, reports received blocks,
 * and recovers blocks after a truncate or a lost lease.
 */
final class SimulatedDataNode {
  private static final StorageType[] TYPES = {
    StorageType.DISK, StorageType.SSD, StorageType.ARCHIVE, StorageType.RAM_DISK
  };
  final DatanodeRegistration registration;
  private final NamenodeProtocols node;
  private final String pool;
  private final DatanodeStorage[] storages = new DatanodeStorage[TYPES.length];
  private final Map<Long, Long> lengths = new ConcurrentHashMap<>();

  /** `port` is a number that becomes part of ids; no server listens there. */
  SimulatedDataNode(NamenodeProtocols node, int port) throws IOException {
    this.node = node;
    NamespaceInfo space = node.versionRequest();
    pool = space.getBlockPoolID();
    String uuid = String.format("00000000-0000-4000-8000-%012d", port);
    int layout = Shims.DATA_NODE_LAYOUT;
    StorageInfo info =
        new StorageInfo(
            layout, space.getNamespaceID(), space.getClusterID(), space.getCTime(), NodeType.DATA_NODE);
    DatanodeID id = new DatanodeID("127.0.0.1", "localhost", uuid, port, port + 1, 0, port + 2);
    registration =
        node.registerDatanode(
            new DatanodeRegistration(id, info, new ExportedBlockKeys(), VersionInfo.getVersion()));
    StorageBlockReport[] reports = new StorageBlockReport[TYPES.length];
    for (int i = 0; i < TYPES.length; i++) {
      storages[i] = new DatanodeStorage("DS-" + i + "-" + uuid, DatanodeStorage.State.NORMAL, TYPES[i]);
      reports[i] = new StorageBlockReport(storages[i], BlockListAsLongs.EMPTY);
    }
    heartbeat();
    node.blockReport(registration, pool, reports, Shims.onlyReport());
  }

  String firstStorage() {
    return storages[0].getStorageID();
  }

  /** Record that a client writes to a block, and how many bytes it has now. */
  void written(ExtendedBlock block) {
    lengths.put(block.getBlockId(), block.getNumBytes());
  }

  /** Send a heartbeat to the NameNode, and execute the commands in its response. */
  synchronized void heartbeat() throws IOException {
    StorageReport[] reports = new StorageReport[storages.length];
    for (int i = 0; i < reports.length; i++) {
      reports[i] = Shims.room(storages[i]);
    }
    for (DatanodeCommand command :
        Shims.heartbeat(node, registration, reports).getCommands()) {
      if (command instanceof BlockRecoveryCommand) {
        for (RecoveringBlock block : ((BlockRecoveryCommand) command).getRecoveringBlocks()) {
          recover(block);
        }
      }
    }
  }

  /** Recover a block like DataNode.syncBlock, with one replica. */
  private void recover(RecoveringBlock recovering) throws IOException {
    ExtendedBlock block = recovering.getBlock();
    Block cut = recovering.getNewBlock();
    long length = lengths.getOrDefault(block.getBlockId(), 0L);
    if (cut != null) {
      length = cut.getNumBytes();
      lengths.put(cut.getBlockId(), length);
    }
    boolean empty = cut == null && length == 0;
    DatanodeID[] nodes = empty ? new DatanodeID[0] : new DatanodeID[] {registration};
    String[] places = empty ? null : new String[] {firstStorage()};
    try {
      long stamp = recovering.getNewGenerationStamp();
      node.commitBlockSynchronization(block, stamp, length, true, empty, nodes, places);
    } catch (IOException error) {
      System.err.println("recovery of " + block + ": " + error);
    }
  }

  /** Report that a replica is complete, with this generation stamp and length. */
  void received(ExtendedBlock block, String storageId) throws IOException {
    written(block);
    DatanodeStorage storage = storages[0];
    for (DatanodeStorage each : storages) {
      if (each.getStorageID().equals(storageId)) {
        storage = each;
      }
    }
    Block plain = new Block(block.getBlockId(), block.getNumBytes(), block.getGenerationStamp());
    ReceivedDeletedBlockInfo[] got = {
      new ReceivedDeletedBlockInfo(plain, ReceivedDeletedBlockInfo.BlockStatus.RECEIVED_BLOCK, null)
    };
    StorageReceivedDeletedBlocks[] told = {new StorageReceivedDeletedBlocks(storage, got)};
    node.blockReceivedAndDeleted(registration, pool, told);
  }
}

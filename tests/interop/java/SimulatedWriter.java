package interop;

import java.io.IOException;
import java.util.EnumSet;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.protocol.ClientProtocol;
import org.apache.hadoop.hdfs.protocol.DatanodeID;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.protocol.HdfsFileStatus;
import org.apache.hadoop.hdfs.protocol.LastBlockWithStatus;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.io.EnumSetWritable;
import org.apache.hadoop.ipc.RemoteException;

/** An open file: the calls that a client's output stream makes to the NameNode, without any bytes. */
final class SimulatedWriter {
  private static final FsPermission UMASK = new FsPermission((short) 022);
  private static final int PATIENCE = 200;
  /** The current path of the file. */
  String path;
  private final ClientProtocol node;
  private final SimulatedDataNode dataNode;
  private final String client;
  private final long fileId;
  private final long blockSize;
  private ExtendedBlock last;
  private String storageId;
  private boolean inBlock;
  private boolean persisted;

  private SimulatedWriter(
      ClientProtocol node, SimulatedDataNode dataNode, String client, String path, HdfsFileStatus status) {
    this.node = node;
    this.dataNode = dataNode;
    this.client = client;
    this.path = path;
    fileId = status.getFileId();
    blockSize = status.getBlockSize();
  }

  static SimulatedWriter create(
      ClientProtocol node,
      SimulatedDataNode dataNode,
      String client,
      String path,
      FsPermission permission,
      EnumSet<CreateFlag> flags,
      int replication,
      long blockSize)
      throws IOException {
    HdfsFileStatus status =
        Shims.create(node, path, permission.applyUMask(UMASK), client, flags, replication, blockSize);
    return new SimulatedWriter(node, dataNode, client, path, status);
  }

  static SimulatedWriter append(
      ClientProtocol node, SimulatedDataNode dataNode, String client, String path, boolean newBlock)
      throws IOException {
    EnumSet<CreateFlag> flags = newBlock ? EnumSet.of(CreateFlag.APPEND, CreateFlag.NEW_BLOCK) : EnumSet.of(CreateFlag.APPEND);
    LastBlockWithStatus answer = node.append(path, client, new EnumSetWritable<>(flags));
    SimulatedWriter writer = new SimulatedWriter(node, dataNode, client, path, answer.getFileStatus());
    LocatedBlock block = answer.getLastBlock();
    if (block != null) {
      writer.last = new ExtendedBlock(block.getBlock());
      if (!newBlock) {
        String[] places = block.getStorageIDs();
        writer.storageId = places == null || places.length == 0 ? dataNode.firstStorage() : places[0];
        writer.inBlock = true;
        writer.recoverPipeline();
      }
    }
    return writer;
  }

  void write(long bytes) throws IOException, InterruptedException {
    while (bytes > 0) {
      if (!inBlock || last.getNumBytes() == blockSize) {
        nextBlock();
      }
      long part = Math.min(bytes, blockSize - last.getNumBytes());
      last.setNumBytes(last.getNumBytes() + part);
      dataNode.written(last);
      bytes -= part;
    }
  }

  void hflush() throws IOException {
    if (inBlock && !persisted) {
      node.fsync(path, fileId, client, -1);
      persisted = true;
    }
  }

  void hsync() throws IOException {
    if (inBlock) {
      node.fsync(path, fileId, client, last.getNumBytes());
      persisted = true;
    }
  }

  void close() throws IOException, InterruptedException {
    finishBlock();
    for (int i = 0; !node.complete(path, client, last, fileId); i++) {
      if (i > PATIENCE) {
        throw new IOException("not complete: " + path);
      }
      // the NameNode handles reports of blocks in the background
      Thread.sleep(i < 20 ? 1 : 20);
    }
  }

  /** Get a new generation stamp for the block that is being written. */
  void recoverPipeline() throws IOException {
    if (!inBlock) {
      return;
    }
    ExtendedBlock old = new ExtendedBlock(last);
    LocatedBlock located = node.updateBlockForPipeline(last, client);
    ExtendedBlock renewed = new ExtendedBlock(last);
    renewed.setGenerationStamp(located.getBlock().getGenerationStamp());
    DatanodeID[] nodes = {dataNode.registration};
    node.updatePipeline(client, old, renewed, nodes, new String[] {storageId});
    last = renewed;
  }

  private void finishBlock() throws IOException {
    if (inBlock) {
      dataNode.received(last, storageId);
      inBlock = false;
    }
  }

  private void nextBlock() throws IOException, InterruptedException {
    finishBlock();
    LocatedBlock located = null;
    for (int i = 0; located == null; i++) {
      try {
        located = Shims.addBlock(node, path, client, last, fileId);
      } catch (RemoteException error) {
        if (i > PATIENCE || !error.getClassName().endsWith("NotReplicatedYetException")) {
          throw error;
        }
        Thread.sleep(1);
      }
    }
    last = new ExtendedBlock(located.getBlock());
    last.setNumBytes(0);
    storageId = located.getStorageIDs()[0];
    inBlock = true;
    persisted = false;
  }
}

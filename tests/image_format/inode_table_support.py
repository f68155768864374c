"""Generated inodes for the kernels of the inode table."""

from __future__ import annotations

from hypothesis import strategies as st

from image_format.proto import fsimage_pb2 as pb

unsigned = st.integers(0, (1 << 64) - 1)


names = st.binary(min_size=1, max_size=300)


@st.composite
def blocks(draw: st.DrawFn) -> pb.BlockProto:
    return pb.BlockProto(blockId=draw(unsigned), genStamp=draw(unsigned), numBytes=draw(unsigned))


@st.composite
def files(draw: st.DrawFn) -> pb.INodeFile:
    file = pb.INodeFile(
        modificationTime=draw(unsigned),
        accessTime=draw(unsigned),
        preferredBlockSize=draw(unsigned),
        permission=draw(unsigned),
        blocks=draw(st.lists(blocks(), max_size=5)),
        storagePolicyID=draw(st.integers(0, 15)),
    )
    if draw(st.booleans()):
        file.replication = draw(st.integers(0, 512))
    if draw(st.booleans()):
        file.fileUC.clientName = draw(st.text(max_size=20))
        file.fileUC.clientMachine = draw(st.text(max_size=20))
    fill_features(draw, file)
    return file


def fill_features(draw: st.DrawFn, body: pb.INodeFile | pb.INodeDirectory) -> None:
    if draw(st.booleans()):
        body.acl.entries.extend(draw(st.lists(st.integers(0, (1 << 32) - 1), max_size=6)))
        body.acl.SetInParent()
    if draw(st.booleans()):
        body.xAttrs.SetInParent()
        for name in draw(st.lists(st.integers(0, (1 << 32) - 1), max_size=3)):
            value = draw(st.none() | st.binary(max_size=10))
            body.xAttrs.xAttrs.add(name=name, **({} if value is None else {"value": value}))


@st.composite
def directories(draw: st.DrawFn) -> pb.INodeDirectory:
    directory = pb.INodeDirectory(
        modificationTime=draw(unsigned), nsQuota=draw(unsigned), dsQuota=draw(unsigned), permission=draw(unsigned)
    )
    fill_features(draw, directory)
    if draw(st.booleans()):
        for kind in draw(st.sets(st.sampled_from([1, 2, 3]), min_size=1)):
            directory.typeQuotas.quotas.add(storageType=kind, quota=draw(unsigned))
    return directory


@st.composite
def inodes(draw: st.DrawFn) -> pb.INode:
    inode = pb.INode(type=pb.INode.FILE, id=draw(st.integers(1, (1 << 63) - 1)), name=draw(names))
    kind = draw(st.integers(1, 3))
    inode.type = kind  # type: ignore[assignment]
    if kind == pb.INode.FILE:
        inode.file.CopyFrom(draw(files()))
    elif kind == pb.INode.DIRECTORY:
        inode.directory.CopyFrom(draw(directories()))
    else:
        inode.symlink.permission = draw(unsigned)
        inode.symlink.target = draw(st.binary(max_size=50))
        inode.symlink.modificationTime = draw(unsigned)
        inode.symlink.accessTime = draw(unsigned)
    return inode

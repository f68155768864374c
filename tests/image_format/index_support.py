"""Small images with inodes in any order."""

from __future__ import annotations

from pathlib import Path

from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited
from tests.image_format.image_support import build_image, minimal_sections

ROOT = 16385


def directory(inode_id: int, name: bytes) -> bytes:
    return encode_delimited(pb.INode(type=pb.INode.DIRECTORY, id=inode_id, name=name, directory=pb.INodeDirectory()))


def file(inode_id: int, name: bytes = b"f") -> bytes:
    return encode_delimited(pb.INode(type=pb.INode.FILE, id=inode_id, name=name, file=pb.INodeFile(replication=3)))


def write(path: Path, records: list[bytes], entries: bytes = b"") -> Path:
    header = encode_delimited(pb.INodeSection(lastInodeId=1 << 40, numInodes=len(records)))
    given = {"INODE": header + b"".join(records), "INODE_DIR": entries}
    path.write_bytes(build_image([(name, given.get(name, body)) for name, body in minimal_sections()]))
    return path

"""Formats a new file system: VERSION, seen_txid, an image of the root, and empty journals."""

from __future__ import annotations

import secrets
import shutil
import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from checkpointer.storage.formatting import write_seen_txid, write_version
from engine.saver import save_image
from hadoop_common.errors import StorageError
from hadoop_common.hdfs_constants import ROOT_INODE_ID
from hadoop_common.java_numbers import UINT64
from hadoop_common.names import VERSION
from hadoop_common.storage_info import StorageInfo
from hadoop_common.storage_lock import StorageLock
from image_format.layout import LayoutVersion, supports
from image_format.permission import pack_permission
from image_format.proto import fsimage_pb2 as pb
from image_format.string_table import StringKind, StringTable
from image_format.varint import encode_delimited
from image_format.writer import ImageWriter, Sink
from journal.errors import JournalExistsError
from journal.journal import Journal

_FIRST_GENSTAMP = 1000
_FIRST_BLOCK_ID = 1 << 30
_ROOT_MODE = 0o755
_SYSTEM_POLICIES = 5
_MASK_BITS = 3
_UNLIMITED = (1 << 63) - 1
_FORCE_HINT = "Specify other directories; --force deletes all their content."


def new_storage_info(layout_version: int) -> StorageInfo:
    """Make the identity of a new cluster."""
    now = int(time.time() * 1000)
    number = secrets.randbelow(1 << 31) or 1
    return StorageInfo(
        layout_version=layout_version,
        namespace_id=number,
        c_time=0,
        cluster_id=f"CID-{uuid.uuid4()}",
        blockpool_id=f"BP-{secrets.randbelow(1 << 31)}-127.0.0.1-{now}",
    )


def _sections(info: StorageInfo, user: str, group: str) -> dict[str, bytes]:
    """Return the sections of an image at transaction id 0, in the order in which a NameNode writes them."""
    layout = info.layout_version
    hadoop3 = supports(LayoutVersion.ERASURE_CODING, layout)
    strings = StringTable.empty(_MASK_BITS if supports(LayoutVersion.EXPANDED_STRING_TABLE, layout) else 0)
    owner = strings.serial(user, StringKind.USER), strings.serial(group, StringKind.GROUP)
    root = pb.INode(type=pb.INode.DIRECTORY, id=ROOT_INODE_ID, name=b"")
    root.directory.modificationTime = int(time.time() * 1000)
    root.directory.nsQuota = _UNLIMITED
    root.directory.dsQuota = UINT64
    root.directory.permission = pack_permission(*owner, _ROOT_MODE)
    names = pb.NameSystemSection(
        namespaceId=info.namespace_id,
        genstampV1=_FIRST_GENSTAMP,
        genstampV2=_FIRST_GENSTAMP,
        genstampV1Limit=0,
        lastAllocatedBlockId=_FIRST_BLOCK_ID,
        transactionId=0,
    )
    policies = pb.ErasureCodingSection()
    for number in range(1, _SYSTEM_POLICIES + 1):
        policies.policies.add(id=number, state=pb.DISABLED)
    caches = pb.CacheManagerSection(nextDirectiveId=1, numPools=0, numDirectives=0)
    inodes = pb.INodeSection(lastInodeId=ROOT_INODE_ID, numInodes=1)
    # as a NameNode does, write zeros instead of omitting the fields
    secrets_section = pb.SecretManagerSection(currentId=0, tokenSequenceNumber=0, numKeys=0, numTokens=0)
    return {
        "NS_INFO": encode_delimited(names),
        **({"ERASURE_CODING": encode_delimited(policies)} if hadoop3 else {}),
        "INODE": encode_delimited(inodes) + encode_delimited(root),
        "INODE_DIR": b"",
        "FILES_UNDERCONSTRUCTION": b"",
        "SNAPSHOT": encode_delimited(pb.SnapshotSection(snapshotCounter=0, numSnapshots=0)),
        **({} if hadoop3 else {"SNAPSHOT_DIFF": b""}),
        "INODE_REFERENCE": b"",
        "SECRET_MANAGER": encode_delimited(secrets_section),
        "CACHE_MANAGER": encode_delimited(caches),
        "STRING_TABLE": strings.encode(),
    }


def format_storage(
    image_directories: Sequence[Path],
    edits_directories: Sequence[Path],
    info: StorageInfo,
    *,
    journals: Sequence[Journal] = (),
    force: bool = False,
    user: str = "hdfs",
    group: str = "supergroup",
) -> None:
    """Create `current` folders in every storage directory, and format the other journals.

    Args:
        force: delete existing data of any namespace.

    Raises:
        StorageError: a directory already has a `current` folder, or is in use; nothing was changed.
        JournalExistsError: a journal already exists; nothing was changed.
        JournalError: a journal could not be formatted; the directories are unchanged.
    """
    everywhere = list(dict.fromkeys([*image_directories, *edits_directories]))
    if not force:
        _refuse_what_is_there(everywhere, journals)
    with ExitStack() as locks:
        for directory in everywhere:
            directory.mkdir(parents=True, exist_ok=True)
            locks.enter_context(StorageLock(directory))
        for journal in journals:
            journal.format(info, force=force)
        _format_directories(everywhere, image_directories, info, user, group)


def _refuse_what_is_there(directories: Sequence[Path], journals: Sequence[Journal]) -> None:
    for directory in directories:
        if (directory / "current").exists():
            raise StorageError(f"{directory} is already formatted", hint=_FORCE_HINT)
    for journal in journals:
        if journal.is_formatted():
            raise JournalExistsError("the journal already exists", file=journal.location, hint=_FORCE_HINT)


def _format_directories(
    everywhere: Sequence[Path], image_directories: Sequence[Path], info: StorageInfo, user: str, group: str
) -> None:
    for directory in everywhere:
        current = directory / "current"
        if current.exists():
            # do this first, so that the directory does not count as formatted after a crash
            (current / VERSION).unlink(missing_ok=True)
            shutil.rmtree(current)
        current.mkdir()
    sections = _sections(info, user, group)

    def write(sink: Sink) -> None:
        writer = ImageWriter(sink, info.layout_version)
        for name, content in sections.items():
            writer.copy_section(name, content)
        writer.finish()

    save_image([directory / "current" for directory in image_directories], 0, write)
    for directory in everywhere:
        write_seen_txid(directory, 0)
        write_version(directory, info)

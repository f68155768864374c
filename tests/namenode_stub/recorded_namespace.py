"""A recorded namespace: the images of a real NameNode, and its edits, which are written and streamed segment by
segment.
"""

from __future__ import annotations

import hashlib
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.merge import merge
from hadoop_common.names import image_name, md5_name, parse_image, parse_segment, segment_name
from hadoop_common.storage_info import StorageInfo, parse_version
from hadoop_rpc.errors import RpcError
from hadoop_rpc.journal_protocol import JournalClient, JournalInfo
from journal.binary_codec import encode_op
from journal.operation import EditOp
from journal.segment_file import EditLogSegment, list_segments, read_ops
from journal.segment_format import SegmentCursor, encode_header
from journal.system_ops import EndLogSegmentOp, StartLogSegmentOp, UpdateMasterKeyOp
from journal.values import DelegationKey
from namenode_stub.backup_streams import BackupStreams
from tests.journal.journal_support import RECORDED

DEFAULT_CASE, BASIC_FILES = "hadoop-2.7.3/segments", "hadoop-2.7.3/basic-files"


def all_at_once(count: int) -> Iterator[int]:
    yield count


class RecordedNamespace:
    """Images and edits of a NameNode whose rolls proceed from one recorded segment to the next; later segments are
    empty.

    Attributes:
        written: the newest transaction.
        segment: first transaction of the open segment.
        busy: whether each segment after the recorded segments contains a change.
        keeps_edits: whether the namespace never purges segments, like a NameNode that retains extra edits.
        checkpointed_at: arrival of the last image, seconds since the epoch; `now` returns the current time.
        batches: returns the sizes of the batches in which a given number of transactions is streamed.
        streams: streams to backup nodes by their RPC address.
        after_roll: number of transactions written after each roll, not counting the transactions that begin and end a
            segment.
        tamper: changes a batch in transit (first txid, count, records).

    Args:
        begun: whether the first recorded segment has begun; otherwise the first roll begins it, so that backup nodes
            receive all recorded edits.
    """

    def __init__(self, folder: Path, case: str, *, begun: bool) -> None:
        self.folder = folder
        source = RECORDED / case
        if not folder.exists():
            shutil.copytree(source / "before", folder, copy_function=shutil.copyfile)
        self.info: StorageInfo = parse_version((folder / "VERSION").read_bytes(), "VERSION")
        self.expected = next((source / "after").glob("fsimage_" + "?" * 19))
        self.busy = self.keeps_edits = False
        self.now: Callable[[], float] = time.time
        self.checkpointed_at = time.time()
        self.batches: Callable[[int], Iterator[int]] = all_at_once
        self.streams: dict[str, Stream] = {}
        self.after_roll = 0
        self.tamper: Callable[[int, int, bytes], tuple[int, int, bytes]] = lambda *batch: batch
        self.writing = threading.RLock()
        self._ops: dict[int, bytes] = {}
        self._ends = {name.first: name.last for each in folder.iterdir() if (name := parse_segment(each.name))}
        self.recorded_end = max(last or 0 for last in self._ends.values())
        self.written = self._segment_end = self.image_txids()[-1]
        self.segment = self.written + 1
        self.backups = self._new_streams()
        if begun:
            self._begin()
            self._write(1)

    def upgrade(self, **changes: Any) -> None:
        """Report another VERSION from now on."""
        self.info = replace(self.info, **changes)

    # ---- images --------------------------------------------------------------------------------------------

    def image_txids(self) -> list[int]:
        names = (parse_image(path.name) for path in self.folder.iterdir())
        return sorted(name.txid for name in names if name is not None)

    @property
    def checkpoint_txid(self) -> int:
        return self.image_txids()[-1]

    def image(self, txid: int) -> Path:
        return self.folder / image_name(txid)

    def take(self, txid: int, content: bytes) -> None:
        """Store an image as a NameNode does, and purge everything older than the second newest image."""
        path = self.image(txid)
        path.write_bytes(content)
        path.with_name(md5_name(path.name)).write_text(f"{hashlib.md5(content).hexdigest()} *{path.name}\n")
        self._purge(self.image_txids()[-2:][0])

    def image_arrived(self) -> None:
        self._purge(self.image_txids()[-2:][0])
        self.checkpointed_at = self.now()

    def _purge(self, oldest: int) -> None:
        """Keep images from txid `oldest` on, and the edits that follow the oldest image."""
        for each in list(self.folder.iterdir()):
            name, segment = parse_image(each.name.removesuffix(".md5")), parse_segment(each.name)
            superseded = segment and segment.last is not None and segment.last <= oldest and not self.keeps_edits
            if (name and name.txid < oldest) or superseded:
                each.unlink()

    def save_namespace(self, *, upgrade: bool = False) -> None:
        """End the segment and save an image at its end, as `dfsadmin -saveNamespace` does.

        Args:
            upgrade: whether to act as at a start with `-upgrade`, which leaves no older image.
        """
        base = self.checkpoint_txid
        self.roll()
        ops = (op for each in self.segments() if each.first > base for op in read_ops(each))
        merge(self.image(base), ops, [self.folder])
        self._purge(self.segment - 1 if upgrade else self.image_txids()[-2:][0])
        self.checkpointed_at = self.now()

    # ---- the edit log --------------------------------------------------------------------------------------

    def segments(self) -> list[EditLogSegment]:
        """Return the finalized segments, without recorded segments that have not ended yet."""
        found = [each for each in list_segments(self.folder) if each.last is not None]
        return [each for each in found if each.first < self.segment or each.first not in self._ends]

    def content(self, first: int, last: int) -> bytes:
        """Return the content of a segment file of these transactions, without padding."""
        return encode_header(self.info.layout_version) + b"".join(self._ops[txid] for txid in range(first, last + 1))

    def write(self, count: int) -> None:
        """Write and stream the next `count` transactions of the open segment, or as many as remain."""
        with self.writing:
            for size in self.batches(min(count, self._segment_end - self.written)):
                if size > 0:
                    self._write(size)

    def write_all(self) -> None:
        """Write the rest of the open segment, except its last operation."""
        self.write(max(0, self._segment_end - self.written - 1))

    def _write(self, count: int) -> None:
        for txid in range(self.written + 1, self.written + count + 1):
            self.backups.logged(txid, self._ops[txid])
        self.written += count
        self.backups.flush()

    def roll(self, *, streamed: bool = True) -> int:
        """End the open segment and begin the next; return its first txid. Without `streamed`, backup nodes do not
        receive the new segment.
        """
        with self.writing, nullcontext() if streamed else self._without_streams():
            self.write_all()
            end = self._ops.get(self._segment_end, b"")
            self.written = self._segment_end
            self.segment = self.written + 1
            self._begin()
            self.backups.rolled(self.segment, self._ops[self.segment], end)
            self.written += 1
            self.backups.flush()
            self.write(min(self.after_roll, self._segment_end - self.written - 1))
            return self.segment

    def _begin(self) -> None:
        """Load the segment that begins at `segment`; make its file if the segment is not recorded."""
        first = self.segment
        if first not in self._ends:
            ops: list[EditOp] = [StartLogSegmentOp(txid=first)]
            if self.busy:
                ops.append(UpdateMasterKeyOp(txid=first + 1, key=DelegationKey(first, 1 << 40, b"something new")))
            self._make_segment([*ops, EndLogSegmentOp(txid=first + len(ops))])
        last = self._ends[first]
        assert last is not None
        content = (self.folder / segment_name(first, last)).read_bytes()
        found = list(SegmentCursor(content))
        ends = [op.offset for op in found[1:]] + [len(content.rstrip(b"\xff"))]
        self._ops |= {op.txid: content[op.offset : end] for op, end in zip(found, ends, strict=True)}
        self._segment_end = last

    def _make_segment(self, ops: list[EditOp]) -> None:
        layout, (first, last) = self.info.layout_version, (ops[0].txid, ops[-1].txid)
        content = encode_header(layout) + b"".join(encode_op(op, layout) for op in ops)
        (self.folder / segment_name(first, last)).write_bytes(content)
        self._ends[first] = last

    def set_back(self, until: int) -> None:
        """Discard all edits after the oldest image, and write other edits, in segments of six, beyond txid `until`."""
        for path in self.folder.glob("edits_*"):
            path.unlink()
        oldest, *later = self.image_txids()
        for txid in later:
            for suffix in ("", ".md5"):
                (self.folder / (image_name(txid) + suffix)).unlink()
        self._ends, first = {}, oldest + 1
        while first <= until:
            keys = [
                UpdateMasterKeyOp(txid=txid, key=DelegationKey(txid, 1 << 40, b"of another past"))
                for txid in range(first + 1, first + 5)
            ]
            self._make_segment([StartLogSegmentOp(txid=first), *keys, EndLogSegmentOp(txid=first + 5)])
            first += 6
        self.segment, self.written = first, first - 1
        with self._without_streams():
            self._begin()
            self._write(1)

    # ---- streams to backup nodes ---------------------------------------------------------------------------

    def _new_streams(self) -> BackupStreams:
        return BackupStreams(JournalInfo.of(self.info), lambda host, port: Stream(self, host, port))

    @contextmanager
    def _without_streams(self) -> Iterator[None]:
        kept, self.backups = self.backups, self._new_streams()
        yield
        self.backups = kept

    def restart(self) -> None:
        """Drop all registrations; keep the content of the open segment, and begin another segment."""
        with self.writing:
            self.backups.close()
            self.backups = self._new_streams()
            self.roll()

    def go_on_as(self, other: RecordedNamespace) -> None:
        """Continue from the state of `other`, with a copy of its folder."""
        self.written, self.segment, self._segment_end = other.written, other.segment, other._segment_end
        self._ops, self._ends = dict(other._ops), dict(other._ends)


class Stream(JournalClient):
    """Stream to a backup node, with its acknowledged transactions and faults.

    Attributes:
        active: whether the backup node receives the open segment.
    """

    def __init__(self, node: RecordedNamespace, host: str, port: int) -> None:
        super().__init__(host, port, user="hdfs", timeout=600)
        self._node = node
        self._key = f"{host}:{port}"
        self.active = False
        self.faults: list[str] = []
        self.acknowledged: set[int] = set()
        node.streams[self._key] = self

    def journal(self, info: JournalInfo, epoch: int, first_txid: int, count: int, records: bytes) -> None:
        batch = self._node.tamper(first_txid, count, records)
        with self._noting_faults():
            super().journal(JournalInfo.of(self._node.info), epoch, *batch)
        self.acknowledged |= set(range(first_txid, first_txid + count))

    def start_log_segment(self, info: JournalInfo, epoch: int, txid: int) -> None:
        self.active = True
        with self._noting_faults():
            super().start_log_segment(JournalInfo.of(self._node.info), epoch, txid)

    @contextmanager
    def _noting_faults(self) -> Iterator[None]:
        try:
            yield
        except RpcError as error:
            self.active = False
            self.faults.append(str(error))
            raise

    def close(self) -> None:
        self._node.streams.pop(self._key, None)
        super().close()

"""Each kernel in the table of operations, compared with its plain function: both produce the same image, or the same
error.
"""

from __future__ import annotations

import os
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from engine.loaded_image import load_image
from engine.replay import replay
from engine.replay.replayer import PLAIN
from engine.replay.table import TABLE, OpReplay
from hadoop_common.errors import HdfsError
from image_format.reader import ImageFile
from journal import ops
from journal.binary_codec import encode_op
from journal.ops import EditOp
from journal.segment_format import encode_header
from journal.segment_frames import CHECKSUM_SIZE, HEAD_SIZE
from tests.depth import examples, sample
from tests.engine.image_builder import LAYOUTS, OWNER, merge_bytes, merged, numbered
from tests.engine.op_makers import add, mkdir
from tests.engine.replay_scenes import base, block, needs_kernels, rare, work
from tests.engine.replay_twins import EncodedOps, check_segment
from tests.engine.snapshot_support import allow, create

COMPILED = [row for row in TABLE if row.kernel]
rows = pytest.mark.parametrize("row", COMPILED, ids=lambda row: row.kernel)
layouts = pytest.mark.parametrize("layout", LAYOUTS)


@pytest.fixture(scope="module")
def left_over(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Counter[str]]:
    """Return, by layout, the number of operations of jobs that were left to plain functions, by name."""
    found = {}
    for layout in LAYOUTS:
        path = base(layout).save(tmp_path_factory.mktemp("twins"))
        merged(path, *work(3))
        found[layout] = Counter(rare(path, work(3), layout))
    return found


@needs_kernels
@layouts
@rows
def test_each_kernel_handles_an_operation_of_the_workload(
    row: OpReplay, layout: int, left_over: dict[int, Counter[str]]
) -> None:
    """`work` must contain an operation that the kernel handles; otherwise, the kernel would not be compared with
    anything.
    """
    done = sum(type(op) is row.kind for op in work(3))
    assert done > left_over[layout][row.kind.name]


PATHS = st.sampled_from(
    [
        *("/old/new", "/old/a/new", "/old/s/new", "/nowhere/new", "/old/a/f1/new", "/new"),
        *("/old/a/f1", "/old/a/open", "/old/open", "/old/s/open", "/old/s/kept", "/old/a", "/old/s", "/old", "/"),
        *("/old//a", "/old/a/", "", "old", "/old/a/\U0001f600", "/old/a/\u4e2d"),
    ]
)
SNAPSHOTS = st.sampled_from(["s0", "a0", "new", "", "\U0001f600", "\u4e2d"])
TIMES = st.sampled_from([5000, 1, 0, -1, -7, (1 << 63) - 1])
NAMES = st.sampled_from(["hdfs", "supergroup", "bob", "\U0001f600", ""])
CLIENTS = st.sampled_from(["client", "other", "", "\u4e2d"])
NUMBERS = st.sampled_from([20_100, 20_101, 16_390, 16_385, 0, -1, (2 << 30) + 50, (1 << 20) + 50])
BLOCKS = st.lists(st.sampled_from([block(0), block(0, 0), block(1), block(0)._replace(genstamp=99)]), max_size=3)
ENTRIES = [ops.AclEntry(0, 0, 7, None), ops.AclEntry(1, 0, 5, None), ops.AclEntry(3, 0, 1, None)]
VALUES: dict[str, st.SearchStrategy[object]] = {
    **dict.fromkeys(("path", "src", "dst", "snapshot_root"), PATHS),
    **dict.fromkeys(("snapshot_name", "snapshot_old_name", "snapshot_new_name"), SNAPSHOTS),
    **dict.fromkeys(("mtime", "atime", "timestamp"), TIMES),
    **dict.fromkeys(("inode_id", "block_id", "genstamp"), NUMBERS),
    **dict.fromkeys(("client_name", "client_machine", "lease_holder", "new_holder"), CLIENTS),
    **dict.fromkeys(("username", "groupname"), NAMES.map(lambda name: name or None)),
    "replication": st.sampled_from([3, 0, -1, 700]),
    "mode": st.sampled_from([0o644, 0, 0o1777, 0xFFFF]),
    "block_size": st.sampled_from([128, 0]),
    "blocks": BLOCKS.map(tuple),
    "permissions": st.just(OWNER) | st.builds(ops.PermissionStatus, NAMES, NAMES, st.just(0o600)),
    "acl_entries": st.none() | st.just(tuple(ENTRIES)) | st.just(tuple(ENTRIES[:2])),
    "xattrs": st.just(()) | st.just((ops.XAttr(0, "name", b"value"),)),
    "overwrite": st.booleans(),
    "storage_policy_id": st.sampled_from([0, 7, 16, -1]),
    "erasure_coding_policy_id": st.sampled_from([0, 0, 1, 9]),
    "options": st.sampled_from([b"", b"\1", b"\0", b"\2\1"]),
    "rpc_client_id": st.sampled_from([b"", bytes(16)]),
    "rpc_call_id": st.sampled_from([-2, 7]),
}
"""Values by the name of a field. If the operation of a new kernel has a field that is missing from this table, add
values for the field.
"""


def setting(*, in_snapshot: bool) -> list[EditOp]:
    """Return open files, with and without a block, below a directory with snapshots and elsewhere.

    Args:
        in_snapshot: whether a snapshot also contains the files of the base.
    """
    made = [
        add("/old/a/open", 20_001),
        ops.AddBlockOp(path="/old/a/open", blocks=(block(0),)),
        add("/old/open", 20_002),
        mkdir("/old/s", 20_003),
        add("/old/s/kept", 20_004),
        allow("/old/s"),
        create("s0", "/old/s"),
        add("/old/s/open", 20_005),
    ]
    return [*made, allow("/old/a"), create("a0", "/old/a")] if in_snapshot else made


@pytest.mark.parameters(3)
@layouts
@rows
def test_kernel_gives_the_same_result_as_the_plain_function(row: OpReplay, layout: int, tmp_path: Path) -> None:
    path = base(layout).save(tmp_path)
    operation = st.builds(row.kind, **{field.name: VALUES[field.name] for field in row.kind.fields})

    @examples(200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.booleans(), st.lists(operation, min_size=1, max_size=4))
    def compare(in_snapshot: bool, given: list[EditOp]) -> None:
        # the comparison is in `merge_bytes`; an error counts as a result
        with suppress(HdfsError):
            merge_bytes(path, [*setting(in_snapshot=in_snapshot), *given])

    compare()


def changes(fields: bytes) -> Iterator[bytes]:
    """Yield an operation's encoded fields with a changed byte or number, and truncated at every position."""
    for at in range(len(fields)):
        yield from (fields[:at] + new + fields[at + len(new) :] for new in (b"\0", b"\3", b"\xff" * 8))
        yield fields[:at]


def with_fields(record: bytes, fields: bytes) -> bytes:
    """Return an operation with other fields, and with their length and checksum."""
    head = record[:1] + struct.pack(">i", HEAD_SIZE - 1 + len(fields)) + record[5:HEAD_SIZE]
    return head + fields + crc32(head + fields).to_bytes(CHECKSUM_SIZE, "big")


@pytest.mark.parameters(3)
@layouts
@rows
def test_kernel_and_plain_function_read_the_same_from_changed_bytes(row: OpReplay, layout: int, tmp_path: Path) -> None:
    path = base(layout).save(tmp_path)
    given = list(work(3))
    while type(given[-1]) is not row.kind:
        given.pop()
    with ImageFile.open(path) as image, patch("engine.replay.snapshots.now", lambda: 9000):
        *before, last = [encode_op(op, layout) for op in numbered(given, image.txid)]
        for fields in sample(list(changes(last[HEAD_SIZE:-CHECKSUM_SIZE])), 40, f"{row.kernel} {layout}"):
            records = [encode_header(layout), *before, with_fields(last, fields)]
            segment = EncodedOps(b"".join(records), image.txid + 1)
            check_segment(path, segment, None, *plainly(image, segment))


def plainly(image: ImageFile, segment: EncodedOps) -> tuple[bytes | HdfsError, int]:
    """Return the result of plain replay, and the number of operations without effect."""
    out = bytearray()
    with patch.dict(os.environ, {PLAIN: "1"}):
        loaded = load_image(image)
        try:
            replay(loaded.namespace, segment)
            loaded.write(out.extend, codec="")
        except HdfsError as error:
            return error, 0
    return bytes(out), loaded.namespace.ignored

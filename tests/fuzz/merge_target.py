"""What must hold for a merge onto any bytes taken for an fsimage: a typed error, or an image as good as they were."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from checkpointer.merge import load_image
from checkpointer.replay import replay
from hadoop_common.errors import HdfsError
from image_format.reader import ImageFile
from journal import ops
from journal.operation import EditOp
from tests.checkpointer.op_makers import delete, mkdir, rename_old, set_permissions, times
from tests.fuzz.image_target import check_image
from tests.fuzz.scratch import Scratch
from tests.fuzz.verdict import check_error

__all__ = ["check_merge"]


def check_merge(data: bytes, scratch: Scratch) -> bool:
    """Merge a few edits onto `data`, which touch its root and every section that is decoded whole.

    Raises:
        AssertionError: a good image became a damaged one.
    """
    try:
        merged = _merge(scratch.file("fsimage", data), _edits)
    except HdfsError as error:
        check_error(error)
        return False
    if check_image(data, scratch):
        assert check_image(merged, scratch)
        assert _merge(scratch.file("fsimage", merged), lambda _: [])
    return True


def _merge(path: Path, make_edits: Callable[[int], list[EditOp]]) -> bytes:
    out = bytearray()
    with ImageFile.open(path, verify_md5=False) as image:
        loaded = load_image(image)
        first = loaded.namespace.last_txid + 1
        # No edit log holds txids beyond a Java long, so nothing is merged onto an image that is close to that.
        edits = [] if first >> 62 else make_edits(loaded.namespace.last_inode_id + 1)
        for number, op in enumerate(edits):
            op.txid = first + number
        replay(loaded.namespace, edits)
        loaded.write(out.extend)
    return bytes(out)


def _edits(inode_id: int) -> list[EditOp]:
    return [
        mkdir("/fuzz", inode_id),
        mkdir("/fuzz/below", inode_id + 1),
        times("/fuzz", mtime=5),
        rename_old("/fuzz/below", "/fuzzed"),
        set_permissions("/", 0o755),
        delete("/fuzz"),
        ops.UpdateMasterKeyOp(key=ops.DelegationKey(key_id=77, expiry_date=1, key=b"k")),
        ops.AddCachePoolOp(
            pool=ops.CachePoolInfo(pool_name="fuzz", owner_name="u", group_name="g", mode=0o755, limit=1)
        ),
    ]

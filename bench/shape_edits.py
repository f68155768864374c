"""Edits that are scattered over a whole namespace of any shape."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.edits import write_segments
from bench.kernels.records import BLOCK_SIZE, CLOCK, FIRST_BLOCK
from bench.sections import TXID
from bench.shape_layout import Layout
from hadoop_common.names import SEEN_TXID, image_name
from journal import ops

_JOBS, _PERMISSIONS, _TIMES = 0.6, 0.15, 0.15


def write_scattered(
    current: Path, layout: Layout, transactions: int, *, seed: int = 2, segments: int = 1
) -> list[Path]:
    """Write finalized segments of `transactions` that follow the image; each concerns a different directory and file.

    Jobs write a file in one directory and rename it into another. The modes and times of files of the image change, and
    some of these files are renamed.
    """
    image, whole = current / image_name(TXID), segments * transactions
    paths = write_segments(image, TXID, _scattered(layout, seed), whole, transactions)
    (current / SEEN_TXID).write_text(f"{TXID + whole}\n")
    return paths


def _scattered(layout: Layout, seed: int) -> Iterator[ops.EditOp]:
    random = np.random.default_rng(seed)
    permissions = ops.PermissionStatus("hdfs", "supergroup", 0o644)
    inode, block, genstamp = layout.last_id, FIRST_BLOCK + 3 * layout.files + 1, 1001 + 3 * layout.files
    now = CLOCK + 10_000_000_000
    # rename files with even numbers, once each; change attributes of files with odd numbers
    moved = iter((random.permutation(layout.files // 2) * 2).tolist())
    while True:
        draws = random.random(1 << 12).tolist()
        places = random.integers(layout.leaves, size=(1 << 12, 2)).tolist()
        chosen = (random.integers(layout.files // 2, size=1 << 12) * 2 + 1).tolist()
        for draw, (home, other), file in zip(draws, places, chosen, strict=True):
            now += 1
            if draw < _JOBS:
                inode, block, genstamp = inode + 1, block + 1, genstamp + 1
                path, final = f"{layout.folder(home)}/_tmp-{inode}", f"{layout.folder(other)}/new-{inode}"
                yield ops.AddOp(
                    inode_id=inode, path=path, replication=3, mtime=now, atime=now, block_size=BLOCK_SIZE,
                    permissions=permissions, client_name="DFSClient_1", client_machine="10.0.0.1",
                )  # fmt: skip
                yield ops.AllocateBlockIdOp(block_id=block)
                yield ops.SetGenstampV2Op(genstamp=genstamp)
                yield ops.AddBlockOp(path=path, blocks=(ops.Block(block, 0, genstamp),))
                yield ops.CloseOp(
                    path=path, replication=3, mtime=now, atime=now, block_size=BLOCK_SIZE, permissions=permissions,
                    blocks=(ops.Block(block, 1 << 20, genstamp),),
                )  # fmt: skip
                yield ops.RenameOp(src=path, dst=final, timestamp=now, options=b"\0")
            elif draw < _JOBS + _PERMISSIONS:
                yield ops.SetPermissionsOp(src=layout.path(file), mode=0o600)
            elif draw < _JOBS + _PERMISSIONS + _TIMES:
                yield ops.TimesOp(path=layout.path(file), mtime=-1, atime=now)
            elif (source := next(moved, None)) is not None:
                target = f"{layout.folder(other)}/moved-{source}"
                yield ops.RenameOldOp(src=layout.path(source), dst=target, timestamp=now)

"""Scenes for tests of replay kernels: a tree, operations of jobs on it, and operations that kernels do not handle."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.loaded_image import load_image
from engine.namespace.namespace import Namespace
from engine.replay import replay
from image_format.compiling.mode import Mode, mode
from image_format.reader import ImageFile
from journal import ops
from journal.ops import EditOp
from tests.engine.image_builder import ImageBuilder, numbered
from tests.engine.op_makers import add, close, delete, mkdir, rename, rename_old, set_permissions, times
from tests.engine.replay_twins import EncodedOps, encoded
from tests.engine.snapshot_support import allow, create, remove, retitle

needs_kernels = pytest.mark.skipif(
    mode() is Mode.PLAIN, reason="it asserts what kernels do, and with CHECKPOINTER_KERNELS=plain no replay kernel runs"
)
"""Mark of tests that fail if plain functions replay everything."""


def block(number: int, size: int = 7) -> ops.Block:
    return ops.Block((2 << 30) + number, size, (1 << 20) + number)


def job(number: int) -> list[EditOp]:
    """Return the operations of a task's file: created, two blocks, closed, renamed, its attributes changed."""
    path, final = f"/jobs/tmp/part-{number}", f"/jobs/out/part-{number}"
    first, second = 2 * number, 2 * number + 1
    return [
        add(path, 30_000 + number),
        ops.AllocateBlockIdOp(block_id=block(first).block_id),
        ops.SetGenstampV2Op(genstamp=block(first).genstamp),
        ops.AddBlockOp(path=path, blocks=(block(first, 0),)),
        ops.UpdateBlocksOp(path=path, blocks=(block(first, 0),)),
        ops.AllocateBlockIdOp(block_id=block(second).block_id),
        ops.SetGenstampV2Op(genstamp=block(second).genstamp),
        ops.AddBlockOp(path=path, blocks=(block(first), block(second, 0))),
        ops.ReassignLeaseOp(lease_holder="client", path=path, new_holder=f"client-{number % 3}"),
        close(path, blocks=(block(first), block(second))),
        rename(path, final) if number % 2 else rename_old(path, final),
        set_permissions(final, 0o600),
        ops.SetOwnerOp(src=final, username="alice", groupname="staff"),
        ops.SetReplicationOp(path=final, replication=2),
        times(final, 8000, 9000),
    ]


def work(count: int) -> list[EditOp]:
    jobs = [op for number in range(count) for op in job(number)]
    return [
        ops.StartLogSegmentOp(),
        mkdir("/jobs", 20_001),
        mkdir("/jobs/tmp", 20_002),
        mkdir("/jobs/out", 20_003),
        *jobs,
        delete("/jobs/tmp"),
        rename("/jobs/out/part-0", "/jobs/out/part-1", overwrite=True),
        delete("/old/a"),
        delete("/nowhere"),
        mkdir("/shots", 20_004),
        allow("/shots"),
        create("s1", "/shots"),
        retitle("s1", "s2", "/shots"),
        remove("s2", "/shots"),
        ops.EndLogSegmentOp(),
    ]


def base(layout: int) -> ImageBuilder:
    builder = ImageBuilder(layout)
    builder.directory("/old")
    builder.directory("/old/a")
    for number in range(20):
        builder.file(f"/old/a/f{number}")
    return builder


def segment_after(namespace: Namespace, ops: Sequence[EditOp], layout_version: int) -> EncodedOps:
    """Number the operations after the namespace's last transaction, and return them as a segment."""
    segment = encoded(numbered(ops, namespace.last_txid), layout_version)
    assert segment is not None
    return segment


def rare(path: Path, edits: Sequence[EditOp], layout: int) -> list[str]:
    """Return the names of the operations that kernels leave to the plain functions."""
    with ImageFile.open(path) as image:
        loaded = load_image(image)
        segment = segment_after(loaded.namespace, edits, layout)
        seen: list[str] = []
        assert replay(loaded.namespace, segment, watch=lambda op: seen.append(op.name) is None) == len(edits)
        return seen

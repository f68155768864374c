"""Invariants for a merge onto any bytes read as an fsimage: a typed error, or an image as good as the old image.

Kernels and plain functions have the same result for every image that passes verification.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from engine.loaded_image import LoadedImage
from engine.merge import load_image
from engine.namespace.path_resolver import ROOT_ROW
from engine.namespace.tree import Tree
from engine.replay import replay
from engine.replay.replayer import PLAIN
from hadoop_common.errors import HdfsError
from image_format.kernels.inode import DIRECTORY, FILE
from image_format.reader import ImageFile
from image_tools.verify.checker import audit_image
from image_tools.verify.findings import Findings
from journal import ops
from journal.operation import EditOp
from tests.engine.op_makers import add, close, delete, mkdir, rename_old, set_permissions, times
from tests.engine.replay_twins import encoded
from tests.fuzz.image_target import check_image
from tests.fuzz.scratch import Scratch
from tests.fuzz.verdict import check_error

_TOUCHED = 4


def check_merge(data: bytes, scratch: Scratch) -> bool:
    """Merge a few edits onto `data`. The edits touch the root, some children and every section that a merge decodes
    completely.

    Raises:
        AssertionError: a good image became damaged, or kernels and plain functions had different results.
    """
    path = scratch.file("fsimage", data)
    merged, compiled = _outcome(path, by_kernels=False), _outcome(path, by_kernels=True)
    if merged != compiled:
        assert not audit_image(path, Findings(None), None, outer=False).findings.valid
    images = [each for each in (merged, compiled) if isinstance(each, bytes)]
    if images and check_image(data, scratch):
        for each in images:
            assert check_image(each, scratch)
            assert _merge(scratch.file("fsimage", each), edited=False, by_kernels=True)
    return bool(images)


def _outcome(path: Path, *, by_kernels: bool) -> bytes | str:
    """Return the merged image, or only the kind of error, because kernels and plain functions may report different
    faults.
    """
    try:
        with mock.patch.dict(os.environ, {PLAIN: "" if by_kernels else "1"}):
            return _merge(path, edited=True, by_kernels=by_kernels)
    except HdfsError as error:
        check_error(error)
        return type(error).__name__


def _merge(path: Path, *, edited: bool, by_kernels: bool) -> bytes:
    out = bytearray()
    with ImageFile.open(path, verify_md5=False) as image:
        edits = _edits(load_image(image)) if edited else []
        segment = encoded(edits, image.layout_version) if by_kernels and edits else None
        loaded = load_image(image)
        replay(loaded.namespace, edits if segment is None else segment)
        loaded.write(out.extend)
    return bytes(out)


def _edits(loaded: LoadedImage) -> list[EditOp]:
    namespace = loaded.namespace
    first, inode_id = namespace.last_txid + 1, namespace.last_inode_id + 1
    if first >> 62 or inode_id >> 62:
        # No edit log contains numbers beyond a Java long, so images with numbers close to that limit are not merged.
        return []
    edits = [
        *_below(loaded, inode_id + 3),
        mkdir("/fuzz", inode_id),
        mkdir("/fuzz/below", inode_id + 1),
        times("/fuzz", mtime=5),
        add("/fuzz/file", inode_id + 2),
        close("/fuzz/file"),
        rename_old("/fuzz/below", "/fuzzed"),
        set_permissions("/", 0o755),
        delete("/fuzz"),
        ops.UpdateMasterKeyOp(key=ops.DelegationKey(key_id=77, expiry_date=1, key=b"k")),
        ops.AddCachePoolOp(
            pool=ops.CachePoolInfo(pool_name="fuzz", owner_name="u", group_name="g", mode=0o755, limit=1)
        ),
    ]
    for number, op in enumerate(edits):
        op.txid = first + number
    return edits


def _below(loaded: LoadedImage, inode_id: int) -> Iterator[EditOp]:
    """Yield operations on a few children of the root, of any type, and on their children."""
    tree = loaded.namespace.tree
    for path, row in _children(tree, "", ROOT_ROW)[:_TOUCHED]:
        yield times(path, mtime=6)
        yield set_permissions(path, 0o700)
        if tree.table.kind[row] == DIRECTORY:
            below = _children(tree, path, row)
            yield from (times(each, mtime=7) for each, _ in below[:_TOUCHED])
            yield add(f"{path}/{inode_id}", inode_id)
            yield mkdir(f"{path}/d{inode_id}", inode_id + 1)
            files = [each for each, child in below if tree.table.kind[child] == FILE]
            yield from (delete(each) for each in files[-1:])
            inode_id += 2


def _children(tree: Tree, path: str, row: int) -> list[tuple[str, int]]:
    """Return the path and row of a directory's children, by name; none if they cannot be read."""
    try:
        return [(f"{path}/{name.decode('utf-8', 'replace')}", child) for name, child in sorted(tree.children(row))]
    except HdfsError:
        # the merge must find the damage
        return []

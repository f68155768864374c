"""Keeps the lake small: joins small files, removes old images, and deletes files that no table refers to.

Only a replacement removes files from a table. If two replacements run concurrently, the second fails. Retention then
repeats its replacement; the next append repeats a join.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import pyarrow as pa

from hadoop_common.quantities import counted
from pipeline.errors import LakeConflictError
from pipeline.lake.delta import LakeFile, LakeTable
from pipeline.lake.lake import all_tables, image_table, images_in, images_table
from pipeline.lake.writing import LakeFileWriter
from pipeline.tables.catalogue import IMAGE_TABLES

_SMALL_BYTES = 64 << 20
_ORPHAN_HOURS = 24.0
_TRIES = 5

Replacement = tuple[Sequence[LakeFile], Sequence[LakeFile]]
"""Files to remove from a table, and their substitutes."""


def join_files(table: LakeTable, least: int, *, only: Mapping[str, str], but: Mapping[str, str] | None = None) -> None:
    """Join the small files of each partition that contains at least `least` small files.

    Then delete the files that no version of the last week needs.

    Args:
        only: values of partition columns that select the partitions to join.
        but: the partition to exclude, None if there is none.
    """
    by_partition: dict[tuple[tuple[str, str], ...], list[LakeFile]] = {}
    for file in table.files():
        if file.size < _SMALL_BYTES and only.items() <= file.partition.items() and file.partition != but:
            by_partition.setdefault(tuple(file.partition.items()), []).append(file)
    crowded = [files for files in by_partition.values() if len(files) >= least]
    for files in crowded:
        if not {file.path for file in files} <= {file.path for file in table.files()}:
            # Another process has replaced the files since they were listed.
            return
        try:
            table.replace(files, [_joined(table, files)])
        except LakeConflictError:
            return
    if crowded:
        table.vacuum()


def _joined(table: LakeTable, files: Sequence[LakeFile]) -> LakeFile:
    ordered = sorted(files, key=lambda file: (file.txids or (0, 0), file.path))
    schema = pa.schema([field for field in table.schema if field.name not in files[0].partition])
    writer = LakeFileWriter(table.uri, files[0].partition, schema)
    for file in ordered:
        for batch in table.batches(file):
            writer.add(batch.cast(schema))
    return writer.close()


def retain_images(root: str, keep: int, cluster: str) -> list[int]:
    """Remove all but the `keep` newest images of a cluster; return the txids of the removed images.

    Raises:
        LakeConflictError: another process changed the same tables at the same time.
        LakeError: the lake cannot be read or written.
    """
    if keep < 1:
        raise ValueError(f"{counted(keep, 'image')} cannot be kept")
    register = images_table(root)
    removed = [image.txid for image in images_in(register, cluster)][:-keep]
    if not removed:
        return []
    # Remove the rows first, so that a killed retention does not leave an image without files.
    _replace(register, partial(_without_rows, register, cluster, removed))
    partitions = [{"cluster": cluster, "txid": str(txid)} for txid in removed]
    for name in IMAGE_TABLES:
        _replace(image_table(root, name), lambda files: ([file for file in files if file.partition in partitions], []))
    remove_orphans(root)
    vacuum(root)
    return removed


def remove_orphans(root: str, hours: float = _ORPHAN_HOURS) -> None:
    """Remove the files of images without a row in `images`, which killed appends and retentions left.

    Args:
        hours: minimum age of a file's commit; a running append adds the row shortly after its files.
    """
    before = time.time_ns() // 1_000_000 - round(hours * 3_600_000)
    tables = [image_table(root, name) for name in IMAGE_TABLES]
    # Read `images` after the tables, so that an append that completed in between already has a row.
    complete = [image.partition for image in images_in(images_table(root))]
    for table in tables:
        _replace(
            table,
            lambda files: ([file for file in files if file.added <= before and file.partition not in complete], []),
        )


def _replace(table: LakeTable, change: Callable[[list[LakeFile]], Replacement]) -> None:
    """Replace the files that `change` chooses; repeat if another process replaced files at the same time."""
    for left in reversed(range(_TRIES)):
        old, new = change(table.files())
        if not old:
            return
        try:
            table.replace(old, new)
        except LakeConflictError:
            if not left:
                raise
            table.reload()
        else:
            return


def _without_rows(register: LakeTable, cluster: str, txids: Sequence[int], files: list[LakeFile]) -> Replacement:
    rows = register.read(register.schema.names, files).to_pylist()
    kept = [row for row in rows if row["cluster"] != cluster or row["txid"] not in txids]
    writer = LakeFileWriter(register.uri, {}, register.schema)
    writer.add(pa.RecordBatch.from_pylist(kept, register.schema))
    return files, [writer.close()]


def join_all(root: str) -> None:
    """Remove the files of incomplete images, then join the small files of each partition in all tables."""
    remove_orphans(root)
    for table in all_tables(root):
        join_files(table, 2, only={})


def vacuum(root: str, hours: int | None = None) -> int:
    """Delete files of removed images and of killed appends; return their number.

    Args:
        hours: age of the oldest version that readers may still use; None for a week.
    """
    return sum(table.vacuum(hours) for table in all_tables(root))

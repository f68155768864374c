"""Keeps the lake small: joins small files, removes old images, and deletes files that no table refers to.

Only replacements remove files from a table. Of two concurrent ones the second fails, and is left to the next append.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from pipeline.errors import LakeConflictError
from pipeline.lake.delta import LakeFile, LakeTable
from pipeline.lake.lake import all_tables, image_table, images_in, images_table
from pipeline.lake.writing import LakeFileWriter
from pipeline.tables.catalogue import IMAGE_TABLES

_SMALL_BYTES = 64 << 20


def join_files(table: LakeTable, least: int, *, only: Mapping[str, str], but: Mapping[str, str] | None = None) -> None:
    """Join the small files of each partition that has at least `least` of them.

    Args:
        only: values that a partition must have; `but`: the partition to leave out.
    """
    by_partition: dict[tuple[tuple[str, str], ...], list[LakeFile]] = {}
    for file in table.files():
        if file.size < _SMALL_BYTES and only.items() <= file.partition.items() and file.partition != but:
            by_partition.setdefault(tuple(file.partition.items()), []).append(file)
    for files in by_partition.values():
        if len(files) >= least:
            try:
                table.replace(files, [_joined(table, files)])
            except LakeConflictError:
                return


def _joined(table: LakeTable, files: Sequence[LakeFile]) -> LakeFile:
    ordered = sorted(files, key=lambda file: (file.txids or (0, 0), file.path))
    schema = pa.schema([field for field in table.schema if field.name not in files[0].partition])
    writer = LakeFileWriter(table.uri, files[0].partition, schema)
    for file in ordered:
        for batch in table.batches(file):
            writer.add(batch.cast(schema))
    return writer.close()


def retain_images(root: str, keep: int, cluster: str) -> list[int]:
    """Remove all but the `keep` newest images of a cluster; return the txids of the removed ones.

    Raises:
        LakeConflictError: another process changed the same tables at the same time.
        LakeError: the lake cannot be read or written.
    """
    if keep < 1:
        raise ValueError(f"{keep} images cannot be kept")
    register = images_table(root)
    removed = [image.txid for image in images_in(register, cluster)][:-keep]
    if not removed:
        return []
    partitions = [{"cluster": cluster, "txid": str(txid)} for txid in removed]
    for name in IMAGE_TABLES:
        table = image_table(root, name)
        if files := [file for file in table.files() if file.partition in partitions]:
            table.replace(files, [])
    # Last, so that a repetition finds the images if this process is killed.
    _remove_rows(register, cluster, removed)
    vacuum(root)
    return removed


def _remove_rows(register: LakeTable, cluster: str, txids: Sequence[int]) -> None:
    files = register.files()
    rows = register.read(register.schema.names, files).to_pylist()
    kept = [row for row in rows if row["cluster"] != cluster or row["txid"] not in txids]
    writer = LakeFileWriter(register.uri, {}, register.schema)
    writer.add(pa.RecordBatch.from_pylist(kept, register.schema))
    register.replace(files, [writer.close()])


def join_all(root: str) -> None:
    """Join the small files of each partition in all tables."""
    for table in all_tables(root):
        join_files(table, 2, only={})


def vacuum(root: str, hours: int | None = None) -> int:
    """Delete files of removed images and of killed appends; return their number.

    Args:
        hours: age of the youngest version that readers may still use; None for a week.
    """
    return sum(table.vacuum(hours) for table in all_tables(root))

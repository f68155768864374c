"""Output of `hdfs dfsadmin -metasave` (FSNamesystem.metaSave, BlockManager.metaSave), without DataNodes."""

from __future__ import annotations

from collections.abc import Iterator

from engine.namespace import ROOT_ROW, Namespace
from image_format.kernels.inode import DIRECTORY, FILE


def meta_save_text(namespace: Namespace) -> str:
    """Return the text for the current namespace; it lists every block as waiting for its replicas."""
    missing = list(_blocks(namespace))
    total = namespace.tree.inode_count
    objects = " filesystem objects" if namespace.hadoop3 else ""
    lines = [
        f"{total} files and directories, {len(missing)} blocks = {total + len(missing)} total{objects}",
        "Live Datanodes: 0",
        "Dead Datanodes: 0",
    ]
    if namespace.hadoop3:
        lines += [
            "Metasave: Blocks waiting for reconstruction: 0",
            f"Metasave: Blocks currently missing: {len(missing)}",
        ]
    else:
        lines.append(f"Metasave: Blocks waiting for replication: {len(missing)}")
    lines += [f"{block} MISSING (replicas: l: 0 d: 0 c: 0 e: 0) " for block in missing]
    lines.append("Mis-replicated blocks that have been postponed:")
    lines.append(f"Metasave: Blocks being {'reconstructed' if namespace.hadoop3 else 'replicated'}: 0")
    lines.append("Metasave: Blocks 0 waiting deletion from 0 datanodes.")
    if namespace.hadoop3:
        lines.append("Corrupt Blocks:")
    lines.append("Metasave: Number of datanodes: 0")
    return "\n".join(lines) + "\n"


def _blocks(namespace: Namespace) -> Iterator[str]:
    """Yield the path and name of every block of a file, in path order."""
    rows = [ROOT_ROW]
    while rows:
        row = rows.pop()
        if namespace.table.kind[row] == DIRECTORY:
            rows.extend(child for _, child in sorted(namespace.tree.children(row), reverse=True))
        elif namespace.table.kind[row] == FILE and namespace.table.block_count[row]:
            path = namespace.tree.path(row)
            for block in namespace.table.file_blocks(row):
                yield f"{path}: blk_{block.block_id}_{block.genstamp}"

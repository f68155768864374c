"""What the NameNode tells clients to take where their own configuration says nothing."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ServerDefaults"]


@dataclass(frozen=True, slots=True)
class ServerDefaults:
    """What clients take where their own configuration says nothing (FsServerDefaults).

    Attributes:
        block_size: bytes (dfs.blocksize).
        bytes_per_checksum: dfs.bytes-per-checksum.
        replication: dfs.replication.
        buffer_size: io.file.buffer.size.
        trash_interval: minutes that deleted files are kept (fs.trash.interval); 0 for no trash.
    """

    block_size: int = 128 << 20
    bytes_per_checksum: int = 512
    replication: int = 3
    buffer_size: int = 4096
    trash_interval: int = 0

"""What the NameNode tells clients to take where their own configuration says nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from hadoop_common.config_key import BYTES, COUNT, ConfigKey
from hadoop_common.configuration import Configuration, FaultCollector

__all__ = ["ServerDefaults"]

_BLOCK_SIZE = ConfigKey("dfs.blocksize", "128m", BYTES, "Size of a block.", least=1)
_BYTES_PER_CHECKSUM = ConfigKey("dfs.bytes-per-checksum", "512", COUNT, "Bytes that a checksum is of.", least=1)
_REPLICATION = ConfigKey("dfs.replication", "3", COUNT, "Copies of a block.", least=1)
_BUFFER_SIZE = ConfigKey("io.file.buffer.size", "4096", COUNT, "Bytes of a client's buffers.", least=1)
_TRASH_INTERVAL = ConfigKey("fs.trash.interval", "0", COUNT, "Minutes that deleted files are kept; 0: none.", least=0)


@dataclass(frozen=True, slots=True)
class ServerDefaults:
    """What clients take where their own configuration says nothing (FsServerDefaults); see the keys."""

    block_size: int = _BLOCK_SIZE.fallback
    bytes_per_checksum: int = _BYTES_PER_CHECKSUM.fallback
    replication: int = _REPLICATION.fallback
    buffer_size: int = _BUFFER_SIZE.fallback
    trash_interval: int = _TRASH_INTERVAL.fallback

    @classmethod
    def of(cls, settings: Configuration, faults: FaultCollector) -> Self:
        """By their keys; what is wrong goes to `faults`."""
        keys = (_BLOCK_SIZE, _BYTES_PER_CHECKSUM, _REPLICATION, _BUFFER_SIZE, _TRASH_INTERVAL)
        return cls(*(key.take(settings, faults) for key in keys))

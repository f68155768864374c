"""Defaults for clients without their own settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from hadoop_common.config_key import BYTES, COUNT, ConfigKey, bound, take_bound
from hadoop_common.configuration import Configuration, FaultCollector


@dataclass(frozen=True, slots=True)
class ServerDefaults:
    """Defaults of clients (FsServerDefaults); see the keys."""

    block_size: int = bound(ConfigKey("dfs.blocksize", "128m", BYTES, "Size of a block.", least=1))
    bytes_per_checksum: int = bound(
        ConfigKey("dfs.bytes-per-checksum", "512", COUNT, "Bytes covered by a checksum.", least=1)
    )
    replication: int = bound(ConfigKey("dfs.replication", "3", COUNT, "Copies of a block.", least=1))
    buffer_size: int = bound(ConfigKey("io.file.buffer.size", "4096", COUNT, "Bytes of a client's buffers.", least=1))
    trash_interval: int = bound(
        ConfigKey("fs.trash.interval", "0", COUNT, "Minutes for which deleted files are kept; 0: not at all.", least=0)
    )

    @classmethod
    def of(cls, settings: Configuration, faults: FaultCollector) -> Self:
        """Read the keys; faults are added to `faults`."""
        return cls(**take_bound(cls, settings, faults))

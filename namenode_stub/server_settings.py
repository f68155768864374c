"""Settings of the stub's servers: the reported Hadoop release, and defaults for clients without settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from hadoop_common.config_key import BYTES, COUNT, ConfigKey, bound, take_bound
from hadoop_common.configuration import Configuration, ConfigurationError, FaultCollector
from hadoop_common.hadoop_releases import HADOOP_2, HADOOP_3, RELEASES, Release
from image_format.layout import LayoutVersion, supports
from site_config.namenode_keys import BUILD_VERSION, HADOOP_VERSION


def release_of(layout_version: int) -> Release:
    """Return the release whose replay rules apply to a namespace of this layout."""
    return HADOOP_3 if supports(LayoutVersion.ERASURE_CODING, layout_version) else HADOOP_2


def configured_release(settings: Configuration) -> Release | None:
    """Return the configured release, or None.

    Raises:
        ConfigurationError: the build's revision is missing, or has no version.
    """
    version, build = HADOOP_VERSION.read(settings), BUILD_VERSION.read(settings)
    if not version and not build:
        return None
    if not version:
        raise ConfigurationError([settings.fault(BUILD_VERSION.name, f"needs {HADOOP_VERSION.name}")])
    if not build and version not in RELEASES:
        known = f"{BUILD_VERSION.name} must be set unless the version is one of {', '.join(RELEASES)}"
        raise ConfigurationError([settings.fault(HADOOP_VERSION.name, known)])
    return Release(version, build or RELEASES[version].revision)


@dataclass(frozen=True, slots=True)
class ServerDefaults:
    """Defaults for clients (FsServerDefaults), documented by their keys."""

    block_size: int = bound(ConfigKey("dfs.blocksize", "128m", BYTES, "Size of a block.", least=1))
    bytes_per_checksum: int = bound(
        ConfigKey("dfs.bytes-per-checksum", "512", COUNT, "Bytes covered by a checksum.", least=1)
    )
    replication: int = bound(ConfigKey("dfs.replication", "3", COUNT, "Copies of a block.", least=1))
    buffer_size: int = bound(ConfigKey("io.file.buffer.size", "4096", COUNT, "Bytes of a client's buffers.", least=1))
    trash_interval: int = bound(
        ConfigKey("fs.trash.interval", "0", COUNT, "Minutes for which deleted files are kept; 0 keeps none.", least=0)
    )

    @classmethod
    def of(cls, settings: Configuration, faults: FaultCollector) -> Self:
        """Read the keys; add faults to `faults`."""
        return cls(**take_bound(cls, settings, faults))

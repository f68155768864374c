"""The configured memory limit of merges."""

from __future__ import annotations

from pathlib import Path

from hadoop_common.configuration import Configuration
from hadoop_common.configuration_errors import ConfigurationError, FaultCollector
from image_format.memory_limit import MIN_MEMORY, TOO_LITTLE, MemoryLimit
from site_config import keys


def memory_limit(configuration: Configuration) -> MemoryLimit:
    """Read the `checkpointer.memory` keys.

    Raises:
        ConfigurationError: names both keys if the size is invalid and the folder is not local.
    """
    settings = configuration.with_defaults(keys.DEFAULTS)
    faults = FaultCollector()
    size = faults.take(lambda: _size(settings), None)
    folder = faults.take(lambda: _folder(settings), None)
    faults.raise_if_any()
    return MemoryLimit(size, folder)


def _size(settings: Configuration) -> int | None:
    size = keys.MEMORY.read(settings)
    if size is not None and size < MIN_MEMORY:
        raise ConfigurationError([settings.fault(keys.MEMORY.name, TOO_LITTLE)])
    return size


def _folder(settings: Configuration) -> Path | None:
    folders = keys.MEMORY_DIR.read(settings)
    if len(folders) > 1:
        raise ConfigurationError([settings.fault(keys.MEMORY_DIR.name, "must be one folder")])
    return folders[0] if folders else None

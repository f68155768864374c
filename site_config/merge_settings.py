"""The configured rules and the memory limit of merges."""

from __future__ import annotations

from pathlib import Path

from engine.settings import MergeSettings, ReplayRules
from hadoop_common.configuration import Configuration, ConfigurationError, FaultCollector
from image_format.memory_limit import MIN_MEMORY, TOO_LITTLE, MemoryLimit
from image_format.sub_section_rules import SubSectionRule
from site_config import keys, merge_keys


def merge_settings(configuration: Configuration | None) -> MergeSettings:
    """Return the configured settings of merges except the memory limit; return the defaults if there is no
    configuration.

    Raises:
        ConfigurationError: names all faulty keys.
    """
    if configuration is None:
        return MergeSettings()
    faults = FaultCollector()
    found = take_merge_settings(configuration, faults)
    faults.raise_if_any()
    return found


def take_merge_settings(configuration: Configuration, faults: FaultCollector) -> MergeSettings:
    """Read the settings of merges except the memory limit; add faults to `faults`, and replace faulty values with
    defaults.
    """
    return MergeSettings(
        codec=faults.take(lambda: image_codec(configuration), ""),
        sub_sections=faults.take(lambda: sub_section_rule(configuration), None),
        rules=faults.take(lambda: replay_rules(configuration), ReplayRules()),
        max_op_size=merge_keys.MAX_OP_SIZE.take(configuration, faults),
    )


def image_codec(configuration: Configuration) -> str:
    """Return the class name of the codec of new images, or "" if they are uncompressed.

    Raises:
        ConfigurationError: dfs.image.compress is not a switch, or the codec is unknown.
    """
    settings = configuration.with_defaults(keys.DEFAULTS)
    if not merge_keys.IMAGE_COMPRESS.read(settings):
        return ""
    # loads the libraries of all codecs, which most commands do not need
    from image_format.codecs import CODECS

    name = merge_keys.IMAGE_COMPRESSION_CODEC.read(settings)
    if not name or name not in CODECS:
        known = ", ".join(filter(None, CODECS))
        problem = f"is not a supported codec; set {merge_keys.IMAGE_COMPRESS.name} to false, or use one of {known}"
        raise ConfigurationError([settings.fault(merge_keys.IMAGE_COMPRESSION_CODEC.name, problem)])
    return name


def sub_section_rule(configuration: Configuration) -> SubSectionRule | None:
    """Return the rule for sub-sections of new images (`dfs.image.parallel.*`), or None if parallel loading is off.

    Raises:
        ConfigurationError: a switch or a number is invalid.
    """
    settings = configuration.with_defaults(keys.DEFAULTS)
    if not merge_keys.IMAGE_PARALLEL_LOAD.read(settings):
        return None
    return SubSectionRule(
        merge_keys.IMAGE_PARALLEL_TARGET_SECTIONS.read(settings),
        merge_keys.IMAGE_PARALLEL_INODE_THRESHOLD.read(settings),
        merge_keys.IMAGE_PARALLEL_COMPRESSED.read(settings),
    )


def replay_rules(configuration: Configuration) -> ReplayRules:
    """Return the rules of replay.

    Raises:
        ConfigurationError: a switch or a number is invalid.
    """
    settings = configuration.with_defaults(keys.DEFAULTS)
    older = merge_keys.SNAPSHOT_DELETION_ORDERED_IN_OLDER_LAYOUTS
    return ReplayRules(
        min_replication=merge_keys.REPLICATION_MIN.read(settings),
        max_replication=merge_keys.REPLICATION_MAX.read(settings),
        capture_open_files=merge_keys.SNAPSHOT_CAPTURE_OPENFILES.read(settings),
        skip_access_time_changes=merge_keys.SNAPSHOT_SKIP_CAPTURE_ACCESSTIME_ONLY_CHANGE.read(settings),
        ordered_snapshot_deletion=merge_keys.SNAPSHOT_DELETION_ORDERED.read(settings),
        ordered_deletion_in_older_layouts=older.read(settings) if older.name in settings else None,
    )


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
    size = merge_keys.MEMORY.read(settings)
    if size is not None and size < MIN_MEMORY:
        raise ConfigurationError([settings.fault(merge_keys.MEMORY.name, TOO_LITTLE)])
    return size


def _folder(settings: Configuration) -> Path | None:
    folders = merge_keys.MEMORY_DIR.read(settings)
    if len(folders) > 1:
        raise ConfigurationError([settings.fault(merge_keys.MEMORY_DIR.name, "must be one folder")])
    return folders[0] if folders else None

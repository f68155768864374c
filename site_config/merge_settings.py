"""The configured rules for replaying edits and writing images."""

from __future__ import annotations

from engine.settings import ReplayRules
from hadoop_common.configuration import Configuration, ConfigurationError
from image_format.sub_sections import SubSectionRule
from site_config import keys


def image_codec(configuration: Configuration) -> str:
    """Return the class name of the codec of new images, "" for uncompressed.

    Raises:
        ConfigurationError: dfs.image.compress is not a switch, or the codec is unknown.
    """
    settings = configuration.with_defaults(keys.DEFAULTS)
    if not keys.IMAGE_COMPRESS.read(settings):
        return ""
    # loads the libraries of all codecs, which most commands do not need
    from image_format.codecs import CODECS

    name = keys.IMAGE_COMPRESSION_CODEC.read(settings)
    if not name or name not in CODECS:
        known = ", ".join(filter(None, CODECS))
        problem = f"is not a supported codec; set {keys.IMAGE_COMPRESS.name} to false, or use one of {known}"
        raise ConfigurationError([settings.fault(keys.IMAGE_COMPRESSION_CODEC.name, problem)])
    return name


def max_op_size(configuration: Configuration) -> int:
    """Return the limit on the size of an operation, in bytes.

    Raises:
        ConfigurationError: the value is not a size.
    """
    return keys.MAX_OP_SIZE.read(configuration)


def sub_section_rule(configuration: Configuration) -> SubSectionRule | None:
    """Return the rule for sub-sections of new images (`dfs.image.parallel.*`), None if parallel loading is off.

    Raises:
        ConfigurationError: a switch or a number is invalid.
    """
    settings = configuration.with_defaults(keys.DEFAULTS)
    if not keys.IMAGE_PARALLEL_LOAD.read(settings):
        return None
    return SubSectionRule(
        keys.IMAGE_PARALLEL_TARGET_SECTIONS.read(settings),
        keys.IMAGE_PARALLEL_INODE_THRESHOLD.read(settings),
        keys.IMAGE_PARALLEL_COMPRESSED.read(settings),
    )


def replay_rules(configuration: Configuration) -> ReplayRules:
    """Return the rules of replay.

    Raises:
        ConfigurationError: a switch or a number is invalid.
    """
    settings = configuration.with_defaults(keys.DEFAULTS)
    older = keys.SNAPSHOT_DELETION_ORDERED_IN_OLDER_LAYOUTS
    return ReplayRules(
        min_replication=keys.REPLICATION_MIN.read(settings),
        max_replication=keys.REPLICATION_MAX.read(settings),
        capture_open_files=keys.SNAPSHOT_CAPTURE_OPENFILES.read(settings),
        skip_access_time_changes=keys.SNAPSHOT_SKIP_CAPTURE_ACCESSTIME_ONLY_CHANGE.read(settings),
        ordered_snapshot_deletion=keys.SNAPSHOT_DELETION_ORDERED.read(settings),
        ordered_deletion_in_older_layouts=older.read(settings) if older.name in settings else None,
    )

"""The Hadoop release that the stub reports, which subordinate nodes check first."""

from __future__ import annotations

from hadoop_common.configuration import Configuration, ConfigurationError
from hadoop_common.hadoop_releases import HADOOP_2, HADOOP_3, RELEASES, Release
from image_format.layout import LayoutVersion, supports
from site_config.namenode_keys import BUILD_VERSION, HADOOP_VERSION


def release_of(layout_version: int) -> Release:
    """Return the release with which a namespace of this layout is replayed."""
    return HADOOP_3 if supports(LayoutVersion.ERASURE_CODING, layout_version) else HADOOP_2


def configured_release(settings: Configuration) -> Release | None:
    """Return the configured release; None if none is configured.

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

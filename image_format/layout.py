"""Layout versions of the NameNode (NameNodeLayoutVersion): features and supported versions.

Code that opens an image or a storage directory calls `check_readable`. Code that merges or converts an image calls
`check_supported`. Both refuse versions newer than the newest known version unless the caller allows them. Reading,
copying and verifying an image always allows newer versions; a merge allows them only on request.
"""

from __future__ import annotations

from enum import IntEnum

from image_format.errors import UnsupportedLayoutError


class LayoutVersion(IntEnum):
    """Features by the layout version that introduced them; versions count down, so newer versions are smaller."""

    EDITLOG_LENGTH = -56
    XATTRS = -57
    CREATE_OVERWRITE = -58
    XATTRS_NAMESPACE_EXT = -59
    BLOCK_STORAGE_POLICY = -60
    TRUNCATE = -61
    APPEND_NEW_BLOCK = -62
    QUOTA_BY_STORAGE_TYPE = -63
    ERASURE_CODING = -64
    EXPANDED_STRING_TABLE = -65
    SNAPSHOT_MODIFICATION_TIME = -66
    NVDIMM_SUPPORT = -67


OLDEST_LAYOUT = LayoutVersion.EDITLOG_LENGTH
"""Layout of Hadoop 2.4.0, the first release with protobuf images. No release wrote the layouts -52 to -55."""
NEWEST_LAYOUT = min(LayoutVersion)
MIN_MERGE_LAYOUT = LayoutVersion.BLOCK_STORAGE_POLICY


def supports(feature: LayoutVersion, layout_version: int) -> bool:
    """Return whether images and edits of `layout_version` have `feature`; unknown newer versions have all features."""
    return layout_version <= feature


def is_unknown(layout_version: int) -> bool:
    """Return whether a version is newer than every known version."""
    return layout_version < NEWEST_LAYOUT


def newer_layout(one: int, other: int) -> int:
    return min(one, other)


def check_readable(layout_version: int, file: str = "", *, allow_unknown: bool = False) -> None:
    """Refuse an image whose sections cannot be listed.

    Args:
        layout_version: layout version as in the FileSummary: a negative number.
        allow_unknown: whether to accept versions newer than the newest known version.

    Raises:
        UnsupportedLayoutError: the version is older than Hadoop 2.4, or newer than every known version.
    """
    if layout_version > OLDEST_LAYOUT:
        raise UnsupportedLayoutError(
            f"layout version {layout_version} is older than Hadoop 2.4 ({OLDEST_LAYOUT.value})",
            file=file,
            hint="Only a NameNode converts such an image, when the cluster is upgraded (`hdfs namenode -upgrade`). "
            "First try the upgrade on a copy of the storage directory.",
        )
    if is_unknown(layout_version) and not allow_unknown:
        raise UnsupportedLayoutError(
            f"layout version {layout_version} is newer than the newest known version ({NEWEST_LAYOUT.value})",
            file=file,
            hint="Let a NameNode of the release that wrote the image make the checkpoint; `checkpointer merge "
            "--allow-unknown-layout` copies unknown parts and stops at edits that change them.",
        )


def check_supported(layout_version: int, file: str = "", *, allow_unknown: bool = False) -> None:
    """Refuse an image or edit log whose layout version cannot be merged; `check_readable` describes the arguments.

    Raises:
        UnsupportedLayoutError: the version is older than -60, or newer than every known version.
    """
    check_readable(layout_version, file, allow_unknown=allow_unknown)
    if layout_version > MIN_MERGE_LAYOUT:
        raise UnsupportedLayoutError(
            f"layout version {layout_version} is older than the oldest version that can be merged "
            f"({MIN_MERGE_LAYOUT.value}, Hadoop 2.6)",
            file=file,
            hint="Only a NameNode converts such an image, when the cluster is upgraded (`hdfs namenode -upgrade`). "
            "First try the upgrade on a copy of the storage directory.",
        )

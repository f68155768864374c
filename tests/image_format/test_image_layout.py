from __future__ import annotations

import pytest

from hadoop_common.exit_codes import ExitCode
from image_format.errors import UnsupportedLayoutError
from image_format.layout import (
    MIN_MERGE_LAYOUT,
    NEWEST_LAYOUT,
    LayoutVersion,
    check_readable,
    check_supported,
    supports,
)


def test_features_are_supported_from_their_version_on() -> None:
    assert supports(LayoutVersion.ERASURE_CODING, -64)
    assert supports(LayoutVersion.ERASURE_CODING, -67)
    assert not supports(LayoutVersion.ERASURE_CODING, -63)
    assert supports(LayoutVersion.NVDIMM_SUPPORT, -70)


@pytest.mark.parametrize("version", range(NEWEST_LAYOUT, MIN_MERGE_LAYOUT + 1))
def test_mergeable_layout_versions(version: int) -> None:
    check_supported(version)


@pytest.mark.parametrize("version", range(-59, -55))
def test_old_protobuf_images_can_only_be_read(version: int) -> None:
    check_readable(version)
    with pytest.raises(UnsupportedLayoutError, match="older than the oldest version that can be merged"):
        check_supported(version, "fsimage_5")


@pytest.mark.parametrize("version", [-55, -1, 0, 63])
def test_layouts_before_the_protobuf_format_are_refused(version: int) -> None:
    with pytest.raises(UnsupportedLayoutError, match=r"fsimage_5: layout version .* is older than Hadoop 2.4"):
        check_readable(version, "fsimage_5", allow_unknown=True)


@pytest.mark.parametrize("check", [check_readable, check_supported])
def test_newer_unknown_layouts_are_refused_unless_allowed(check: type) -> None:
    newer = NEWEST_LAYOUT - 1
    with pytest.raises(UnsupportedLayoutError, match=f"{newer} is newer than the newest known version") as raised:
        check(newer, "fsimage_5")
    assert raised.value.exit_code == ExitCode.UNSUPPORTED
    assert raised.value.hint
    check(newer, "fsimage_5", allow_unknown=True)

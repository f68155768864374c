"""Comparison of our settings of replay with a NameNode's, which its web server reports at /conf.

Operations do not contain these settings. An image that was replayed with other settings differs from the NameNode's
namespace, and later edits may not fit it: a NameNode that starts from such an image stops.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from http import HTTPStatus

from checkpointer.errors import TransferError
from checkpointer.transfer.common import TransferCancelledError, never, servlet_url
from checkpointer.transfer.image_acceptance import read_page, release_of
from engine.settings import ReplayRules
from site_config.merge_keys import (
    SNAPSHOT_CAPTURE_OPENFILES,
    SNAPSHOT_DELETION_ORDERED,
    SNAPSHOT_SKIP_CAPTURE_ACCESSTIME_ONLY_CHANGE,
)

_CONF = "/conf"
# the response is complete
_END = b"</configuration>"
# with the first release that has the setting
_KEYS = {
    SNAPSHOT_CAPTURE_OPENFILES.name: (3, 0),
    SNAPSHOT_SKIP_CAPTURE_ACCESSTIME_ONLY_CHANGE.name: (3, 1),
    SNAPSHOT_DELETION_ORDERED.name: (3, 4),
}


def ask_switches(
    base_url: str, version: str, *, timeout: float, cancel: Callable[[], bool] = never
) -> dict[str, bool] | None:
    """Return the switches of replay, by key, that a NameNode of the release `version` has; None if they are unknown.

    Raises:
        TransferCancelledError: `cancel()` became true.
    """
    release = release_of(version)
    known = [key for key, since in _KEYS.items() if release >= since]
    if not known:
        return {}
    try:
        status, content, _ = read_page(servlet_url(base_url, {}, _CONF), timeout, cancel)
    except TransferCancelledError:
        raise
    except TransferError:
        return None
    if status != HTTPStatus.OK or not content.rstrip().endswith(_END):
        return None
    return {key: _is_true(content, key) for key in known}


def difference(theirs: dict[str, bool], rules: ReplayRules) -> str:
    """Describe the first switch that differs from ours; "" if there is none."""
    ours = {
        SNAPSHOT_CAPTURE_OPENFILES.name: rules.capture_open_files,
        SNAPSHOT_SKIP_CAPTURE_ACCESSTIME_ONLY_CHANGE.name: rules.skip_access_time_changes,
        SNAPSHOT_DELETION_ORDERED.name: rules.ordered_snapshot_deletion,
    }
    for key, value in theirs.items():
        if ours[key] is not None and ours[key] != value:
            return f"{key} is {str(value).lower()} there, but {str(ours[key]).lower()} here"
    return ""


def _is_true(content: bytes, key: str) -> bool:
    """Return the value of a switch in the XML of a configuration; an unset or invalid switch is false."""
    pattern = rb"<name>" + re.escape(key.encode()) + rb"</name>\s*<value>\s*(\w*)\s*</value>"
    found = re.search(pattern, content)
    return found is not None and found[1].lower() == b"true"

"""A NameNode's settings, which its web server reports at /conf, and their comparison with our settings of replay.

Operations do not contain the settings of replay. An image that was replayed with other settings differs from the
NameNode's namespace. A NameNode that starts from this image may stop, because it may be unable to apply later edits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, TypeVar

from checkpointer.errors import TransferError
from checkpointer.transfer.common import TransferCancelledError, TransferInterruptedError, never, refusal, servlet_url
from checkpointer.transfer.image_acceptance import ask_version, read_page, release_of
from engine.settings import ReplayRules
from hadoop_common.config_key import ConfigKey
from hadoop_common.configuration import Configuration, FaultCollector
from site_config.merge_keys import (
    SNAPSHOT_CAPTURE_OPENFILES,
    SNAPSHOT_DELETION_ORDERED,
    SNAPSHOT_DELETION_ORDERED_IN_OLDER_LAYOUTS,
    SNAPSHOT_SKIP_CAPTURE_ACCESSTIME_ONLY_CHANGE,
)

T = TypeVar("T")

SETTINGS_HINT: Final = (
    "Set the key as in the NameNode's configuration (http://NAMENODE/conf), and reload the daemon. Until then, the "
    "daemon makes and offers no image. If the daemon has offered images with the other setting, first read "
    "docs/runbook.md, "
    '"Different replay settings".'
)
_CONF: Final = "/conf"
# the JSON form has resolved variables; the XML form has the text of the files
_AS_JSON: Final = {"Accept": "application/json"}
# first release with one of the settings, and with JSON
_SETTINGS_SINCE: Final = (2, 9)
_ORDERED_SINCE: Final = (3, 4)
_APACHE: Final = re.compile(r"\d+\.\d+(\.\d+)?(-SNAPSHOT)?")


@dataclass(frozen=True, slots=True)
class NamenodeSettings:
    """Configuration of a NameNode.

    Attributes:
        version: version of the NameNode's software, "" if unknown.
        values: the keys with a value, including the defaults of the NameNode's release.
    """

    version: str = ""
    values: Mapping[str, str] = field(default_factory=dict)

    def get(self, key: ConfigKey[T], default: T) -> T:
        """Return the value of `key`, or `default` if it is unknown or faulty."""
        if key.name not in self.values:
            return default
        settings = Configuration.from_mapping({key.name: self.values[key.name]}, {})
        return FaultCollector().take(lambda: key.read(settings), default)

    def is_on(self, key: str) -> bool:
        """Return the value of a switch whose default is false (Configuration.getBoolean)."""
        return self.values.get(key, "").strip().lower() == "true"


def ask_settings(base_url: str, *, timeout: float, cancel: Callable[[], bool] = never) -> NamenodeSettings:
    """Query the configuration of the NameNode at `base_url` (`http://host:port`); older releases lack these settings.

    Raises:
        TransferError: the NameNode does not answer or, with a status, refuses the page or does not have it.
        TransferCancelledError: `cancel()` became true.
    """
    version = ask_version(base_url, timeout=timeout, cancel=cancel)
    if () < release_of(version) < _SETTINGS_SINCE:
        return NamenodeSettings(version, {})
    url = servlet_url(base_url, {}, _CONF)
    status, content, _ = read_page(url, timeout, cancel, _AS_JSON)
    if status != HTTPStatus.OK:
        raise refusal("the request", url, status, "", content)
    try:
        values = {each["key"]: str(each["value"]) for each in json.loads(content)["properties"]}
    except (ValueError, KeyError, TypeError) as fault:
        raise TransferError(url, "the answer is not a configuration in JSON", status=status) from fault
    return NamenodeSettings(version, values)


def difference(theirs: NamenodeSettings, rules: ReplayRules) -> str:
    """Describe the first setting of replay that differs from ours; "" if there is none."""
    ours = {
        # a release that supports these keys lists them among its values, at least with their defaults
        SNAPSHOT_CAPTURE_OPENFILES.name: rules.capture_open_files,
        SNAPSHOT_SKIP_CAPTURE_ACCESSTIME_ONLY_CHANGE.name: rules.skip_access_time_changes,
    }
    compared = {key: value for key, value in ours.items() if key in theirs.values}
    ordered = SNAPSHOT_DELETION_ORDERED.name
    older = rules.ordered_deletion_in_older_layouts
    if rules.ordered_snapshot_deletion is not None and (older or release_of(theirs.version) >= _ORDERED_SINCE):
        compared[ordered] = rules.ordered_snapshot_deletion
    elif older is None and theirs.is_on(ordered) and theirs.version and not _APACHE.fullmatch(theirs.version):
        return (
            f"{ordered} is true on that NameNode; set {SNAPSHOT_DELETION_ORDERED_IN_OLDER_LAYOUTS.name} to true if "
            f"Hadoop {theirs.version} has ordered deletion, otherwise to false"
        )
    for key, value in compared.items():
        if theirs.is_on(key) != value:
            return f"{key} is {str(not value).lower()} on that NameNode, but {str(value).lower()} on this node"
    return ""


def settings_difference(
    base_url: str, rules: ReplayRules, *, timeout: float, cancel: Callable[[], bool] = never
) -> str:
    """Return the `difference` of the NameNode at `base_url`; "" if it does not show its settings.

    Raises:
        TransferInterruptedError: the NameNode does not answer.
        TransferCancelledError: `cancel()` became true.
    """
    try:
        return difference(ask_settings(base_url, timeout=timeout, cancel=cancel), rules)
    except (TransferCancelledError, TransferInterruptedError):
        raise
    except TransferError:
        return ""

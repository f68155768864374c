"""Acceptance of images by a NameNode: the rule of Hadoop 3.3's ImageServlet, applied to beans and refusals.

A NameNode refuses an image that it already has, and an image with too few transactions too soon after its last image.
Beans predict a refusal before an upload, and the message of a refusal explains the refusal afterwards.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any

from checkpointer.errors import TransferError
from checkpointer.transfer.common import (
    TransferCancelledError,
    TransferInterruptedError,
    login_faults,
    never,
    refusal,
    servlet_url,
    unreachable_hint,
)
from hadoop_common.cluster_http import read_body, send_request
from hadoop_common.file_faults import network_reason
from hadoop_common.http_connection import WaitCancelled
from hadoop_common.quantities import duration
from hadoop_rpc.spnego import open_logged_in

_JMX = "/jmx"
_SYSTEM = "Hadoop:service=NameNode,name=FSNamesystem"
# only one attribute, because other attributes list every DataNode
_VERSION = "Hadoop:service=NameNode,name=NameNodeInfo::SoftwareVersion"
_STATE = "Hadoop:service=NameNode,name=NameNodeStatus::State"
_START = "java.lang:type=Runtime::StartTime"
_TXIDS = "JournalTransactionInfo"
_TXIDS_BEAN = f"Hadoop:service=NameNode,name=NameNodeInfo::{_TXIDS}"
_REQUEST = "the request"
STARTING_HINT = (
    "If the NameNode's log shows that it is loading its image, wait. Otherwise, check dfs.namenode.http-address."
)
_METRICS_HINT = (
    "If hadoop.security.instrumentation.requires.admin is true on that NameNode, set it to false. With Kerberos, you "
    "can instead add the daemon's user to dfs.cluster.administrators there. Transfers of images do not depend on "
    "this key."
)
_UPLOAD_HINT = "Check that NameNode; the daemon retries the upload after a while."
_NO_TARGETS = "No targets in destination storage"
"""TransferFsImage's error if no directory for images is in use."""
_DROPPED_HINT = (
    "The NameNode has dropped its last directory for images. Do not restart it before it has stored an image again, "
    "because the edits after its last image may be purged. Check that directory's disk, then run `hdfs dfsadmin "
    "-restoreFailedStorage true` and `hdfs dfsadmin -rollEdits`. The daemon retries the upload after a while."
)
# ImageServlet.recentImageCheckTimePrecision
_SHARE_OF_PERIOD = 0.75

_TOO_RECENT = re.compile(
    r"since previous checkpoint is (-?\d+) expecting at least (\d+)\D+ is -?\d+ expecting at least \d+"
)
_HAS_IMAGE = re.compile(
    r"already uploaded an? checkpoint for txid (\d+)|fsimage_(?:rollback_)?0*(\d+) is stored here already"
)
# first release with this rule in each release line; Hadoop introduced the rule with observers
_RULE_SINCE = {(2,): (2, 10), (3, 0): (3, 1), (3, 1): (3, 1, 4), (3, 2): (3, 2, 2)}
_RELEASE = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


@dataclass(frozen=True, slots=True)
class ImageAcceptance:
    """The facts that determine whether a NameNode accepts an image.

    Attributes:
        version: version of the NameNode's software, "" if unknown.
        state: active, standby or observer, "" if unknown.
        last_at: time when the NameNode stored its last image, in seconds since the epoch.
        last_txid: txid of that image.
        clock_ahead: number of seconds by which the clock of `last_at` is ahead of this host's clock.
        written_txid: last transaction that an active NameNode wrote.
    """

    version: str
    state: str
    last_at: float | None
    last_txid: int | None
    clock_ahead: float = 0.0
    written_txid: int | None = field(default=None, compare=False)

    def by_our_clock(self, clock_ahead: float) -> ImageAcceptance:
        """Return the facts with `last_at` by this host's clock; the NameNode's clock is ahead by `clock_ahead`
        seconds.
        """
        return self if self.last_at is None else replace(self, last_at=self.last_at - clock_ahead, clock_ahead=0.0)

    def takes_from(self, period: float) -> float | None:
        """Return the time from which the NameNode accepts an image with few transactions, in seconds since the epoch.

        Return None if the NameNode accepts every image or none. `period` is the NameNode's
        dfs.namenode.checkpoint.period in seconds.
        """
        if self.last_at is None or self.state == "standby" or not refuses_recent(self.version):
            return None
        return self.last_at + min_image_age(period)

    def refuses(self, txid: int, now: float, *, period: float, transactions: int) -> bool:
        """Return whether the NameNode refuses the image at `txid` at the time `now` as too recent; `period` and
        `transactions` are its settings.
        """
        takes_from = self.takes_from(period)
        few = self.last_txid is None or txid - self.last_txid < transactions
        return takes_from is not None and now < takes_from and few


def ask_acceptance(base_url: str, *, timeout: float, cancel: Callable[[], bool] = never) -> ImageAcceptance:
    """Query the beans of the NameNode at `base_url` (`http://host:port`); `timeout` is the longest wait in seconds.

    `last_at` and `written_txid` may be up to 10 s old, because the NameNode caches its metrics. `last_at` is from the
    NameNode's clock.

    Raises:
        TransferError: the server does not answer, or is not a NameNode.
        TransferCancelledError: `cancel()` became true.
    """
    system, clock_ahead = _bean(base_url, {"qry": _SYSTEM}, timeout, cancel)
    if not system:
        raise TransferError(base_url, "/jmx has no FSNamesystem", hint=STARTING_HINT)
    milliseconds, last = system.get("LastCheckpointTime"), system.get("LastWrittenTransactionId")
    return ImageAcceptance(
        version=ask_version(base_url, timeout=timeout, cancel=cancel),
        state=ask_state(base_url, timeout=timeout, cancel=cancel) or str(system.get("tag.HAState", "")),
        last_at=milliseconds / 1000 if isinstance(milliseconds, int) and milliseconds > 0 else None,
        last_txid=ask_txids(base_url, timeout=timeout, cancel=cancel).image,
        clock_ahead=clock_ahead,
        written_txid=last if isinstance(last, int) else None,
    )


@dataclass(frozen=True, slots=True)
class NameNodeTxids:
    """The last transaction that a NameNode wrote or applied, and the txid of its last image; None if unknown."""

    newest: int | None = None
    image: int | None = None


def ask_txids(base_url: str, *, timeout: float, cancel: Callable[[], bool] = never) -> NameNodeTxids:
    """Return the present txids of a NameNode in any state. FSNamesystem lacks the transactions that a standby or an
    observer has applied, and does not contain the txid of the last image.

    Raises:
        TransferError: the NameNode does not answer.
        TransferCancelledError: `cancel()` became true.
    """
    text = _bean(base_url, {"get": _TXIDS_BEAN}, timeout, cancel)[0].get(_TXIDS)
    try:
        found = json.loads(text) if isinstance(text, str) else {}
        return NameNodeTxids(int(found["LastAppliedOrWrittenTxId"]), int(found["MostRecentCheckpointTxId"]))
    except (ValueError, TypeError, KeyError):
        return NameNodeTxids()


def ask_version(base_url: str, *, timeout: float, cancel: Callable[[], bool] = never) -> str:
    """Return the version of the NameNode's software, "" if unknown.

    Raises:
        TransferError: the NameNode does not answer.
        TransferCancelledError: `cancel()` became true.
    """
    found = _bean(base_url, {"get": _VERSION}, timeout, cancel)[0].get("SoftwareVersion")
    return found if isinstance(found, str) else ""


def ask_state(base_url: str, *, timeout: float, cancel: Callable[[], bool] = never) -> str:
    """Return the NameNode's present state (active, standby or observer), "" if unknown. FSNamesystem may report the
    state before a failover for up to 10 s.

    Raises:
        TransferError: the NameNode does not answer.
        TransferCancelledError: `cancel()` became true.
    """
    found = _bean(base_url, {"get": _STATE}, timeout, cancel)[0].get("State")
    return found if isinstance(found, str) else ""


def ask_start_time(base_url: str, *, timeout: float, cancel: Callable[[], bool] = never) -> int | None:
    """Return the start time of the NameNode's process at `base_url`, in ms since the epoch; None if unknown.

    Raises:
        TransferError: the NameNode does not answer.
        TransferCancelledError: `cancel()` became true.
    """
    found = _bean(base_url, {"get": _START}, timeout, cancel)[0].get("StartTime")
    return found if isinstance(found, int) else None


def _bean(
    base_url: str, query: dict[str, str], timeout: float, cancel: Callable[[], bool]
) -> tuple[dict[str, Any], float]:
    """Return the first bean of a response, or an empty dictionary if there is none, and the number of seconds by which
    the server's clock is ahead of ours.
    """
    url = servlet_url(base_url, query, _JMX)
    status, content, clock_ahead = read_page(url, timeout, cancel)
    if status == HTTPStatus.FORBIDDEN:
        raise refusal(_REQUEST, url, status, "", content, _METRICS_HINT)
    try:
        body = json.loads(content) if status == HTTPStatus.OK else {}
    except ValueError as fault:
        raise _no_answer(url, fault) from fault
    beans = body.get("beans") if isinstance(body, dict) else None
    first = beans[0] if isinstance(beans, list) and beans else None
    return (first if isinstance(first, dict) else {}), clock_ahead


def read_page(
    url: str, timeout: float, cancel: Callable[[], bool], headers: Mapping[str, str] | None = None
) -> tuple[int, bytes, float]:
    """Return the status and the content of a NameNode's page, and the number of seconds by which the server's clock is
    ahead.

    Raises:
        TransferInterruptedError: the NameNode does not answer.
        TransferError: the answer is not a page, or our login failed.
        TransferCancelledError: `cancel()` became true.
    """
    try:
        found = send_request("GET", url, headers=headers, timeout=timeout, cancelled=cancel)
        status, content, clock_ahead = found.status, found.content, found.clock_ahead
        if status == HTTPStatus.UNAUTHORIZED:
            # query without a login first, because on most clusters, /jmx needs no login and web servers have no
            # principal
            with (
                login_faults(_REQUEST, url),
                open_logged_in(url, headers=headers, timeout=timeout, cancelled=cancel) as (answer, spnego),
            ):
                status, content = answer.status, read_body(answer)
            if spnego.hint:
                raise refusal(_REQUEST, url, status, "", content, spnego.hint)
    except WaitCancelled as fault:
        raise TransferCancelledError(url, "the request was cancelled") from fault
    except (OSError, ValueError) as fault:
        raise _no_answer(url, fault) from fault
    return status, content, clock_ahead


def _no_answer(url: str, fault: Exception) -> TransferError:
    kind = TransferInterruptedError if isinstance(fault, OSError) else TransferError
    return kind(url, f"no answer: {network_reason(fault)}", hint=unreachable_hint(fault))


@dataclass(frozen=True, slots=True)
class TooRecent:
    """The age of a NameNode's last image in seconds, and the minimum age for a new image with any number of
    transactions.
    """

    age: int
    min_age: int

    @property
    def seconds_left(self) -> int:
        """Seconds until the NameNode accepts an image."""
        return max(0, self.min_age - self.age)


def longer_period(refusal_text: str, period: float) -> str:
    """Return the next step if an image was refused as too recent because the NameNode's period is longer than ours
    (`period`, in seconds); otherwise "".
    """
    recent = too_recent(refusal_text)
    if recent is None or recent.min_age <= min_image_age(period) + 1:
        return ""
    theirs = duration(recent.min_age / _SHARE_OF_PERIOD)
    return (
        f"The NameNode's dfs.namenode.checkpoint.period is {theirs}, but this daemon's is {duration(period)}: set both "
        "to the same value, and reload the daemon."
    )


def too_recent(refusal_text: str) -> TooRecent | None:
    """Parse a refusal of an image as too recent; return None for other refusals."""
    found = _TOO_RECENT.search(refusal_text)
    return None if found is None else TooRecent(*map(int, found.groups()))


def has_image(refusal_text: str, txid: int) -> bool:
    """Return whether a refusal states that the NameNode already has the image at `txid`."""
    return any(str(txid) in found.groups() for found in _HAS_IMAGE.finditer(refusal_text))


def min_image_age(period: float) -> int:
    """Return the number of seconds for which a NameNode refuses images; `period` is its
    `dfs.namenode.checkpoint.period`.
    """
    return math.floor(period * _SHARE_OF_PERIOD + 0.5)


def refuses_recent(version: str) -> bool:
    """Return whether NameNodes of this release (such as `3.4.1`) refuse an image soon after their last image."""
    release = release_of(version)
    if not release:
        return False
    since = _RULE_SINCE.get(release[:1]) or _RULE_SINCE.get(release[:2]) or (3, 3)
    return release >= since


def release_of(version: str) -> tuple[int, ...]:
    """Return the three numbers of a release such as `3.4.1`, or an empty tuple if the text is not a release."""
    found = _RELEASE.match(version)
    return () if found is None else tuple(int(part or 0) for part in found.groups())


def upload_hint(error: str) -> str:
    """Return the next step for a failed upload with this error."""
    return _DROPPED_HINT if _NO_TARGETS in error else _UPLOAD_HINT

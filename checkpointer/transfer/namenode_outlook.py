"""When a NameNode takes an image again: asked for beforehand, by its own beans over HTTP."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from checkpointer.errors import TransferError
from checkpointer.transfer.common import TransferCancelledError, login_faults, never, refusal, servlet_url
from checkpointer.transfer.connection import WaitCancelled, connection_for
from checkpointer.transfer.refusals import least_age, refuses_recent
from hadoop_common.file_faults import network_reason
from hadoop_rpc.spnego import Spnego, challenges

_JMX = "/jmx"
_SYSTEM = "Hadoop:service=NameNode,name=FSNamesystem"
# One attribute of it only: the others list every DataNode.
_VERSION = "Hadoop:service=NameNode,name=NameNodeInfo::SoftwareVersion"
_START = "java.lang:type=Runtime::StartTime"
_QUESTION = "the question"
_MAX_ANSWER = 1 << 20


@dataclass(frozen=True, slots=True)
class NamenodeOutlook:
    """What decides whether a NameNode takes an image.

    Attributes:
        version: of its software, "" where it does not tell.
        state: active, standby or observer, "" where it does not tell.
        last_at: when it got its last image, seconds since the epoch.
        last_txid: of that image.
    """

    version: str
    state: str
    last_at: float | None
    last_txid: int | None

    def takes_from(self, period: float) -> float | None:
        """When it takes an image of few transactions, seconds since the epoch; None where it takes any, or none at all.

        `period` is its dfs.namenode.checkpoint.period in seconds.
        """
        if self.last_at is None or self.state == "standby" or not refuses_recent(self.version):
            return None
        return self.last_at + least_age(period)

    def refuses(self, txid: int, now: float, *, period: float, transactions: int) -> bool:
        """Whether it will refuse the image at `txid` at `now` as too recent, by its keys `period` and `txns`."""
        takes_from = self.takes_from(period)
        few = self.last_txid is None or txid - self.last_txid < transactions
        return takes_from is not None and now < takes_from and few


def ask_outlook(base_url: str, *, timeout: float, cancel: Callable[[], bool] = never) -> NamenodeOutlook:
    """Ask the NameNode at `base_url` (`http://host:port`) for its beans; `timeout` in seconds bounds each wait.

    It may tell what was so at most 10 s ago: its metrics keep their values for a period.

    Raises:
        TransferError: it does not answer, or what answers is no NameNode.
        TransferCancelledError: `cancel()` became true.
    """
    system = _bean(base_url, {"qry": _SYSTEM}, timeout, cancel)
    if not system:
        raise TransferError(base_url, "/jmx has no FSNamesystem", hint="Check dfs.namenode.http-address.")
    version = _bean(base_url, {"get": _VERSION}, timeout, cancel).get("SoftwareVersion")
    milliseconds = system.get("LastCheckpointTime")
    last, since = system.get("LastWrittenTransactionId"), system.get("TransactionsSinceLastCheckpoint")
    return NamenodeOutlook(
        version=version if isinstance(version, str) else "",
        state=str(system.get("tag.HAState", "")),
        last_at=milliseconds / 1000 if isinstance(milliseconds, int) and milliseconds > 0 else None,
        last_txid=last - since if isinstance(last, int) and isinstance(since, int) else None,
    )


def ask_start_time(base_url: str, *, timeout: float, cancel: Callable[[], bool] = never) -> int | None:
    """When the process of the NameNode at `base_url` began, in ms since the epoch; None where it does not tell.

    Raises:
        TransferError: it does not answer.
        TransferCancelledError: `cancel()` became true.
    """
    found = _bean(base_url, {"get": _START}, timeout, cancel).get("StartTime")
    return found if isinstance(found, int) else None


def _bean(base_url: str, query: dict[str, str], timeout: float, cancel: Callable[[], bool]) -> dict[str, Any]:
    """The first bean of an answer, empty where there is none."""
    url = servlet_url(base_url, query, _JMX)
    try:
        status, content, _ = _get(url, {}, timeout, cancel)
        if status == http.client.UNAUTHORIZED:
            # most clusters leave /jmx open, and its web server without a principal
            with login_faults(_QUESTION, url):
                spnego = Spnego(urlsplit(url).hostname or "")
                status, content, asked = _get(spnego.named(url), spnego.headers, timeout, cancel)
                spnego.check(status, asked)
            if spnego.hint:
                raise refusal(_QUESTION, url, status, "", content, spnego.hint)
        body = json.loads(content) if status == http.client.OK else {}
    except WaitCancelled as fault:
        raise TransferCancelledError(url, "the question was cancelled") from fault
    except (OSError, http.client.HTTPException, ValueError) as fault:
        raise TransferError(
            url, f"no answer: {network_reason(fault)}", hint="Check that the NameNode is up."
        ) from fault
    beans = body.get("beans") if isinstance(body, dict) else None
    first = beans[0] if isinstance(beans, list) and beans else None
    return first if isinstance(first, dict) else {}


def _get(url: str, headers: dict[str, str], timeout: float, cancel: Callable[[], bool]) -> tuple[int, bytes, list[str]]:
    """Status, content and WWW-Authenticate headers of an answer."""
    parts = urlsplit(url)
    connection = connection_for(parts, timeout, cancel)
    try:
        connection.request("GET", f"{parts.path}?{parts.query}", headers={"Connection": "close", **headers})
        with connection.getresponse() as answer:
            return answer.status, answer.read(_MAX_ANSWER), challenges(answer.headers)
    finally:
        connection.close()

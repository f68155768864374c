"""The newest promise of another JournalNode, read from its metrics (JournalMetrics).

With `hadoop.security.authorization`, Hadoop's JournalNodes report their promise over RPC only to NameNodes, but all
callers of their web servers can read their metrics.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from hadoop_common.cluster_http import read_body, send_request
from hadoop_common.file_faults import network_reason
from hadoop_rpc.errors import KerberosError, RpcError
from hadoop_rpc.spnego import open_logged_in

METRICS_AGE = 130.0
"""Seconds for which Hadoop's metrics may contain an old value.

A value can be one period old when it is cached, and stays cached for another period. This number covers two periods
(`*.period` in `hadoop-metrics2.properties`, 10 s by default) of up to 60 s, plus a margin. If a value were read too
early, two writers could have the same epoch.
"""

_BEAN = "Hadoop:service=JournalNode,name=Journal-"
_ATTRIBUTE = "LastPromisedEpoch"


def promised_epoch(base: str, journal_id: str, *, timeout: float) -> int:
    """Return the epoch that the node whose web server is at `base` has promised.

    Raises:
        RpcError: the node does not answer, refuses the request, or has no metrics for the journal.
    """
    url = f"{base}/jmx?{urlencode({'qry': _BEAN + journal_id})}"
    try:
        status, content, hint = _get(url, timeout)
    except KerberosError as fault:
        raise RpcError(f"{url}: {fault.message}", hint=fault.hint) from fault
    except OSError as fault:
        raise RpcError(f"{url}: no answer: {network_reason(fault)}") from fault
    if status != HTTPStatus.OK:
        raise RpcError(f"{url} answered with HTTP {status}", hint=hint or _REFUSED_HINT)
    epoch = _epoch(content)
    if epoch is None:
        raise RpcError(f"{url} has no {_ATTRIBUTE}")
    return epoch


_REFUSED_HINT = (
    "Check hadoop.security.instrumentation.requires.admin there: if it is on, only dfs.cluster.administrators may "
    "read metrics."
)


def _get(url: str, timeout: float) -> tuple[int, bytes, str]:
    """Return the status, the content and the hint for a failed login.

    On most clusters, /jmx does not require a login, and its server has no principal.
    """
    answer = send_request("GET", url, timeout=timeout)
    if answer.status != HTTPStatus.UNAUTHORIZED:
        return answer.status, answer.content, ""
    with open_logged_in(url, timeout=timeout) as (found, spnego):
        return found.status, read_body(found), spnego.hint


def _epoch(content: bytes) -> int | None:
    try:
        found: Any = json.loads(content)
        epoch = found["beans"][0][_ATTRIBUTE]
    except (ValueError, RecursionError, LookupError, TypeError):
        return None
    # A negative number means that the journal was not formatted at the collection of the metrics.
    return epoch if isinstance(epoch, int) and epoch >= 0 else None

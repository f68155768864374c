"""The newest promise of another JournalNode, read from its metrics (JournalMetrics).

With `hadoop.security.authorization`, Hadoop's JournalNodes report their promise over RPC to NameNodes only. Their
metrics are open to all callers of the web server.
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
"""Seconds for which Hadoop's metrics may have an old value.

A value can be one period old when it is cached, and stays cached for another period. The sum is two periods (`*.period`
of `hadoop-metrics2.properties`, 10 s by default) of up to 60 s, plus a margin. A value that is read too early would
allow two writers in one epoch.
"""

_BEAN = "Hadoop:service=JournalNode,name=Journal-"
_ATTRIBUTE = "LastPromisedEpoch"


def promised_epoch(base: str, journal_id: str, *, timeout: float) -> int:
    """Return the epoch that the node with its web server at `base` has promised.

    Raises:
        RpcError: the node does not answer, refuses the request, or has no metrics of the journal.
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
    "Check hadoop.security.instrumentation.requires.admin there: with it, only dfs.cluster.administrators read metrics."
)


def _get(url: str, timeout: float) -> tuple[int, bytes, str]:
    """Return the status, the content and the hint for a failed login.

    On most clusters, /jmx is open, and its server has no principal.
    """
    answer = send_request("GET", url, timeout=timeout)
    if answer.status != HTTPStatus.UNAUTHORIZED:
        return answer.status, answer.content, ""
    with open_logged_in("GET", url, timeout=timeout) as (found, spnego):
        return found.status, read_body(found), spnego.hint


def _epoch(content: bytes) -> int | None:
    try:
        found: Any = json.loads(content)
        epoch = found["beans"][0][_ATTRIBUTE]
    except (ValueError, RecursionError, LookupError, TypeError):
        return None
    # a negative number means that the journal was not formatted when the metrics were collected
    return epoch if isinstance(epoch, int) and epoch >= 0 else None

"""Queries to NameNodes and to the daemon over RPC and HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import urlsplit

from checkpointer.checks.facts import DaemonFacts, NameDirectories, NameNodeFacts, Observation
from checkpointer.errors import TLS_HINT, TransferError
from checkpointer.transfer.common import login_faults, refusal
from checkpointer.transfer.image_acceptance import STARTING_HINT
from hadoop_common.cluster_http import HttpAnswer, send_request
from hadoop_common.file_faults import is_tls_fault, network_reason
from hadoop_common.names import SegmentName
from hadoop_rpc.client import NO_RETRY
from hadoop_rpc.errors import (
    AccessControlError,
    AuthenticationRequiredError,
    KerberosError,
    RpcConnectionError,
    RpcError,
)
from hadoop_rpc.ha_protocol import HAServiceClient
from hadoop_rpc.kerberos import PROCESS
from hadoop_rpc.namenode_protocol import NamenodeClient
from hadoop_rpc.spnego import Spnego
from node_state.state import NodeState, from_json

T = TypeVar("T")

_LOGIN_WANTED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_BEAN = "/jmx?qry=Hadoop:service=NameNode,name=FSNamesystem"
_DIRECTORIES = "NameDirStatuses"
_DIRECTORIES_BEAN = f"/jmx?get=Hadoop:service=NameNode,name=NameNodeInfo::{_DIRECTORIES}"


def ask_rpc(facts: NameNodeFacts, address: tuple[str, int], *, user: str, timeout: float) -> NameNodeFacts:
    """Return `facts` with the responses of the NameNode's RPC server; a failed call contributes its error."""
    unreachable: RpcError | None = None

    def call(question: Callable[[], T]) -> Observation[T]:
        nonlocal unreachable
        fault = unreachable
        if fault is None:
            try:
                return Observation(question())
            except (RpcConnectionError, AuthenticationRequiredError, KerberosError) as found:
                # the other calls would fail in the same way, each after a timeout
                fault = unreachable = found
            except RpcError as found:
                fault = found
        # the check has a better hint for a NameNode that does not answer
        hint = "" if isinstance(fault, RpcConnectionError) else fault.hint
        return Observation(error=fault.message, hint=hint, refused=isinstance(fault, AccessControlError))

    limits = {"user": user, "timeout": timeout, "connect_timeout": timeout, "retry": NO_RETRY}
    with NamenodeClient(*address, **limits) as client, HAServiceClient(*address, **limits) as ha:  # type: ignore[arg-type]
        last = call(client.transaction_id)
        checkpoint = call(client.most_recent_checkpoint_txid)
        version = call(client.version_request)
        state = call(lambda: ha.service_status().state.name)
        segments = call(lambda: _segments(client, checkpoint))
    info = version.value
    return replace(
        facts,
        last_txid=last,
        checkpoint_txid=checkpoint,
        state=state,
        storage_info=Observation(error=version.error) if info is None else Observation(info.storage_info),
        software="" if info is None else info.software_version,
        segments=segments,
    )


def _segments(client: NamenodeClient, checkpoint: Observation[int]) -> tuple[SegmentName, ...]:
    if checkpoint.value is None:
        raise RpcError(checkpoint.error)
    logs = client.edit_log_manifest(checkpoint.value + 1).logs
    return tuple(SegmentName(log.first, None if log.in_progress else log.last) for log in logs)


def ask_http(base: str, *, timeout: float) -> tuple[dict[str, Any], float]:
    """Return the FSNamesystem bean of a NameNode's /jmx, and the difference of the NameNode's clock
    (`HttpAnswer.clock_difference`).

    Without Kerberos, the bean is an empty dictionary if only administrators may read /jmx, because the web server
    transfers images nevertheless (hadoop.security.instrumentation.requires.admin). With Kerberos, this refusal may also
    be a failed login.

    Raises:
        TransferError: the server does not answer, reports an internal error or is not a NameNode, or the required login
            fails.
    """
    url = base + _BEAN
    try:
        answer = get_logged_in(url, timeout)
    except TransferError as fault:
        if fault.status == HTTPStatus.FORBIDDEN and PROCESS.login is None:
            return {}, 0.0
        raise
    if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        hint = "Check the NameNode's log: while its web server fails, images cannot be transferred either."
        raise TransferError(url, "the web server reports an error", status=answer.status, hint=hint)
    bean = _first_bean(answer)
    if not bean:
        status = None if answer.status == HTTPStatus.OK else answer.status
        problem = "its /jmx has no FSNamesystem: the NameNode is still starting, or this is another web server"
        raise TransferError(url, problem, status=status, hint=STARTING_HINT)
    return bean, answer.clock_difference


def ask_name_directories(base: str, *, timeout: float) -> NameDirectories | None:
    """Return the state of a NameNode's storage directories; None if it does not report them.

    Raises:
        TransferError: the server does not answer, or refuses the request.
    """
    text = _first_bean(get_logged_in(base + _DIRECTORIES_BEAN, timeout)).get(_DIRECTORIES)
    try:
        found = json.loads(text) if isinstance(text, str) else {}
        used, failed = dict(found["active"]), dict(found["failed"])
    except (ValueError, TypeError, KeyError):
        return None
    images = any("IMAGE" in str(contents) for contents in used.values())
    return NameDirectories(used=len(used), failed=tuple(map(str, failed)), images=images)


def _first_bean(answer: HttpAnswer) -> dict[str, Any]:
    content = answer.json
    beans = content.get("beans") if isinstance(content, dict) and answer.status == HTTPStatus.OK else None
    first = beans[0] if isinstance(beans, list) and beans else None
    return first if isinstance(first, dict) else {}


def ask_daemon(url: str, *, timeout: float) -> DaemonFacts:
    """Return the facts that the daemon at `url` reports."""
    live = _probe(f"{url}/health/live", timeout)
    if live.value is None:
        return DaemonFacts(url=url, live=live)
    return DaemonFacts(
        url=url, live=live, ready=_probe(f"{url}/health/ready", timeout), status=_status(f"{url}/status", timeout)
    )


def _probe(url: str, timeout: float) -> Observation[tuple[bool, str]]:
    try:
        answer = _get(url, timeout)
    except TransferError as fault:
        return Observation(error=fault.message)
    content = answer.json
    if not isinstance(content, dict) or "message" not in content:
        return Observation(error=f"{url} (HTTP {answer.status}): this is not the response of a checkpoint daemon")
    return Observation((answer.status == HTTPStatus.OK, str(content["message"])))


def _status(url: str, timeout: float) -> Observation[NodeState]:
    try:
        answer = get_logged_in(url, timeout)
        return Observation(from_json(NodeState, answer.json))
    except TransferError as fault:
        return Observation(error=fault.message)
    except ValueError as fault:
        return Observation(
            error=f"{url} (HTTP {answer.status}): this is not the response of a checkpoint daemon: {fault}"
        )


def get_logged_in(url: str, timeout: float) -> HttpAnswer:
    """Return the response, after a login if the server requires one; on most clusters, /jmx needs no login.

    Raises:
        TransferError: the server does not answer, or refuses the request.
    """
    answer = _get(url, timeout)
    if answer.status not in _LOGIN_WANTED:
        return answer
    what = "the question"
    with login_faults(what, url):
        spnego = Spnego(urlsplit(url).hostname or "")
        if spnego.headers:
            answer = _get(spnego.named(url), timeout, spnego.headers)
        spnego.check(answer.status, answer.challenges)
    if answer.status in _LOGIN_WANTED:
        raise refusal(what, url, answer.status, "", answer.content, spnego.hint)
    return answer


def _get(url: str, timeout: float, headers: Mapping[str, str] | None = None) -> HttpAnswer:
    try:
        return send_request("GET", url, headers=headers, timeout=timeout)
    except OSError as fault:
        hint = "Check the NameNode that does not answer; dfs.namenode.http-address contains its address."
        if is_tls_fault(fault):
            hint = TLS_HINT
        raise TransferError(url, f"no answer: {network_reason(fault)}", hint=hint) from fault

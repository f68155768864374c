"""Queries individual JournalNodes of a quorum for their transactions and namespace; the queries are read-only."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from http import HTTPStatus

from hadoop_common.file_faults import is_tls_fault, network_reason
from hadoop_common.names import inprogress_name
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import KerberosError, NotAuthorizedError, RpcError
from hadoop_rpc.namenode_values import RemoteEditLog
from hadoop_rpc.qjournal_protocol import QJournalClient
from hadoop_rpc.spnego import open_logged_in
from journal.quorum.address import NO_SEGMENT, NodeAddress, QuorumAddress, http_base, segment_url
from journal.quorum.calls import majority
from journal.quorum.errors import TLS_HINT

# RemoteEditLog.toString
_FINALIZED = re.compile(r"\[(\d+),(\d+)\]")
_IN_PROGRESS = re.compile(r"\[(\d+)-\? \(in-progress\)\]")
# With Kerberos, a refusal may concern the caller instead of the namespace.
_REFUSAL = re.compile(r"Only [\w ,]+ may access this servlet[^<]*")
_OPEN = "it does not accept Kerberos logins; see hadoop.http.authentication.type in its core-site.xml"
_SAID_BYTES = 4096


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """Response of a JournalNode about a journal.

    Attributes:
        address: `host:port` of the node's RPC server.
        fault: reason why the node did not list its segments; "" if it listed them.
        logs: segments of the node; the open segment extends to its newest transaction.
        committed_txid: newest transaction that the node knows to be on a majority; None before Hadoop 3.
        epoch: the epoch that the node has promised.
        same_namespace: whether the node has the expected namespace; None if unknown.
        http_fault: reason why the node's HTTP server, which serves segments, cannot be used; "" if it is usable or was
            not queried.
        hint: next step for a fault of a login or of TLS; "" for other faults.
    """

    address: str
    fault: str = ""
    logs: tuple[RemoteEditLog, ...] = ()
    committed_txid: int | None = None
    epoch: int | None = None
    same_namespace: bool | None = None
    http_fault: str = ""
    hint: str = ""

    @property
    def leftover(self) -> str:
        """Name of the open segment that prevents a Hadoop node from listing its segments; "" if no segment does."""
        return leftover_segment(self.fault)

    @property
    def last_txid(self) -> int:
        """Newest transaction of the node; -1 if the node has no transactions."""
        return max((log.last for log in self.logs), default=-1)


def lacking_open_segment(nodes: Sequence[NodeAnswer]) -> list[NodeAnswer]:
    """Return the nodes that lack the segment being written; they receive edits from the next segment on.

    `nodes` are all nodes of the quorum. An open segment that only a minority of nodes has is not being written, because
    the NameNode that began it has died or was fenced.
    """
    listing = [node for node in nodes if not node.fault and node.same_namespace is not False]
    logs = [log for node in listing for log in node.logs]
    begun = Counter(log.first for log in logs if log.in_progress)
    opened = max((first for first, holders in begun.items() if holders >= majority(len(nodes))), default=-1)
    ended = any(not log.in_progress and log.last >= opened for log in logs)
    if opened < 0 or ended:
        return []
    return [node for node in listing if all(log.first != opened for log in node.logs)]


def leftover_segment(fault: str) -> str:
    """Return the file of a segment in progress that begins within a finalized segment; "" if no such segment exists.

    Args:
        fault: a node's response; RemoteEditLogManifest lists the overlapping segments.
    """
    if not fault.partition(": ")[2].startswith("Invalid log manifest"):
        return ""
    finalized = [(int(first), int(last)) for first, last in _FINALIZED.findall(fault)]
    for first in map(int, _IN_PROGRESS.findall(fault)):
        if any(begin <= first <= end for begin, end in finalized):
            return inprogress_name(first)
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeQuery:
    """The nodes to ask, and the parameters of the calls.

    Attributes:
        user: the user in the calls.
        timeout: timeout in seconds of each of up to three calls to a node.
        namespace: expected namespace of the journal; None skips the HTTP server.
    """

    quorum: QuorumAddress
    user: str
    timeout: float
    nameservice: str | None = None
    namespace: StorageInfo | None = None


def ask_nodes(question: NodeQuery) -> list[NodeAnswer]:
    """Ask all nodes in parallel; return the responses in the order of their addresses."""
    nodes: Sequence[NodeAddress] = question.quorum.nodes
    with ThreadPoolExecutor(len(nodes), "ask-journalnodes") as pool:
        return list(pool.map(_asking(question), nodes))


def _asking(question: NodeQuery) -> Callable[[NodeAddress], NodeAnswer]:
    def ask(node: NodeAddress) -> NodeAnswer:
        limits = {"timeout": question.timeout, "connect_timeout": question.timeout}
        nameservice, journal_id = question.nameservice, question.quorum.journal_id
        answer = NodeAnswer(str(node))
        with QJournalClient(node.host, node.port, user=question.user, nameservice=nameservice, **limits) as client:
            try:
                state = client.get_journal_state(journal_id)
                found = client.get_edit_log_manifest(journal_id, NO_SEGMENT, in_progress_ok=True)
            except (NotAuthorizedError, KerberosError) as error:
                return replace(answer, fault=error.message, hint=error.hint)
            except RpcError as error:
                return replace(answer, fault=error.message)
        manifest = found.manifest
        answer = replace(
            answer, logs=manifest.logs, committed_txid=manifest.committed_txid, epoch=state.last_promised_epoch
        )
        if question.namespace is None:
            return answer
        url = segment_url(http_base(node, found), journal_id, NO_SEGMENT, question.namespace)
        return _of_namespace(answer, url, question.timeout)

    return ask


def _of_namespace(answer: NodeAnswer, url: str, timeout: float) -> NodeAnswer:
    """Complete `answer` with the response of the node's HTTP server.

    The server compares the namespaces before it searches for the segment (GetJournalEditServlet).
    """
    try:
        with open_logged_in(url, timeout=timeout) as (found, spnego):
            # Hadoop 3's Jetty writes the message into the body; Hadoop 2's Jetty writes it into the status line.
            body = found.read(_SAID_BYTES)
            status, reason_text = found.status, f"{found.reason} {body.decode('utf-8', 'replace')}"
    except KerberosError as fault:
        return replace(answer, http_fault=fault.message, hint=fault.hint)
    except OSError as fault:
        hint = TLS_HINT if is_tls_fault(fault) else ""
        return replace(answer, http_fault=f"no answer: {network_reason(fault)}", hint=hint)
    if status == HTTPStatus.FORBIDDEN and (refusal := _REFUSAL.search(reason_text)):
        return replace(answer, http_fault=f"HTTP {status}: {refusal.group().strip()}")
    if spnego.ignored and status == HTTPStatus.INTERNAL_SERVER_ERROR:
        return replace(answer, http_fault=f"HTTP {status}: {_OPEN}")
    if status in (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN):
        return replace(answer, same_namespace=status == HTTPStatus.NOT_FOUND)
    return replace(answer, http_fault=f"HTTP {status}, expected {HTTPStatus.NOT_FOUND.value}")

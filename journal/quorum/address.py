"""The URI of a quorum journal and its nodes: `qjournal://host:port;host:port;…/journal-id`."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.qjournal_values import JournalState, NodeManifest
from journal.errors import JournalError

SCHEME = "qjournal"
DEFAULT_PORT = 8485  # dfs.journalnode.rpc-address
# not the comma, which separates the URIs in a configuration key
_PLAIN_IN_PATHS = "!$&'()*+:;=@"


@dataclass(frozen=True, slots=True)
class NodeAddress:
    host: str
    port: int

    def __str__(self) -> str:
        return f"{_bracketed(self.host)}:{self.port}"


@dataclass(frozen=True, slots=True)
class QuorumAddress:
    """The JournalNodes of a journal, and the journal's name on these nodes, without URI escapes.

    The name follows QuorumJournalManager.parseJournalId.
    """

    nodes: tuple[NodeAddress, ...]
    journal_id: str

    @classmethod
    def parse(cls, uri: str) -> QuorumAddress:
        """Parse a `qjournal:` URI; nodes without a port receive Hadoop's default port.

        Raises:
            JournalError: the URI is invalid, or names a node twice.
        """
        # The standard library cannot parse a `qjournal:` URI; see `uri_scheme`.
        scheme, _, rest = uri.partition("://")
        authority, _, path = rest.partition("/")
        # as in Hadoop, a %20 in the path is a space in the name on the JournalNodes
        journal_id = unquote(path)
        if scheme.lower() != SCHEME:
            raise _fault(uri, f"its scheme is not {SCHEME}:")
        if not journal_id or not {"?", "#"}.isdisjoint(path) or "/" in journal_id or journal_id.startswith("."):
            raise _fault(uri, f"{journal_id!r} cannot be the name of a journal")
        nodes = tuple(_node(uri, text.strip()) for text in authority.split(";"))
        if len(set(nodes)) != len(nodes):
            raise _fault(uri, "a JournalNode is named twice, so its response would count twice")
        return cls(nodes, journal_id)

    @property
    def uri(self) -> str:
        return f"{SCHEME}://{';'.join(map(str, self.nodes))}/{quote(self.journal_id, safe=_PLAIN_IN_PATHS)}"


def http_base(node: NodeAddress, reported: JournalState | NodeManifest) -> str:
    """Return `scheme://host:port` of a node's HTTP server.

    The host is the host of the node's RPC server, because a node may report itself as 0.0.0.0 (IPCLoggerChannel). Nodes
    of Hadoop 2 report only a port instead of a URL.
    """
    scheme, port = "http", reported.http_port
    if reported.from_url:
        try:
            parts = urlsplit(reported.from_url)
            scheme, port = parts.scheme or scheme, parts.port or port
        except ValueError:
            scheme, port = "http", reported.http_port
    return f"{scheme}://{_bracketed(node.host)}:{port}"


NO_SEGMENT = 0
"""A txid at which no segment begins, because txids start at 1; a node's response then shows only its namespace."""


def segment_url(base: str, journal_id: str, first_txid: int, namespace: StorageInfo | None) -> str:
    """Return the URL of the segment that begins at `first_txid`; the node checks `namespace` unless it is None."""
    query = f"jid={quote(journal_id, safe='')}&segmentTxId={first_txid}"
    if namespace is not None:
        query += f"&storageInfo={quote(namespace.colon_string(), safe='')}"
    return f"{base}/getJournal?{query}&inProgressOk=true"


def _node(uri: str, text: str) -> NodeAddress:
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError as fault:
        raise _fault(uri, f"{text!r} is not host:port: {fault}") from fault
    if not host or parts.netloc != text or "@" in text:
        raise _fault(uri, f"{text!r} is not host:port")
    if port == 0:
        raise _fault(uri, f"{text!r} has port 0, to which clients cannot connect")
    return NodeAddress(host, port or DEFAULT_PORT)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _fault(uri: str, problem: str) -> JournalError:
    return JournalError(f"{uri}: {problem}", hint=f"Write {SCHEME}://host:port;host:port;host:port/journal-id.")

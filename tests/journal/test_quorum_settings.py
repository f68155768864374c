"""The URI and the settings of a quorum journal."""

from __future__ import annotations

from typing import Any

import pytest

from hadoop_common.configuration import Configuration, ConfigurationError
from hadoop_rpc.namenode_values import EditLogManifest
from hadoop_rpc.qjournal_values import JournalState, NodeManifest
from journal.errors import JournalError
from journal.open_journal import open_journal
from journal.quorum import open_quorum
from journal.quorum.address import NodeAddress, QuorumAddress, http_base, segment_url
from journal.quorum.open_quorum import QuorumOptions
from journal.quorum.quorum_journal import QuorumJournal
from journal.quorum.settings import QuorumSettings
from tests.journal.quorum_model import NAMESPACE


def test_uri_is_parsed_into_nodes_and_journal() -> None:
    address = QuorumAddress.parse("qjournal://jn1:8486; jn2 ;[::1]:99/ns1")
    assert address.nodes == (NodeAddress("jn1", 8486), NodeAddress("jn2", 8485), NodeAddress("::1", 99))
    assert address.journal_id == "ns1"
    assert address.uri == "qjournal://jn1:8486;jn2:8485;[::1]:99/ns1"
    assert QuorumAddress.parse(address.uri) == address


@pytest.mark.parametrize(
    ("path", "journal_id"),
    [
        ("my%20journal", "my journal"),
        ("a%2Cb", "a,b"),
        ("a:b=c@d", "a:b=c@d"),
        ("100%25", "100%"),
        ("x%3Fy%23z", "x?y#z"),
        ("%C3%A9", "é"),
    ],
)
def test_escapes_in_the_name_of_a_journal_are_decoded(path: str, journal_id: str) -> None:
    """A NameNode decodes the path, so the JournalNodes know the decoded name."""
    address = QuorumAddress.parse(f"qjournal://jn1:8485/{path}")
    assert address.journal_id == journal_id
    assert address.uri == f"qjournal://jn1:8485/{path}"


@pytest.mark.parametrize(
    "uri",
    [
        "file:///x",
        "qjournal://a;b;c",
        "qjournal://a;b;c/",
        "qjournal://a;b;c/x/y",
        "qjournal://a;b;c/.x",
        "qjournal://a;b;c/%2Ex",
        "qjournal://a;b;c/x%2Fy",
        "qjournal://a;b;c/x?y",
        "qjournal:///x",
        "qjournal://a;;c/x",
        "qjournal://a;a:8485/x",
        "qjournal://a:port/x",
        "qjournal://a:99999/x",
        "qjournal://user@a/x",
    ],
)
def test_invalid_quorum_uris_are_refused(uri: str) -> None:
    with pytest.raises(JournalError) as refused:
        QuorumAddress.parse(uri)
    assert uri in str(refused.value)
    assert "qjournal://host:port" in refused.value.hint


@pytest.mark.parametrize(
    ("reported", "base"),
    [
        (JournalState(1, 8480), "http://jn1:8480"),
        (JournalState(1, 8480, "http://0.0.0.0:8490"), "http://jn1:8490"),
        (JournalState(1, 0, "https://elsewhere:8481"), "https://jn1:8481"),
        (NodeManifest(EditLogManifest(()), 8480), "http://jn1:8480"),
        (JournalState(1, 8480, "http://[broken"), "http://jn1:8480"),
        (JournalState(1, 8480, "https://jn1:99999999"), "http://jn1:8480"),
        (JournalState(1, 8480, "jn1"), "http://jn1:8480"),
    ],
)
def test_http_base_url_of_a_node(reported: Any, base: str) -> None:
    assert http_base(NodeAddress("jn1", 8485), reported) == base


def test_url_of_a_segment() -> None:
    base = http_base(NodeAddress("::1", 8485), JournalState(1, 8480))
    assert segment_url(base, "ns 1", 7, NAMESPACE) == (
        "http://[::1]:8480/getJournal?jid=ns%201&segmentTxId=7"
        "&storageInfo=-63%3A12345%3A0%3ACID-quorum&inProgressOk=true"
    )
    assert "storageInfo" not in segment_url(base, "ns1", 7, None)


def test_default_settings_equal_hadoops() -> None:
    assert QuorumSettings.from_configuration(Configuration.from_mapping({}, {})) == QuorumSettings()


def test_settings_are_read_from_hadoops_keys() -> None:
    settings = QuorumSettings.from_configuration(
        Configuration.from_mapping(
            {
                "dfs.qjournal.write-txns.timeout.ms": "60000",
                "dfs.qjournal.new-epoch.timeout.ms": "5s",
                "dfs.qjournal.queued-edits.limit.mb": "1",
                "dfs.qjm.operations.timeout": "2m",
                "dfs.ha.tail-edits.in-progress": "true",
                "dfs.ha.tail-edits.qjm.rpc.max-txns": "10",
            },
            {},
        )
    )
    assert (settings.write_transactions, settings.new_epoch, settings.operations) == (60.0, 5.0, 120.0)
    assert (settings.queue_limit, settings.tail_in_progress, settings.max_tail_transactions) == (1 << 20, True, 10)


def test_max_tail_transactions_of_0_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="max-txns='0': must be at least 1"):
        QuorumSettings.from_configuration(Configuration.from_mapping({"dfs.ha.tail-edits.qjm.rpc.max-txns": "0"}, {}))


def test_a_journal_is_opened_by_its_uri() -> None:
    named = open_journal("qjournal://a;b;c", "ns1", quorum=QuorumOptions(user="hdfs"))
    assert isinstance(named, QuorumJournal)
    assert named.location == "qjournal://a:8485;b:8485;c:8485/ns1"
    assert open_journal(named.location).location == named.location
    for wrong in (lambda: open_journal("qjournal://a;b;c"), lambda: open_journal("qjournal://a;b;c/x", "y")):
        with pytest.raises(JournalError, match="name of a journal"):
            wrong()


def test_connection_timeout_is_the_longest_call_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[float] = []

    def client(host: str, port: int, *, user: str, timeout: float, nameservice: str | None) -> Any:
        reported.append(timeout)
        return object()

    monkeypatch.setattr(open_quorum, "QJournalClient", client)
    open_journal("qjournal://a/ns1", quorum=QuorumOptions(user="hdfs"))
    settings = QuorumSettings.from_configuration(
        Configuration.from_mapping({"dfs.qjournal.accept-recovery.timeout.ms": "10m"}, {})
    )
    open_journal("qjournal://a/ns1", quorum=QuorumOptions(user="hdfs", settings=settings))
    assert reported == [120.0, 600.0]

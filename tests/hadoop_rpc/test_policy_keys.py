"""Messages of AuthorizationExceptions of Hadoop 2.7.3, Hadoop 3.5.0 and our servers."""

from __future__ import annotations

import pytest

from hadoop_rpc.errors import remote_error

_CLASS = "org.apache.hadoop.security.authorize.AuthorizationException"
_START = "User jn/h@R (auth:KERBEROS) is not authorized for protocol interface "
_QJOURNAL = f"{_START}org.apache.hadoop.hdfs.qjournal.protocol.QJournalProtocol"
_INTER = f"{_START}org.apache.hadoop.hdfs.qjournal.protocol.InterQJournalProtocol"


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        (
            f"{_QJOURNAL}, expected client Kerberos principal is nn/h@R",
            "Call as nn/h@R: QJournalProtocol of that server",
        ),
        (f"{_QJOURNAL}: this service is only accessible by nn/h@R", "Call as nn/h@R: QJournalProtocol of that server"),
        (f"{_INTER}: denied by configured ACL", "security.interqjournal.service.protocol.acl"),
        (f"{_INTER}, expected client Kerberos principal is null", "security.interqjournal.service.protocol.acl"),
        (f"{_QJOURNAL}; jn/h@R is not", "security.qjournal.service.protocol.acl"),
        ("something else", "security.*.protocol.acl"),
    ],
)
def test_hint_names_the_configuration_that_refused_the_call(text: str, advice: str) -> None:
    assert advice in remote_error(_CLASS, text).hint

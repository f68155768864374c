"""Addresses as text."""

from __future__ import annotations

import pytest

from hadoop_common.addresses import host_port, reachable_here, uri_scheme, without_password
from hadoop_common.configuration import Configuration
from hadoop_common.secret_values import HIDDEN, shown_value
from site_config.archive_settings import DIR
from site_config.shown_settings import shown_settings


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://key:sec@ret@bucket/hdfs", "s3://***@bucket/hdfs"),
        ("simplecache::sftp://u:p@host:22/a: denied", "simplecache::sftp://***@host:22/a: denied"),
        ("sftp://user@host/a", "sftp://user@host/a"),
        ("s3://bucket/a:b@c", "s3://bucket/a:b@c"),
        ("/backup/a:b@c", "/backup/a:b@c"),
        ("s3://key:sec/r+et@bucket/hdfs", "s3://***@bucket/hdfs"),
        ("https://a.blob/c?sv=1&sig=aB%2F=&se=2: 403", "https://a.blob/c?sv=1&sig=***&se=2: 403"),
        ("('https://a/c?X-Amz-Signature=12')", "('https://a/c?X-Amz-Signature=***')"),
        (
            "https://a/c?X-Amz-Security-Token=1&AWSAccessKeyId=2#x",
            "https://a/c?X-Amz-Security-Token=***&AWSAccessKeyId=***#x",
        ),
        ("http://nn:9870/webhdfs/v1/a?op=OPEN&delegation=HAAE", "http://nn:9870/webhdfs/v1/a?op=OPEN&delegation=***"),
        ("https://a/c?x=1&amp;Signature=ab", "https://a/c?x=1&amp;Signature=***"),
        ("AccountName=a;AccountKey=ab==;x=1", "AccountName=a;AccountKey=***"),
        ("AccountKey=ab==", "AccountKey=***"),
        ("hdfs://nn1:8020/backup/archive@site1", "hdfs://nn1:8020/backup/archive@site1"),
        ("qjournal://a:8485;b:8485/ns, nn/hdfs@R", "qjournal://a:8485;b:8485/ns, nn/hdfs@R"),
        ("hdfs://[::1]:8020/archive@site1", "hdfs://[::1]:8020/archive@site1"),
        ("ftp://u:8020@host/a", "ftp://***@host/a"),
    ],
)
def test_passwords_in_urls_are_hidden(text: str, shown: str) -> None:
    assert without_password(text) == shown
    assert shown_value("checkpointer.archive.dir", text) == shown
    assert shown_value("ssl.server.keystore.password", text) == HIDDEN


def test_the_console_shows_the_archive_without_its_password() -> None:
    settings = Configuration.from_mapping({DIR.name: "ftp://user:password@host/a"}, {})
    assert shown_settings(settings)[0][1] == "ftp://***@host/a"


@pytest.mark.parametrize(
    ("text", "scheme"),
    [
        ("qjournal://jn1:8485;[::1]:8485/ns", "qjournal"),
        ("FILE:///data", "file"),
        ("/data", ""),
        ("a b://c", ""),
        ("", ""),
    ],
)
def test_scheme_of_a_uri_with_any_authority(text: str, scheme: str) -> None:
    assert uri_scheme(text) == scheme


def test_ipv6_address_is_written_in_brackets() -> None:
    assert (host_port("::1", 8020), host_port("nn", 8020)) == ("[::1]:8020", "nn:8020")


@pytest.mark.parametrize(
    ("listens", "answers"), [("", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("cp.example", "cp.example")]
)
def test_a_server_on_all_addresses_answers_on_loopback(listens: str, answers: str) -> None:
    assert reachable_here(listens) == answers

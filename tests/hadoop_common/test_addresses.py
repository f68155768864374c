"""Addresses as text, and addresses of this host."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from hadoop_common.addresses import host_port, is_local, is_this_host, reachable_here, uri_scheme, without_password
from hadoop_common.configuration import Configuration
from hadoop_common.secret_values import HIDDEN, shown_value
from site_config.archive_settings import DIR
from site_config.shown_settings import shown_settings

ROOT = Path(__file__).resolve().parents[2]


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


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "localhost", "::1"])
def test_a_loopback_address_belongs_to_this_host(host: str) -> None:
    assert is_local(host)
    assert is_this_host(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_server_on_a_wildcard_address_is_local_but_the_address_names_no_host(host: str) -> None:
    assert is_local(host)
    assert not is_this_host(host)


def test_the_outgoing_address_belongs_to_this_host() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no route")
        address = probe.getsockname()[0]
    assert is_local(address)
    assert is_this_host(address)


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1", "no-such-host.invalid", "a" * 300, ""])
def test_a_remote_or_unknown_host_is_not_this_host(host: str) -> None:
    assert not is_local(host)
    assert not is_this_host(host)


_ADDRESSES = """
ip link set lo up && ip address add "$2" dev lo && ip address add "$3" dev lo || exit 77
ip "-$1" route add default dev lo && echo 1 > "/proc/sys/net/ipv$1/ip_nonlocal_bind" || exit 77
exec "$0" -c "$4" "${2%/*}" "${3%/*}" "$5"
"""
_ASK = """
import sys
from hadoop_common.addresses import is_local, is_this_host
print([(is_local(host), is_this_host(host)) for host in sys.argv[1:]])
"""


@pytest.mark.skipif(not (shutil.which("unshare") and shutil.which("ip")), reason="unshare or ip is not installed")
@pytest.mark.parametrize(
    ("version", "first", "second", "foreign"),
    [("4", "192.0.2.1/24", "192.0.2.2/24", "198.51.100.1"), ("6", "2001:db8::1/64", "2001:db8::2/64", "2001:db9::1")],
)
def test_all_addresses_of_an_interface_belong_to_this_host(version: str, first: str, second: str, foreign: str) -> None:
    """The namespace has a route to the foreign address, and ip_nonlocal_bind, which keepalived needs, permits a bind to
    this address.
    """
    command = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", _ADDRESSES, sys.executable]
    words = [version, first, second, _ASK, foreign]
    done = subprocess.run([*command, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode and "Traceback" not in done.stderr:
        pytest.skip(f"this system does not allow the namespace: {done.stderr}")
    assert done.stdout.strip() == "[(True, True), (True, True), (False, False)]", done.stderr

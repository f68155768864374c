"""DIGEST-MD5 of a server: the example of RFC 2831, wrong responses, and protected messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_rpc.digest_md5 import DigestServer
from hadoop_rpc.errors import KerberosError, SaslError
from hadoop_rpc.security import Protection
from tests.hadoop_rpc.digest_client import DigestClient

EXAMPLE = (
    b'charset=utf-8,username="chris",realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",nc=00000001,'
    b'cnonce="OA6MHXh6VqTrRk",digest-uri="imap/elwood.innosoft.com",'
    b"response=d388dad90d4bbd760a152321f2143af7,qop=auth"
)
"""The example of RFC 2831, section 4; the password is `secret`."""
QOPS = {Protection.AUTHENTICATION: "auth", Protection.INTEGRITY: "auth-int", Protection.PRIVACY: "auth-conf"}


def example(*protections: Protection) -> DigestServer:
    offered = protections or (Protection.AUTHENTICATION,)
    return DigestServer("elwood.innosoft.com", "imap/elwood.innosoft.com", offered, "OA6MG9tEQGm2hh")


def test_example_of_the_rfc_is_verified() -> None:
    server = example()
    expected = b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",charset=utf-8,algorithm=md5-sess'
    assert server.challenge == expected
    response = server.read(EXAMPLE)
    assert response.user == "chris"
    assert server.verify(response, b"secret") == (b"rspauth=ea40f60335c427b5527b84dbabcdfffd", None)
    with pytest.raises(SaslError, match="the password is wrong"):
        server.verify(response, b"Secret")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b"nonce=", b"nonc=", "nonce is missing"),
        (b"OA6MG9tEQGm2hh", b"OA6MG9tEQGm2hi", "nonce does not match"),
        (b"nc=00000001", b"nc=00000002", "nc does not match"),
        (b'realm="elwood', b'realm="elmwood', "realm does not match"),
        (b"imap/", b"ldap/", "digest-uri does not match"),
        (b"utf-8", b"utf-7", "charset does not match"),
        (b"qop=auth", b"qop=auth-int", "qop was not offered"),
        (b"qop=auth", b"qop=auth,qop=auth", "qop appears twice"),
        (b"qop=auth", b'qop=auth,authzid="hdfs"', "authzid does not match"),
        (b'"chris"', b'"chris', "malformed"),
        (b"chris", "chriß".encode(), "not ASCII"),
        (b"chris", b"c" * 4096, "longer than 4096"),
    ],
)
def test_wrong_responses_are_refused(old: bytes, new: bytes, words: str) -> None:
    with pytest.raises(SaslError, match=words):
        example().read(EXAMPLE.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [(b',cipher="3des"', b"", "cipher is missing"), (b"3des", b"des", "cipher does"), (b"65536", b"4096", "maxbuf")],
)
def test_wrong_responses_for_privacy_are_refused(old: bytes, new: bytes, words: str) -> None:
    server = example(Protection.PRIVACY)
    client = DigestClient(server.challenge, "chris", b"secret", "auth-conf", "imap/elwood.innosoft.com")
    with pytest.raises(SaslError, match=words):
        server.read(client.response.replace(old, new, 1))


@given(st.binary(max_size=200))
def test_random_responses_are_refused(data: bytes) -> None:
    for response in (data, EXAMPLE[:100] + data):
        with pytest.raises(SaslError):
            example().read(response)


@given(st.lists(st.binary(max_size=300), max_size=5), st.sampled_from([Protection.INTEGRITY, Protection.PRIVACY]))
def test_messages_are_protected_in_both_directions(messages: list[bytes], protection: Protection) -> None:
    server = DigestServer("default", "/default", tuple(Protection))
    client = DigestClient(server.challenge, "user", b"secret", QOPS[protection], "/default")
    proof, ours = server.verify(server.read(client.response), b"secret")
    theirs, encrypts = client.layer(), protection is Protection.PRIVACY
    assert proof == client.proof
    assert ours is not None
    for message in messages:
        for sender, receiver in ((ours, theirs), (theirs, ours)):
            token = sender.wrap(message, encrypt=encrypts)
            assert receiver.unwrap(token) == (message, encrypts)
            assert (message in token) != encrypts or len(message) < 8
            with pytest.raises(KerberosError, match="repeated"):
                receiver.unwrap(token)


@pytest.mark.parametrize("protection", [Protection.INTEGRITY, Protection.PRIVACY])
@pytest.mark.parametrize("at", range(0, 34, 3))
def test_a_modified_message_is_refused(protection: Protection, at: int) -> None:
    server = DigestServer("default", "/default", tuple(Protection))
    client = DigestClient(server.challenge, "user", b"secret", QOPS[protection], "/default")
    layer = server.verify(server.read(client.response), b"secret").layer
    assert layer is not None
    token = bytearray(client.layer().wrap(b"eighteen bytes ...", encrypt=protection is Protection.PRIVACY))
    token[at] ^= 1
    with pytest.raises(KerberosError):
        layer.unwrap(bytes(token))
    with pytest.raises(KerberosError):
        layer.unwrap(bytes(token[:at]))

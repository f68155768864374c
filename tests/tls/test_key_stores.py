"""Stores that keytool and Hadoop made, with right and wrong passwords, intact, truncated and changed."""

from __future__ import annotations

import base64
import hashlib
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import PrivateFormat, pkcs12
from hypothesis import given
from hypothesis import strategies as st

from hadoop_common.tls.derivations import check_pkcs8, check_pkcs12
from hadoop_common.tls.errors import KeyStoreError, WrongPasswordError
from hadoop_common.tls.java_object import ByteReader, read_object
from hadoop_common.tls.java_protection import Der, PbeParameters, _derived
from hadoop_common.tls.java_store import JCEKS_MAGIC, JKS_MAGIC, find_credential, open_secret, parse_java_store
from hadoop_common.tls.key_store import KeyStore, decode_anchors, decode_key_store
from tests.depth import deep, examples
from tests.tls.certificates import STORE_PASSWORD, authority
from tests.tls.make_stores import KEY, STORE, keytool, make

STORES = Path(__file__).parent / "stores"
KEYS = ["rsa.jks", "ec.jks", "ec.jceks", "chain.jks", "chain.p12"]
TRUSTED = ["trust.jks", "trust.jceks", "trust.p12"]
CREDENTIALS = (STORES / "credentials.jceks").read_bytes()


def key_password(name: str) -> str:
    return STORE if name.startswith("chain") else KEY


def read(name: str) -> bytes:
    return (STORES / name).read_bytes()


@pytest.mark.parametrize("name", KEYS)
def test_a_decoded_key_matches_its_certificate(name: str) -> None:
    (pair,) = decode_key_store(read(name), STORE, key_password(name)).keys
    assert isinstance(pair.key, rsa.RSAPrivateKey if name == "rsa.jks" else ec.EllipticCurvePrivateKey)
    assert pair.chain[0].public_key() == pair.key.public_key()
    names = pair.chain[0].extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert len(pair.chain) == (3 if name.startswith("chain") else 1)
    for issued, issuer in zip(pair.chain, pair.chain[1:], strict=False):
        issued.verify_directly_issued_by(issuer)
    assert "key=" not in repr(pair)


@pytest.mark.parametrize("name", TRUSTED)
def test_trust_stores_are_read(name: str) -> None:
    own = decode_key_store(read("rsa.jks"), STORE, KEY).keys[0].chain[0]
    assert decode_anchors(read(name), STORE) == (own,)
    assert decode_anchors(read("rsa.jks"), STORE) == (own,)
    with pytest.raises(WrongPasswordError):
        decode_anchors(read(name), "wrong")


@pytest.mark.parametrize("name", ["trust.jks", "trust.jceks", "rsa.jks"])
def test_a_trust_store_without_a_password_is_not_checked(name: str) -> None:
    assert len(decode_anchors(read(name), None)) == 1


@pytest.mark.parametrize("name", KEYS)
def test_wrong_passwords_are_an_error(name: str) -> None:
    with pytest.raises(WrongPasswordError, match="password of the store is wrong"):
        decode_key_store(read(name), "wrong", KEY)
    if name.startswith(("rsa", "ec")):
        # with JCEKS, one in 256 wrong passwords yields well-formed bytes that are not a key
        with pytest.raises(KeyStoreError):
            decode_key_store(read(name), STORE, "wrong")
        with pytest.raises(KeyStoreError):
            decode_key_store(read(name), STORE)


def test_pem_files_are_read() -> None:
    ca = authority()
    own = ca.issue()
    plain = decode_key_store(own.pem(), None)
    assert plain.keys[0].chain == own.chain
    hidden = own.pem("geheim")
    assert decode_key_store(hidden, None, "geheim").keys[0].chain == own.chain
    with pytest.raises(WrongPasswordError):
        decode_key_store(hidden, "wrong")
    assert decode_anchors(hidden, None) == own.chain
    # the chain in another order, and with a foreign certificate in between
    first, *others = own.certificate, ca.certificate, authority("Other").certificate
    key = own.pem().partition(b"-----BEGIN CERTIFICATE")[0]
    assert decode_key_store(key + others[1] + others[0] + first, None).keys[0].chain == own.chain


def test_files_that_are_not_key_stores_are_refused() -> None:
    for data in (b"", b"x", b"<configuration/>", bytes(100)):
        with pytest.raises(KeyStoreError, match="neither a JKS, JCEKS or PKCS12 store nor PEM"):
            decode_key_store(data, STORE)
    # a sequence in a sequence, as BouncyCastle's stores begin
    with pytest.raises(KeyStoreError, match="BCFKS"):
        decode_key_store(bytes.fromhex("30820102") + bytes.fromhex("3081fe") + bytes(254), STORE)


def tries(name: str, data: bytes, password: str | None) -> KeyStore | None:
    """Assert that changed bytes are read as a store or cause one of our errors."""
    try:
        return decode_key_store(data, password, key_password(name))
    except KeyStoreError:
        return None


@pytest.mark.parametrize("name", KEYS + TRUSTED)
def test_truncated_stores_are_refused(name: str) -> None:
    data = read(name)
    for size in range(0, len(data), 1 if deep() else 17):
        assert tries(name, data[:size], STORE) is None
        if name.endswith("s"):
            # the reader also detects a truncation if it does not check the digest
            with pytest.raises(KeyStoreError):
                decode_anchors(data[: min(size, len(data) - 21)], None)


@pytest.mark.parametrize("name", ["rsa.jks", "ec.jceks", "trust.jceks"])
@examples(200, deadline=None)
@given(at=st.integers(0, 1 << 20), bit=st.integers(0, 7))
def test_flipped_bits_are_detected(name: str, at: int, bit: int) -> None:
    data = bytearray(read(name))
    data[at % len(data)] ^= 1 << bit
    assert tries(name, bytes(data), STORE) is None


# each key of JCEKS costs 200,000 digests
@pytest.mark.parametrize("name", ["rsa.jks", "ec.jks", "chain.jks", "chain.p12", *TRUSTED])
@examples(200, deadline=None)
@given(changes=st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=6))
def test_changes_with_a_correct_digest_raise_only_key_store_errors(name: str, changes: list[tuple[int, int]]) -> None:
    data = bytearray(read(name))
    for at, value in changes:
        data[at % len(data)] = value
    if data[:4] in (JKS_MAGIC, JCEKS_MAGIC):
        data[-20:] = sealed(bytes(data[:-20]))
    tries(name, bytes(data), STORE)


def sealed(body: bytes) -> bytes:
    return hashlib.sha1(STORE.encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()


# ---- credential providers ------------------------------------------------------------------------------------------


def test_passwords_in_credential_stores_are_found() -> None:
    assert find_credential(CREDENTIALS, "none", "ssl.server.keystore.password") == STORE
    assert find_credential(CREDENTIALS, "none", "SSL.Server.Keystore.KeyPassword") == KEY
    assert find_credential(CREDENTIALS, "none", "ssl.client.keystore.password") is None
    with pytest.raises(WrongPasswordError):
        find_credential(CREDENTIALS, "other", "ssl.server.keystore.password")


@examples(150, deadline=None)
@given(at=st.integers(12, len(CREDENTIALS) - 21), value=st.integers(0, 255))
def test_changed_credentials_raise_only_key_store_errors(at: int, value: int) -> None:
    data = bytearray(CREDENTIALS)
    data[at] = value
    try:
        for secret in parse_java_store(bytes(data), None).secrets.values():
            # two iterations are enough for this test; the test of recorded stores covers hundreds of thousands
            secret.fields.update(encodedParams=bytes.fromhex("300e0408000102030405060702020002"))
            open_secret(secret, "none")
    except KeyStoreError:
        return


@examples(200)
@given(data=st.binary(max_size=200))
def test_any_java_stream_gives_an_object_or_a_key_store_error(data: bytes) -> None:
    for begin in (b"", b"\xac\xed\x00\x05", b"\xac\xed\x00\x05\x73\x72\x00\x01a" + bytes(8) + b"\x02"):
        with pytest.raises(KeyStoreError):
            read_object(ByteReader(begin + data))
            raise KeyStoreError("it was one")


def test_deeply_nested_java_classes_are_refused() -> None:
    described = b"\x72\x00\x01a" + bytes(8) + b"\x02\x00\x00\x78"
    with pytest.raises(KeyStoreError, match="more than 16 Java superclasses"):
        read_object(ByteReader(b"\xac\xed\x00\x05\x73" + described * 100_000))


def test_a_salt_of_two_equal_halves_is_changed_as_by_sunjce() -> None:
    """SunJCE reverses the first half, with a bug: [a, b, c, d] becomes [d, a, b, d]."""
    equal, turned = bytes.fromhex("01020304" * 2), bytes.fromhex("0401020401020304")
    assert _derived(PbeParameters(equal, 3), "pw") == _derived(PbeParameters(turned, 3), "pw")


# ---- keytool, now ----------------------------------------------------------------------------------------------------


@pytest.mark.deep
@pytest.mark.interop
def test_newly_made_stores_can_be_read(tmp_path: Path) -> None:
    make(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in STORES.iterdir()}
    for name in KEYS:
        assert decode_key_store((tmp_path / name).read_bytes(), STORE, key_password(name)).keys
    assert (
        find_credential((tmp_path / "credentials.jceks").read_bytes(), "none", "ssl.server.keystore.password") == STORE
    )


@pytest.mark.deep
@pytest.mark.interop
def test_keytool_reads_the_stores_of_tests(tmp_path: Path) -> None:
    (tmp_path / "a.p12").write_bytes(authority().issue().pkcs12())
    assert b"PrivateKeyEntry" in keytool("-list", "-keystore", str(tmp_path / "a.p12"), "-storepass", STORE_PASSWORD)


ROUNDS = b"\x02\x03\x01\x01\x01"
"""65,793 iterations in DER; half a second for one store."""
HUGE = b"\x02\x03\x7f\xff\xff"


def der(tag: int, *content: bytes) -> bytes:
    inside = b"".join(content)
    size = len(inside).to_bytes(2, "big").lstrip(b"\0")
    return bytes((tag,)) + (size if len(inside) < 0x80 else bytes((0x80 + len(size),)) + size) + inside


def with_mac_of(store: bytes, iterations: bytes | None) -> bytes:
    """Return a PKCS12 store in DER with this number of digest iterations; None omits the digest."""
    outer = Der(store).sequence()
    parts = [der(0x02, outer.value(0x02)), der(0x30, outer.value(0x30))]
    if iterations is not None:
        mac = outer.sequence()
        parts.append(der(0x30, der(0x30, mac.value(0x30)), der(0x04, mac.value(0x04)), iterations))
    return der(0x30, *parts)


def in_ber(store: bytes) -> bytes:
    """Return the store with an indefinite outermost length, as programs other than Java write it."""
    return b"\x30\x80" + Der(store).value(0x30) + b"\0\0"


def test_a_store_with_too_many_iterations_is_refused() -> None:
    """The iteration count may belong to the digest or to any encrypted part, with or without a digest."""
    own = authority().issue()
    hidden = PrivateFormat.PKCS12.encryption_builder().kdf_rounds(65793)
    store = pkcs12.serialize_key_and_certificates(
        b"own", own.key, own.chain[0], own.chain[1:], hidden.build(STORE_PASSWORD.encode())
    )
    plain, in_pieces = with_mac_of(store, None), in_ber(store)
    assert len(decode_key_store(plain, STORE_PASSWORD).keys) == 1
    with pytest.warns(UserWarning, match="BER"):
        assert len(decode_key_store(in_pieces, STORE_PASSWORD).keys) == 1
    changed = [with_mac_of(store, HUGE)]
    for form in (store, plain, in_pieces):
        parts = form.split(ROUNDS)
        changed += [ROUNDS.join(parts[:at]) + HUGE + ROUNDS.join(parts[at:]) for at in range(1, len(parts))]
    assert len(changed) == 7
    for each in changed:
        with pytest.raises(KeyStoreError, match=r"needs \d+ iterations to open, expected at most 5000000"):
            decode_key_store(each, STORE_PASSWORD)


def test_a_pem_key_with_too_many_iterations_is_refused() -> None:
    own = authority().issue()
    algorithm, content = Der(Der(key_of(own.pem("secret"))).value(0x30)), b""
    parameters, content = algorithm.value(0x30), algorithm.rest()
    changed = parameters.replace(b"\x02\x02\x08\x00", HUGE)
    assert changed != parameters
    # each of the four enclosing sequences is one byte longer
    for size in (0x5F, 0x52, 0x31, 0x24):
        changed = changed.replace(b"\x30" + bytes((size,)), b"\x30" + bytes((size + 1,)), 1)
    key = der(0x30, b"\x30" + bytes((len(changed),)), changed, content)
    text = (
        b"-----BEGIN ENCRYPTED PRIVATE KEY-----\n" + base64.encodebytes(key) + b"-----END ENCRYPTED PRIVATE KEY-----\n"
    )
    with pytest.raises(KeyStoreError, match=r"needs 8388607 iterations"):
        decode_key_store(own.certificate + text, None, "secret")


def key_of(pem: bytes) -> bytes:
    return base64.b64decode(pem.partition(b"KEY-----")[2].partition(b"-----END")[0])


@given(st.binary(max_size=200), st.integers(0, 5000))
@examples(300)
def test_changes_outside_encrypted_parts_raise_only_key_store_errors(data: bytes, at: int) -> None:
    store = bytearray(read("chain.p12"))
    store[at % len(store) : at % len(store) + len(data)] = data
    with suppress(KeyStoreError):
        check_pkcs12(bytes(store))
    with suppress(KeyStoreError):
        check_pkcs12(data)
    with suppress(KeyStoreError):
        check_pkcs8(data)

"""Invariant: readers of key stores and credential providers accept arbitrary bytes or raise one of our errors."""

from __future__ import annotations

import functools
import hashlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hadoop_common.tls import java_protection
from hadoop_common.tls.errors import KeyStoreError
from hadoop_common.tls.java_object import ByteReader, read_object
from hadoop_common.tls.java_protection import PbeParameters, open_key, open_pbe, parse_parameters
from hadoop_common.tls.java_store import JCEKS_MAGIC, JKS_MAGIC, open_secret, parse_java_store
from hadoop_common.tls.key_store import decode_anchors, decode_key_store
from tests.fuzz.wire import Mutate

STORES = Path(__file__).parents[1] / "tls" / "stores"
_STORE, _KEY, _PROVIDER = "store-secret", "key-secret", "none"
_DIGEST = 20

_derived = functools.cache(java_protection._derived)
_known: set[PbeParameters] = set()


def _quickly(parameters: PbeParameters, password: str) -> bytes:
    """Derive a key; use two iterations for changed parameters, because such a key decrypts to garbage anyway."""
    return _derived(parameters if parameters in _known else parameters._replace(iterations=2), password)


def _sealed(data: bytes, password: str) -> bytes:
    """Return a changed store with a correct digest, so that the reader accepts it."""
    if data[:4] not in (JKS_MAGIC, JCEKS_MAGIC):
        return data
    body = data[:-_DIGEST]
    return body + hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()


def _secrets(data: bytes) -> list[bytes]:
    store = parse_java_store(_sealed(data, _PROVIDER), _PROVIDER)
    return [open_secret(each, _PROVIDER) for each in store.secrets.values()]


_READERS: tuple[Callable[[bytes], Any], ...] = (
    lambda data: decode_key_store(_sealed(data, _STORE), _STORE, _KEY),
    lambda data: decode_key_store(_sealed(data, _STORE), _STORE),
    lambda data: decode_key_store(data, _STORE, _KEY),
    lambda data: decode_anchors(_sealed(data, _STORE), _STORE),
    lambda data: decode_anchors(data, None),
    _secrets,
    lambda data: read_object(ByteReader(data)),
    lambda data: open_key(data, _KEY),
)


def check_key_stores(data: bytes) -> bool:
    """Read `data` with the reader that its first byte chooses; return False if the reader raises one of our errors.

    Raises:
        Exception: any other error.
    """
    before, java_protection._derived = java_protection._derived, _quickly
    try:
        _READERS[data[0] % len(_READERS) if data else 0](data[1:])
    except KeyStoreError:
        return False
    finally:
        java_protection._derived = before
    return True


def key_store_seeds() -> Iterator[bytes]:
    """Yield the recorded stores and their contents for every reader that accepts them."""
    for path in sorted(STORES.iterdir()):
        content = path.read_bytes()
        _remember(content, path.name)
        for number in (5,) if path.name == "credentials.jceks" else (0, 1, 2, 3, 4):
            yield bytes([number]) + content
    for key in parse_java_store((STORES / "rsa.jks").read_bytes(), _STORE).keys:
        yield b"\x07" + key.protected
    for sealed in parse_java_store((STORES / "credentials.jceks").read_bytes(), _PROVIDER).secrets.values():
        parameters = parse_parameters(sealed.fields["encodedParams"])
        yield b"\x06" + open_pbe(sealed.fields["encryptedContent"], parameters, _PROVIDER)


def _remember(content: bytes, name: str) -> None:
    if content[:4] != JCEKS_MAGIC:
        return
    store = parse_java_store(content, _PROVIDER if name == "credentials.jceks" else _STORE)
    _known.update(parse_parameters(each.fields["encodedParams"]) for each in store.secrets.values())
    for key in store.keys:
        algorithm = java_protection.Der(key.protected).sequence().sequence()
        algorithm.value(6)
        _known.add(parse_parameters(algorithm.rest()))


def mutate_key_store(data: bytes, rng: random.Random, mutate: Mutate) -> bytes:
    """Change a few bytes, mostly in place, so that the lengths around them remain correct."""
    if len(data) < 2 or rng.random() < 0.3:
        return data[:1] + mutate(data[1:])
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 5)):
        changed[rng.randrange(1, len(changed))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return bytes(changed)

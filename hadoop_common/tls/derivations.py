"""Counts the password hashes that are needed to open a PKCS12 store or a PKCS#8 key (RFC 7292, RFC 8018).

This module parses the outer structure as BER, because the library reveals the number only after the work is done. The
module does not check encrypted parts, because their author knew the password.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from hadoop_common.quantities import counted
from hadoop_common.tls.errors import KeyStoreError
from hadoop_common.tls.java_protection import MAX_ITERATIONS

_INTEGER, _OCTETS, _OBJECT, _SEQUENCE = 0x02, 0x04, 0x06, 0x30
_CONSTRUCTED, _CONTEXT_0 = 0x20, 0xA0
_END = b"\0\0"
_DATA = bytes.fromhex("2a864886f70d010701")
_ENCRYPTED_DATA = bytes.fromhex("2a864886f70d010706")
_SHROUDED_KEY = bytes.fromhex("2a864886f70d010c0a0102")
_SAFE_CONTENTS = bytes.fromhex("2a864886f70d010c0a0106")
_MAX_DEPTH = 32


class _Value(NamedTuple):
    tag: int
    content: bytes

    def values(self, tag: int) -> list[_Value]:
        """Return the values inside this value, which must be of type `tag`."""
        if self.tag != tag:
            raise KeyStoreError(f"a DER value begins with {self.tag:02x}, expected {tag:02x}")
        return list(_values(self.content))

    def octets(self) -> bytes:
        """Return the bytes of a string, which BER may split into pieces."""
        if self.tag == _OCTETS | _CONSTRUCTED:
            return b"".join(each.content for each in _values(self.content) if each.tag == _OCTETS)
        if self.tag != _OCTETS:
            raise KeyStoreError(f"a DER value begins with {self.tag:02x}, expected 04")
        return self.content


def check_pkcs12(data: bytes) -> None:
    """Reject a store that would take minutes to open, as Java does; the limit applies to the sum over the digest and
    all parts.

    Raises:
        KeyStoreError: the limit is exceeded, or the data is not a PKCS12 store.
    """
    _check("PKCS12 store", lambda: list(_of_store(data)))


def check_pkcs8(data: bytes) -> None:
    """Raise KeyStoreError for an EncryptedPrivateKeyInfo that would take minutes to open."""
    _check("encrypted key", lambda: [_of_algorithm(_first(data).values(_SEQUENCE)[0])])


def _check(what: str, counts: Callable[[], list[int]]) -> None:
    try:
        total = sum(counts())
    except (IndexError, ValueError) as fault:
        raise KeyStoreError(f"it is not a {what}: a part of it is missing") from fault
    if total > MAX_ITERATIONS:
        raise KeyStoreError(f"it needs {counted(total, 'iteration')} to open, expected at most {MAX_ITERATIONS}")


def _of_store(data: bytes) -> Iterator[int]:
    _, content, *mac = _first(data).values(_SEQUENCE)
    yield from _of_contents([content])
    for each in mac:
        digest, _, *iterations = each.values(_SEQUENCE)
        yield from map(_integer, iterations)
        # PBMAC1 stores the number of iterations in its parameters
        yield _of_algorithm(digest.values(_SEQUENCE)[0])


def _of_contents(contents: Iterable[_Value], depth: int = 0) -> Iterator[int]:
    """Yield the iterations of ContentInfos."""
    for each in contents:
        kind, *rest = each.values(_SEQUENCE)
        if kind == (_OBJECT, _DATA):
            for inner in _values(rest[0].values(_CONTEXT_0)[0].octets()) if rest else ():
                # values of the authenticated safe are contents, and values of a content are bags
                yield from (_of_contents if depth == 0 else _of_bags)(inner.values(_SEQUENCE), depth + 1)
        elif kind == (_OBJECT, _ENCRYPTED_DATA) and rest:
            encrypted = rest[0].values(_CONTEXT_0)[0].values(_SEQUENCE)[1]
            yield _of_algorithm(encrypted.values(_SEQUENCE)[1])


def _of_bags(bags: Iterable[_Value], depth: int) -> Iterator[int]:
    if depth > _MAX_DEPTH:
        raise KeyStoreError(f"its parts are nested more than {_MAX_DEPTH} times")
    for bag in bags:
        kind, *rest = bag.values(_SEQUENCE)
        if kind == (_OBJECT, _SHROUDED_KEY):
            yield _of_algorithm(rest[0].values(_CONTEXT_0)[0].values(_SEQUENCE)[0])
        elif kind == (_OBJECT, _SAFE_CONTENTS):
            yield from _of_bags(rest[0].values(_CONTEXT_0)[0].values(_SEQUENCE), depth + 1)


def _of_algorithm(algorithm: _Value) -> int:
    """Return the largest number among the parameters, which contain only iterations and key lengths."""
    return max(_integers(algorithm.values(_SEQUENCE)[1:]), default=0)


def _integers(values: Iterable[_Value], depth: int = 0) -> Iterator[int]:
    for each in values:
        if each.tag == _INTEGER:
            yield _integer(each)
        elif each.tag & _CONSTRUCTED and depth < _MAX_DEPTH:
            yield from _integers(_values(each.content), depth + 1)


def _integer(value: _Value) -> int:
    """Return an unsigned number; a negative number becomes huge and is therefore rejected."""
    return int.from_bytes(value.content) if value.tag == _INTEGER else 0


def _first(data: bytes) -> _Value:
    return next(_values(data), _Value(0, b""))


def _values(data: bytes) -> Iterator[_Value]:
    """Yield consecutive values in `data`."""
    position = 0
    while position < len(data):
        tag, begin, end, position = _extent(data, position)
        yield _Value(tag, data[begin:end])


def _extent(data: bytes, start: int, depth: int = 0) -> tuple[int, int, int, int]:
    """Return the tag, the start and end of the content, and the start of the next value."""
    head = data[start : start + 2]
    if len(head) < 2 or head[0] & 0x1F == 0x1F:
        raise KeyStoreError(f"a DER value begins with {head.hex() or 'nothing'}")
    tag, size, begin = head[0], head[1], start + 2
    if size == 0x80:
        if not tag & _CONSTRUCTED or depth > _MAX_DEPTH:
            raise KeyStoreError("a DER value has no length")
        end = begin
        while data[end : end + 2] != _END:
            *_, end = _extent(data, end, depth + 1)
        return tag, begin, end, end + len(_END)
    if size > 0x80:
        count = size & 0x7F
        size, begin = int.from_bytes(data[begin : begin + count]), begin + count
    if begin + size > len(data):
        raise KeyStoreError(f"a DER value of {size} bytes is truncated")
    return tag, begin, begin + size, begin + size

"""Mutations of the bytes of an HTTP connection that mostly keep its lines."""

from __future__ import annotations

import random

from tests.fuzz.wire import Mutate

_LINES = (
    b"Content-Length: 5",
    b"Content-Length: 99999999999999999999",
    b"Transfer-Encoding: chunked",
    b"Connection: close",
    b"Expect: 100-continue",
    b"Origin: http://example.com",
    b"X-MD5-Digest: 0123456789abcdef0123456789abcdef",
    b"Range: bytes=0-5",
    b"5",
    b"0",
    b"",
)


def mutate_http(data: bytes, rng: random.Random, mutate: Mutate) -> bytes:
    """Change, drop, repeat, move or add a line, or change a parameter; rarely, change any bytes."""
    lines = data.split(b"\r\n")
    number, choice = rng.randrange(len(lines)), rng.random()
    if choice < 0.1:
        return mutate(data)
    if choice < 0.5:
        lines[number] = mutate(lines[number])
    elif choice < 0.7:
        words = lines[number].split(b"&")
        word = rng.randrange(len(words))
        words[word] = mutate(words[word]) if rng.random() < 0.7 else rng.choice(words)
        lines[number] = b"&".join(words)
    elif choice < 0.85:
        lines.insert(number, rng.choice(_LINES) if rng.random() < 0.5 else rng.choice(lines))
    elif choice < 0.95:
        other = rng.randrange(len(lines))
        lines[number], lines[other] = lines[other], lines[number]
    else:
        del lines[number]
    return b"\r\n".join(lines)

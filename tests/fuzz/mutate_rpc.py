"""Mutations of the bytes of a Hadoop RPC connection that mostly keep its frames."""

from __future__ import annotations

import random
import struct

from tests.fuzz.wire import Mutate, mutate_records

_LENGTH = struct.Struct(">i")
_CONNECTION_HEADER = 7


def mutate_rpc(data: bytes, rng: random.Random, mutate: Mutate) -> bytes:
    """Change, drop, repeat or move a frame after the byte that chooses the side; rarely, change any bytes."""
    # only a server receives a header before the frames
    start = 1 if data[:1] and data[0] & 1 else 1 + _CONNECTION_HEADER
    frames = _split(data[start:])
    if not frames or rng.random() < 0.1:
        return mutate(data) if rng.random() < 0.2 else data[:1] + mutate(data[1:])
    number = rng.randrange(len(frames))
    choice = rng.random()
    if choice < 0.75:
        frames[number] = mutate_records(frames[number], rng, mutate)
    elif choice < 0.85:
        frames.insert(rng.randrange(len(frames) + 1), frames[number])
    elif choice < 0.95:
        other = rng.randrange(len(frames))
        frames[number], frames[other] = frames[other], frames[number]
    else:
        del frames[number]
    return data[:start] + b"".join(_LENGTH.pack(len(frame)) + frame for frame in frames)


def _split(data: bytes) -> list[bytes]:
    """Return the bodies of the frames in `data`; an incomplete last frame counts as a frame."""
    frames, position = [], 0
    while position + _LENGTH.size <= len(data):
        (length,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        end = position + length if 0 <= length <= len(data) - position else len(data)
        frames.append(data[position:end])
        position = end
    return frames

"""MD5 of two streams in the lanes of vectors (RFC 1321): each instruction works on both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from image_format.kernels.jit import lean_kernel
from image_format.kernels.prefetch import emit_prefetch

__all__ = ["BLOCK", "START", "md5_lanes"]

BLOCK = 64
"""Bytes that a step of MD5 takes."""
START = np.array([0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476], np.uint32)
"""State before the first block."""

_AHEAD = 2048
"""Bytes that are asked for before they are read: the processor's own guesses end with each page."""

_LANES = 4
_WORD = ir.IntType(32)
_VECTOR = ir.VectorType(_WORD, _LANES)
_SINES = [int(abs(math.sin(step + 1)) * 2**32) for step in range(BLOCK)]
_TURNS = (7, 12, 17, 22), (5, 9, 14, 20), (4, 11, 16, 23), (6, 10, 15, 21)
_WORDS = (1, 0), (5, 1), (3, 5), (7, 0)
"""By round: step s of MD5 takes word a * s + b, modulo 16."""


def _all(number: int) -> ir.Constant:
    return ir.Constant(_VECTOR, [number] * _LANES)


def _chosen(*lanes: int) -> ir.Constant:
    return ir.Constant(_VECTOR, lanes)


def _load_words(builder: ir.IRBuilder, sources: Sequence[Any], offset: Any) -> list[Any]:
    """The 16 words of a block of both streams: the first stream's in lane 0, the other's in lane 1."""
    words = []
    for quarter in range(0, BLOCK, 16):
        place = builder.add(offset, offset.type(quarter))
        pointers = [builder.bitcast(builder.gep(source, [place]), _VECTOR.as_pointer()) for source in sources]
        left, right = (builder.load(pointer, align=1) for pointer in pointers)
        for order in (_chosen(0, 4, 1, 5), _chosen(2, 6, 3, 7)):
            pair = builder.shuffle_vector(left, right, order)
            words += [pair, builder.shuffle_vector(pair, pair, _chosen(2, 3, 2, 3))]
    return words


def _mixed(builder: ir.IRBuilder, number: int, b: Any, c: Any, d: Any) -> Any:
    """F, G, H or I, by number of the round."""
    ones = _all(0xFFFFFFFF)
    if number == 0:
        return builder.or_(builder.and_(b, c), builder.and_(builder.xor(b, ones), d))
    if number == 1:
        return builder.or_(builder.and_(d, b), builder.and_(builder.xor(d, ones), c))
    if number == 2:
        return builder.xor(builder.xor(b, c), d)
    return builder.xor(c, builder.or_(b, builder.xor(d, ones)))


def _rounds(builder: ir.IRBuilder, rotate: Any, words: Sequence[Any], state: Sequence[Any]) -> list[Any]:
    """The state after a block."""
    # What is ready early is added first: the compiler may not put it into the chain that each step waits for.
    barrier = ir.InlineAsm(ir.FunctionType(_VECTOR, [_VECTOR]), "", "=x,0")
    a, b, c, d = state
    for step in range(BLOCK):
        number = step // 16
        factor, more = _WORDS[number]
        word = words[(factor * step + more) % 16]
        early = builder.call(barrier, [builder.add(a, builder.add(word, _all(_SINES[step])))])
        late = builder.add(early, _mixed(builder, number, b, c, d))
        turned = builder.call(rotate, [late, late, _all(_TURNS[number][step % 4])])
        a, b, c, d = d, builder.add(turned, b), b, c
    return [builder.add(before, after) for before, after in zip(state, (a, b, c, d), strict=True)]


@intrinsic
def _steps(typing_context, states, left, right, blocks):
    def codegen(context, builder, signature, arguments):
        state, *sources = (
            context.make_array(kind)(context, builder, value).data
            for kind, value in zip(signature.args[:3], arguments[:3], strict=True)
        )
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
        rotate = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fshl.v{_LANES}i32")
        index = context.get_constant
        held = [cgutils.alloca_once(builder, _VECTOR) for _ in START]
        places = [[builder.gep(state, [index(types.intp, 4 * lane + k)]) for lane in range(2)] for k in range(4)]
        for slot, pair in zip(held, places, strict=True):
            vector = ir.Constant(_VECTOR, [0] * _LANES)
            for lane, place in enumerate(pair):
                vector = builder.insert_element(vector, builder.load(place), _WORD(lane))
            builder.store(vector, slot)
        with cgutils.for_range(builder, arguments[3]) as loop:
            offset = builder.mul(loop.index, loop.index.type(BLOCK))
            for source in sources:
                emit_prefetch(builder, builder.gep(source, [builder.add(offset, offset.type(_AHEAD))]))
            words = _load_words(builder, sources, offset)
            after = _rounds(builder, rotate, words, [builder.load(slot) for slot in held])
            for vector, slot in zip(after, held, strict=True):
                builder.store(vector, slot)
        for slot, pair in zip(held, places, strict=True):
            vector = builder.load(slot)
            for lane, place in enumerate(pair):
                builder.store(builder.extract_element(vector, _WORD(lane)), place)

    return types.void(states, left, right, blocks), codegen


@lean_kernel
def md5_lanes(states, left, right, blocks):
    """Take so many blocks of both streams.

    Args:
        states: uint32, a row of four for each stream, before and after.
        left, right: bytes of each, as many blocks at least.
    """
    _steps(states, left, right, blocks)  # type: ignore[call-arg]

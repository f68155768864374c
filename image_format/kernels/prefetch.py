"""Prefetch hint that compiled code gives to the processor; Python code ignores the hint."""

from __future__ import annotations

from typing import Any

import numpy as np

_READ, _KEEP, _DATA = 0, 3, 1
"""Arguments of LLVM's `llvm.prefetch`: for reading, into all caches, data."""


def prefetch(array: Any, row: int | np.signedinteger[Any], byte: int = 0) -> None:
    """Prefetch the cache line of a byte in an array's row that will be read soon; the row need not exist.

    The processor's automatic prefetch stops at page boundaries, every 4 KB of a mapped file.
    """


def let_kernels_prefetch() -> None:
    """Define `prefetch` for the compiler, once."""
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic, overload

    @intrinsic
    def line(typing_context, array, row, byte):
        def codegen(context, builder, signature, arguments):
            made = context.make_array(signature.args[0])(context, builder, arguments[0])
            stride = builder.extract_value(made.strides, 0)
            bytes_of = builder.bitcast(made.data, ir.IntType(8).as_pointer())
            place = builder.gep(bytes_of, [builder.add(builder.mul(arguments[1], stride), arguments[2])])
            number = ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
            hint = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
            builder.call(hint, [place, number(_READ), number(_KEEP), number(_DATA)])

        return types.void(array, types.intp, types.intp), codegen

    @overload(prefetch)
    def of_array(array, row, byte=0):
        return lambda array, row, byte=0: line(array, row, byte)  # type: ignore[call-arg]

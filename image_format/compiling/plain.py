"""Python forms of kernels, with the arithmetic of compiled code.

Numba computes in 64 bits, whatever the integer type of the array. NumPy's scalars keep their type, so the sum of two
bytes can overflow. A Python form widens each number that it loads from an array. Sums and products beyond 64 bits wrap
silently in both forms. A Python form calls other kernels in their Python forms.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

_LOAD = "_load"
_NARROW = frozenset((np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32))


def plain_form(function: Callable[..., Any], called: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
    """Return the Python form of a kernel.

    Args:
        function: the kernel's source function; the `generated_source` attribute contains the source of a generated
            kernel.
        called: the Python forms of the kernels that `function` calls, by their names in its source.

    Raises:
        OSError: the source of the function is missing.
    """
    generated = getattr(function, "generated_source", None)
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)) if generated is None else generated)
    definition = tree.body[0]
    if not isinstance(definition, ast.FunctionDef):
        raise OSError(f"there is no source of {function.__name__}")
    definition.decorator_list = []
    ast.increment_lineno(tree, function.__code__.co_firstlineno - 1)
    code = compile(ast.fix_missing_locations(_Loads().visit(tree)), function.__code__.co_filename, "exec")
    names = {**function.__globals__, **called, _LOAD: widened}
    exec(code, names)
    form: Callable[..., Any] = names[function.__name__]
    return form


def call_plain(form: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Call the Python form of a kernel; return values of the same types as its compiled form."""
    with np.errstate(all="ignore"):
        return _result(form(*map(_argument, arguments)))


def widened(value: Any) -> Any:
    """Return a value loaded from an array, widened as in compiled code."""
    return np.int64(value) if type(value) in _NARROW else value


def _argument(value: Any) -> Any:
    return np.int64(value) if type(value) is int else widened(value)


def _result(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_result, value))
    return value.item() if isinstance(value, np.number | np.bool_) else value


class _Loads(ast.NodeTransformer):
    """Transformer that wraps each element read in `_load`, including the read in `array[i] += 1`."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        return _loaded(node) if isinstance(node.ctx, ast.Load) else node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        self.generic_visit(node)
        if not isinstance(node.target, ast.Subscript):
            return node
        target = node.target
        before = _loaded(ast.Subscript(target.value, target.slice, ast.Load()))
        changed = ast.Assign([target], ast.BinOp(before, node.op, node.value))
        return ast.copy_location(changed, node)


def _loaded(node: ast.Subscript) -> ast.expr:
    return ast.copy_location(ast.Call(ast.Name(_LOAD, ast.Load()), [node], []), node)

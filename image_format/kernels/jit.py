"""How kernels are compiled: without the interpreter lock, and kept on disk where there is a place for them."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from hadoop_common.process_memory import beside_bound
from image_format.kernels.prefetch import let_kernels_prefetch


class Kernel:
    """A function that is compiled when it is first called; until then the compiler is not even loaded.

    Attributes:
        py_func: the function as it was written.
    """

    def __init__(self, function: Callable[..., Any], flags: dict[str, bool]) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self._flags = flags
        self._call: Callable[..., Any] = self._first_call

    def __call__(self, *arguments: Any) -> Any:
        return self._call(*arguments)

    def _first_call(self, *arguments: Any) -> Any:
        self._call = self.dispatcher
        return self._call(*arguments)

    @functools.cached_property
    def dispatcher(self) -> Any:
        """Numba's own object for it."""
        with beside_bound():
            _teach_compiler()
            return _compiled(self.py_func, self._flags)


@functools.cache
def _teach_compiler() -> None:
    """Kernels may call kernels, and `prefetch`."""
    from numba.extending import typeof_impl

    let_kernels_prefetch()

    @typeof_impl.register(Kernel)
    def type_of(value: Kernel, context: Any) -> Any:
        return typeof_impl(value.dispatcher, context)


def kernel(function: Callable[..., Any]) -> Kernel:
    """Compile at the first call; the machine code is kept beside the source, or in the user's cache folder.

    Where neither can be written (an installation owned by root, a user without a home, a full disk) each process
    compiles anew: slower to start, the same results. NUMBA_CACHE_DIR names another place.
    """
    return Kernel(function, {})


def lean_kernel(function: Callable[..., Any]) -> Kernel:
    """As `kernel`, without counting references to arrays, at each of which all cores would wait for each other.

    Such a kernel makes no array, and its arguments outlive the call.
    """
    return Kernel(function, {"_nrt": False})


def step(function: Callable[..., Any]) -> Kernel:
    """As `lean_kernel`, for what only kernels call: it lacks what calls from Python need, which is slow to compile."""
    return Kernel(function, {"_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True})


def _compiled(function: Callable[..., Any], flags: dict[str, bool]) -> Any:
    from numba import njit

    from image_format.kernels.kept_code import KernelCache

    dispatcher: Any = njit(nogil=True, **flags)(function)  # type: ignore[call-overload]
    try:
        folder = Path(function.__code__.co_filename).parent
        dispatcher._cache = KernelCache(function, _sources(folder) + made_of(function))
    except RuntimeError:
        # Numba's way to say that it found no folder for its cache.
        pass
    return _with_memory(dispatcher)


@functools.cache
def _sources(folder: Path) -> str:
    """Digest of the sources of a folder of kernels and of this one: of what they do for the compiler, too."""
    digest = hashlib.sha256()
    for path in sorted({*Path(__file__).parent.glob("*.py"), *folder.glob("*.py")}):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


@functools.cache
def made_of(function: Callable[..., Any]) -> str:
    """Digest of what a kernel is made of: its code, the values that it takes from elsewhere, the kernels it calls."""
    code = function.__code__
    digest = hashlib.sha256(code.co_code + repr(code.co_consts).encode())
    for name in sorted(set(code.co_names) & function.__globals__.keys()):
        value = function.__globals__[name]
        if isinstance(value, Kernel):
            value = made_of(value.py_func)
        elif callable(value) or isinstance(value, ModuleType):
            value = value.__name__
        digest.update(f"\0{name}\0{value.tolist() if isinstance(value, np.ndarray) else value!r}".encode())
    return digest.hexdigest()


def _with_memory(dispatcher: Any) -> Any:
    """Let the compiler have the memory that it needs, whatever the bound on the work: LLVM aborts without it."""
    compile_or_load = dispatcher.compile

    def unbounded(signature: Any) -> Any:
        with beside_bound():
            return compile_or_load(signature)

    dispatcher.compile = unbounded
    return dispatcher

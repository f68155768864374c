"""Compiles kernels, which do not hold the interpreter lock; machine code is stored on disk where possible.

Each kernel has two forms with the same results: a compiled form and a Python form. While the compiled form is not in
memory, `image_format.compiling` chooses a form for each call.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Final

import numpy as np

from hadoop_common.process_memory import unbounded_memory
from image_format.compiling.background import Request
from image_format.compiling.choice import KernelChoice
from image_format.compiling.mode import Mode, mode
from image_format.compiling.plain import call_plain, plain_form
from image_format.kernels.prefetch import let_kernels_prefetch

_CHOOSES: Final = "_compile_for_args"
"""Method that Numba calls for arguments without compiled code; Numba then calls the result with these arguments."""
_TESTED_NUMBA: Final = (0, 68)
"""Version of Numba whose private parts `kept_code` uses; other versions use the slower cache of Numba."""
_PYTHON: Final = (type, FunctionType, BuiltinFunctionType, np.ufunc)
"""Callables that a Python form can call; all other callables exist only in the compiler."""


class Kernel:
    """Function with a compiled form and a Python form; the first call loads the compiler.

    Attributes:
        py_func: the function as written.
    """

    def __init__(self, function: Callable[..., Any], flags: dict[str, bool]) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self._flags = flags
        self._measured: tuple[str, ...] | None = None
        self._choice: KernelChoice | None = None
        self._call: Callable[..., Any] = self._first_call

    def __call__(self, *arguments: Any) -> Any:
        return self._call(*arguments)

    def _first_call(self, *arguments: Any) -> Any:
        plain = mode() is Mode.PLAIN and self.plain is not None
        self._call = self.plainly if plain else self.dispatcher
        return self._call(*arguments)

    def plainly(self, *arguments: Any) -> Any:
        """Call the Python form, which the kernel must have."""
        assert self.plain is not None, self.py_func
        return call_plain(self.plain, arguments)

    def in_python(self, form: Callable[..., Any]) -> Callable[..., Any]:
        """Use the decorated function as the Python form, for operations with a faster algorithm in Python."""
        self.plain = form
        return form

    def measure(self, names: tuple[str, ...]) -> None:
        """Determine the work of a call from the arguments with these names."""
        self._measured = names

    def is_at_hand(self, *arguments: Any) -> bool:
        """Return whether a compiled form for these argument types exists; if not, compile it in the background."""
        if mode() is Mode.COMPILED:
            return True
        types = _types_of(self.dispatcher, arguments)
        return self._choice is None or types in self.dispatcher.overloads or self._choice.is_at_hand(types)

    @functools.cached_property
    def plain(self) -> Callable[..., Any] | None:
        """Python form; None if the kernel uses features that only compiled code has, or has no source."""
        called: dict[str, Callable[..., Any]] = {}
        for name in self.py_func.__code__.co_names:
            value = self.py_func.__globals__.get(name)
            if isinstance(value, Kernel):
                if value.plain is None:
                    return None
                called[name] = value.plain
            elif callable(value) and not isinstance(value, _PYTHON):
                return None
        try:
            return plain_form(self.py_func, called)
        except OSError:
            return None

    @functools.cached_property
    def dispatcher(self) -> Any:
        """Numba's dispatcher of the kernel."""
        with unbounded_memory():
            _teach_compiler()
            dispatcher = _compiled(self.py_func, self._flags)
        if hasattr(dispatcher, _CHOOSES):
            self._choice = self._chooser(dispatcher)
            setattr(dispatcher, _CHOOSES, self._choice)
        return dispatcher

    def _chooser(self, dispatcher: Any) -> KernelChoice:
        cache, context = dispatcher._cache, dispatcher.targetctx

        def call_dispatcher(*arguments: Any) -> Any:
            self._call = dispatcher
            return dispatcher(*arguments)

        def missing() -> None:
            self._call = functools.partial(choice.call_plain, call_dispatcher)

        choice = KernelChoice(
            functools.partial(Request, self.py_func.__module__, self.py_func.__name__),
            getattr(dispatcher, _CHOOSES),
            functools.partial(_types_of, dispatcher),
            functools.partial(cache.holds, context) if hasattr(cache, "holds") else None,
            lambda: self.plain,
            self._measures(),
            missing,
        )
        return choice

    def _measures(self) -> tuple[int, ...]:
        code = self.py_func.__code__
        every = code.co_varnames[: code.co_argcount]
        return tuple(every.index(name) for name in self._measured or every)


@functools.cache
def _teach_compiler() -> None:
    """Enable kernels to call other kernels and `prefetch`."""
    from numba.extending import typeof_impl

    let_kernels_prefetch()

    @typeof_impl.register(Kernel)
    def type_of(value: Kernel, context: Any) -> Any:
        return typeof_impl(value.dispatcher, context)


def measured_by(*names: str) -> Callable[[Kernel], Kernel]:
    """Determine the work of a kernel's call from the arguments with these names; the default is all arguments."""

    def measured(kernel: Kernel) -> Kernel:
        kernel.measure(names)
        return kernel

    return measured


def _types_of(dispatcher: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(map(dispatcher.typeof_pyval, arguments))


def kernel(function: Callable[..., Any]) -> Kernel:
    """Compile at a call or in the background; store machine code next to the source or in the user's cache folder.

    If neither folder can be written, each process compiles again, which only slows its start. Causes are an
    installation owned by root, a user without a home, or a full disk. NUMBA_CACHE_DIR names another folder.
    """
    return Kernel(function, {})


def lean_kernel(function: Callable[..., Any]) -> Kernel:
    """Compile as `kernel` does, but without reference counting of arrays, which avoids contention between cores.

    A lean kernel creates no arrays, and its arguments must outlive the call.
    """
    return Kernel(function, {"_nrt": False})


def step(function: Callable[..., Any]) -> Kernel:
    """Compile as `lean_kernel` does, but without the wrappers for calls from Python, which compile slowly."""
    return Kernel(function, {"_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True})


def _compiled(function: Callable[..., Any], flags: dict[str, bool]) -> Any:
    from numba import njit

    dispatcher: Any = njit(nogil=True, **flags)(function)  # type: ignore[call-overload]
    folder = Path(function.__code__.co_filename).parent
    with suppress(RuntimeError):
        dispatcher._cache = _cache(function, _sources(folder) + made_of(function))
    return _with_memory(dispatcher)


def _cache(function: Callable[..., Any], stamp: str) -> Any:
    """Return the cache for the machine code of a kernel.

    Raises:
        RuntimeError: no folder for the code is writable, or this version of Numba names its files differently.
    """
    from numba import version_info

    if version_info.short != _TESTED_NUMBA:
        from image_format.kernels.kept_files import KernelFiles

        return KernelFiles(function, stamp)
    from image_format.kernels.kept_code import KernelCache

    return KernelCache(function, stamp)


@functools.cache
def _sources(folder: Path) -> str:
    """Return a digest of the sources in a folder of kernels and in this folder, including their compiler extensions."""
    digest = hashlib.sha256()
    for path in sorted({*Path(__file__).parent.glob("*.py"), *folder.glob("*.py")}):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


@functools.cache
def made_of(function: Callable[..., Any]) -> str:
    """Return a digest of a kernel's code, of the global values that it uses, and of the kernels that it calls."""
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
    """Exempt the compiler from the memory limit of the process, because LLVM aborts if memory is short."""
    compile_or_load = dispatcher.compile

    def unbounded(signature: Any) -> Any:
        with unbounded_memory():
            return compile_or_load(signature)

    dispatcher.compile = unbounded
    return dispatcher

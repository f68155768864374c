"""Machine code of kernels on disk: Numba's files, written and read without the parts that only compilation needs.

Numba parses each kernel's bitcode, lists its symbols, and imports the modules of every function compiled into the
kernel. It also compiles a runtime for arrays that kernels create. Together, these steps take most of a second at each
start. In this module,

    bitcode      is parsed only if a kernel that this process compiles calls the kernel.
    environments of functions compiled into a kernel are omitted if they have no constants, because no code reads them.
    the runtime  is created only if the kernel's code names it.
"""

from __future__ import annotations

from typing import Any, Final

import llvmlite.binding as llvm
from numba.core.caching import CompileResultCacheImpl
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CR_FIELDS, CompileResult
from numba.core.runtime.nrt import rtsys

from image_format.kernels.kept_files import KernelFiles

_RUNTIME: Final = b"NRT_"
"""Prefix of the names of the runtime's functions."""


class _ReadLibrary(JITCodeLibrary):
    """Machine code from a file."""

    def __init__(self, codegen: Any, name: str, code: bytes, bitcode: bytes) -> None:
        self._bitcode: bytes | None = bitcode
        self._parsed: Any = None
        super().__init__(codegen, name)
        self.enable_object_caching()
        self._set_compiled_object(code)
        self._finalize_final_module()

    @property
    def _shared_module(self) -> Any:
        """Return the module to link into other kernels; None while Numba builds it."""
        if self._parsed is None and self._finalized:
            self._parsed, self._bitcode = llvm.parse_bitcode(self._bitcode), None
            self._codegen._engine._load_defined_symbols(self._parsed)
        return self._parsed

    @_shared_module.setter
    def _shared_module(self, module: Any) -> None:
        self._parsed = module


class _Results(CompileResultCacheImpl):
    def reduce(self, result: Any) -> tuple[Any, ...]:
        library, function, environment, signature, object_mode, lifted, _, reload, referenced = result._reduce()
        kept = tuple(each for each in referenced if each.consts)
        return library, function, environment, signature, object_mode, lifted, "", reload, kept

    def rebuild(self, context: Any, payload: tuple[Any, ...]) -> Any:
        (name, _, (code, bitcode)), function, environment, signature, object_mode, lifted, about, reload, kept = payload
        if reload or _RUNTIME in code:
            rtsys.initialize(context)
        for each in reload:
            each()
        library = _ReadLibrary(context.codegen(), name, code, bitcode)
        entry = function.llvm_cpython_wrapper_name
        if entry.encode() in code:
            library.codegen._engine._defined_symbols.add(entry)
        for each in kept:
            library.codegen.set_env(each.env_name, each)
        entry_point = context.get_executable(library, function, environment)
        # filled in the same way as by Numba when it reads a result
        fields: dict[str, Any] = dict.fromkeys(CR_FIELDS) | {
            "target_context": context,
            "typing_context": context.typing_context,
            "library": library,
            "environment": environment,
            "entry_point": entry_point,
            "fndesc": function,
            "type_annotation": about,
            "signature": signature,
            "objectmode": object_mode,
            "lifted": lifted,
            "reload_init": reload,
            "referenced_envs": kept,
        }
        return CompileResult(**fields)


class KernelCache(KernelFiles):
    """Files of one kernel, read without the compiler."""

    _impl_class = _Results

    def _read(self, signature: Any, context: Any) -> Any:
        # Numba would first refresh the context, which loads the compiler; only a missing kernel requires that.
        return self._load_overload(signature, context)

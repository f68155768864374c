"""`python -m tests.fuzz.without_atheris TARGET`: `python -m tests.fuzz` with a stand-in for atheris, which checks the
corpus and a few mutated inputs, and prints the names of the kernels that ran in their Python forms.

The process contains only the libraries of the fuzzer's environment (`make fuzz`).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import nullcontext
from importlib.metadata import packages_distributions
from pathlib import Path
from types import ModuleType
from typing import Any

_REQUIREMENTS = Path(__file__).parents[2] / "requirements"
_MUTATED = 3
_LENGTH = 16384


def _pinned(*names: str) -> set[str]:
    texts = [(_REQUIREMENTS / f"{name}.txt").read_text() for name in names]
    return {name for text in texts for name in re.findall(r"^([\w.-]+)==", text, re.MULTILINE)}


def absent_modules() -> list[str]:
    """Return the installed modules that the fuzzer's environment does not contain."""
    absent = _pinned("build", "dev", "spark") - _pinned("runtime", "tls", "fuzz")
    return [
        module
        for module, owners in packages_distributions().items()
        if all(re.sub(r"[-_.]+", "-", owner).lower() in absent for owner in owners)
    ]


class _Fuzzer(ModuleType):
    """Stand-in for the module atheris."""

    def __init__(self) -> None:
        super().__init__("atheris")
        self._check: Callable[[bytes], None] = lambda data: None
        self._inputs: list[bytes] = []
        self.instrumented: list[str] = []

    def instrument_imports(self, **_: Any) -> nullcontext[None]:
        return nullcontext()

    def instrument_func(self, function: Callable[..., Any]) -> Callable[..., Any]:
        self.instrumented.append(function.__name__)
        return function

    def Mutate(self, data: bytes, size: int) -> bytes:  # noqa: N802 - a name of atheris
        return data[:size]

    def Setup(  # noqa: N802 - a name of atheris
        self, options: list[str], check: Callable[[bytes], None], *, custom_mutator: Callable[[bytes, int, int], bytes]
    ) -> None:
        self._check = check
        self._inputs = [path.read_bytes() for path in sorted(Path(options[-1]).iterdir())]
        self._inputs += [custom_mutator(data, _LENGTH, seed) for seed, data in enumerate(self._inputs[:_MUTATED])]

    def Fuzz(self) -> None:  # noqa: N802 - a name of atheris
        for data in self._inputs:
            self._check(data)


if __name__ == "__main__":
    for name in absent_modules():
        # the import of such a module fails
        sys.modules[name] = None  # type: ignore[assignment]
    fuzzer = sys.modules["atheris"] = _Fuzzer()
    from tests.fuzz.__main__ import main

    main()
    print(*fuzzer.instrumented)

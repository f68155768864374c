"""A store whose process ends at a given step."""

from __future__ import annotations

from pathlib import Path

from archive.object_store import FolderStore


class KilledError(BaseException):
    """The simulated end of the process."""


class KillingStore(FolderStore):
    """A store that fails at the `steps`-th step, before or after the step takes effect."""

    def __init__(self, root: Path, steps: int) -> None:
        super().__init__(root)
        self._steps = steps

    def _step(self) -> None:
        self._steps -= 1
        if self._steps == 0:
            raise KilledError

    def put(self, name: str, source: Path, *, contested: bool = False) -> None:
        self._step()
        super().put(name, source, contested=contested)
        self._step()

    def remove(self, name: str) -> None:
        self._step()
        super().remove(name)
        self._step()

    def scratch(self) -> Path:
        self._step()
        return super().scratch()

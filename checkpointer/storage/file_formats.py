"""Formats of the files that only the checkpointer writes to a storage directory; Hadoop's files have a layout version
instead.

The format is a number, stored as the first member `"format"` of the JSON object at the beginning of a file. A file
without this member has format 1. If older releases would misread a changed file, the new release writes a larger
number.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar, Final

from checkpointer.storage.lost_pasts import PROVENANCE, START_OVER
from checkpointer.storage.usage_record import RECORD
from hadoop_common.errors import StorageError
from hadoop_common.exit_codes import ExitCode
from hadoop_common.regular_file import open_regular

FORMAT: Final = 1
_NAMED: Final = "checkpointer-*"
"""Names of the files next to `current` that other packages write."""
_HEAD: Final = re.compile(rb'\s*\{\s*"format"\s*:\s*(\d{1,9})\b')
_HEAD_BYTES: Final = 256
_HINT: Final = "Install the release that wrote the file, or a newer release: docs/upgrade.md."


class NewerFormatError(StorageError):
    """Refusal to use a file of a newer release, which this release would misread and overwrite."""

    exit_code: ClassVar[int] = ExitCode.UNSUPPORTED


def refuse_newer_formats(root: Path) -> None:
    """Check the checkpointer's files of a storage directory; a missing or unreadable file has no format.

    Raises:
        NewerFormatError: a file has a newer format.
    """
    current = root / "current"
    for path in (current / PROVENANCE, current / START_OVER, root / RECORD, *sorted(root.glob(_NAMED))):
        try:
            with open_regular(path) as file:
                head = _HEAD.match(file.read(_HEAD_BYTES))
        except OSError:
            continue
        if head is not None and int(head[1]) > FORMAT:
            raise NewerFormatError(
                f"{path} has format {int(head[1])}, which a newer release wrote; this release reads format {FORMAT}",
                hint=_HINT,
            )

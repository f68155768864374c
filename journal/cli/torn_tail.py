"""The bytes after the last complete transaction of a segment file, as commands report them."""

from __future__ import annotations

from pathlib import Path

from hadoop_common.cli.output import echo
from hadoop_common.names import parse_segment
from hadoop_common.quantities import counted
from journal.primitives import Buffer
from journal.salvage import is_padding


def torn_bytes(content: Buffer, end: int) -> int:
    """Return the number of bytes after the last complete transaction, which ends at `end`; 0 if they are padding."""
    return 0 if is_padding(content, end) else len(content) - end


def warn_of_tail(path: Path, size: int, end: int) -> None:
    """Print a warning if a segment has a torn tail of `size` bytes."""
    if not size:
        return
    tail, named = f"{counted(size, 'byte')} after offset {end}", parse_segment(path.name)
    if named is not None and not named.in_progress:
        text = f"{tail} follow the last transaction in the segment's name; no program reads them"
    else:
        text = (
            f"torn tail: {tail} are not a complete transaction; `checkpointer edits recover` writes the transactions "
            "before them"
        )
    echo(f"warning: {text}", err=True)

"""An image of the past for the lake, restored from an archive."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class PastState:
    """A moment in an archive.

    Attributes:
        archive: directory or URL.
        as_of: text of a transaction id or a time.
        conf_dir: configuration of the cluster, on which some rules of replay depend.
        scratch: folder for files of the size of an image; None for the system's.
    """

    archive: str
    as_of: str
    key_file: Path | None = None
    conf_dir: Path | None = None
    scratch: Path | None = None


@dataclass(frozen=True, slots=True)
class PastImage:
    """A restored image; `time` in ms since 1970: that of its last transaction with a time."""

    path: Path
    time: int


@contextmanager
def restored_image(state: PastState) -> Iterator[PastImage]:
    """Restore a moment to a temporary storage directory, which is removed afterwards.

    Raises:
        ArchiveError: the archive cannot be read, or does not reach the moment.
        click.BadParameter: the moment is neither a txid nor a time.
    """
    from archive.cli.options import configured_settings, opened, resolve_moment
    from archive.history import plan_restore
    from archive.restoring import RestoreOptions, chosen_view, fetched, restore
    from archive.scratch import scratch_folder
    from journal.op_times import op_time
    from journal.segment_file import read_ops

    options = RestoreOptions(settings=configured_settings(state.conf_dir))
    with opened(state.archive, state.key_file) as archive, scratch_folder(state.scratch) as folder:
        view = chosen_view(archive, None)
        plan = plan_restore(view, resolve_moment(archive, view, state.as_of, folder))
        with fetched(archive, plan, folder / "source") as source:
            made = restore(source, folder / "restored", options)
            times = (op_time(op) or 0 for segment in source.segments[-1:] for op in read_ops(segment))
            yield PastImage(made.image, max(times, default=0) or plan.base.added)

"""Options of the archive commands, and the parsing of moments."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from archive.archive import Archive, open_archive
from archive.moments import BranchView, RestorePlan
from hadoop_common.cli.output import EXISTING_FILE, load_configuration
from site_config import archive_settings

if TYPE_CHECKING:
    from archive.restoring import Restored, RestoreOptions
    from engine.settings import MergeSettings

F = TypeVar("F", bound=Callable[..., Any])


_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?=/)(?://[^/]*)?(/.*)?", re.DOTALL)
"""A URI; the group is its path, in which `?` and `#` have no meaning (org.apache.hadoop.fs.Path)."""
_KEY_FILE = click.option(
    "--key-file", type=EXISTING_FILE, metavar="FILE", help="Key of an encrypted archive: 64 hexadecimal digits."
)
_LOCATION = "Directory or URL of the archive"


def archive_options(function: F) -> F:
    location = click.option("--archive", "location", required=True, metavar="DIR_OR_URL", help=f"{_LOCATION}.")
    return location(_KEY_FILE(function))


def configured_archive_options(function: F) -> F:
    """Add --archive and --key-file to a command that reads their defaults from the configuration."""
    help_text = f"{_LOCATION} (default: {archive_settings.DIR.name} of --conf)."
    location = click.option("--archive", "location", metavar="DIR_OR_URL", help=help_text)
    return location(_KEY_FILE(function))


def configured_archive(location: str | None, key_file: Path | None, conf_dir: Path | None) -> tuple[str, Path | None]:
    """Return the archive and the key file from the command line or, without --archive, from the configuration.

    Raises:
        click.UsageError: neither the command line nor the configuration names an archive.
    """
    if location:
        return location, key_file
    settings = None if conf_dir is None else load_configuration(conf_dir)
    found = "" if settings is None else archive_settings.DIR.read(settings)
    if settings is None or not found:
        raise click.UsageError(
            f"Specify the archive with --archive, or a --conf that sets {archive_settings.DIR.name}."
        )
    key = archive_settings.KEY_FILE.read(settings)
    return found, key_file or (Path(key) if key else None)


branch_option = click.option("--branch", metavar="NAME", help="Branch to use; required if there are several.")
scratch_option = click.option(
    "--scratch-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Directory for temporary files as large as an image (default: the system's).",
)


@contextmanager
def opened(location: str, key_file: Path | None) -> Iterator[Archive]:
    """Open an archive that exists."""
    with open_archive(location, key_file) as archive:
        archive.require()
        yield archive


@contextmanager
def restored_moment(
    location: str, key_file: Path | None, moment: str, options: RestoreOptions, scratch: Path | None
) -> Iterator[tuple[RestorePlan, Restored]]:
    """Restore a moment of the only branch to a temporary folder in `scratch` (None: in the system's temporary folder).

    Args:
        moment: moment in the form of `resolve_moment`; "" for the newest transaction.

    Raises:
        ArchiveError: the archive cannot be read, or does not reach the moment.
        click.BadParameter: the moment is neither a transaction nor a time.
    """
    from archive.moments import plan_restore
    from archive.restoring import chosen_view, restore_moment
    from archive.scratch import scratch_folder

    with opened(location, key_file) as archive, scratch_folder(scratch) as folder:
        view = chosen_view(archive, None)
        txid = resolve_moment(archive, view, moment, folder) if moment else view.last_txid
        plan = plan_restore(view, txid)
        yield plan, restore_moment(archive, plan, folder, options)


def configured_settings(conf_dir: Path | None) -> MergeSettings:
    """Return the settings of a replay, from a cluster's configuration if it is given."""
    from site_config.merge_settings import merge_settings

    return merge_settings(None if conf_dir is None else load_configuration(conf_dir))


def parse_time(text: str) -> int:
    """Parse `2026-11-28T14:03:00[Z or offset]`, or seconds since the epoch; return ms. A time without a zone is local.

    Raises:
        click.BadParameter: the text is not a time, or a clock change repeats or skips it in the local time zone.
    """
    if text.isdecimal():
        return int(text) * 1000
    try:
        # at both ends of the calendar, a moment may not exist in another zone
        found = datetime.fromisoformat(text)
        early, late = (found.replace(fold=fold).astimezone(UTC) for fold in (0, 1))
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{text!r} is not a time such as 2026-11-28T14:03:00") from None
    if early != late:
        raise click.BadParameter(
            f"{text!r} is repeated or skipped by a clock change in this host's time zone: specify a time with Z or an "
            "offset, such as 2026-11-28T14:03:00Z"
        )
    return int(early.timestamp() * 1000)


def path_in_edits(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """Return the path as edits contain it, without the prefix `/.reserved/raw`.

    Raises:
        click.BadParameter: the path is empty, or edits never contain such a path: a URI, a path in a snapshot, or the
            path of an inode id.
    """
    if value is None:
        return None
    if not value:
        # such as a shell variable that is not set
        raise click.BadParameter("the path is empty")
    if (uri := _URI.fullmatch(value)) is not None:
        raise click.BadParameter(f"{value!r} is a URI; specify its path, {uri[1] or '/'}")
    names = [name for name in value.split("/") if name]
    if ".snapshot" in names:
        raise click.BadParameter(f"{value!r} is in a snapshot, which never changes; specify the path without .snapshot")
    is_raw = names[:2] == [".reserved", "raw"]
    names = names[2:] if is_raw else names
    if names[:2] == [".reserved", ".inodes"]:
        raise click.BadParameter(f"{value!r} is the path of an inode id; specify the path of the inode")
    return "/" + "/".join(names) if is_raw else value


def subtree_in_edits(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Return the path of a subtree as `path_in_edits` does; raise the same error."""
    if value == "":
        raise click.BadParameter("the path is empty; specify / for the whole tree")
    return path_in_edits(context, parameter, value)


def resolve_moment(archive: Archive, view: BranchView, text: str, folder: Path) -> int:
    """Return the transaction of a moment given as a transaction id (`42` or `txid:42`) or a time."""
    from archive.restoring import txid_at

    if text.removeprefix("txid:").isdecimal():
        return int(text.removeprefix("txid:"))
    return txid_at(archive, view, parse_time(text), folder)

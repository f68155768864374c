"""`checkpointer edits convert`: copies transactions between journals of any kind."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import click

from hadoop_common.addresses import uri_scheme
from hadoop_common.cli.output import EXISTING_FILE, conf_option, echo, echo_json, json_option
from hadoop_common.file_faults import error_text
from hadoop_common.names import SEEN_TXID, VERSION
from hadoop_common.quantities import counted
from hadoop_common.seen_txid import read_seen_txid
from hadoop_common.storage_info import JOURNAL_NODE, NAME_NODE, StorageInfo, read_version
from image_format.layout import NEWEST_LAYOUT
from journal.bookkeeper.bookkeeper_journal import BookKeeperJournal
from journal.cli.edits_argument import opened
from journal.errors import JournalError, JournalStorageError
from journal.file_journal import FileJournal
from journal.journal import Journal
from journal.journal_copy import CopiedSegment, CopyRange, copy_journal, select_range
from journal.journal_directory import check_same_namespace
from journal.json_journal import JsonJournal

_TXID = click.IntRange(0, (1 << 63) - 1)


@click.command("convert")
@click.argument("source_uri", metavar="SRC")
@click.argument("target_uri", metavar="DST")
@click.option("--from", "first", type=_TXID, metavar="TXID", help="First transaction (default: the oldest).")
@click.option("--to", "last", type=_TXID, metavar="TXID", help="Last transaction (default: the newest).")
@click.option("--in-progress", is_flag=True, help="Include the open segment; its copy is finalized.")
@click.option("--layout", type=int, metavar="N", help="Layout version to write (default: each segment's own).")
@click.option("--version-file", type=EXISTING_FILE, help="VERSION of the namespace (default: from SRC).")
@click.option("--force", is_flag=True, help="Delete the existing journal at DST.")
@click.option("--resume", is_flag=True, help="Continue an earlier copy to DST, after comparing its transactions.")
@conf_option(required=False)
@json_option
def command(
    source_uri: str,
    target_uri: str,
    first: int | None,
    last: int | None,
    in_progress: bool,
    layout: int | None,
    version_file: Path | None,
    force: bool,
    resume: bool,
    conf_dir: Path | None,
    as_json: bool,
) -> None:
    """Copy transactions from journal SRC to a new journal DST, segment by segment, and compare the result.

    file:///DIR is a storage directory of a NameNode. json:///DIR is a directory of JSON files with one object per
    transaction. qjournal://HOST:PORT;HOST:PORT;HOST:PORT/ID and bookkeeper://HOST:PORT;HOST:PORT/PATH are journals that
    NameNodes share. Converting to another kind and back preserves the bytes of each transaction. --conf names the
    configuration with timeouts, user, login and password. SRC is only read. If DST is a shared journal, it must not
    have another writer.

    DST receives the namespace of SRC. A quorum, and hand-written JSON without journal.json, do not record a namespace:
    specify a VERSION file with --version-file. After a failure, DST is incomplete: repeat the command with --resume, or
    with --force to start over.

    \b
    Examples: checkpointer edits convert --from 101 file:///data/nn json:///tmp/edits
              checkpointer edits convert bookkeeper://zk:2181/hdfsjournal "qjournal://a:8485;b:8485;c:8485/ns1"

    Exit codes: 0 done; 2 usage error; 4 edits damaged, missing or not matching; 5 unknown layout;
                6 DST exists, is in use or cannot be written; 7 too few JournalNodes or bookies answer
    """
    if first is not None and last is not None and first > last:
        raise click.UsageError(f"--from {first} is after --to {last}.")
    if force and resume:
        raise click.UsageError(
            "--force and --resume cannot be used together: --force starts over, and --resume continues."
        )
    given = None if version_file is None else read_version(version_file, of=(JOURNAL_NODE, NAME_NODE))
    with closing(opened(_uri(source_uri), conf_dir, given)) as source:
        _refuse_file(source)
        namespace = given or _namespace_of(source)
        with closing(opened(_uri(target_uri), conf_dir, namespace)) as target:
            _refuse_file(target)
            _check_target(source, target)
            _check_images(target, namespace)
            parts = select_range(
                source,
                CopyRange(first, last, in_progress),
                layout_version=layout,
                default_layout=max(namespace.layout_version, NEWEST_LAYOUT),
            )
            parts, transactions = copy_journal(parts, target, namespace, force=force, resume=resume)
            _report(source.location, target.location, parts, transactions, as_json=as_json)
            _warn_of_seen_txid(target, parts[-1].last)
            if last is None and not in_progress:
                _note_open_segment(source, parts[-1].last)


def _uri(text: str) -> str:
    return text if uri_scheme(text) else Path(text).absolute().as_uri()


def _refuse_file(journal: Journal) -> None:
    if not isinstance(journal, FileJournal | JsonJournal):
        return
    directory = journal.folder.parent if isinstance(journal, FileJournal) else journal.folder
    if directory.exists() and not directory.is_dir():
        hint = "Specify the directory of a journal. `checkpointer edits info` and `edits dump` read a single segment."
        raise JournalError("it is not a directory", file=str(directory), hint=hint)


def _check_target(source: Journal, target: Journal) -> None:
    folders = [each.folder for each in (source, target) if isinstance(each, FileJournal | JsonJournal)]
    same = source.location == target.location
    if len(folders) == 2 and all(each.exists() for each in folders):
        same = folders[0].samefile(folders[1])
    if same:
        raise click.UsageError("SRC and DST are the same journal; name another journal for DST.")


def _check_images(target: Journal, namespace: StorageInfo) -> None:
    """Refuse to write edits next to images of another namespace, because --force does not delete images."""
    if isinstance(target, FileJournal) and target.holds_images():
        path = target.folder / VERSION
        if (found := _version_of(path)) is not None:
            check_same_namespace(namespace, found, path)


def _namespace_of(journal: Journal) -> StorageInfo:
    """Return the namespace recorded in a journal.

    Raises:
        click.UsageError: the journal records no namespace.
        JournalError: the journal is missing or cannot be read.
    """
    found = None
    if isinstance(journal, JsonJournal | BookKeeperJournal):
        found = journal.namespace()
    elif isinstance(journal, FileJournal):
        found = _version_of(journal.folder / VERSION)
    if found is not None:
        return found
    if isinstance(journal, FileJournal | JsonJournal) and not journal.is_formatted():
        raise JournalError(
            "the journal does not exist", file=journal.location, hint="Specify the directory of a journal."
        )
    raise click.UsageError("SRC does not record its namespace: name a VERSION file with --version-file.")


def _version_of(path: Path) -> StorageInfo | None:
    try:
        return read_version(path, of=(JOURNAL_NODE, NAME_NODE))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise JournalStorageError(f"the file cannot be read: {error_text(error, path)}", file=str(path)) from error


def _warn_of_seen_txid(target: Journal, last: int) -> None:
    """Warn if the target's seen_txid is above `last`.

    This seen_txid may come from the NameNode that wrote the images there, or from an earlier copy with a later end.
    """
    if not isinstance(target, FileJournal):
        return
    seen = read_seen_txid(target.folder / SEEN_TXID)
    if seen > last:
        note = f"{SEEN_TXID} in DST is {seen}; a NameNode does not start from a copy that ends before this transaction."
        ends = (
            "" if target.holds_images() else f" To end the copy at {last}, copy again with --force instead of --resume."
        )
        echo(f"note: {note}{ends}", err=True)


def _note_open_segment(source: Journal, last: int) -> None:
    """Print a note if the open segment of `source` has transactions after `last`, which were not copied."""
    try:
        left = source.segments(last + 1, in_progress=True)
    except JournalError:
        # without later transactions, or if they cannot be read
        return
    if left:
        note = f"the open segment, from transaction {left[0].first} on, is not copied; --in-progress includes it"
        echo(f"note: {note}", err=True)


def _report(source: str, target: str, parts: list[CopiedSegment], transactions: int, *, as_json: bool) -> None:
    first, last = parts[0].first, parts[-1].last
    if as_json:
        echo_json(
            {
                "source": source,
                "target": target,
                "firstTxid": first,
                "lastTxid": last,
                "transactions": transactions,
                "segments": len(parts),
                "layoutVersions": sorted({part.layout_version for part in parts}, reverse=True),
            }
        )
        return
    echo(f"{target}: {counted(transactions, 'transaction')}, {first} to {last}, in {counted(len(parts), 'segment')}")

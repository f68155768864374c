"""`checkpointer edits convert`: transactions of one journal into another one, of whichever kind."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import click

from hadoop_common.cli.existing_path import EXISTING_FILE
from hadoop_common.cli.output import conf_option, echo, echo_json, json_option, load_configuration
from hadoop_common.endpoint import uri_scheme
from hadoop_common.file_faults import told
from hadoop_common.names import VERSION
from hadoop_common.storage_info import StorageInfo, read_version
from hadoop_rpc.kerberos import log_in
from hadoop_rpc.login_keys import namenode_login
from hadoop_rpc.user import caller
from journal.binary_codec import NEWEST_LAYOUT
from journal.errors import JournalError, JournalStorageError
from journal.file_journal import FileJournal
from journal.journal import Journal
from journal.journal_copy import CopiedSegment, CopyRange, copy_journal, select_range
from journal.json_journal import JsonJournal
from journal.open_journal import open_journal
from journal.quorum.open_quorum import QuorumOptions
from journal.quorum.settings import QuorumSettings

_TXID = click.IntRange(0, (1 << 63) - 1)


@click.command("convert")
@click.argument("source_uri", metavar="SRC")
@click.argument("target_uri", metavar="DST")
@click.option("--from", "first", type=_TXID, metavar="TXID", help="First transaction (default: the oldest).")
@click.option("--to", "last", type=_TXID, metavar="TXID", help="Last transaction (default: the newest).")
@click.option("--in-progress", is_flag=True, help="Take the open segment too; its copy is finalized.")
@click.option("--layout", type=int, metavar="N", help="Layout version to write (default: that of each segment).")
@click.option("--version-file", type=EXISTING_FILE, help="VERSION of the namespace (default: the one that SRC has).")
@click.option("--force", is_flag=True, help="Discard the journal that DST holds.")
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
    conf_dir: Path | None,
    as_json: bool,
) -> None:
    """Copy transactions from journal SRC to a new journal DST, segment by segment, and compare what arrived.

    file:///DIR is a storage directory as a NameNode has it, json:///DIR a directory of JSON files, one object a
    transaction; SRC may be qjournal://HOST:PORT;HOST:PORT;HOST:PORT/ID too. From file: to json: and back the bytes of
    each transaction are the same again. --conf is for a quorum's timeouts, user and login. SRC is only read.

    DST gets the namespace of SRC. JSON that was written by hand, without journal.json, and quorums do not say
    which: name a VERSION file of it. DST is incomplete after a failure; then repeat the command with --force.

    \b
    Example: checkpointer edits convert --from 101 file:///data/nn json:///tmp/edits
    Exit codes: 0 done; 2 wrong usage; 4 edits damaged, missing or not fitting; 5 unknown layout;
                6 DST exists, is in use or cannot be written; 7 too few JournalNodes answer
    """
    given = None if version_file is None else read_version(version_file)
    with (
        closing(open_journal(_uri(source_uri), quorum=_quorum_options(conf_dir, given))) as source,
        closing(open_journal(_uri(target_uri))) as target,
    ):
        _check_target(source, target)
        namespace = given or _namespace_of(source)
        parts = select_range(
            source,
            CopyRange(first, last, in_progress),
            layout_version=layout,
            default_layout=max(namespace.layout_version, NEWEST_LAYOUT),
        )
        transactions = copy_journal(parts, target, namespace, force=force)
        _report(source.location, target.location, parts, transactions, as_json=as_json)


def _uri(text: str) -> str:
    return text if uri_scheme(text) else Path(text).absolute().as_uri()


def _quorum_options(conf_dir: Path | None, namespace: StorageInfo | None) -> QuorumOptions:
    if conf_dir is None:
        return QuorumOptions(namespace=namespace)
    configuration = load_configuration(conf_dir)
    log_in(namenode_login(configuration))
    # The nodes' caches hold the newest transactions only, and forget.
    settings = replace(QuorumSettings.from_configuration(configuration), tail_in_progress=False)
    return QuorumOptions(user=caller(configuration), settings=settings, namespace=namespace)


def _check_target(source: Journal, target: Journal) -> None:
    if not isinstance(target, FileJournal | JsonJournal):
        raise click.UsageError("DST has to be a directory: a quorum's journal is its writer's.")
    if not isinstance(source, FileJournal | JsonJournal) or not source.folder.exists() or not target.folder.exists():
        return
    if source.folder.samefile(target.folder):
        raise click.UsageError("SRC and DST are one directory; name another one for DST.")


def _namespace_of(journal: Journal) -> StorageInfo:
    """The namespace that a journal tells by itself.

    Raises:
        click.UsageError: it does not.
        JournalError: there is none, or it cannot be read.
    """
    found = None
    if isinstance(journal, JsonJournal):
        found = journal.namespace()
    elif isinstance(journal, FileJournal):
        found = _version_of(journal.folder / VERSION)
    if found is not None:
        return found
    if isinstance(journal, FileJournal | JsonJournal) and not journal.is_formatted():
        raise JournalError("there is no journal", file=journal.location, hint="Name the directory that holds one.")
    raise click.UsageError("SRC does not say which namespace it belongs to: name a VERSION file with --version-file.")


def _version_of(path: Path) -> StorageInfo | None:
    try:
        return read_version(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise JournalStorageError(f"it cannot be read: {told(error, path)}", file=str(path)) from error


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
    echo(f"{target}: {transactions} transactions, {first} to {last}, in {len(parts)} segments")

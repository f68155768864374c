"""Arguments of the commands: EDITS (a segment file or the URI of any journal), and ranges of transactions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from hadoop_common.addresses import uri_scheme
from hadoop_common.cli.output import EXISTING_FILE, load_configuration
from hadoop_common.file_uris import local_uri_path
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.kerberos import log_in
from hadoop_rpc.login_settings import namenode_login
from hadoop_rpc.user import configured_user
from journal.bookkeeper.open_bookkeeper import BookKeeperOptions
from journal.bookkeeper.settings import BookKeeperSettings
from journal.journal import Journal
from journal.journal_copy import CopiedSegment, CopyRange, select_range
from journal.open_journal import open_journal
from journal.operation import EditOp
from journal.quorum.open_quorum import QuorumOptions
from journal.quorum.settings import QuorumSettings


class _Edits(click.ParamType["Path | str"]):
    name = "edits"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path | str:
        if isinstance(value, str) and (scheme := uri_scheme(value)):
            if scheme != "file":
                return value
            try:
                value = local_uri_path(value)
            except ValueError as error:
                self.fail(f"{value} {error}", param, ctx)
        path: Path = EXISTING_FILE.convert(value, param, ctx)
        return path


EDITS = _Edits()
"""Parameter type: the `Path` of a segment, or the URI of a journal as a `str`."""


@dataclass(frozen=True, slots=True)
class JournalTransactions:
    """All transactions of a journal, including the transactions of its open segment.

    Attributes:
        layout_version: layout version of the newest segment.
    """

    location: str
    parts: list[CopiedSegment]
    layout_version: int

    def ops(self) -> Iterator[EditOp]:
        for part in self.parts:
            yield from part.ops()


def opened(uri: str, conf_dir: Path | None, namespace: StorageInfo | None = None) -> Journal:
    """Return the journal at `uri`, with the settings in `conf_dir`.

    Raises:
        JournalError: the URI is invalid.
        ConfigurationError: a setting is invalid.
    """
    if conf_dir is None:
        bookkeeper = BookKeeperOptions(namespace=namespace)
        return open_journal(uri, quorum=QuorumOptions(namespace=namespace), bookkeeper=bookkeeper)
    configuration = load_configuration(conf_dir)
    log_in(namenode_login(configuration))
    # The caches of JournalNodes contain only the newest transactions.
    settings = replace(QuorumSettings.from_configuration(configuration), tail_in_progress=False)
    return open_journal(
        uri,
        quorum=QuorumOptions(user=configured_user(configuration), settings=settings, namespace=namespace),
        bookkeeper=BookKeeperOptions(BookKeeperSettings.from_configuration(configuration), namespace),
    )


@contextmanager
def journal_edits(uri: str, conf_dir: Path | None, default_layout: int) -> Iterator[JournalTransactions]:
    """Yield the transactions of a journal for reading, without disturbing its writer.

    Raises:
        TransactionGapError: transactions are missing, or the journal is empty.
        JournalError: the journal cannot be read.
    """
    with closing(opened(uri, conf_dir)) as journal:
        parts = select_range(journal, CopyRange(in_progress=True), layout_version=None, default_layout=default_layout)
        yield JournalTransactions(journal.location, parts, parts[-1].layout_version)


_RANGE = re.compile(r"([0-9]{1,19})(?:-([0-9]{1,19}))?")
_MAX_TXIDS = 1_000_000


class _TxidRanges(click.ParamType["range"]):
    name = "txids"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> range:
        if isinstance(value, range):
            return value
        match = _RANGE.fullmatch(value)
        if match is None:
            self.fail(f"{value} is not a transaction id or a range FIRST-LAST", param, ctx)
        first = int(match[1])
        last = first if match[2] is None else int(match[2])
        if last < first:
            self.fail(f"{value} ends before it begins", param, ctx)
        if last - first >= _MAX_TXIDS:
            self.fail(f"{value} are more than {_MAX_TXIDS} transactions", param, ctx)
        return range(first, last + 1)


TXID_RANGES = _TxidRanges()
"""A `range` of transaction ids, written as `TXID` or `FIRST-LAST`."""

"""Formats journals with the data of their peers while the JournalNode is stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hadoop_common.addresses import host_port
from hadoop_common.configuration import Configuration
from hadoop_common.errors import StorageError
from hadoop_common.file_faults import error_text
from hadoop_common.storage_info import StorageInfo
from hadoop_common.storage_lock import StorageInUseError
from hadoop_rpc.client import NO_RETRY
from hadoop_rpc.errors import RemoteError, RpcError
from hadoop_rpc.namenode_protocol import NamenodeClient
from hadoop_rpc.user import configured_user
from journal_node.config import ConfiguredJournal, JournalNodeConfig
from journal_node.node import JournalNode
from journal_node.places import JournalPlaces
from journal_node.self_format import SelfFormatError, format_from_peers, replace_from_peers
from journal_node.server import peers_of
from journal_node.storage import JournalStorage
from site_config.addresses import Identity, namenode_ids, namenode_rpc
from site_config.keys import DEFAULTS

_ASK_SECONDS = 20.0


def format_journals(
    config: JournalNodeConfig, *, only: str | None = None, namespace: Callable[[str | None], StorageInfo] | None = None
) -> dict[str, str]:
    """Format journal `only` or all configured journals; return the result for each journal.

    The result is "" for a journal that was already formatted. Damaged files are set aside first.

    Args:
        namespace: function that returns the namespace of a nameservice's journals; if None, the peers are asked.

    Raises:
        SelfFormatError: the journal is not configured, or too few of its peers answer.
        StorageError: a folder cannot be used, or a running JournalNode uses it.
    """
    chosen = [each for each in config.journals if only in (None, each.journal_id)]
    if not chosen:
        wanted = "qjournal: URI" if only is None else f"journal {only}"
        hint = "Set dfs.namenode.shared.edits.dir to the NameNodes' value."
        raise SelfFormatError(f"dfs.namenode.shared.edits.dir names no {wanted}", hint=hint)
    node = JournalNode(JournalPlaces(config))
    try:
        return {each.journal_id: _format(node, config, each, namespace) for each in chosen}
    finally:
        node.close()


def _format(
    node: JournalNode,
    config: JournalNodeConfig,
    chosen: ConfiguredJournal,
    namespace: Callable[[str | None], StorageInfo] | None,
) -> str:
    journal_id, peers = chosen.journal_id, peers_of(config, chosen)
    disk = JournalPlaces(config)(journal_id)
    with _folder_faults():
        is_damaged = bool(JournalStorage(disk).damage())
        journal = None if is_damaged else node.open_journal(journal_id)
    if journal is not None and journal.is_formatted:
        return ""
    known = None if namespace is None else namespace(chosen.nameservice)
    with _folder_faults():
        if journal is not None:
            format_from_peers(journal, peers, known)
            return "formatted"
        aside = replace_from_peers(journal_id, disk, peers, known)
        return f"formatted; its damaged files are in {aside}"


@contextmanager
def _folder_faults() -> Iterator[None]:
    """Convert failures of a folder to StorageError."""
    try:
        yield
    except StorageInUseError as fault:
        raise _in_use(fault) from fault
    except RemoteError as fault:
        if isinstance(fault.__cause__, StorageInUseError):
            raise _in_use(fault.__cause__) from fault
        hint = "Move a damaged folder away first, then format the journal from its peers."
        raise StorageError(fault.text, hint=hint) from fault
    except OSError as fault:
        raise StorageError(
            f"the journal cannot be formatted: {error_text(fault)}", hint="Check the disk and its space."
        ) from fault


def _in_use(fault: StorageInUseError) -> StorageError:
    hint = (
        "A JournalNode or a second `journalnode format` uses the directory. If a running JournalNode already has this "
        "journal, change nothing. Otherwise, try again when that process has ended."
    )
    return StorageError(fault.message, hint=hint)


def namespace_of_namenode(configuration: Configuration, nameservice: str | None) -> StorageInfo:
    """Return the namespace of a nameservice, from the first of its NameNodes that answers.

    Raises:
        SelfFormatError: no NameNode answers; the message contains the fault of each NameNode.
        ConfigurationError: the addresses of the NameNodes are missing.
    """
    settings = configuration.with_defaults(DEFAULTS)
    namenodes = tuple(namenode_ids(settings, nameservice)) if nameservice else ()
    user = configured_user(settings)
    faults: list[str] = []
    hint = ""
    for host, port in namenode_rpc(settings, Identity(nameservice or "", namenodes)):
        limits = {"timeout": _ASK_SECONDS, "connect_timeout": _ASK_SECONDS}
        with NamenodeClient(host, port, user=user, retry=NO_RETRY, **limits) as client:
            try:
                return client.version_request().storage_info
            except RpcError as error:
                faults.append(f"{host_port(host, port)} ({error})")
                hint = hint or error.hint
    raise SelfFormatError(
        f"no NameNode reports its namespace: {'; '.join(faults)}",
        hint=f"{hint} If the other JournalNodes run the checkpointer or Hadoop 3.5, `checkpointer journalnode format "
        "--from-peers` needs no NameNode.",
    )

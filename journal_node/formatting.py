"""Formats the journals of a JournalNode that does not run, as its peers have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hadoop_common.configuration import Configuration
from hadoop_common.endpoint import host_port
from hadoop_common.errors import StorageError
from hadoop_common.file_faults import told
from hadoop_common.storage_info import StorageInfo
from hadoop_common.storage_lock import StorageInUseError
from hadoop_rpc.errors import RemoteError, RpcError
from hadoop_rpc.namenode_protocol import NamenodeClient
from hadoop_rpc.retry import NO_RETRY
from hadoop_rpc.user import caller
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
    """Format journal `only`, or all of the configuration; returns for each what was done, "" where it is formatted.

    One whose files are damaged is set aside first.

    Args:
        namespace: what a nameservice's journals are formatted for; None where the peers tell it.

    Raises:
        SelfFormatError: no such journal is configured, or its peers do not say enough.
        StorageError: a folder cannot be used, or a running JournalNode has it.
    """
    chosen = [each for each in config.journals if only in (None, each.journal_id)]
    if not chosen:
        wanted = "qjournal: URI" if only is None else f"journal {only}"
        hint = "Set dfs.namenode.shared.edits.dir as the NameNodes have it."
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
    with _telling_folders():
        is_damaged = bool(JournalStorage(disk).damage())
        journal = None if is_damaged else node.open_journal(journal_id)
    if journal is not None and journal.is_formatted:
        return ""
    known = None if namespace is None else namespace(chosen.nameservice)
    with _telling_folders():
        if journal is not None:
            format_from_peers(journal, peers, known)
            return "formatted"
        aside = replace_from_peers(journal_id, disk, peers, known)
        return f"formatted; its damaged files are in {aside}"


@contextmanager
def _telling_folders() -> Iterator[None]:
    """Tell what is wrong with a folder as what it is: nobody else is asked."""
    try:
        yield
    except RemoteError as fault:
        hint = (
            "A JournalNode that works there has the journal already: leave it alone. Move a damaged folder away first, "
            "then take the journal over from the peers."
        )
        raise StorageError(fault.text, hint=hint) from fault
    except StorageInUseError as fault:
        raise StorageError(
            fault.message,
            hint="A JournalNode or a second `journalnode format` works there; try again when it does not.",
        ) from fault
    except OSError as fault:
        raise StorageError(
            f"the journal cannot be formatted: {told(fault)}", hint="Check the disk and its space."
        ) from fault


def namespace_of_namenode(configuration: Configuration, nameservice: str | None) -> StorageInfo:
    """The namespace of a nameservice, from the first of its NameNodes that answers.

    Raises:
        SelfFormatError: none does; it names the fault of each.
        ConfigurationError: nothing says where they are.
    """
    settings = configuration.with_defaults(DEFAULTS)
    namenodes = tuple(namenode_ids(settings, nameservice)) if nameservice else ()
    user = caller(settings)
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
        hint=f"{hint} Where the other JournalNodes are ours, or of Hadoop 3.5, `checkpointer journalnode format "
        "--from-peers` needs no NameNode.",
    )

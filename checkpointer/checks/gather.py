"""Gathering of the facts that the chosen checks need, at one moment and within one time limit."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from checkpointer.checks.ask_journal import ask_journal
from checkpointer.checks.ask_kerberos import ask_kerberos
from checkpointer.checks.ask_namenode import ask_daemon, ask_http, ask_name_directories, ask_rpc
from checkpointer.checks.ask_storage import ask_directories, ask_image
from checkpointer.checks.ask_tls import ask_files, ask_peer, peers
from checkpointer.checks.bounded import ask_all
from checkpointer.checks.facts import DaemonFacts, DirectoryFacts, Facts, LockFacts, NameNodeFacts, Observation, TlsStep
from checkpointer.checks.registry import FactGroup
from checkpointer.daemon.daemon_address import daemon_url
from checkpointer.leadership.lock_backend import LockHolder, lock_holder
from hadoop_common.addresses import host_port
from hadoop_common.configuration import Configuration
from hadoop_common.storage_info import StorageInfo
from site_config.checkpoint_config import CheckpointConfig, Role, identity_of
from site_config.keys import DEFAULTS, RESOURCE_DU_RESERVED

# a query makes up to three consecutive calls; a slow last call must not discard the responses to the earlier calls
_CALLS = 3


@dataclass(frozen=True, slots=True)
class Cluster:
    """The settings for the checks; `reserved` is dfs.namenode.resource.du.reserved in bytes."""

    config: CheckpointConfig
    is_ha: bool
    reserved: int

    @classmethod
    def of(cls, configuration: Configuration, role: Role, parts: Collection[FactGroup]) -> Cluster:
        """Read the settings of `role` that are required to gather `parts`.

        Raises:
            ConfigurationError: the configuration has faults; the error names all faulty keys.
        """
        # without HA, the name of the lock contains the NameNode's address
        calls = not {FactGroup.NAMENODES, FactGroup.TLS, FactGroup.LOCK}.isdisjoint(parts)
        config = CheckpointConfig.from_configuration(configuration, role, namenodes=calls)
        config = replace(config, conf_dir=configuration.folder)
        settings = configuration.with_defaults(DEFAULTS)
        return cls(config, identity_of(role, settings).is_ha, RESOURCE_DU_RESERVED.read(settings))


def gather(
    cluster: Cluster,
    parts: Collection[FactGroup],
    *,
    limit: float,
    deep: bool = False,
    clock: Callable[[], float] = time.time,
) -> Facts:
    """Gather the facts of `parts`; each query takes at most `limit` seconds.

    The function queries the NameNodes before the journal, so the journal must contain all transactions that they
    report.
    """
    config = cluster.config
    questions: dict[str, Callable[[], Any]] = {}
    if FactGroup.NAMENODES in parts:
        questions |= _namenode_questions(config, limit)
    if FactGroup.DAEMON in parts:
        questions["daemon"] = partial(ask_daemon, daemon_url(config), timeout=limit / _CALLS)
    secure = peers(config) if FactGroup.TLS in parts and config.web.https is not None else None
    if secure is not None:
        questions["tls"] = partial(ask_files, config, clock())
        questions |= {f"tls {url}": partial(ask_peer, url, timeout=limit) for url in secure}
    if FactGroup.LOGIN in parts:
        questions["login"] = partial(ask_kerberos, config, limit / _CALLS)
    if FactGroup.LOCK in parts and config.leader.lock:
        questions["lock"] = partial(lock_holder, config.leader)
    answers = ask_all(questions, limit)
    facts = Facts(
        now=clock(),
        period=config.period,
        transactions=config.transactions,
        reserved=cluster.reserved,
        rebootstrap=config.rebootstrap,
        codec=config.merge_settings.codec or "",
        is_ha=cluster.is_ha,
        namenodes=_namenodes(config, answers) if FactGroup.NAMENODES in parts else (),
        daemon=_daemon(config, answers.get("daemon")),
        tls=None if secure is None else _tls(answers, secure),
        login=answers.get("login", Observation()),
        lock=_lock(config, answers["lock"]) if "lock" in answers else None,
    )
    if FactGroup.STORAGE in parts:
        edits = [each for each in config.edits_directories if each not in config.image_directories]
        directories = ask_directories(config.image_directories, limit, edits)
        content = FactGroup.IMAGE_CONTENT in parts
        image = ask_image(directories, limit, content=content, deep=deep, conf_dir=config.conf_dir)
        edits_directories = ask_directories(edits, limit, config.image_directories)
        facts = replace(facts, directories=directories, edits_directories=edits_directories, image=image)
    if FactGroup.JOURNAL in parts:
        namespace = next((info for each in facts.directories if (info := _version(each)) is not None), None)
        facts = replace(facts, journal=ask_journal(config, namespace, limit))
    return facts


def _namenode_questions(config: CheckpointConfig, limit: float) -> dict[str, Callable[[], Any]]:
    questions: dict[str, Callable[[], Any]] = {}
    for http, rpc in zip(config.namenode_http_addresses, config.namenode_rpc_addresses, strict=True):
        start = NameNodeFacts(http=http, rpc=host_port(*rpc))
        questions[f"http {http}"] = partial(ask_http, http, timeout=limit)
        questions[f"directories {http}"] = partial(ask_name_directories, http, timeout=limit)
        questions[f"rpc {host_port(*rpc)}"] = partial(ask_rpc, start, rpc, user=config.rpc_user, timeout=limit / _CALLS)
    return questions


def _namenodes(config: CheckpointConfig, answers: Mapping[str, Observation[Any]]) -> tuple[NameNodeFacts, ...]:
    found = []
    for http, rpc in zip(config.namenode_http_addresses, config.namenode_rpc_addresses, strict=True):
        called = answers[f"rpc {host_port(*rpc)}"]
        node = called.value or _silent(http, host_port(*rpc), called.error)
        asked: Observation[tuple[dict[str, Any], float]] = answers[f"http {http}"]
        beans, ahead = asked.value or (None, 0.0)
        beans_asked = Observation(beans, asked.error, asked.late, asked.hint)
        stored = answers[f"directories {http}"]
        found.append(replace(node, beans=beans_asked, directories=stored, clock_ahead=ahead))
    return tuple(found)


def _tls(answers: Mapping[str, Observation[Any]], peers: Sequence[str]) -> tuple[TlsStep, ...]:
    late = {f"tls {url}": TlsStep(f"handshake with {url}", f"{url} did not answer in time") for url in peers}
    found = list(answers["tls"].value or (TlsStep("files", answers["tls"].error),))
    return (*found, *(answers[name].value or step for name, step in late.items()))


def _silent(http: str, rpc: str, error: str) -> NameNodeFacts:
    """Return the facts of a NameNode whose RPC server did not answer in time."""
    no: Observation[Any] = Observation(error=error)
    return NameNodeFacts(http=http, rpc=rpc, last_txid=no, checkpoint_txid=no, state=no, storage_info=no, segments=no)


def _daemon(config: CheckpointConfig, answer: Observation[DaemonFacts] | None) -> DaemonFacts | None:
    if answer is None:
        return None
    return answer.value or DaemonFacts(url=daemon_url(config), live=Observation(error=answer.error))


def _lock(config: CheckpointConfig, holding: Observation[LockHolder | None]) -> LockFacts:
    return LockFacts(
        lock=config.leader.lock,
        required=config.leader.required,
        host=socket.gethostname(),
        address=host_port(*config.web.first),
        holding=holding,
    )


def _version(directory: DirectoryFacts) -> StorageInfo | None:
    return None if directory.listing.value is None else directory.listing.value.version

"""Logins with which `check` queries servers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn, cast

import pytest

import checkpointer.checks.ask_kerberos as ask_kerberos_module
from checkpointer.checks.ask_kerberos import _rpc_steps, _until_a_fault, ask_kerberos
from checkpointer.checks.facts import Observation
from checkpointer.checks.verdict import State
from hadoop_rpc.errors import KerberosError, RpcConnectionError, RpcError
from hadoop_rpc.kerberos import PROCESS
from hadoop_rpc.kerberos_login import KerberosLogin
from hadoop_rpc.namenode_protocol import NamenodeClient
from hadoop_rpc.principals import ServerPrincipal
from hadoop_rpc.tickets import TicketCaches
from site_config.checkpoint_config import CheckpointConfig
from tests.checkpointer.check_facts import decide


def test_checks_keep_the_login_of_the_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The console runs the checks in the daemon's process, while the keytab in the configuration is missing."""
    server = ServerPrincipal("dfs.namenode.kerberos.principal", "nn/_HOST@R")
    ours = KerberosLogin("sn/h@R", tmp_path / "ours", server, server)
    tried: list[KerberosLogin] = []

    def acquire(_: TicketCaches, login: KerberosLogin) -> None:
        tried.append(login)
        raise KerberosError("no ticket")

    monkeypatch.setattr(KerberosLogin, "check", lambda _: None)
    monkeypatch.setattr(TicketCaches, "acquire", acquire)
    monkeypatch.setattr(PROCESS, "login", ours)
    in_files = SimpleNamespace(login=replace(ours, keytab=tmp_path / "missing"))
    steps = ask_kerberos(cast(CheckpointConfig, SimpleNamespace(kerberos=in_files)), timeout=1.0)
    assert [each.error for each in steps] == ["", "no ticket"]
    assert tried == [ours]
    assert PROCESS.login is ours


@pytest.mark.parametrize(
    ("answer", "expected", "state"),
    [
        (None, ["service ticket for nn/127.0.0.1@R", "RPC handshake with", "RPC call at"], State.WARNING),
        (KerberosError("the server is nm/h@R"), ["service ticket for nn/127.0.0.1@R"], State.CRITICAL),
        (RpcConnectionError("cannot connect"), ["RPC handshake with"], State.CRITICAL),
    ],
    ids=["another principal", "refused principal", "down"],
)
def test_the_steps_name_the_cause_if_the_kdc_does_not_know_the_configured_principal(
    monkeypatch: pytest.MonkeyPatch, answer: RpcError | None, expected: list[str], state: State
) -> None:
    def ticket(*_: object) -> NoReturn:
        raise KerberosError("not in the database")

    def transaction_id(_: NamenodeClient) -> int:
        if answer is not None:
            raise answer
        return 1

    monkeypatch.setattr(ask_kerberos_module, "security_for", ticket)
    monkeypatch.setattr(NamenodeClient, "transaction_id", transaction_id)
    server = ServerPrincipal("dfs.namenode.kerberos.principal", "nn/_HOST@R", "*")
    login = KerberosLogin("sn/h@R", None, server, server)
    steps = tuple(_until_a_fault(_rpc_steps(login, "127.0.0.1", 1, 1.0)))
    assert [step.name.startswith(name) for step, name in zip(steps, expected, strict=True)] == [True] * len(expected)
    verdict = decide("kerberos", login=Observation(steps))
    assert verdict.state is state
    assert verdict.summary.startswith(expected[0])
    assert verdict.hint

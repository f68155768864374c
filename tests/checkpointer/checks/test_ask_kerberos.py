"""Logins with which `check` queries servers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from checkpointer.checks.ask_kerberos import ask_kerberos
from hadoop_rpc.errors import KerberosError
from hadoop_rpc.kerberos import PROCESS
from hadoop_rpc.kerberos_login import KerberosLogin
from hadoop_rpc.principals import ServerPrincipal
from hadoop_rpc.tickets import TicketCaches
from site_config.checkpoint_config import CheckpointConfig


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

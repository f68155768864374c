"""Tests of our secondary, `fetch-image` and `check` against a real NameNode that requires Kerberos."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests

from checkpointer.errors import TransferError
from checkpointer.transfer import download_image, upload_image
from hadoop_common.configuration import Configuration
from hadoop_rpc.client import NO_RETRY
from hadoop_rpc.client_protocol import CLIENT_PROTOCOL
from hadoop_rpc.errors import AccessControlError, AuthenticationRequiredError, KerberosError, NotAuthorizedError
from hadoop_rpc.ha_protocol import HA_PROTOCOL
from hadoop_rpc.kerberos import log_in
from hadoop_rpc.kerberos_login import KerberosLogin
from hadoop_rpc.namenode_protocol import NAMENODE_PROTOCOL, NamenodeClient
from hadoop_rpc.qjournal_protocol import QJournalClient
from hadoop_rpc.rpc_protocol import ServerKind
from hadoop_rpc.security import Protection
from image_format.md5_file import read_md5_file
from site_config.checkpoint_config import CheckpointConfig, Role
from tests.interop.client_stub import stub_of
from tests.interop.cluster import NameNode
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_home import SERVER
from tests.interop.hadoop_process import wait_until
from tests.interop.our_daemon import OurDaemon
from tests.kerberos.callers import add_users, get
from tests.kerberos.kdc import REALM, Kdc
from tests.kerberos.secure_conf import secure_conf
from tests.kerberos.verdicts import of_calls, of_pages

pytestmark = [pytest.mark.interop]


@pytest.fixture(scope="module")
def namenode(hadoop_here: None, kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NameNode]:
    with NameNode(secure_conf(kdc, tmp_path_factory.mktemp("secure"))) as running:
        yield running


def ours(namenode: NameNode, root: Path, **properties: str) -> HadoopConf:
    """Return the configuration of the same cluster for another process, with separate directories."""
    own = {"dfs.namenode.checkpoint.dir": (root / "checkpoint").as_uri()}
    given = {key.replace("_", "."): value for key, value in properties.items()}
    return HadoopConf(root, {**namenode.conf.properties, **own, **given})


def login_of(conf: HadoopConf) -> KerberosLogin:
    config = CheckpointConfig.from_configuration(Configuration.load(conf.folder, os.environ), Role.SECONDARY)
    assert config.kerberos is not None
    assert config.kerberos.refusal("hdfs") == ""
    return config.kerberos.login


def run(name: str, conf: HadoopConf, *words: str) -> tuple[int, dict[str, Any], str]:
    """Run a command in a process that logs in by the keytab; return exit code, JSON and errors."""
    command = [sys.executable, "-m", "checkpointer", name, "--conf", str(conf.folder), "--json", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout), done.stderr


@pytest.mark.parametrize("protection", [each.name.lower() for each in Protection])
def test_the_daemon_checkpoints_with_each_protection(namenode: NameNode, tmp_path: Path, protection: str) -> None:
    conf = ours(namenode, tmp_path, hadoop_rpc_protection=protection)
    with OurDaemon.secondary(conf) as daemon:
        made = daemon.checkpoint()
        assert made["uploads"] == {namenode.url: "SUCCESS"}
        assert namenode.images[-1] == made["txid"]
        assert daemon.stop() == 0
    message = daemon.log.read_text()
    assert f"logged in as sn/localhost@{REALM}" in message
    assert "NameNodes accept images from this principal: dfs.secondary.namenode.kerberos.principal" in message


@pytest.mark.deep
def test_the_daemon_survives_expired_tickets_and_a_new_key(namenode: NameNode, kdc: Kdc, tmp_path: Path) -> None:
    """Tickets last 20 seconds, the KDC is stopped until the tickets end, and the key changes.

    A command that requests a checkpoint needs its own ticket; while the KDC is stopped, a cookie replaces the ticket.
    """
    conf = ours(namenode, tmp_path)
    sn = f"sn/localhost@{REALM}"
    kdc.admin(f'modprinc -maxlife "20 seconds" {sn}')
    try:
        with OurDaemon.secondary(conf) as daemon:
            daemon.checkpoint()
            url = daemon.url.replace("127.0.0.1", "localhost")
            cookie = get(kdc, "sn", url, "/nothing")[2]["Set-Cookie"].partition(";")[0]

            def is_made() -> bool:
                asked = f"{url}/checkpoint?force=true"
                return requests.post(asked, headers={"Cookie": cookie}, timeout=600).status_code == 200

            kdc.stop()
            try:
                assert is_made()
                wait_until(lambda: not is_made(), "the end of the tickets")
                assert daemon.status()["lastError"], daemon.status()
            finally:
                kdc.start()
            wait_until(is_made, "a checkpoint after the outage")
            kdc.admin(f"ktadd -k {kdc.root / 'sn.keytab'} {sn}")
            assert login_of(conf).own_keys()[-1].version > 1
            before = kdc.tickets_of(sn)
            wait_until(lambda: bool(daemon.checkpoint()) and kdc.tickets_of(sn) > before, "a ticket by the new key")
            assert daemon.stop() == 0
    finally:
        kdc.admin(f'modprinc -maxlife "10 hours" {sn}')


def test_fetch_image_and_check_work_with_kerberos(namenode: NameNode, tmp_path: Path) -> None:
    conf = ours(namenode, tmp_path)
    code, fetched, message = run("fetch-image", conf, str(tmp_path / "backup"))
    assert (code, fetched["txid"]) == (0, namenode.images[-1]), message
    assert fetched["version"] is not None
    code, checked, _ = run("check", conf, "--only", "namenode")
    assert (code, checked["state"]) == (0, "OK"), checked


def test_each_step_of_the_login_is_checked(namenode: NameNode, tmp_path: Path) -> None:
    code, checked, message = run("check", ours(namenode, tmp_path), "--only", "kerberos")
    assert (code, checked["state"]) == (0, "OK"), (checked, message)
    assert len(checked["checks"][0]["details"]) == 7


def test_the_check_warns_of_another_principal_that_the_pattern_allows(namenode: NameNode, tmp_path: Path) -> None:
    conf = ours(namenode, tmp_path)
    conf.update({"dfs.namenode.kerberos.principal": f"missing/_HOST@{REALM}"})
    code, checked, message = run("check", conf, "--only", "kerberos")
    assert (code, checked["state"]) == (1, "WARNING"), (checked, message)
    (found,) = checked["checks"]
    assert f"service ticket for missing/localhost@{REALM}: not available (" in found["summary"]
    assert found["hint"] == "Set dfs.namenode.kerberos.principal to the principal of this NameNode."


def test_a_missing_ticket_is_not_a_fault_of_the_namenode(
    namenode: NameNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'tickets'}")
    conf = ours(namenode, tmp_path, dfs_secondary_namenode_keytab_file="")
    code, checked, _ = run("check", conf, "--only", "namenode")
    assert (code, "kinit" in checked["checks"][0]["hint"]) == (2, True), checked


def broken(kdc: Kdc) -> dict[str, tuple[dict[str, str], str]]:
    """Return settings with which a login fails, and the step that the error must name."""
    missing = f"missing/_HOST@{REALM}"
    return {
        "keytab": ({"dfs.secondary.namenode.keytab.file": str(kdc.root / "nn.keytab")}, "library and keytab"),
        "ticket": (
            {
                "dfs.secondary.namenode.kerberos.principal": f"gone@{REALM}",
                "dfs.secondary.namenode.keytab.file": str(kdc.root / "gone.keytab"),
            },
            f"ticket of gone@{REALM} from the KDC fails: .*not found in Kerberos database",
        ),
        "service": ({"dfs.namenode.kerberos.principal": missing}, "service ticket for missing/localhost@"),
        "handshake": ({"dfs.namenode.kerberos.principal": f"jn/_HOST@{REALM}"}, "RPC handshake with localhost"),
        "call": (
            {
                "dfs.secondary.namenode.kerberos.principal": f"jn/_HOST@{REALM}",
                "dfs.secondary.namenode.keytab.file": str(kdc.root / "jn.keytab"),
            },
            "RPC call at localhost:[0-9]+ fails: .*Access denied for user jn",
        ),
        # auth_to_local maps this principal to the superuser, but it is not the secondary's
        "image": (
            {
                "dfs.secondary.namenode.kerberos.principal": f"sn/other@{REALM}",
                "dfs.secondary.namenode.keytab.file": str(kdc.root / "other.keytab"),
            },
            "GET http://.*/imagetransfer fails: HTTP 403: Only Namenode, Secondary Namenode, and administrators",
        ),
    }


_REMEDIES = {"call": "hadoop.security.auth_to_local", "image": "dfs.namenode.secondary.http-address"}


@pytest.mark.parametrize("what", ["keytab", "ticket", "service", "handshake", "call", "image"])
def test_the_failed_step_of_the_login_is_named(namenode: NameNode, kdc: Kdc, tmp_path: Path, what: str) -> None:
    if what == "ticket":
        kdc.add("gone")
        kdc.keytab("gone.keytab", "gone")
        kdc.admin("delprinc -force gone")
    if what == "image":
        kdc.add("sn/other")
        kdc.keytab("other.keytab", "sn/other")
    settings, expected = broken(kdc)[what]
    conf = ours(namenode, tmp_path)
    conf.update({"dfs.namenode.kerberos.principal.pattern": "x", **settings})
    code, checked, _ = run("check", conf, "--only", "kerberos")
    (found,) = checked["checks"]
    assert code == 2
    assert re.match(expected, found["summary"]), found
    assert found["hint"]
    assert _REMEDIES.get(what, "") in found["hint"]


def test_an_unexpected_principal_is_refused_with_a_sentence(namenode: NameNode, kdc: Kdc, tmp_path: Path) -> None:
    kdc.add("alice")
    keytab = kdc.keytab("alice.keytab", "alice")
    conf = ours(namenode, tmp_path)
    conf.update(
        {
            "dfs.secondary.namenode.kerberos.principal": f"alice@{REALM}",
            "dfs.secondary.namenode.keytab.file": str(keytab),
        }
    )
    log_in(login_of(conf))
    with (
        NamenodeClient(*namenode.rpc_address, user="x", retry=NO_RETRY) as client,
        pytest.raises(AccessControlError, match="Access denied for user alice"),
    ):
        client.roll_edit_log()
    with pytest.raises(TransferError, match="administrators may access this servlet") as caught:
        download_image(namenode.url, None, None, [tmp_path])
    assert f"Our principal is alice@{REALM}" in caught.value.hint
    image = namenode.current / f"fsimage_{namenode.images[-1]:019d}"
    with pytest.raises(TransferError, match="administrators may access this servlet"):
        upload_image(namenode.url, image, read_md5_file(image).hex(), namenode.images[-1], namenode.storage_info)


def test_calls_without_a_login_are_refused_with_a_sentence(namenode: NameNode, tmp_path: Path) -> None:
    with (
        NamenodeClient(*namenode.rpc_address, user="hdfs", retry=NO_RETRY) as client,
        pytest.raises(AuthenticationRequiredError, match="SIMPLE authentication is not enabled"),
    ):
        client.version_request()
    with pytest.raises(TransferError) as caught:
        download_image(namenode.url, None, None, [tmp_path])
    assert caught.value.status == 401


def test_a_server_with_an_unexpected_principal_is_refused(namenode: NameNode, tmp_path: Path) -> None:
    conf = ours(namenode, tmp_path)
    conf.update(
        {"dfs.namenode.kerberos.principal": f"other/_HOST@{REALM}", "dfs.namenode.kerberos.principal.pattern": "o*"}
    )
    log_in(login_of(conf))
    with (
        NamenodeClient(*namenode.rpc_address, user="x", retry=NO_RETRY) as client,
        pytest.raises(KerberosError, match=f"is nn/localhost@{REALM}, expected other/localhost@{REALM}"),
    ):
        client.version_request()


def test_a_protocol_for_other_principals_is_refused(namenode: NameNode, tmp_path: Path) -> None:
    """With privacy, the NameNode refuses the connection context inside a token."""
    conf = ours(namenode, tmp_path, hadoop_rpc_protection="privacy")
    conf.update({"dfs.journalnode.kerberos.principal": f"nn/_HOST@{REALM}"})
    log_in(login_of(conf))
    with (
        QJournalClient(*namenode.rpc_address, user="x") as client,
        pytest.raises(
            NotAuthorizedError, match=r"(expected client Kerberos principal is|only accessible by) nn/localhost"
        ),
    ):
        client.get_journal_state("j")


def test_a_backup_node_checkpoints_without_a_stream(namenode: NameNode, tmp_path: Path) -> None:
    """Hadoop's NameNode calls a backup node as the registering user, for whom the NameNode has no ticket."""
    conf = ours(namenode, tmp_path, hadoop_rpc_protection="privacy")
    conf.update({"dfs.namenode.name.dir": (tmp_path / "backup").as_uri()})
    with OurDaemon.backup(conf) as daemon:
        made = daemon.checkpoint()
        assert made["uploads"] == {namenode.url: "SUCCESS"}
        assert made["txid"] in namenode.images
        assert daemon.stop() == 0


IMAGES = (
    *(
        ("GET", f"/imagetransfer{asked}")
        for asked in ("?getimage=1&txid=latest", "?getimage=1&txid=77", "?getedit=1&startTxId=900&endTxId=901")
    ),
    ("PUT", "/imagetransfer?txid=1&imageFile=IMAGE&File-Length=1&storageInfo=-63:1:0:x"),
)
CALLS = (
    (NAMENODE_PROTOCOL, "versionRequest", None),
    (NAMENODE_PROTOCOL, "getTransactionId", None),
    (NAMENODE_PROTOCOL, "rollEditLog", None),
    (CLIENT_PROTOCOL, "getServerDefaults", None),
    (HA_PROTOCOL, "getServiceStatus", None),
    (replace(NAMENODE_PROTOCOL, name="org.example.Unknown"), "isRollingUpgrade", None),
)


def verdicts(kdc: Kdc, url: str, rpc: tuple[str, int]) -> dict[tuple[str, str, str], object]:
    return {**of_pages(kdc, url, IMAGES), **of_calls(kdc, ServerKind.NAMENODE, rpc, CALLS)}


def test_the_stub_and_a_namenode_have_equal_permissions(namenode: NameNode, kdc: Kdc, tmp_path: Path) -> None:
    add_users(kdc)
    theirs = verdicts(kdc, namenode.url, namenode.rpc_address)
    with stub_of(secure_conf(kdc, tmp_path)) as stub:
        assert stub.rpc_address is not None
        ours = verdicts(kdc, stub.server.url, stub.rpc_address)
    different = {key for key in theirs if theirs[key] != ours[key]}
    # Hadoop 3 answers every caller; the stub answers only administrators
    assert {key[-1] for key in different} == ({"getServiceStatus", "versionRequest"} if SERVER.is_3 else set())
    assert {theirs[key] for key in different} <= {"let in"}

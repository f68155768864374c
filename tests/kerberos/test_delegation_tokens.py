"""Hadoop's clients read from our standby with a delegation token of the real NameNode, and without a ticket."""

from __future__ import annotations

import base64
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from hadoop_rpc.security import Protection
from journal import primitives
from journal.primitives import PrimitiveReader
from namenode_stub.ports import free_port
from tests.interop.clients import ClientJvm
from tests.interop.cluster import HaPair
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_home import SERVER
from tests.interop.hadoop_process import java_command, wait_until
from tests.interop.our_daemon import STANDBY_SETTINGS, OurDaemon
from tests.kerberos.callers import get, tickets
from tests.kerberos.kdc import Kdc
from tests.kerberos.secure_conf import HOST, secure

pytestmark = [
    pytest.mark.interop,
    pytest.mark.deep,
    pytest.mark.skipif(not SERVER.is_3, reason="Hadoop 2 has no client of observers, and no tool that shows tokens"),
]

SETTINGS = {
    **STANDBY_SETTINGS,
    "checkpointer.namespace.serve": "true",
    "dfs.namenode.state.context.enabled": "true",
    "dfs.ha.tail-edits.in-progress": "true",
}
FETCHER = "org.apache.hadoop.hdfs.tools.DelegationTokenFetcher"
TOKEN_TOOL = "org.apache.hadoop.security.token.DtUtilShell"
SHELL = "org.apache.hadoop.fs.FsShell"
OBSERVER_READS = "org.apache.hadoop.hdfs.server.namenode.ha.ObserverReadProxyProvider"


@dataclass(frozen=True)
class Served:
    """Our standby, which answers at the address of a NameNode and at `rpc`.

    Attributes:
        client: configuration of clients of the nameservice.
        ticket: ticket of alice.
    """

    daemon: OurDaemon
    client: HadoopConf
    rpc: str
    root: Path
    ticket: Path

    def run(
        self, conf: HadoopConf, main: str, *words: str, ticket: Path | None = None, token: Path | None = None
    ) -> tuple[int, str, str]:
        """Run a tool of Hadoop; return exit code, output and errors."""
        login = {"KRB5CCNAME": str(ticket or self.root / "none")}
        if token is not None:
            login["HADOOP_TOKEN_FILE_LOCATION"] = str(token)
        command = java_command(SERVER.class_path(conf.folder), main, *words, work=self.root)
        environment = {**os.environ, **login}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=self.root)
        return done.returncode, done.stdout, done.stderr

    def fetch(self, name: str) -> tuple[Path, str]:
        """Fetch a token of alice from the active NameNode; return its file, and its text in a URL."""
        file = self.root / name
        code, _, err = self.run(self.client, FETCHER, "--renewer", "hdfs", str(file), ticket=self.ticket)
        assert code == 0, err
        code, out, err = self.run(self.client, TOKEN_TOOL, "print", str(file))
        assert code == 0, err
        return file, out.split()[-1]

    def status(self, path: str, text: str) -> int:
        """Return the status of a listing over WebHDFS with a token."""
        url = f"{self.daemon.url}/webhdfs/v1{path}?op=LISTSTATUS&delegation={text}"
        return requests.get(url, timeout=600).status_code

    def conf(self, name: str, **properties: str) -> HadoopConf:
        """Return a client's configuration."""
        given = {key.replace("_", "."): value for key, value in properties.items()}
        found = HadoopConf(self.root / name, {**self.client.properties, **given})
        found.properties.pop("dfs.namenode.rpc-address")
        found.write()
        return found


@pytest.fixture(scope="module")
def served(hadoop_here: None, realm: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    root = tmp_path_factory.mktemp("pair")
    with HaPair(root, SETTINGS) as pair, pytest.MonkeyPatch.context() as patch:
        for conf in (pair.nn1.conf, pair.nn2.conf, pair.client_conf):
            secure(realm, conf, {"dfs.cluster.administrators": "hdfs"})
        rpc, own = f"{HOST}:{free_port()}", pair.nn2.conf["dfs.namenode.rpc-address.ns1.nn2"]
        pair.nn2.conf.update({"checkpointer.namespace.rpc-address": f"{rpc},{own}"})
        patch.setenv("KRB5CCNAME", str(tickets(realm, "hdfs")))
        pair.nn1.start()
        with ClientJvm(root, conf=pair.client_conf) as jvm:
            active = jvm.of(pair.client_conf)
            pair.activate(active, "nn1")
            active.shell("-mkdir", "-p", "/open/inner", "/closed/inner").checked()
            active.shell("-chmod", "700", "/closed").checked()
        with OurDaemon.standby(pair.nn2.conf, "dfs.namenode.http-address.ns1.nn2") as daemon:
            yield Served(daemon, pair.client_conf, rpc, root, tickets(realm, "alice"))


@pytest.fixture(scope="module")
def token(served: Served) -> tuple[Path, str]:
    file, text = served.fetch("alice.token")
    wait_until(lambda: served.status("/", text) == 200, "the standby has the token")
    return file, text


def write_token(file: Path, text: str, service: str) -> None:
    """Write a file with one token, for another service (Credentials.writeTokenStorageToStream)."""
    reader = PrimitiveReader(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    out = bytearray(b"HDTS\x00\x01")
    primitives.write_text(out, service)
    for _ in ("identifier", "password"):
        part = reader.take(reader.vint())
        primitives.write_vint(out, len(part))
        out += part
    primitives.write_text(out, reader.text())
    primitives.write_text(out, service)
    file.write_bytes(out + b"\x00")


@pytest.mark.parametrize("protection", Protection)
def test_the_hdfs_shell_reads_with_only_a_token(
    served: Served, token: tuple[Path, str], tmp_path: Path, protection: Protection
) -> None:
    word, file = protection.name.lower(), tmp_path / "token"
    write_token(file, token[1], f"127.0.0.1:{served.rpc.rpartition(':')[2]}")
    conf = served.conf(word, hadoop_rpc_protection=word, fs_defaultFS=f"hdfs://{served.rpc}")
    code, out, err = served.run(conf, SHELL, "-ls", "/", "/open", "/closed", token=file)
    assert (code, "/open/inner" in out, "/closed/inner" in out) == (1, True, False), err
    assert "Permission denied: user=alice, access=READ_EXECUTE" in err


def test_an_observer_read_client_reads_from_our_standby(served: Served, token: tuple[Path, str], realm: Kdc) -> None:
    conf = served.conf("observer", dfs_client_failover_proxy_provider_ns1=OBSERVER_READS)

    def logins() -> int:
        metrics = get(realm, "hdfs", served.daemon.url, "/metrics")[1]
        found = re.search(r'logins_total\{result="accepted",server="rpc"\} (\d+)', metrics)
        return int(found[1]) if found else 0

    before = logins()
    code, out, err = served.run(conf, SHELL, "-ls", "/open", token=token[0])
    assert (code, "/open/inner" in out) == (0, True), err
    assert logins() > before


def test_webhdfs_accepts_the_token(served: Served, token: tuple[Path, str]) -> None:
    text = token[1]
    identifier, rest = text[:40], text[40:]
    assert [served.status(path, text) for path in ("/open", "/closed")] == [200, 403]
    assert served.status("/open", f"{identifier[:-1]}A{rest}") == 403


def test_a_cancelled_token_is_refused(served: Served) -> None:
    file, text = served.fetch("cancelled.token")
    wait_until(lambda: served.status("/open", text) == 200, "the standby has the token")
    code, _, err = served.run(served.client, FETCHER, "--cancel", str(file), ticket=served.ticket)
    assert code == 0, err
    wait_until(lambda: served.status("/open", text) == 403, "the standby has the cancellation")

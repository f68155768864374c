"""SPNEGO of our transfers with a real KDC and a small web server that, like Hadoop's servers, requires a login."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from checkpointer.checks.ask_namenode import ask_http
from checkpointer.errors import TransferError
from checkpointer.transfer import UploadResult, download_image, upload_image
from checkpointer.transfer.image_acceptance import ask_acceptance
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.kerberos import log_in
from tests.cli_runner import run_cli
from tests.kerberos.kdc import REALM, Kdc
from tests.kerberos.web_peer import Peer, login
from tests.site_files import write_site
from tests.web_server import QuietHandler, json_server, serving

pytestmark = [pytest.mark.interop]

BEAN = {
    "tag.HAState": "active",
    "JournalTransactionInfo": '{"LastAppliedOrWrittenTxId": "9", "MostRecentCheckpointTxId": "5"}',
}
INFO = StorageInfo(-63, 1, 0, "CID-1", "BP-1", "NAME_NODE")


class Web(ThreadingHTTPServer):
    """A web server; `asked` contains the method, presence of a token and body of each request. If `mute` is true, the
    server sends no proof.
    """

    def __init__(self, peer: Peer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.peer = peer
        self.mute = False
        self.asked: list[tuple[str, bool, int]] = []
        self.url = f"http://localhost:{self.server_address[1]}"


class _Handler(QuietHandler):
    server: Web

    def get(self) -> None:
        self._answer(json.dumps({"beans": [BEAN]}).encode())

    def put(self) -> None:
        self._answer(b"")

    def _answer(self, content: bytes) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        self.server.asked.append((self.command, bool(token), len(body)))
        if scheme != "Negotiate":
            self.answer(401, b"", {"WWW-Authenticate": "Negotiate"})
            return
        _, reply = self.server.peer.accept(base64.b64decode(token))
        proof = {"WWW-Authenticate": "Negotiate " + base64.b64encode(reply).decode()}
        self.answer(200, content, {} if self.server.mute else proof)


@pytest.fixture
def web(kdc: Kdc) -> Iterator[Web]:
    log_in(login(kdc, "sn/localhost", kdc.root / "sn.keytab"))
    with serving(Web(Peer(kdc.root / "nn.keytab"))) as server:
        yield server


def test_beans_are_requested_without_a_token_first(web: Web) -> None:
    """On most clusters, /jmx is open, and a request needs no ticket."""
    assert ask_http(web.url, timeout=600) == (BEAN, 0.0)
    assert web.asked == [("GET", False, 0), ("GET", True, 0)]
    assert ask_acceptance(web.url, timeout=600).last_txid == 5


def test_a_body_is_sent_once_with_its_token(web: Web, tmp_path: Path) -> None:
    image = tmp_path / "fsimage"
    image.write_bytes(b"x" * 5000)
    assert upload_image(web.url, image, "0" * 32, 7, INFO) is UploadResult.SUCCESS
    assert web.asked == [("PUT", True, 5000)]


def test_a_refused_token_is_not_a_matter_of_the_callers_host(kdc: Kdc, tmp_path: Path) -> None:
    refused = (403, "the Kerberos token does not authenticate the caller: Clock skew too great")
    with json_server({"/status": refused}) as daemon:
        settings = {
            "fs.defaultFS": "hdfs://localhost:1",
            "hadoop.security.authentication": "kerberos",
            "dfs.namenode.kerberos.principal": f"nn/_HOST@{REALM}",
            "dfs.secondary.namenode.kerberos.principal": f"sn/_HOST@{REALM}",
            "dfs.secondary.namenode.keytab.file": str(kdc.root / "sn.keytab"),
            "dfs.namenode.secondary.http-address": daemon.url.removeprefix("http://").replace("127.0.0.1", "localhost"),
        }
        outcome = run_cli("status", "--conf", write_site(tmp_path, settings))
    assert ("Clock skew" in outcome.err, "NTP" in outcome.err, "on the daemon's host" in outcome.err) == (
        True,
        True,
        False,
    )


def test_no_image_is_exchanged_with_a_server_without_proof_of_identity(web: Web, tmp_path: Path) -> None:
    web.mute = True
    image = tmp_path / "fsimage"
    image.write_bytes(b"x")
    with pytest.raises(TransferError, match="without proving its identity") as caught:
        upload_image(web.url, image, "0" * 32, 7, INFO)
    assert "hadoop.http.authentication.type" in caught.value.hint
    with pytest.raises(TransferError, match="without proving its identity"):
        download_image(web.url, 7, INFO, [tmp_path])
    assert list(tmp_path.iterdir()) == [image]

"""A web server that accepts no Kerberos logins gives the same responses as a Hadoop 3.5.0 NameNode."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from http.server import ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from checkpointer.checks.ask_kerberos import _http_steps
from checkpointer.checks.ask_namenode import ask_http
from checkpointer.errors import TransferError
from checkpointer.transfer import download_image, upload_image
from checkpointer.transfer.image_acceptance import ask_acceptance
from checkpointer.transfer.logins import refuses_logins
from hadoop_rpc.errors import KerberosError
from hadoop_rpc.kerberos import log_in
from hadoop_rpc.spnego import Spnego, advice_on_open_servers
from tests.interop.cluster import NameNode
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_home import release_of, skip_without
from tests.interop.our_daemon import OurDaemon
from tests.kerberos.callers import login
from tests.kerberos.kdc import REALM, Kdc
from tests.kerberos.secure_conf import secure
from tests.servlets.support import INFO, OLD_IMAGE, OLD_TXID
from tests.web_server import QuietHandler, serving

pytestmark = [pytest.mark.interop]

SN = f"sn/localhost@{REALM}"
NOBODY = (
    'GetImage failed. java.lang.NullPointerException: Cannot invoke "java.security.Principal.getName()" because the '
    'return value of "javax.servlet.http.HttpServletRequest.getUserPrincipal()" is null'
)
KEY = "hadoop.http.authentication.type to kerberos"
OWN_KEY = "checkpointer.http.send-user-name=true"


class _OpenServer(ThreadingHTTPServer):
    """A server that sends `OLD_IMAGE` to `SN` without proving its identity; `anonymous`: whether the server also serves
    other callers.
    """

    anonymous = True


class _Handler(QuietHandler):
    server: _OpenServer

    def get(self) -> None:
        user = parse_qs(urlsplit(self.path).query).get("user.name", [""])[0]
        if not user and not self.server.anonymous:
            self.answer(401, b"", {"WWW-Authenticate": "PseudoAuth"}, "Authentication required")
        elif user == SN:
            digest = OLD_IMAGE.with_suffix(".md5").read_text()[:32]
            named = {"X-Image-Edits-Name": OLD_IMAGE.name, "X-MD5-Digest": digest}
            self.answer(200, OLD_IMAGE.read_bytes(), named)
        else:
            refusal = "Only Namenode may access this servlet" if user else NOBODY
            self.answer(403 if user else 410, reason=refusal)

    def put(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        user = parse_qs(urlsplit(self.path).query).get("user.name", [""])[0]
        self.answer(200 if user == SN else 410, reason="OK" if user == SN else NOBODY)

    def options(self) -> None:
        self.answer(200)


@pytest.fixture
def server() -> Iterator[_OpenServer]:
    with serving(_OpenServer(("127.0.0.1", 0), _Handler)) as running:
        yield running


@pytest.fixture
def url(server: _OpenServer) -> str:
    return f"http://localhost:{server.server_address[1]}"


def fetch(url: str, folder: Path) -> None:
    download_image(url, OLD_TXID, INFO, [folder])


def offer(url: str, folder: Path) -> None:
    upload_image(url, OLD_IMAGE, "0" * 32, OLD_TXID, INFO)


@pytest.mark.parametrize("transfer", [fetch, offer])
def test_the_error_for_a_refused_image_names_the_key(realm: Kdc, url: str, tmp_path: Path, transfer: type) -> None:
    log_in(login(realm, "sn"))
    with pytest.raises(TransferError, match="NullPointerException") as caught:
        transfer(url, tmp_path)
    assert KEY in caught.value.hint
    assert OWN_KEY in caught.value.hint
    # Hadoop's own checkpointers also send their user name
    log_in(replace(login(realm, "sn"), sends_user_name=True))
    transfer(url, tmp_path)
    log_in(replace(login(realm, "jn"), sends_user_name=True))
    with pytest.raises(TransferError):
        transfer(url, tmp_path)


def test_a_response_without_proof_of_identity_is_not_used(realm: Kdc) -> None:
    with pytest.raises(KerberosError, match="without proving its identity") as caught:
        Spnego("localhost", login(realm, "sn")).check(200, [])
    assert KEY in caught.value.hint
    named = Spnego("localhost", replace(login(realm, "sn"), sends_user_name=True))
    named.check(200, [])
    assert named.named("http://h/p?a=b") == "http://h/p?a=b&user.name=sn%2Flocalhost%40TEST.REALM"
    assert named.named("http://h/p") == "http://h/p?user.name=sn%2Flocalhost%40TEST.REALM"
    assert Spnego("localhost", login(realm, "sn")).named("http://h/p") == "http://h/p"


def test_refusals_of_a_kerberized_server_do_not_mark_it_as_open(realm: Kdc) -> None:
    for status in (401, 403, 410):
        asked = Spnego("localhost", login(realm, "sn"))
        asked.check(status, ["Negotiate"])
        assert (asked.ignored, asked.hint) == (False, "")


def test_the_start_detects_an_open_web_server(realm: Kdc, server: _OpenServer, url: str) -> None:
    ours = login(realm, "sn")
    log_in(ours)
    assert refuses_logins(url, timeout=60)
    assert not refuses_logins("http://localhost:1", timeout=60)
    assert OWN_KEY in advice_on_open_servers(ours)
    assert OWN_KEY not in advice_on_open_servers(replace(ours, sends_user_name=True))


@pytest.mark.parametrize("anonymous", [True, False])
def test_the_http_check_names_the_key(realm: Kdc, server: _OpenServer, url: str, anonymous: bool) -> None:
    server.anonymous = anonymous
    ours = login(realm, "sn")
    log_in(ours)
    last = list(_http_steps(ours, url, 60))[-1]
    assert last.error == f"HTTP {410 if anonymous else 401}: the server does not use Kerberos"
    assert KEY in last.hint
    log_in(replace(ours, sends_user_name=True))
    assert [step.error for step in _http_steps(ours, url, 60)] == ["", ""]


@pytest.mark.parametrize("ask", [ask_http, ask_acceptance])
def test_metrics_that_require_a_user_name_give_advice_on_the_key(
    realm: Kdc, server: _OpenServer, url: str, ask: type
) -> None:
    server.anonymous = False
    with pytest.raises(TransferError, match="HTTP 401") as caught:
        ask(url, timeout=60)
    assert "hadoop.http.authentication.simple.anonymous.allowed" in caught.value.hint
    log_in(login(realm, "sn"))
    with pytest.raises(TransferError) as caught:
        ask(url, timeout=60)
    assert KEY in caught.value.hint


@pytest.mark.deep
def test_checkpoint_with_an_open_namenode_of_hadoop(realm: Kdc, tmp_path: Path) -> None:
    release = release_of("3.5.0")
    skip_without(release)
    conf = secure(realm, HadoopConf(tmp_path / "nn", release=release), {"hadoop.http.authentication.type": "simple"})
    with NameNode(conf) as namenode:
        own = {"dfs.namenode.checkpoint.dir": (tmp_path / "ours" / "checkpoint").as_uri()}
        ours = HadoopConf(tmp_path / "ours", {**conf.properties, **own})
        with OurDaemon.secondary(ours) as daemon:
            refused = daemon.ask_for_checkpoint()
            assert refused.code == 7, refused
            assert OWN_KEY in refused.err
            assert daemon.stop() == 0
        assert f"{namenode.url}: The web server does not use Kerberos" in daemon.log.read_text()
        ours.update({"checkpointer.http.send-user-name": "true"})
        with OurDaemon.secondary(ours) as daemon:
            made = daemon.checkpoint()
            assert made["uploads"] == {namenode.url: "SUCCESS"}
            assert daemon.stop() == 0

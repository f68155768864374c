"""Every password of a configuration is marked: no file and no response contains a mark."""

from __future__ import annotations

import logging
import urllib.request
from pathlib import Path

import pytest

from hadoop_common.tls.errors import TlsSetupError
from hadoop_common.tls.material import client_material, server_material
from hadoop_common.tls.reloading import ServerTls
from hadoop_common.tls.settings import TlsConfig
from tests.cli_runner import run_cli
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_process import OPENER
from tests.interop.our_daemon import OurDaemon
from tests.interop.our_namenode import OurNameNode
from tests.tls.certificates import authority, tls_folder, write_xml
from tests.tls.hadoop_tls import STORES, https_only

MARK = "marked-"


def marked(folder: Path, **more: str) -> TlsConfig:
    """Write passwords in clear text, in the credential provider of the file and in other keys; `more` overrides
    properties.
    """
    ca = authority()
    config = tls_folder(folder, ca.issue(), [ca])
    given = {
        "keystore.location": str(folder / "own.p12"),
        "keystore.password": "marked-store-secret",
        "keystore.keypassword": "marked-key-secret",
        **{key.replace("_", "."): value for key, value in more.items()},
    }
    write_xml(config.server_file, {f"ssl.server.{key}": value for key, value in given.items()})
    return config


@pytest.mark.parametrize(
    "more",
    [
        {"keystore_password": "marked-wrong"},
        {"keystore_location": str(STORES / "rsa.jks")},
        {"keystore_location": str(STORES / "rsa.jks"), "keystore_password": "store-secret"},
        {"keystore_location": "/not/there"},
        {"keystore_location": "relative"},
        {"exclude_cipher_list": "("},
        {"stores_reload_interval": "soon"},
    ],
)
def test_errors_about_stores_contain_no_password(
    tmp_path: Path, more: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(TlsSetupError) as caught:
        ServerTls(marked(tmp_path / "conf", **more))
    chain, fault = "", caught.value
    while fault is not None:
        chain, fault = f"{chain} {fault!r} {fault}", fault.__cause__ or fault.__context__
    for text in (chain, caught.value.hint, caplog.text):
        assert MARK not in text
    assert caught.value.hint


def test_printed_materials_contain_no_key_or_password(tmp_path: Path) -> None:
    config = marked(tmp_path / "conf")
    for made in (server_material(config), client_material(config)):
        assert MARK not in repr(made)
    assert "key=" not in repr(server_material(config))


def test_config_shows_no_password(tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    marked(conf)
    names = ["ssl.server.keystore.password", "dfs.namenode.bookkeeperjournal.digestPw", "checkpointer.odd.password"]
    names += ["dfs.ha.zkfc.secret", "hadoop.http.authentication.signature.secret"]
    first = "".join(
        f"<property><name>{name}</name><value>marked-{number}</value><final>true</final></property>"
        for number, name in enumerate(names)
    )
    (conf / "core-site.xml").write_text(f"<configuration>{first}</configuration>")
    write_xml(conf / "hdfs-site.xml", {"fs.defaultFS": "hdfs://nn:8020", **dict.fromkeys(names, "marked-again")})
    for words in ((), ("--json",), ("--role", "standby"), ("--set",)):
        done = run_cli("config", "--conf", conf, *words)
        assert "digestPw" in done.out
        assert MARK not in done.out + done.err


@pytest.mark.deep
def test_a_daemon_reveals_no_password(tmp_path: Path) -> None:
    """Assert that the log and the responses contain no mark, and that only the process's user can read its files."""
    conf = https_only(HadoopConf(tmp_path / "nn"))
    for name, key in (("ssl-server.xml", "server"), ("ssl-client.xml", "client")):
        text = (conf.folder / name).read_text()
        extra = f"<property><name>ssl.{key}.other.password</name><value>marked-text</value></property>"
        (conf.folder / name).write_text(text.replace("</configuration>", f"{extra}</configuration>"))
    with OurNameNode(conf) as stub:
        stub.command("format", "--layout", "-63").checked()
        stub.start()
        with OurDaemon.secondary(conf) as daemon:
            daemon.checkpoint()
            message = [daemon.log.read_text(), stub.log.read_text()]
            for path in ("status", "metrics", "jmx", "health/ready"):
                with OPENER.open(urllib.request.Request(f"{daemon.url}/{path}"), timeout=600) as answer:
                    message.append(answer.read().decode())
            checked = run_cli("check", "--conf", conf.folder, "--json", "--only", "tls")
            assert '"state": "OK"' in checked.out, checked.out
            message += [checked.out, checked.err]
            assert 'tls_handshakes_total{result="ok",side="server"}' in message[3]
            assert 'tls_certificate_end_seconds{side="server"}' in message[3]
    for text in message:
        for secret in (MARK, "store-secret", "key-secret", "PRIVATE KEY"):
            assert secret not in text
    written = list(conf.checkpoint_dir.rglob("*"))
    assert written
    assert [path for path in written if path.stat().st_mode & 0o077] == []

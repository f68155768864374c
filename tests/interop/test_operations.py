"""The promises of docs/operations.md to an operator of a real Hadoop: check, fetch-image, and a restore."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checkpointer.checks.registry import CHECKS
from hadoop_common.names import image_name, parse_segment
from image_tools.verify.checker import verify_image
from tests.interop.clients import ClientJvm, HdfsClient, without_clock_times
from tests.interop.cluster import NAMENODE, HaPair, NameNode
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_process import run_once, wait_until
from tests.interop.our_commands import check, cli
from tests.interop.our_daemon import OurDaemon

pytestmark = [pytest.mark.interop]

CHECK_NAMES = tuple(each.name for each in CHECKS)


def fetch(conf: HadoopConf, shelf: Path, *options: str) -> int:
    """Fetch the newest image as a backup and return its txid."""
    answer = cli("fetch-image", "--conf", conf.folder, shelf, "--deep", *options)
    assert answer["notes"] == []
    return int(answer["txid"])


def save_namespace(client: HdfsClient) -> None:
    for words in (("-safemode", "enter"), ("-saveNamespace",), ("-safemode", "leave")):
        client.admin(*words).checked()


def restore(node: NameNode, shelf: Path, txid: int) -> Path:
    """Restore according to docs/operations.md; return the folder with the old directory."""
    broken = node.name_dir.with_name(node.name_dir.name + ".broken")
    node.name_dir.rename(broken)
    assert verify_image(shelf / image_name(txid)).valid
    node.current.mkdir(mode=0o700, parents=True)
    for name in (image_name(txid), image_name(txid) + ".md5"):
        shutil.copy(shelf / name, node.current)
    shutil.copy(shelf / f"{image_name(txid)}.VERSION", node.current / "VERSION")
    (node.current / "seen_txid").write_text(f"{txid}\n")
    return broken


# ---- one NameNode ------------------------------------------------------------------------------------------


@pytest.mark.deep
def test_check_with_a_secondary(namenode: NameNode, client: HdfsClient) -> None:
    conf = namenode.conf
    assert check(conf, "--only", "daemon", code=2) == {"daemon": "CRITICAL"}
    client.load(100, seed=1)
    with OurDaemon.secondary(conf) as daemon:
        daemon.checkpoint()
        assert check(conf, "--deep") == dict.fromkeys(CHECK_NAMES, "OK")
        client.load(50, seed=2, path="/more")
        assert check(conf, "--only", "edits", "--only", "transactions") == {"transactions": "OK", "edits": "OK"}
        found = check(conf, "--only", "transactions", "--critical", "transactions=5", code=2)
        assert found == {"transactions": "CRITICAL"}
    namenode.stop()
    found = check(conf, "--timeout", "10", "--only", "namenode", "--only", "edits", "--only", "storage", code=2)
    assert found == {"namenode": "CRITICAL", "storage": "OK", "edits": "UNKNOWN"}


@pytest.fixture
def backed_up(namenode: NameNode, client: HdfsClient, tmp_path: Path) -> tuple[Path, int, dict[str, Any]]:
    """Return the folder of a fetched image, its txid, and its namespace; the NameNode has written more since."""
    client.load(200, seed=3)
    save_namespace(client)
    before = client.namespace()
    shelf = tmp_path / "shelf"
    txid = fetch(namenode.conf, shelf)
    assert (shelf / image_name(txid)).read_bytes() == (namenode.current / image_name(txid)).read_bytes()
    client.load(60, seed=4, path="/since")
    return shelf, txid, before


def test_a_namenode_is_restored_from_an_image(
    namenode: NameNode, client: HdfsClient, backed_up: tuple[Path, int, dict[str, Any]]
) -> None:
    shelf, txid, before = backed_up
    namenode.stop()
    restore(namenode, shelf, txid)
    namenode.start()
    assert without_clock_times(client.namespace()) == without_clock_times(before)
    # the NameNode continues from the restored state
    client.load(20, seed=5, path="/after")
    assert namenode.last_txid > txid + 20


@pytest.mark.deep
def test_a_namenode_is_restored_with_surviving_edits(
    namenode: NameNode, client: HdfsClient, backed_up: tuple[Path, int, dict[str, Any]]
) -> None:
    shelf, txid, _ = backed_up
    client.admin("-rollEdits").checked()
    before = client.namespace()
    namenode.stop()
    broken = restore(namenode, shelf, txid)
    for path in (broken / "current").iterdir():
        segment = parse_segment(path.name)
        if segment is not None and segment.last is not None and segment.first > txid:
            shutil.copy(path, namenode.current)
    namenode.start()
    assert without_clock_times(client.namespace()) == without_clock_times(before)


@pytest.mark.deep
def test_our_directories_newer_than_a_restored_namenode_do_no_harm(
    namenode: NameNode, client: HdfsClient, backed_up: tuple[Path, int, dict[str, Any]]
) -> None:
    shelf, txid, _ = backed_up
    conf = namenode.conf
    namenode_image = namenode.images[-1]
    with OurDaemon.secondary(conf) as daemon:
        lost = daemon.checkpoint()["txid"]
        assert lost > namenode_image
    namenode.stop()
    restore(namenode, shelf, txid)
    namenode.start()
    found = check(conf, "--only", "edits", code=2)
    assert found == {"edits": "CRITICAL"}
    # the daemon was stopped while the NameNode continued
    while namenode.last_txid <= lost:
        client.load(40, seed=namenode.last_txid, path=f"/again{namenode.last_txid}")
        client.admin("-rollEdits").checked()
    assert check(conf, "--only", "edits", code=2) == {"edits": "CRITICAL"}
    with OurDaemon.secondary(conf) as daemon:
        before = client.namespace()
        made = daemon.checkpoint()["txid"]
    assert lost not in namenode.images
    assert namenode.images[-1] == made
    namenode.restart()
    assert without_clock_times(client.namespace()) == without_clock_times(before)


# ---- an HA pair --------------------------------------------------------------------------------------------


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[HaPair]:
    with HaPair(tmp_path) as both:
        yield both


@pytest.mark.deep
def test_an_ha_pair_is_restored_from_an_image(pair: HaPair, client_jvm: ClientJvm, tmp_path: Path) -> None:
    client = client_jvm.of(pair.client_conf)
    shelf = tmp_path / "shelf"
    pair.nn1.start()
    pair.nn2.start()
    pair.activate(client, "nn1")
    client.load(200, seed=6)
    save_namespace(client)
    # from the address of the active NameNode
    txid = fetch(pair.client_conf, shelf)
    assert txid == pair.nn1.images[-1] > pair.nn2.images[-1]
    before = client.namespace()
    states = check(pair.client_conf, "--only", "namenode", "--only", "ha", "--only", "edits", code=3)
    assert (states["namenode"], states["ha"]) == ("OK", "OK")
    client.load(40, seed=7, path="/since")

    # all storage is lost
    for node in (pair.nn1, pair.nn2):
        node.kill()
    shutil.rmtree(pair.nn2.name_dir)
    pair.shared_dir.rename(pair.shared_dir.with_name("shared.broken"))
    restore(pair.nn1, shelf, txid)
    run_once(NAMENODE, "-initializeSharedEdits", "-force", "-nonInteractive", conf=pair.nn1.conf).checked()
    pair.nn1.start()
    pair.activate(client, "nn1")
    run_once(NAMENODE, "-bootstrapStandby", "-force", "-nonInteractive", conf=pair.nn2.conf).checked()
    pair.nn2.start()
    assert without_clock_times(client.namespace()) == without_clock_times(before)
    client.load(20, seed=8, path="/after")
    before = client.namespace()
    pair.activate(client, "nn2")
    assert without_clock_times(client.namespace()) == without_clock_times(before)


@pytest.mark.deep
def test_check_with_a_standby(pair: HaPair, client_jvm: ClientJvm) -> None:
    client = client_jvm.of(pair.client_conf)
    pair.nn1.start()
    conf = pair.nn2.conf
    conf.update(
        {
            "dfs.ha.tail-edits.period": "1",
            "dfs.ha.log-roll.period": "1",
            "dfs.namenode.checkpoint.check.period": "1",
            "dfs.namenode.checkpoint.txns": "50",
        }
    )
    assert check(conf, "--only", "ha", code=2) == {"ha": "CRITICAL"}
    pair.activate(client, "nn1")
    client.load(100, seed=9)
    with OurDaemon.standby(conf, "dfs.namenode.http-address.ns1.nn2"):
        wait_until(lambda: pair.nn1.images[-1] > 0, "an image triggered by transactions")
        assert check(conf, "--deep") == dict.fromkeys(CHECK_NAMES, "OK")

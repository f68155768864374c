"""docs/upgrade.md: an older version, a newer one with its files, and back, beside a NameNode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.cli_runner import run_cli
from tests.install.minimal_site import Site, check_checkpoint, running, stub_of
from tests.install.versions import NEWER, Versions
from tests.interop.clients import ClientJvm
from tests.interop.cluster import NameNode
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_home import SERVER, skip_without
from tests.interop.hadoop_process import wait_until

pytestmark = [pytest.mark.deep, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> Versions:
    return Versions(tmp_path_factory.mktemp("versions"))


@contextmanager
def daemon(site: Site, conf: Path, role: str, program: Sequence[str]) -> Iterator[None]:
    with running(site, conf, "run", "--role", role, program=program):
        wait_until(lambda: run_cli("status", "--conf", conf, "--role", role).code == 0, f"the {role} daemon")
        yield


def names_in_newest_image(current: Path) -> set[int]:
    """Return the numbers of the directories /round0, /round1 … in the newest image."""
    newest = max(path for path in current.glob("fsimage_*") if path.suffix != ".md5")
    content = newest.read_bytes()
    return {number for number in range(10) if b"round%d" % number in content}


def starts(storage: Path) -> list[bool]:
    """Return for each start in the history whether it was one of the newer version."""
    lines = (storage / "checkpointer-history.jsonl").read_text().splitlines()
    return [f"hdfs-checkpointer {NEWER} " in line for line in lines if " started as " in line]


@pytest.mark.parametrize("role", ["secondary", "backup"])
def test_beside_one_namenode(tmp_path: Path, versions: Versions, role: str) -> None:
    site = Site(tmp_path)
    conf = site.conf(role, role, **{"checkpointer.archive.dir": str(tmp_path / "archive")})
    namenode = site.conf("secondary", "namenode", **{"dfs.namenode.name.dir": (tmp_path / "nn").as_uri()})
    storage = tmp_path / f"{role}-data/hdfs-checkpointer/{role}"
    with ExitStack() as resources:
        node = stub_of(namenode, resources)
        for number, program in enumerate((versions.old, versions.new, versions.old)):
            with daemon(site, conf, role, program):
                node.namespace.mkdirs(f"/round{number}")
                node.roll()
                check_checkpoint(conf, role, tmp_path / "nn/current", storage)
                assert names_in_newest_image(tmp_path / "nn/current") == set(range(number + 1))
                if number == 0:
                    words = ("silence", "late", "--conf", conf, "--role", role, "--reason", "an upgrade")
                    assert run_cli(*words).code == 0
                assert "an upgrade" in run_cli("status", "--conf", conf, "--role", role, "--json").out
    assert starts(storage) == [False, True, False]
    checked = run_cli("archive", "check", "--archive", tmp_path / "archive")
    assert checked.code == 0, checked.err


@pytest.mark.interop
def test_beside_a_real_namenode(tmp_path: Path, versions: Versions) -> None:
    skip_without(SERVER)
    conf = HadoopConf(tmp_path)
    site = Site(tmp_path)
    with NameNode(conf) as namenode, ClientJvm(tmp_path) as jvm:
        client = jvm.of(conf)
        for number, program in enumerate((versions.old, versions.new, versions.old)):
            with daemon(site, conf.folder, "secondary", program):
                client.shell("-mkdir", f"/round{number}").checked()
                check_checkpoint(conf.folder, "secondary", namenode.current, tmp_path / "checkpoint")
                assert names_in_newest_image(namenode.current) == set(range(number + 1))
        namenode.restart()
        assert {f"/round{number}" for number in range(3)} <= client.namespace().keys()
    assert starts(tmp_path / "checkpoint") == [False, True, False]

"""docs/install.md, command by command: install, configure, run, upgrade, downgrade, uninstall, next to a NameNode."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hadoop_common.configuration import Configuration
from image_format.md5_file import read_md5_file
from namenode_stub.config import stub_config
from namenode_stub.formatting import format_storage, new_storage_info
from namenode_stub.node import NameNodeStub
from namenode_stub.ports import free_port
from tests.depth import deep
from tests.install.host import REPOSITORY, Host, blocks, build_wheel, build_wheelhouse, with_version
from tests.interop.cluster import NameNode
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_home import SERVER, skip_without

NEWER = "99.0"


@pytest.fixture(scope="module")
def wheelhouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `make wheelhouse`; it contains the libraries only in the deep tier."""
    dist = build_wheel(tmp_path_factory.mktemp("build"))
    return build_wheelhouse(dist) if deep() else dist


@pytest.fixture
def host(tmp_path: Path, wheelhouse: Path) -> Iterator[Host]:
    with Host(tmp_path / "host") as made:
        shutil.copytree(wheelhouse, made.root / "wheelhouse", copy_function=shutil.copy2)
        yield made


def stub(conf: HadoopConf, running: ExitStack) -> Path:
    config = stub_config(Configuration.load(conf.folder, environment={}))
    (directory,) = config.image_directories
    format_storage([directory], list(config.edits_directories), new_storage_info(-63))
    node = running.enter_context(NameNodeStub(config))
    node.namespace.mkdirs("/user")
    return directory / "current"


def real(conf: HadoopConf, running: ExitStack) -> Path:
    skip_without(SERVER)
    return running.enter_context(NameNode(conf)).current


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "start", [stub, pytest.param(real, marks=[pytest.mark.interop, pytest.mark.deep])], ids=["stub", "hadoop"]
)
def test_install_page_from_installation_to_removal(
    host: Host, tmp_path: Path, start: Callable[[HadoopConf, ExitStack], Path]
) -> None:
    conf = HadoopConf(tmp_path / "cluster")
    with ExitStack() as running:
        current = start(conf, running)
        follow_the_page(host, conf, current)


def follow_the_page(host: Host, conf: HadoopConf, current: Path) -> None:
    """Run every marked block in order, and check the NameNode's `current` and the state of the host in between."""
    (old,) = (host.root / "wheelhouse").glob("hdfs_checkpointer-*.whl")
    host.words |= {"NAMENODE": "127.0.0.1", "VERSION": old.name.split("-")[1]}
    seen = []
    for mark, commands in blocks():
        if mark == "downgrade" and not deep():
            continue
        if mark == "upgrade":
            with_version(old, NEWER, host.root / "wheelhouse")
        message = host.run(commands)
        seen.append(mark)
        if "-m venv" in commands:
            host.keep_kernels()
            assert installed(host)
        elif "cp /opt" in commands:
            adapt(host, conf)
        elif "checkpointer config" in commands:
            assert "0 unknown" in message
        elif "checkpointer checkpoint" in commands:
            check_first_checkpoint(host, current, message)
        elif mark == "upgrade":
            assert message.endswith(f"version {NEWER}\n")
            host.run("checkpointer check --conf /etc/hadoop/conf --role secondary")
        elif mark == "downgrade":
            host.run("checkpointer check --conf /etc/hadoop/conf --role secondary")
    assert {"", "upgrade"} <= set(seen)
    assert not installed(host)
    # removing the program must not remove its data
    assert list((host.root / "var/lib/hdfs-checkpointer").glob("secondary/current/fsimage_*"))


def installed(host: Host) -> list[str]:
    """Return our installed files on the host, without data and the cluster's configuration."""
    places = ("opt", "etc/systemd", "etc/hdfs-checkpointer", "etc/sysusers.d", "usr", "var/cache")
    found = (path for place in places for path in (host.root / place).rglob("*"))
    return [str(path) for path in found if path.is_symlink() or path.is_file()]


def adapt(host: Host, conf: HadoopConf) -> None:
    """Set this test's ports and a directory below the host's root in the minimal configuration."""
    folder = host.root / "etc/hadoop/conf"
    for path in folder.glob("*.xml"):
        text = path.read_text()
        assert "example.org" not in text
        text = text.replace("127.0.0.1:8020", conf["fs.defaultFS"].removeprefix("hdfs://"))
        text = text.replace("127.0.0.1:9870", conf["dfs.namenode.http-address"])
        text = text.replace("file:///var", f"file://{host.root}/var")
        if path.name == "hdfs-site.xml":
            own = f"<name>dfs.namenode.secondary.http-address</name><value>127.0.0.1:{free_port()}</value>"
            text = text.replace("</configuration>", f"<property>{own}</property></configuration>")
        path.write_text(text)


def check_first_checkpoint(host: Host, current: Path, message: str) -> None:
    newest = max(path for path in current.glob("fsimage_*") if path.suffix != ".md5")
    ours = host.root / "var/lib/hdfs-checkpointer/secondary/current" / newest.name
    assert read_md5_file(ours) == read_md5_file(newest)
    assert int(newest.name.rpartition("_")[2]) > 0
    assert re.search(r"^secondary at http://127\.0\.0\.1:\d+, ready, ", message, re.MULTILINE)
    assert re.search(r"^CHECKPOINTER OK ", message, re.MULTILINE)


def test_command_blocks_are_run_unless_for_another_platform() -> None:
    """Blocks without the language `sh` need Debian's package manager, containers, or a network."""
    page = (REPOSITORY / "docs" / "install.md").read_text()
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len([1 for language, _ in fences if language == "sh"]) == len(blocks())
    assert all(re.search("apt-get|podman|/pip install", text) for language, text in fences if not language)


def test_the_page_installs_every_file_of_config() -> None:
    commands = "\n".join(text for _, text in blocks())
    for path in (REPOSITORY / "config").iterdir():
        unit = path.suffix in (".service", ".timer") and f"*{path.suffix}" in commands
        assert path.name in commands or unit or path.is_dir()

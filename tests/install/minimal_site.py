"""Sites of docs/install.md's minimal configurations in a test's folder, and the programs that run there."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from hadoop_common.configuration import Configuration
from image_format.md5_file import read_md5_file
from namenode_stub.config import stub_config
from namenode_stub.edit_journals import open_other_journals
from namenode_stub.formatting import format_storage, new_storage_info
from namenode_stub.node import NameNodeStub
from namenode_stub.ports import free_port
from tests.cli_runner import run_cli
from tests.install.host import REPOSITORY
from tests.interop.hadoop_process import wait_until
from tests.interop.our_commands import CHECKOUT

HOST = "127.0.0.1"
DEFAULT_PORTS = {
    "secondary": {"dfs.namenode.secondary.http-address": 9868},
    "standby": {"dfs.namenode.secondary.http-address": 9868},
    "journalnode": {"dfs.journalnode.rpc-address": 8485, "dfs.journalnode.http-address": 8480},
}


class Site:
    """Copies of the minimal configurations below `root`, with addresses of 127.0.0.1."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._ports: dict[str, int] = {}

    def conf(self, role: str, name: str, **own: str) -> Path:
        """Write the configuration of `role` into the folder `name`, with other values or more keys from `own`."""
        folder = self.root / name
        folder.mkdir()
        for source in (REPOSITORY / "config" / role).glob("*.xml"):
            text = source.read_text().replace("/var/lib", f"{self.root}/{name}-data")
            text = re.sub(r"[\w.]+\.example\.org:\d+", lambda match: self.address(match[0]), text)
            if source.name == "hdfs-site.xml":
                more = {key: f"{HOST}:{free_port()}" for key in DEFAULT_PORTS.get(role, {})} | own
                added = (
                    f"<property><name>{key}</name><value>{value}</value></property>" for key, value in more.items()
                )
                text = text.replace("</configuration>", "".join(added) + "</configuration>")
            (folder / source.name).write_text(text)
        return folder

    def address(self, name: str) -> str:
        """Return the local address that replaces a host:port of the documents. Each call returns the same address."""
        return f"{HOST}:{self._ports.setdefault(name, free_port())}"


@contextmanager
def running(site: Site, conf: Path, *words: str, program: Sequence[str] = CHECKOUT) -> Iterator[None]:
    """Run a command of `program` as a process; end it with SIGTERM, which must succeed."""
    command = [*program, *words, "--conf", str(conf)]
    with (site.root / f"{conf.name}.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield
        assert process.poll() is None, (site.root / f"{conf.name}.log").read_text()
    finally:
        process.terminate()
        assert process.wait(600) == 0


def stub_of(conf: Path, resources: ExitStack) -> NameNodeStub:
    """Format a NameNode, activate it and change its namespace once."""
    config = stub_config(Configuration.load(conf, environment={}))
    with ExitStack() as closing:
        journals = open_other_journals(config)
        for journal in journals:
            closing.callback(journal.close)
        edits = list(config.edits_directories)
        format_storage(list(config.image_directories), edits, new_storage_info(-63), journals=journals)
    node = resources.enter_context(NameNodeStub(config))
    node.namespace.mkdirs("/user")
    return node


def check_checkpoint(conf: Path, role: str, current: Path, ours: Path) -> None:
    """Assert that a requested checkpoint reaches the NameNode, and that the daemon is healthy."""
    wait_until(lambda: run_cli("status", "--conf", conf, "--role", role).code == 0, f"the {role} daemon")
    done = run_cli("checkpoint", "--conf", conf, "--role", role, "--force")
    assert done.code == 0, done.err
    newest = max(path for path in current.glob("fsimage_*") if path.suffix != ".md5")
    assert int(newest.name.rpartition("_")[2]) > 0
    assert read_md5_file(newest) == read_md5_file(ours / "current" / newest.name)
    # the pair's other NameNode is not running
    named = ("storage", "age", "edits", "journalnodes", "daemon")
    checked = run_cli("check", "--conf", conf, "--role", role, *(word for name in named for word in ("--only", name)))
    assert checked.code == 0, checked.out

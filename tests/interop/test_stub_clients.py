"""Hadoop's clients and checkpointers on the stub, and Hadoop's programs on the stub's files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from hadoop_common.names import parse_segment
from image_format.reader import ImageFile
from namenode_stub.node import NameNodeStub
from tests.interop.client_stub import HADOOP_2, HADOOP_3, stub_of, without_times
from tests.interop.clients import ClientJvm, HdfsClient
from tests.interop.cluster import BackupNode, NameNode, SecondaryNameNode
from tests.interop.hadoop import Hadoop
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_home import SERVER
from tests.interop.hadoop_process import wait_until
from tests.interop.shell_scripts import CALLS, SCRIPT, SNAPSHOTS, TOOL_CLASSES, TOOLS
from tests.recorded_cases import imgcmp

pytestmark = pytest.mark.interop
# values that differ between any two runs: times, generated names of snapshots, addresses
CLOCK = re.compile(r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(:\d{2})?(\+\d{4})?|s\d{8}-\d{6}\.\d{3}|127\.0\.0\.1:\d+")


def without_owner(namespace: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Drop the owner, because the stub's root belongs to `hdfs`, and a NameNode's root belongs to the user who
    formatted the NameNode.
    """
    return without_times({CLOCK.sub("TIME", path): entry for path, entry in namespace.items() if path != "/"})


def perform(client: HdfsClient, script: str) -> list[tuple[str, int, list[str], list[str]]]:
    """Run each line; return its exit code, its output, and the first line of its errors."""
    found = []
    for line in script.strip().splitlines():
        words = line.removeprefix("!").split()
        if words[0] in TOOL_CLASSES:
            result = client.tool(TOOL_CLASSES[words[0]], *words[1:])
        else:
            result = client.admin(*words) if line.startswith("!") else client.shell(*words)
        out = [CLOCK.sub("TIME", each) for each in result.out.splitlines() if "txid" not in each]
        found.append((line, result.code, out, [_complaint(each) for each in result.err.splitlines()[:1]]))
    return found


def _complaint(line: str) -> str:
    """Return a command's error without the server's message."""
    return line.partition(":")[0]


# ---- the shell ---------------------------------------------------------------------------------------------


@pytest.mark.deep
@pytest.mark.parametrize("script", [SCRIPT, SNAPSHOTS, TOOLS], ids=["files", "snapshots", "tools"])
def test_hadoops_shell_finds_no_difference_between_the_stub_and_a_namenode(
    client_jvm: ClientJvm, tmp_path: Path, script: str
) -> None:
    """On both servers, every command has the same output, and the resulting namespaces are equal."""
    real = HadoopConf(tmp_path / "real")
    ours = HadoopConf(tmp_path / "ours", {"hadoop.log.dir": str(tmp_path)})
    with NameNode(real), stub_of(ours):
        expected_client, client = client_jvm.of(real), client_jvm.of(ours)
        for each in (expected_client, client):
            each.shell("-mkdir", "/t").checked()
        assert perform(client, script) == perform(expected_client, script)
        assert without_owner(client.namespace()) == without_owner(expected_client.namespace())
    reports = [path.read_text() for path in tmp_path.rglob("report.txt")]
    assert (len(reports), len(set(reports))) == ((2, 1) if script is TOOLS else (0, 0))


def test_the_hadoop_3_shell_works(client_jvm_3: ClientJvm, tmp_path: Path) -> None:
    conf = HadoopConf(tmp_path)
    with stub_of(conf, HADOOP_3) as stub:
        client = client_jvm_3.of(conf)
        for line in ("-mkdir -p /t/a/b", "-touchz /t/f", "-touch /t/g", "-mv /t/f /t/a", "-chmod 600 /t/a/f"):
            client.shell(*line.split()).checked()
        assert client.shell("-ls", "-R", "/t").out.count("\n") == 4
        stub.namespace.snapshots.allow("/t")
        for line in (
            "-createSnapshot /t one",
            "-rm -r -skipTrash /t/a",
            "-renameSnapshot /t one two",
            "-setfacl -m user:carl:rw- /t/g",
            "-setfattr -n user.x -v y /t/g",
            "-concat /t/g",
        ):
            client.shell(*line.split())
        assert "/t/.snapshot/two/a/f" in client.shell("-ls", "-R", "/t/.snapshot").out
        assert "user:carl:rw-" in client.shell("-getfacl", "/t/g").out
        for line in ("-count -q -v /t", "-du -h /t", "-df /", "-stat %A /t/g", "-cat /t/g", "-checksum /t/g"):
            client.shell(*line.split()).checked()
        client.shell("-deleteSnapshot", "/t", "two").checked()
        client.load(200, path="/load")
        before = client.namespace()
        walked = stub.namespace.walk()
    with stub_of(conf) as stub:
        assert client.namespace() == before
        assert stub.namespace.walk() == walked


@pytest.mark.deep
def test_admin_commands_of_hadoop_3_work(client_jvm_3: ClientJvm, tmp_path: Path) -> None:
    """Calls of `hdfs ec`, `storagepolicies`, `cacheadmin`, `snapshotDiff` and `dfsadmin` work, even after a restart."""
    conf = HadoopConf(tmp_path / "three", {"hadoop.log.dir": str(tmp_path)})
    client = client_jvm_3.of(conf)

    def call(line: str, client: HdfsClient = client) -> str:
        words = line.split()
        result = client.shell(*words[1:]) if words[0] == "dfs" else client.tool("interop.AdminCalls", *words)
        if result.code == 0:
            return "; ".join(result.out.strip().splitlines())
        named = [name for name in re.findall(r"\b(\w+Exception)\b", result.err) if name != "RemoteException"]
        return "!" + (named or result.err.splitlines())[0]

    with stub_of(conf, HADOOP_3) as stub:
        client.shell("-mkdir", "-p", "/t/d/e", "/t/d/old").checked()
        stub.namespace.snapshots.allow("/t")
        stub.namespace.snapshots.create("/t", "s0")
        client.shell("-mv", "/t/d/old", "/t/new").checked()
        client.shell("-mkdir", "/t/d/x").checked()
        stub.namespace.create("/t/open")
        found = {}
        for line in CALLS.strip().splitlines():
            asked, _, expected = line.partition(" | ")
            found[asked] = call(asked), expected
        assert {asked: answer for asked, (answer, _) in found.items()} == {a: e for a, (_, e) in found.items()}
        assert (tmp_path / "report.txt").exists()
        assert call("policies").split("; ") == [
            "RS-10-4-1024k DISABLED",
            "RS-3-2-1024k DISABLED",
            "RS-4-2-64k REMOVED",
            "RS-6-3-1024k ENABLED",
            "RS-LEGACY-6-3-1024k DISABLED",
            "XOR-2-1-1024k DISABLED",
        ]
        questions = [
            "policies",
            "policy /t/d/f",
            "storagePolicy /t/d/f",
            "directives",
            "pools",
            "openFiles /",
            "diff /t s0",
        ]
        before = [call(line) for line in questions]
        walked = stub.namespace.walk()
    with stub_of(conf) as stub:
        assert [call(line) for line in questions] == before
        assert stub.namespace.walk() == walked
    older = HadoopConf(tmp_path / "two")
    with stub_of(older, HADOOP_2) as stub:
        stub.namespace.snapshots.allow("/")
        stub.namespace.snapshots.create("/", "s0")
        stub.namespace.mkdirs("/new")
        # with a Hadoop 2.7 NameNode, the client falls back to the whole report
        assert call("diff / s0", client_jvm_3.of(older)) == "+\t./new; M\t."
        for line in ("policies", "codecs", "openFiles /", "storagePolicy /", "setPolicy /new"):
            assert "RpcNoSuchMethodException" in call(line, client_jvm_3.of(older))


def test_file_contents_are_refused_with_a_sentence(client_jvm: ClientJvm, tmp_path: Path) -> None:
    conf, local = HadoopConf(tmp_path), tmp_path / "local"
    local.write_text("content")
    with stub_of(conf):
        client = client_jvm.of(conf)
        client.shell("-touchz", "/f").checked()
        for line in (("-put", str(local), "/g"), ("-appendToFile", str(local), "/f")):
            result = client.shell(*line)
            assert result.code != 0
            assert "no DataNodes" in result.err


def cut_files(stub: NameNodeStub, client: HdfsClient) -> None:
    """Truncate in every way, and delete the files, because a NameNode would wait for their blocks."""
    names = stub.namespace
    names.mkdirs("/cut")
    names.snapshots.allow("/cut")
    for path in ("/cut/plain", "/cut/kept"):
        names.create(path)
        for _ in range(3):
            names.files.add_block(path)
        names.files.close(path, 100)
        if path == "/cut/plain":
            at_once = client.shell("-truncate", str(128 << 20), path).checked()
            assert "Truncated" in at_once.out
        else:
            names.snapshots.create("/cut", "one")
        waits = client.shell("-truncate", "5000", path)
        assert (waits.code, "Wait for block recovery" in waits.out) == (0, True)
        assert client.shell("-truncate", "4000", path).code != 0
        names.files.close(path, 5000)
        assert client.shell("-stat", "%b", path).out == "5000\n"
    client.shell("-truncate", "0", "/cut/plain").checked()
    names.snapshots.delete("/cut", "one")
    client.shell("-rm", "-r", "/cut").checked()


# ---- Hadoop's programs on the stub's files -----------------------------------------------------------------


def test_stub_and_namenode_alternate_on_one_storage_directory(
    client_jvm: ClientJvm, hadoop: Hadoop, tmp_path: Path
) -> None:
    """The stub continues after the NameNode, on the same storage directory."""
    conf = HadoopConf(tmp_path, {"hadoop.log.dir": str(tmp_path)})
    client = client_jvm.of(conf)
    with stub_of(conf) as stub:
        client.load(400, path="/first", seed=3)
        client.shell("-mkdir", "/t").checked()
        assert perform(client, TOOLS)
        client.shell("-rm", "-r", "/s/a").checked()
        cut_files(stub, client)
        assert perform(client, SNAPSHOTS)
        client.shell("-touchz", "/after").checked()
        image = next(path for path in stub.images.image_directories()[0].glob("fsimage_*") if not path.suffix)
        before = client.namespace()
    again = hadoop.load_and_save(image, conf.name_dir / "current" / "VERSION")
    assert imgcmp.compare(imgcmp.Image(str(image)), imgcmp.Image(str(again))) == []
    for segment in (conf.name_dir / "current").glob("edits_*"):
        name = parse_segment(segment.name)
        assert name is not None
        assert name.last is not None
        assert hadoop.view_edits(segment, "binary") == segment.read_bytes()
    with NameNode(conf):
        assert without_times(client.namespace()) == without_times(before)
        client.load(200, path="/second", seed=4)
        after = client.namespace()
    with stub_of(conf):
        assert without_times(client.namespace()) == without_times(after)


# ---- Hadoop's checkpointers --------------------------------------------------------------------------------


@pytest.mark.deep
def test_a_secondary_namenode_checkpoints_the_stub(client_jvm: ClientJvm, tmp_path: Path) -> None:
    # the stub with a namespace of Hadoop 3 refuses recent images, as Hadoop 3 does
    conf = HadoopConf(tmp_path, {"dfs.namenode.checkpoint.period": "1"} if SERVER.layout < -63 else {})
    with stub_of(conf) as stub:
        client = client_jvm.of(conf)
        for seed in (1, 2):
            client.load(100, path=f"/load{seed}", seed=seed)
            last = stub.namespace.transactions.last_txid
            SecondaryNameNode(conf).checkpoint().checked()
            assert stub.images.checkpoint_txid >= last
        before = stub.namespace.walk()
        newest = stub.images.latest_image()
        assert newest is not None
        with ImageFile.open(newest) as image:
            assert image.txid == stub.images.checkpoint_txid
    with stub_of(conf) as stub:
        assert [each.path for each in stub.namespace.walk()] == [each.path for each in before]


@pytest.mark.both_generations
@pytest.mark.skipif(not SERVER.registers_at_stub, reason="the stub announces builds of 2.7.3 and 3.4.1 only")
def test_a_backup_node_follows_the_stub(client_jvm: ClientJvm, tmp_path: Path) -> None:
    conf = HadoopConf(tmp_path, {"dfs.namenode.checkpoint.period": "3600"})
    with stub_of(conf) as stub:
        client = client_jvm.of(conf)
        client.load(50, path="/before")
        with BackupNode(conf) as backup:
            # the node registers, checkpoints, and receives edits from the segment that the checkpoint began
            wait_until(lambda: stub.images.checkpoint_txid > 0, "the backup node's checkpoint")
            client.load(300, path="/streamed")
            first = stub.namespace.transactions.log.segment_first_txid
            stub.active.roll()
            last = stub.namespace.transactions.log.segment_first_txid - 1
            held = backup.current / f"edits_{first:019d}-{last:019d}"
            wait_until(held.exists, f"{held.name} at the backup node")
            ours = conf.name_dir / "current" / held.name
            assert held.read_bytes().rstrip(b"\xff") == ours.read_bytes()


# ---- another implementation --------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [HADOOP_2, HADOOP_3])
def test_hdfs_native_client_works(tmp_path: Path, layout: int) -> None:
    native = pytest.importorskip("hdfs_native")
    conf = HadoopConf(tmp_path)
    with stub_of(conf, layout) as stub:
        client = native.Client("hdfs://{}:{}".format(*conf.rpc_address))
        client.mkdirs("/n/m", permission=0o750, create_parent=True)
        for overwrite in (False, True):
            client.create("/n/f", native.WriteOptions(overwrite=overwrite)).close()
        with pytest.raises(FileExistsError):
            client.create("/n/f", native.WriteOptions())
        assert sorted(status.path for status in client.list_status("/n", recursive=True)) == ["/n/f", "/n/m"]
        client.rename("/n/f", "/n/m/g", overwrite=False)
        client.set_permission("/n/m/g", 0o600)
        client.set_owner("/n/m/g", "alice", "staff")
        client.set_times("/n/m/g", 5000, 6000)
        assert client.set_replication("/n/m/g", 2)
        info = client.get_file_info("/n/m/g")
        assert (info.owner, info.group, info.permission, info.replication) == ("alice", "staff", 0o600, 2)
        assert (info.modification_time, info.access_time, info.length) == (5000, 6000, 0)
        summary = client.get_content_summary("/n")
        assert (summary.file_count, summary.directory_count) == (1, 2)
        stub.namespace.snapshots.allow("/n")
        stub.namespace.snapshots.create("/n", "one")
        assert client.delete("/n/m", True)
        assert not client.delete("/n/m", True)
        assert [status.path for status in client.list_status("/n/.snapshot/one/m")] == ["/n/.snapshot/one/m/g"]
        with pytest.raises(FileNotFoundError):
            client.get_file_info("/n/m")
        before = stub.namespace.walk()
    with stub_of(conf) as stub:
        assert [each.path for each in stub.namespace.walk()] == [each.path for each in before]

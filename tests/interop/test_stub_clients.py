"""Hadoop's own clients and checkpointers on the stub: what they do, what they see, and what Hadoop reads of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hadoop_common.configuration import Configuration
from hadoop_common.names import parse_segment
from image_format.reader import ImageFile
from namenode_stub.config import stub_config
from namenode_stub.formatting import format_storage, new_storage_info
from namenode_stub.node import NameNodeStub
from tests.checkpointer.recorded_cases import imgcmp
from tests.interop.clients import ClientJvm, HdfsClient
from tests.interop.cluster import BackupNode, NameNode, SecondaryNameNode
from tests.interop.hadoop import Hadoop
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_process import wait_until

pytestmark = pytest.mark.interop

HADOOP_2, HADOOP_3 = -63, -67
TIMES = {"mtime", "atime"}
# What differs between any two runs: times of the day, and the names that snapshots get by themselves.
CLOCK = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}(:\d{2})?|s\d{8}-\d{6}\.\d{3}")
SCRIPT = """
-mkdir /t/a
-mkdir -p /t/a/b/c
-mkdir /t/a/b
-mkdir /t/none/x
-touchz /t/a/f
-touchz /t/a/b
-touchz /t/none/f
-ls -R /t
-ls -d /t/a
-ls /t/none
-mv /t/a/f /t/a/b
-mv /t/a/b/f /t/a/b/c/g
-mv /t/a /t/a/b
-mv /t/none /t/x
-touchz /t/h
-mv /t/h /t/a/b/c/g
-cp /t/h /t/copy
-chmod 640 /t/h
-chmod -R u=rwx,g=rx,o= /t/a
-chmod 1777 /t/a
-chown alice:staff /t/h
-chgrp -R ops /t/a/b
-chown bob /t/none
-setrep 4 /t/h
-setrep 2 /t/a
-test -e /t/h
-test -d /t/h
-test -f /t/h
-test -z /t/h
-test -e /t/none
-stat %n|%F|%o|%r|%u|%g|%b /t/h
-stat %n|%F|%r /t/a
-cat /t/h
-text /t/h
-tail /t/h
-count /t
-count -q /t
-du /t
-du -s /t
-find /t -name g
-getfacl /t/a
-setfacl -m user:carl:rw-,default:group:ops:r-x /t/a
-getfacl /t/a
-mkdir /t/a/heir
-getfacl /t/a/heir
-setfacl -x user:carl /t/a
-setfacl -k /t/a
-getfacl /t/a
-setfacl -b /t/a
-setfacl -m default:user:x:rwx /t/h
-setfattr -n user.color -v blue /t/h
-getfattr -d /t/h
-getfattr -n user.none /t/h
-setfattr -x user.color /t/h
-setfattr -x user.color /t/h
-createSnapshot /t one
-mkdir /t/.snapshot
-rmdir /t/a
-rmdir /t/a/b/c
-rm /t/a
-rm /t/none
-rm -f /t/none
-rm /t/copy
-rm -r /t/a/b/c
-mkdir /t/late
-ls -R /t
"""
SNAPSHOTS = """
-mkdir -p /s/a/b
-touchz /s/a/f
-touchz /s/a/b/g
!-allowSnapshot /s
!-allowSnapshot /s/a
-createSnapshot /s one
-createSnapshot /s one
-createSnapshot /s a/b
-createSnapshot /s .snapshot
-mv /s/a/f /s/moved
-chmod 600 /s/moved
-rm -r /s/a
-touchz /s/new
-ls -R /s
-ls -R /s/.snapshot
-ls /s/.snapshot/none
-cat /s/.snapshot/one/a/f
-test -d /s/.snapshot
-createSnapshot /s two
-createSnapshot /s
-renameSnapshot /s one 1
-renameSnapshot /s none 2
-renameSnapshot /s two 1
-ls /s/.snapshot/1/a
-mkdir /s/.snapshot/1/x
-touchz /s/.snapshot/1/x
-rm -r /s/.snapshot/1
-mv /s/new /s/.snapshot/1/new
-mv /s /t
-rm -r /s
!-disallowSnapshot /s
-deleteSnapshot /s two
-deleteSnapshot /s two
-ls -R /s/.snapshot/1
!-safemode get
!-safemode enter
-mkdir /safe
-rm -r /s/new
-createSnapshot /s three
!-rollEdits
!-saveNamespace
!-safemode leave
!-saveNamespace
!-setQuota 4 /s
-mkdir -p /s/q/r/s/t
!-setQuota 4 /none
!-clrQuota /s
!-setQuota 0 /s
!-setSpaceQuota 1g /s
!-clrSpaceQuota /s
!-rollingUpgrade query
!-disallowSnapshot /none
-ls -R /s
"""


@contextmanager
def stub_of(conf: HadoopConf, layout: int = HADOOP_2) -> Iterator[NameNodeStub]:
    """The stub in the place of the NameNode that a configuration is for."""
    config = stub_config(Configuration.load(conf.folder, environment={}))
    if not (conf.name_dir / "current").exists():
        format_storage(list(config.image_directories), list(config.edits_directories), new_storage_info(layout))
    with NameNodeStub(config) as stub:
        yield stub


def without_times(namespace: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {path: {k: v for k, v in entry.items() if k not in TIMES} for path, entry in namespace.items()}


def without_owner(namespace: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The stub's root belongs to `hdfs`, that of a NameNode to whoever formatted it."""
    return without_times({CLOCK.sub("TIME", path): entry for path, entry in namespace.items() if path != "/"})


def perform(client: HdfsClient, script: str) -> list[tuple[str, int, list[str], list[str]]]:
    """Each line's exit code, output, and the first line of what it complained."""
    found = []
    for line in script.strip().splitlines():
        words = line.removeprefix("!").split()
        result = client.admin(*words) if line.startswith("!") else client.shell(*words)
        out = [CLOCK.sub("TIME", each) for each in result.out.splitlines() if "txid" not in each]
        found.append((line, result.code, out, [_complaint(each) for each in result.err.splitlines()[:1]]))
    return found


def _complaint(line: str) -> str:
    """What a command says went wrong, less the words that are the server's own."""
    return line.partition(":")[0]


# ---- the shell --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("script", [SCRIPT, SNAPSHOTS], ids=["files", "snapshots"])
def test_hadoops_shell_finds_no_difference_between_the_stub_and_a_namenode(
    client_jvm: ClientJvm, tmp_path: Path, script: str
) -> None:
    """Command by command the same answers, and the same namespace after them."""
    real, ours = HadoopConf(tmp_path / "real"), HadoopConf(tmp_path / "ours")
    with NameNode(real), stub_of(ours):
        expected_client, client = client_jvm.of(real), client_jvm.of(ours)
        for each in (expected_client, client):
            each.shell("-mkdir", "/t").checked()
        assert perform(client, script) == perform(expected_client, script)
        assert without_owner(client.namespace()) == without_owner(expected_client.namespace())


def test_the_shell_of_hadoop_3_works_too(client_jvm_3: ClientJvm, tmp_path: Path) -> None:
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


def test_data_is_refused_with_a_sentence(client_jvm: ClientJvm, tmp_path: Path) -> None:
    conf, local = HadoopConf(tmp_path), tmp_path / "local"
    local.write_text("content")
    with stub_of(conf):
        client = client_jvm.of(conf)
        client.shell("-touchz", "/f").checked()
        for line in (("-put", str(local), "/g"), ("-appendToFile", str(local), "/f")):
            result = client.shell(*line)
            assert result.code != 0
            assert "no DataNodes" in result.err


# ---- what Hadoop reads of it ------------------------------------------------------------------------------------


def test_a_real_namenode_goes_on_where_the_stub_stopped(client_jvm: ClientJvm, hadoop: Hadoop, tmp_path: Path) -> None:
    """And the stub where the NameNode stopped; all on one storage directory."""
    conf = HadoopConf(tmp_path)
    client = client_jvm.of(conf)
    with stub_of(conf) as stub:
        client.load(400, path="/first", seed=3)
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


# ---- Hadoop's checkpointers -------------------------------------------------------------------------------------


def test_a_secondarynamenode_makes_checkpoints_of_the_stub(client_jvm: ClientJvm, tmp_path: Path) -> None:
    conf = HadoopConf(tmp_path)
    with stub_of(conf) as stub:
        client = client_jvm.of(conf)
        for seed in (1, 2):
            client.load(100, path=f"/load{seed}", seed=seed)
            last = stub.namespace.last_txid
            SecondaryNameNode(conf).checkpoint().checked()
            assert stub.images.checkpoint_txid >= last
        before = stub.namespace.walk()
        newest = stub.images.latest_image()
        assert newest is not None
        with ImageFile.open(newest) as image:
            assert image.txid == stub.images.checkpoint_txid
    with stub_of(conf) as stub:
        assert [each.path for each in stub.namespace.walk()] == [each.path for each in before]


def test_a_backup_node_keeps_in_step_with_the_stub(client_jvm: ClientJvm, tmp_path: Path) -> None:
    conf = HadoopConf(tmp_path, {"dfs.namenode.checkpoint.period": "3600"})
    with stub_of(conf) as stub:
        client = client_jvm.of(conf)
        client.load(50, path="/before")
        with BackupNode(conf) as backup:
            # It registers, checkpoints, and gets the edits from the segment on that this began.
            wait_until(lambda: stub.images.checkpoint_txid > 0, "the backup node's checkpoint")
            client.load(300, path="/streamed")
            first = stub.namespace.log.segment_first_txid
            stub.roll()
            last = stub.namespace.log.segment_first_txid - 1
            held = backup.current / f"edits_{first:019d}-{last:019d}"
            wait_until(held.exists, f"{held.name} at the backup node")
            ours = conf.name_dir / "current" / held.name
            assert held.read_bytes().rstrip(b"\xff") == ours.read_bytes()


# ---- another implementation -------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [HADOOP_2, HADOOP_3])
def test_hdfs_native(tmp_path: Path, layout: int) -> None:
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

"""Our transfers from and to a real NameNode."""

from __future__ import annotations

import hashlib
import shutil
import time
from pathlib import Path

import pytest

from checkpointer.errors import TransferError
from checkpointer.merging.offline import merge_directory, plan_directory
from checkpointer.transfer import UploadResult, download_image, download_segment, upload_image
from checkpointer.transfer.image_acceptance import ask_acceptance, has_image
from hadoop_common.names import image_name, md5_name
from tests.interop.clients import HdfsClient, Namespace, without_clock_times
from tests.interop.cluster import NameNode
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_home import SERVER
from tests.interop.hadoop_process import wait_until

pytestmark = pytest.mark.interop

PURGE_AT_ONCE = {"dfs.namenode.num.extra.edits.retained": "0", "dfs.namenode.num.checkpoints.retained": "1"}


@pytest.fixture
def purging(conf: HadoopConf) -> HadoopConf:
    """Return a configuration of a NameNode that keeps one image and only the edits that follow it."""
    conf.update(PURGE_AT_ONCE)
    return conf


def rolled(client: HdfsClient, node: NameNode, steps: int = 50, path: str = "/load") -> Namespace:
    """Write a namespace whose edits are all in finalized segments; the roll begins the next segment."""
    client.load(steps, path=path)
    client.admin("-rollEdits").checked()
    found = client.namespace()
    assert len(found) > 10
    assert node.segments
    return found


def assert_restarts_with(client: HdfsClient, node: NameNode, before: Namespace) -> None:
    node.restart()
    assert without_clock_times(client.namespace()) == without_clock_times(before)


def test_our_client_downloads_images_and_segments(
    shared_namenode: NameNode, shared_client: HdfsClient, tmp_path: Path
) -> None:
    rolled(shared_client, shared_namenode, path="/rolled")
    info = shared_namenode.storage_info
    newest = download_image(shared_namenode.url, None, info, [tmp_path])
    original = shared_namenode.current / image_name(newest.txid)
    assert newest.txid == max(shared_namenode.images)
    assert newest.paths[0].read_bytes() == original.read_bytes()
    assert newest.md5 == hashlib.md5(original.read_bytes()).hexdigest()
    for first, last in shared_namenode.segments:
        (path,) = download_segment(shared_namenode.url, first, last, info, [tmp_path]).paths
        assert path.read_bytes() == (shared_namenode.current / path.name).read_bytes()


def test_our_client_is_refused_for_another_cluster(shared_namenode: NameNode, tmp_path: Path) -> None:
    info = shared_namenode.storage_info
    stranger = type(info)(info.layout_version, info.namespace_id + 1, info.c_time, info.cluster_id)
    with pytest.raises(TransferError) as refused:
        download_image(shared_namenode.url, None, stranger, [tmp_path])
    assert refused.value.status == 403
    assert list(tmp_path.iterdir()) == []


@pytest.mark.deep
def test_a_namenode_accepts_our_merged_image_and_restarts_from_it(
    purging: HadoopConf, namenode: NameNode, client: HdfsClient, tmp_path: Path
) -> None:
    before = rolled(client, namenode, 300)
    info = namenode.storage_info
    current = tmp_path / "ours" / "current"
    current.mkdir(parents=True)
    shutil.copyfile(namenode.current / "VERSION", current / "VERSION")
    old = download_image(namenode.url, None, info, [current])
    for first, last in namenode.segments:
        download_segment(namenode.url, first, last, info, [current])
    (current / "seen_txid").write_text(f"{last}\n")
    merged = merge_directory(plan_directory(current.parent)).saved
    assert (old.txid, merged.txid) == (0, last)

    image = merged.paths[0]
    digest = (current / md5_name(image.name)).read_text().split()[0]
    assert upload_image(namenode.url, image, digest, merged.txid, info) is UploadResult.SUCCESS
    assert namenode.images == [merged.txid]
    assert namenode.segments == []
    assert (namenode.current / image.name).read_bytes() == image.read_bytes()
    message: list[str] = []
    repeated = upload_image(namenode.url, image, digest, merged.txid, info, refused=message.append)
    assert repeated is UploadResult.OLD_TRANSACTION_ID_FAILURE
    assert has_image(message[0], merged.txid), message
    # the NameNode's beans also show the image; they may be as old as the period of its metrics
    wait_until(
        lambda: ask_acceptance(namenode.url, timeout=600.0).last_txid == merged.txid, "the image among the beans"
    )
    known = ask_acceptance(namenode.url, timeout=600.0)
    assert (known.version, known.state) == (SERVER.version, "active")
    assert known.last_at is not None
    assert abs(known.last_at - time.time()) < 600
    assert known.takes_from(3600.0) == (known.last_at + 2700 if SERVER.refuses_young_images else None)
    assert_restarts_with(client, namenode, before)
    assert f"Loaded image for txid {merged.txid} " in namenode.process.log_text()

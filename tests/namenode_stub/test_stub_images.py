"""Checkpoint uploads to the stub: accepted with a purge, or refused without a trace."""

from __future__ import annotations

import http.client
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from checkpointer.errors import TransferError
from checkpointer.storage.inspector import list_images
from checkpointer.transfer import UploadResult, download_image, download_segment, upload_image
from checkpointer.transfer.namenode_settings import ask_settings
from hadoop_common.access import AccessRules
from hadoop_common.names import ImageKind, parse_image
from image_format.md5_file import read_md5_file
from image_format.proto import fsimage_pb2 as pb
from journal import ops
from journal.segment_file import list_segments
from namenode_stub.config import StubConfig
from namenode_stub.node import NameNodeStub
from site_config.keys import CHECKPOINT_PERIOD, CHECKPOINT_TXNS
from tests.image_format.image_support import build_image, delimited, minimal_sections, store
from tests.namenode_stub.stub_support import checkpoint_of, formatted, restarted_tree, write_edits
from tests.recorded_cases import imgcmp


def offer(stub: NameNodeStub, image: Path, md5: str | None = None) -> UploadResult:
    parsed = parse_image(image.name)
    assert parsed is not None
    digest = md5 or read_md5_file(image).hex()
    return upload_image(stub.server.url, image, digest, parsed.txid, stub.images.storage_info())


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def config(tmp_path: Path) -> StubConfig:
    return formatted(tmp_path)


def test_an_upload_is_accepted_and_old_files_are_purged(config: StubConfig, tmp_path: Path) -> None:
    with NameNodeStub(config) as stub:
        current = tmp_path / "name" / "current"
        for number in range(3):
            write_edits(stub, str(number))
            image = checkpoint_of(config, tmp_path / f"scratch{number}")
            assert offer(stub, image) is UploadResult.SUCCESS
        kept = [each.txid for each in list_images(current)]
        assert len(kept) == 2
        assert stub.images.checkpoint_txid == kept[-1]
        for folder in (current, tmp_path / "shared" / "current"):
            segments = list_segments(folder)
            assert segments[0].first == kept[0] + 1
            assert segments[-1].in_progress
        before = stub.namespace.walk()
    assert restarted_tree(config) == before


def assert_equals_state(image: Path, stub: NameNodeStub, segment: int) -> None:
    """Check that an image equals the namespace before the open segment, which begins at txid `segment`."""
    own, loaded = image.with_name("own"), stub.namespace.transactions.loaded
    with own.open("wb") as out:
        loaded.namespace.last_txid = segment - 1
        loaded.write(out.write)
        loaded.namespace.last_txid = segment
    assert imgcmp.compare(imgcmp.Image(str(own)), imgcmp.Image(str(image))) == []


def test_a_saved_image_equals_the_checkpoint(config: StubConfig, tmp_path: Path) -> None:
    with NameNodeStub(config) as stub:
        write_edits(stub, "a")
        stub.namespace.create("/a/open")
        stub.namespace.files.add_block("/a/open")
        first = stub.active.roll()
        image = checkpoint_of(config, tmp_path / "scratch")
        assert_equals_state(image, stub, first)


def test_the_state_can_be_saved_repeatedly_between_snapshots(config: StubConfig, tmp_path: Path) -> None:
    """Every image contains the state at the time of its write, because renumbering by one write does not affect the
    next write.
    """
    with NameNodeStub(config) as stub:
        namespace = stub.namespace
        for path in ("/s/d/e", "/z"):
            namespace.mkdirs(path)
        for path in ("/s/f", "/s/g", "/s/d/h"):
            namespace.create(path)
            namespace.files.close(path)

        def perform(op: ops.EditOp) -> None:
            with namespace.transactions.change("test"):
                namespace.transactions.perform(op)

        rounds: list[list[Callable[[], object]]] = [
            [
                lambda: perform(ops.AllowSnapshotOp(snapshot_root="/s")),
                lambda: perform(ops.CreateSnapshotOp(snapshot_root="/s", snapshot_name="s0", mtime=7)),
                lambda: namespace.rename("/s/f", "/z/f"),
                lambda: namespace.rename("/s/g", "/z/g"),
                lambda: namespace.attributes.set_permission("/s/d/h", 0o600),
            ],
            [lambda: namespace.delete("/z/f"), lambda: namespace.rename("/s/d", "/z/d")],
            [
                lambda: perform(ops.CreateSnapshotOp(snapshot_root="/s", snapshot_name="s1", mtime=8)),
                lambda: namespace.rename("/z/g", "/s/g"),
                lambda: namespace.delete("/z/d/e", recursive=True),
            ],
            [lambda: perform(ops.DeleteSnapshotOp(snapshot_root="/s", snapshot_name="s0", mtime=9))],
        ]
        for number, changes in enumerate(rounds):
            for change in changes:
                change()
            write_edits(stub, f"z/{number}")
            first = stub.active.roll()
            image = checkpoint_of(config, tmp_path / f"scratch{number}")
            assert_equals_state(image, stub, first)
            assert offer(stub, image) is UploadResult.SUCCESS


def test_a_damaged_image_is_refused_without_a_trace(config: StubConfig, tmp_path: Path) -> None:
    with NameNodeStub(config) as stub:
        write_edits(stub, "a")
        image = checkpoint_of(config, tmp_path / "scratch")
        before = names(tmp_path / "name" / "current")
        with pytest.raises(TransferError, match="MD5") as caught:
            offer(stub, image, md5="0" * 32)
        assert caught.value.status == 410
        assert names(tmp_path / "name" / "current") == before
        assert stub.images.checkpoint_txid == 0
        assert offer(stub, image) is UploadResult.SUCCESS


def test_an_upload_soon_after_the_last_is_refused(config: StubConfig, tmp_path: Path) -> None:
    now = 1000.0
    # a separate clock, and an image with the age that a restart would find
    with NameNodeStub(config, clock=lambda: now) as stub:
        write_edits(stub, "a", count=3)
        image = checkpoint_of(config, tmp_path / "scratch")
        assert offer(stub, image) is UploadResult.OLD_TRANSACTION_ID_FAILURE
        now += 0.75 * config.checkpoint_period
        assert offer(stub, image) is UploadResult.SUCCESS
        assert offer(stub, image) is UploadResult.OLD_TRANSACTION_ID_FAILURE


def test_the_rule_for_recent_images_is_reported(config: StubConfig) -> None:
    """Otherwise, checkpointers would assume that their own period applies."""
    with NameNodeStub(replace(config, checkpoint_period=5400.5, checkpoint_transactions=7)) as stub:
        found = ask_settings(stub.server.url, timeout=600)
    assert (found.get(CHECKPOINT_PERIOD, 0.0), found.get(CHECKPOINT_TXNS, 0)) == (5400.5, 7)


def test_the_age_of_the_last_checkpoint_survives_a_restart(config: StubConfig, tmp_path: Path) -> None:
    with NameNodeStub(config) as stub:
        write_edits(stub, "a", count=3)
    image = checkpoint_of(config, tmp_path / "scratch")
    stored = list_images(tmp_path / "name" / "current")[0].path
    old = stored.stat().st_mtime - config.checkpoint_period
    os.utime(stored, (old, old))
    with NameNodeStub(config) as stub:
        assert offer(stub, image) is UploadResult.SUCCESS


def test_an_image_ahead_of_the_log_is_refused(config: StubConfig, tmp_path: Path) -> None:
    with NameNodeStub(config) as stub:
        write_edits(stub, "a", count=20)
        image = checkpoint_of(config, tmp_path / "scratch")
        stub.images._durable_txid = lambda: 5
        assert offer(stub, image) is UploadResult.OLD_TRANSACTION_ID_FAILURE


def test_images_and_segments_are_served_during_a_purge(config: StubConfig, tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    with NameNodeStub(config) as stub, ThreadPoolExecutor(2) as pool:
        info = stub.images.storage_info()
        done = threading.Event()

        def fetch() -> int:
            count = 0
            while not done.is_set() or not count:
                image = download_image(stub.server.url, None, info, [tmp_path / "target"])
                for path in image.paths:
                    path.unlink()
                count += 1
            return count

        fetching = pool.submit(fetch)
        for number in range(3):
            write_edits(stub, str(number))
            assert offer(stub, checkpoint_of(config, tmp_path / f"scratch{number}")) is UploadResult.SUCCESS
        done.set()
        assert fetching.result() > 0
        segment = list_segments(tmp_path / "shared" / "current")[0]
        assert segment.last is not None
        paths = download_segment(stub.server.url, segment.first, segment.last, info, [tmp_path / "target"]).paths
        assert paths[0].read_bytes() == segment.path.read_bytes()


def forged(txid: int) -> bytes:
    """Return an image with two directories that contain each other and are not below the root."""
    sections = dict(minimal_sections(txid))
    directories = [pb.INode(type=pb.INode.DIRECTORY, id=20_000 + i, name=b"d") for i in range(2)]
    for directory in directories:
        directory.directory.permission = 0x0000010000020000 | 0o755
    header = pb.INodeSection(lastInodeId=20_001, numInodes=3)
    root = sections["INODE"][len(delimited([pb.INodeSection(lastInodeId=16385, numInodes=1)])) :]
    entries = [pb.DirEntry(parent=20_000 + i, children=[20_001 - i]) for i in range(2)]
    sections |= {"INODE": delimited([header]) + root + delimited(directories), "INODE_DIR": delimited(entries)}
    return build_image(list(sections.items()), layout_version=-67)


def test_a_forged_image_is_refused_without_a_trace(config: StubConfig, tmp_path: Path) -> None:
    with NameNodeStub(config) as stub:
        write_edits(stub, "a")
        good = checkpoint_of(config, tmp_path / "scratch")
        parsed = parse_image(good.name)
        assert parsed is not None
        image = store(tmp_path, forged(parsed.txid), good.name)
        current = tmp_path / "name" / "current"
        before = names(current)
        with pytest.raises(TransferError, match="is inconsistent"):
            offer(stub, image)
        assert names(current) == before
        assert offer(stub, good) is UploadResult.SUCCESS


def test_a_rollback_image_is_accepted_only_during_an_upgrade(config: StubConfig, tmp_path: Path) -> None:
    with NameNodeStub(config) as stub:
        write_edits(stub, "a")
        image = checkpoint_of(config, tmp_path / "scratch")
        parsed = parse_image(image.name)
        assert parsed is not None
        reason = stub.images.checkpoint_rejection(parsed.txid, ImageKind.ROLLBACK)
        assert reason == "it is a rollback image, but no rolling upgrade is in progress"
        stub.active.administration.start_rolling_upgrade()
        assert stub.images.checkpoint_rejection(parsed.txid, ImageKind.ROLLBACK) is None


def test_images_are_exchanged_only_with_permitted_hosts(tmp_path: Path) -> None:
    config = formatted(tmp_path, access=AccessRules(("127.0.0.2",)))
    with NameNodeStub(config) as stub:
        host, port = stub.server.url.removeprefix("http://").split(":")
        for method in ("GET", "PUT"):
            for source, refused in (("127.0.0.1", True), ("127.0.0.2", False)):
                connection = http.client.HTTPConnection(host, int(port), source_address=(source, 0), timeout=600)
                connection.request(method, "/imagetransfer?getimage=1&txid=latest")
                answer = connection.getresponse()
                assert (answer.status == 403, b"is not allowed from" in answer.read()) == (refused, refused)
                connection.close()

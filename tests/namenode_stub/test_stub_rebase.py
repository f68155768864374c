"""A newer base image replaces the live namespace's base image while clients continue to change the namespace."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from hadoop_common.errors import HdfsError
from journal.ops import CachePoolInfo
from namenode_stub.config import StubConfig
from namenode_stub.node import NameNodeStub
from namenode_stub.rebase import Rebaser
from tests.namenode_stub.stub_support import checkpoint_of, formatted, restarted_tree, write_edits


@pytest.fixture
def config(tmp_path: Path) -> StubConfig:
    return formatted(tmp_path)


def place(image: Path, config: StubConfig) -> None:
    """Put a checkpoint where an upload would store it."""
    for directory in config.image_directories:
        for path in (image, image.with_name(image.name + ".md5")):
            (directory / "current" / path.name).write_bytes(path.read_bytes())


def rebaser(stub: NameNodeStub, config: StubConfig) -> Rebaser:
    images = [directory / "current" for directory in config.image_directories]
    return Rebaser(stub.namespace.transactions, images, stub.active.journals, worthwhile=1)


def test_a_rebase_is_invisible_to_clients(config: StubConfig, tmp_path: Path) -> None:
    stop = threading.Event()
    with NameNodeStub(config) as stub:
        write_edits(stub, "a")
        place(checkpoint_of(config, tmp_path / "scratch"), config)
        made: list[str] = []

        def busy() -> None:
            while not stop.is_set():
                path = f"/busy/{len(made)}"
                stub.namespace.mkdirs(path)
                made.append(path)

        client = threading.Thread(target=busy)
        client.start()
        old, swap = stub.namespace.transactions.loaded, rebaser(stub, config)
        try:
            assert swap.rebase()
        finally:
            stop.set()
            client.join()
        assert stub.namespace.transactions.loaded.image.txid > old.image.txid
        assert stub.namespace.transactions.namespace is not old.namespace
        write_edits(stub, "after")
        before = stub.namespace.walk()
        assert {status.path for status in before} >= set(made)
        assert not swap.rebase()
        stub.stop()
    assert restarted_tree(config) == before


def test_a_rebase_with_missing_edits_changes_nothing(config: StubConfig, tmp_path: Path) -> None:
    with NameNodeStub(config) as stub:
        write_edits(stub, "a")
        place(checkpoint_of(config, tmp_path / "scratch"), config)
        write_edits(stub, "b")
        lost = [path for folder in config.edits_directories for path in (folder / "current").glob("edits_*-*")]
        newest = max(path.name for path in lost)
        hidden = [path.rename(tmp_path / f"{number}") for number, path in enumerate(lost) if path.name == newest]
        assert hidden
        namespace, before = stub.namespace.transactions.namespace, stub.namespace.walk()
        with pytest.raises(HdfsError):
            rebaser(stub, config).rebase()
        assert stub.namespace.transactions.namespace is namespace
        assert stub.namespace.walk() == before


@pytest.mark.parametrize("layout", [-63, -67])
def test_a_rebase_keeps_attributes_of_cache_pools_not_in_images(tmp_path: Path, layout: int) -> None:
    config = formatted(tmp_path, layout)
    with NameNodeStub(config) as stub:
        caching = stub.namespace.caching
        caching.add_pool(CachePoolInfo("p", "o", "g", 0o700, 5, 60_000, 3))
        before = caching.pools()
        write_edits(stub, "a")
        place(checkpoint_of(config, tmp_path / "scratch"), config)
        assert rebaser(stub, config).rebase()
        assert caching.pools() == before
        caching.remove_pool("p")
        assert caching.pools() == ([], False)

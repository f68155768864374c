"""Client operations: their effects, refusals without a trace, and the state after a restart."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from engine.namespace.tree import Tree
from namenode_stub.active_namespace import ActiveNamespace, OperationRefusedError
from namenode_stub.config import StubConfig
from namenode_stub.node import NameNodeStub
from tests.depth import examples
from tests.namenode_stub.stub_support import formatted, restarted_tree, uris

BLOCK = 128 << 20


@pytest.fixture
def config(tmp_path: Path) -> StubConfig:
    return formatted(tmp_path)


@pytest.fixture
def stub(config: StubConfig) -> Iterator[NameNodeStub]:
    with NameNodeStub(config) as running:
        yield running


@pytest.fixture
def namespace(stub: NameNodeStub) -> ActiveNamespace:
    return stub.namespace


@pytest.mark.parametrize("layout", [-60, -63, -64, -66, -67])
def test_all_operations_survive_a_restart(tmp_path: Path, layout: int) -> None:
    config = formatted(tmp_path, layout)
    with NameNodeStub(config) as stub:
        names = stub.namespace
        assert names.mkdirs("/a/b/c", mode=0o1777, user="alice", group="staff")
        assert not names.mkdirs("/a/b")
        names.create("/a/f", replication=2)
        first, second = names.files.add_block("/a/f"), names.files.add_block("/a/f")
        assert second == first + 1
        names.files.close("/a/f", 17)
        names.create("/a/open")
        names.files.add_block("/a/open")
        names.rename("/a/f", "/a/b/g")
        names.attributes.set_permission("/a/b/g", 0o600)
        names.attributes.set_owner("/a/b/g", user="bob")
        names.attributes.set_times("/a/b/g", mtime=5, atime=6)
        assert names.attributes.set_replication("/a/b/g", 4)
        assert not names.attributes.set_replication("/a", 4)
        names.attributes.set_quota("/a", 100, -1)
        names.create("/a/gone")
        assert names.delete("/a/gone")
        assert not names.delete("/a/gone")
        names.create("/a/open", overwrite=True)
        status = names.status("/a/b/g")
        assert (status.length, status.owner, status.group) == (BLOCK + 17, "bob", "supergroup")
        assert (status.permission, status.mtime, status.atime, status.replication) == ("600", 5, 6, 4)
        assert names.status("/a/open").open
        assert [each.path for each in names.listing("/a")] == ["/a/b", "/a/open"]
        assert [each.path for each in names.listing("/a/open")] == ["/a/open"]
        before = names.walk()
        counters = (
            stub.namespace.transactions.loaded.namespace.info.lastAllocatedBlockId,
            stub.namespace.transactions.loaded.namespace.last_inode_id,
        )
    with NameNodeStub(config) as again:
        assert again.namespace.walk() == before
        info = again.namespace.transactions.loaded.namespace.info
        assert (info.lastAllocatedBlockId, again.namespace.transactions.loaded.namespace.last_inode_id) == counters
        again.namespace.mkdirs("/a/later")


REFUSALS: list[Callable[[ActiveNamespace], Any]] = [
    lambda n: n.mkdirs("relative"),
    lambda n: n.mkdirs("/d/../x"),
    lambda n: n.mkdirs("/d//x"),
    lambda n: n.mkdirs("/d/"),
    lambda n: n.mkdirs("/d/\ud800"),
    lambda n: n.mkdirs("/f"),
    lambda n: n.mkdirs("/f/x/y"),
    lambda n: n.mkdirs("/d/" + "x" * 70000),
    lambda n: n.mkdirs("/d/new", mode=-1),
    lambda n: n.mkdirs("/d/new", mode=1 << 40),
    lambda n: n.create("/f"),
    lambda n: n.create("/d", overwrite=True),
    lambda n: n.create("/"),
    lambda n: n.create("/missing/f"),
    lambda n: n.create("/f/x"),
    lambda n: n.create("/d/new", replication=0),
    lambda n: n.create("/d/new", replication=1 << 20),
    lambda n: n.create("/d/new", client="x" * 70000),
    lambda n: n.files.add_block("/f"),
    lambda n: n.files.add_block("/d"),
    lambda n: n.files.add_block("/missing"),
    lambda n: n.files.close("/f"),
    lambda n: n.files.close("/open", -1),
    lambda n: n.files.close("/open", BLOCK + 1),
    lambda n: n.rename("/missing", "/x"),
    lambda n: n.rename("/f", "/d"),
    lambda n: n.rename("/f", "/d", overwrite=True),
    lambda n: n.rename("/d", "/full", overwrite=True),
    lambda n: n.rename("/f", "/f"),
    lambda n: n.rename("/", "/d/root"),
    lambda n: n.rename("/d", "/"),
    lambda n: n.rename("/d", "/d/sub/x"),
    lambda n: n.rename("/f", "/missing/x"),
    lambda n: n.delete("/full"),
    lambda n: n.delete("/", recursive=True),
    lambda n: n.attributes.set_permission("/missing", 0o600),
    lambda n: n.attributes.set_permission("/f", 0o7777777),
    lambda n: n.attributes.set_owner("/f", user="x" * (1 << 26)),
    lambda n: n.attributes.set_times("/f", mtime=-2),
    lambda n: n.attributes.set_times("/f", mtime=1 << 70),
    lambda n: n.attributes.set_replication("/f", 0),
    lambda n: n.attributes.set_quota("/f", 1, 1),
    lambda n: n.attributes.set_quota("/d", 0, 1),
    lambda n: n.attributes.set_quota("/d", 1, 1 << 80),
    lambda n: n.status("/missing"),
    lambda n: n.listing("/f/x"),
]


def test_refused_operations_have_no_effect(config: StubConfig, stub: NameNodeStub) -> None:
    names = stub.namespace
    names.mkdirs("/d/sub")
    names.mkdirs("/full/x")
    for path in ("/f", "/open"):
        names.create(path)
    names.files.close("/f")
    before, last = names.walk(), names.transactions.log.last_txid
    for attempt in REFUSALS:
        with pytest.raises(OperationRefusedError):
            attempt(names)
    assert names.walk() == before
    assert names.transactions.log.last_txid == names.transactions.last_txid == last
    inode_id = stub.namespace.transactions.loaded.namespace.last_inode_id
    names.mkdirs("/last")
    assert names.status("/last").id == inode_id + 1
    after = names.walk()
    stub.stop()
    assert restarted_tree(config) == after


NAMES = st.text(st.characters(exclude_characters="/"), min_size=1, max_size=5)
PATHS = st.lists(st.sampled_from(["a", "b", "c"]) | NAMES, max_size=3).map(lambda parts: "/" + "/".join(parts))
NUMBERS = st.integers(-2, 600) | st.sampled_from([BLOCK, 1 << 31, 1 << 63, -(1 << 63), 1 << 64])
OPERATIONS = st.one_of(
    st.tuples(st.just("mkdirs"), PATHS),
    st.tuples(st.just("create"), PATHS),
    st.tuples(st.just("files.add_block"), PATHS),
    st.tuples(st.just("files.close"), PATHS, NUMBERS),
    st.tuples(st.just("rename"), PATHS, PATHS),
    st.tuples(st.just("delete"), PATHS),
    st.tuples(st.just("attributes.set_permission"), PATHS, NUMBERS),
    st.tuples(st.just("attributes.set_owner"), PATHS, NAMES, NAMES),
    st.tuples(st.just("attributes.set_times"), PATHS, NUMBERS, NUMBERS),
    st.tuples(st.just("attributes.set_replication"), PATHS, NUMBERS),
    st.tuples(st.just("attributes.set_quota"), PATHS, NUMBERS, NUMBERS),
    st.tuples(st.just("transactions.roll")),
)


@examples(15)
@given(st.lists(OPERATIONS, max_size=40), st.sampled_from([-60, -63, -67]))
def test_any_operations_are_refused_or_survive_a_restart(calls: list[tuple[Any, ...]], layout: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        config = formatted(Path(scratch), layout, edits=uris(Path(scratch) / "name"), shared_edits="")
        with NameNodeStub(config) as stub:
            for name, *arguments in calls:
                try:
                    attrgetter(name)(stub.namespace)(*arguments)
                except OperationRefusedError:
                    continue
            assert stub.fail_stop.reason == ""
            before = stub.namespace.walk()
        assert restarted_tree(config) == before


def post(stub: NameNodeStub, operation: str, **options: Any) -> requests.Response:
    return requests.post(f"{stub.server.url}/namespace/{operation}", timeout=600, **options)


def test_operations_over_http(stub: NameNodeStub) -> None:
    assert post(stub, "mkdirs", json={"path": "/a"}).json() == {"result": True}
    assert post(stub, "create", json={"path": "/a/f", "overwrite": True}).status_code == 200
    assert post(stub, "roll").json() == {"result": stub.namespace.transactions.log.segment_first_txid}
    base = f"{stub.server.url}/namespace"
    assert requests.get(f"{base}/status?path=/a/f", timeout=600).json()["result"]["type"] == "FILE"
    assert [each["path"] for each in requests.get(f"{base}/list?path=/a", timeout=600).json()["result"]] == ["/a/f"]
    assert len(requests.get(f"{base}/tree", timeout=600).text.splitlines()) == 3
    status = requests.get(f"{stub.server.url}/status", timeout=600).json()
    assert (status["role"], status["failure"], len(status["editsDirectories"])) == ("active", "", 2)


@pytest.mark.parametrize(
    ("operation", "options", "status"),
    [
        ("nothing", {}, 400),
        ("mkdirs", {"json": [1]}, 400),
        ("mkdirs", {"data": b"{"}, 400),
        ("mkdirs", {"json": {}}, 400),
        ("mkdirs", {"json": {"path": 5}}, 400),
        ("mkdirs", {"json": {"path": None}}, 400),
        ("mkdirs", {"json": {"path": "/a", "mode": True}}, 400),
        ("mkdirs", {"json": {"path": "/a", "mode": "755"}}, 400),
        ("create", {"json": {"path": "/a", "overwrite": 1}}, 400),
        ("mkdirs", {"json": {"path": "/a", "nothing": 1}}, 400),
        ("roll", {"json": {"now": 1}}, 400),
        ("mkdirs", {"json": {"path": "a"}}, 409),
        ("delete", {"json": {"path": "/"}}, 409),
    ],
)
def test_bad_requests_are_answered_with_a_sentence(
    stub: NameNodeStub, operation: str, options: dict[str, Any], status: int
) -> None:
    last = stub.namespace.transactions.log.last_txid
    answer = post(stub, operation, **options)
    assert answer.status_code == status
    assert answer.json()["error"]
    assert stub.namespace.transactions.log.last_txid == last


def test_a_deep_path_is_resolved_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are only a few lookups per level, so the time of a call is linear in its depth."""
    looked_up = 0
    child = Tree.child

    def counted(tree: Tree, directory: int, name: bytes) -> int:
        nonlocal looked_up
        looked_up += 1
        return child(tree, directory, name)

    with NameNodeStub(formatted(tmp_path)) as stub:
        monkeypatch.setattr(Tree, "child", counted)
        assert stub.namespace.mkdirs("/d" * 500)
        assert looked_up < 10 * 500
        assert not stub.namespace.mkdirs("/d" * 500)
        with pytest.raises(OperationRefusedError, match="Limit 8000 characters, 1000 levels"):
            stub.namespace.mkdirs("/d" * 1001)
        with pytest.raises(OperationRefusedError, match="Limit 8000 characters, 1000 levels"):
            stub.namespace.mkdirs(("/" + "d" * 250) * 40)

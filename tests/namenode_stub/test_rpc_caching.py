"""ClientProtocol over real sockets: cache pools and directives."""

from __future__ import annotations

import getpass
import grp
import pwd
import time
from pathlib import Path
from typing import Any

import pytest

from hadoop_rpc.proto import client_namenode_pb2 as pb
from hadoop_rpc.service import CallContext
from namenode_stub.rpc.caching import caching_calls
from namenode_stub.rpc.handlers import OnceOnly
from namenode_stub.rpc.service_switch import ServiceSwitch
from tests.namenode_stub.rpc_support import Dfs, logged_since, refused, rpc_config, serving

ME = getpass.getuser()
FOREVER = ((1 << 63) - 1) // 4
BLOCK = 128 << 20


def pool(dfs: Dfs, verb: str, name: str, **info: Any) -> None:
    request = pb.CachePoolRequestProto(info=pb.CachePoolInfoProto(poolName=name, **info))
    dfs.call(f"{verb}CachePool", request, pb.EmptyProto)


def drop_pool(dfs: Dfs, name: str) -> None:
    dfs.call("removeCachePool", pb.RemoveCachePoolRequestProto(poolName=name), pb.EmptyProto)


def pools(dfs: Dfs, after: str = "") -> pb.ListCachePoolsResponseProto:
    return dfs.call("listCachePools", pb.ListCachePoolsRequestProto(prevPoolName=after), pb.ListCachePoolsResponseProto)


def directive(millis: int | None = None, *, relative: bool = False, **info: Any) -> pb.CacheDirectiveInfoProto:
    message = pb.CacheDirectiveInfoProto(**info)
    if millis is not None:
        message.expiration.CopyFrom(pb.CacheDirectiveInfoExpirationProto(millis=millis, isRelative=relative))
    return message


def add(dfs: Dfs, info: pb.CacheDirectiveInfoProto, *, force: bool = False) -> int:
    request = pb.CacheDirectiveRequestProto(info=info, cacheFlags=int(force))
    return dfs.call("addCacheDirective", request, pb.AddCacheDirectiveResponseProto).id


def modify(dfs: Dfs, info: pb.CacheDirectiveInfoProto, *, force: bool = False) -> None:
    dfs.call("modifyCacheDirective", pb.CacheDirectiveRequestProto(info=info, cacheFlags=int(force)), pb.EmptyProto)


def drop(dfs: Dfs, number: int) -> None:
    dfs.call("removeCacheDirective", pb.RemoveCacheDirectiveRequestProto(id=number), pb.EmptyProto)


def directives(dfs: Dfs, after: int = 0, **wanted: Any) -> list[pb.CacheDirectiveEntryProto]:
    request = pb.ListCacheDirectivesRequestProto(prevId=after, filter=directive(**wanted))
    answer = dfs.call("listCacheDirectives", request, pb.ListCacheDirectivesResponseProto)
    assert not answer.hasMore
    return list(answer.elements)


@pytest.mark.parametrize("layout", [-63, -67])
def test_cache_pools(tmp_path: Path, layout: int) -> None:
    config = rpc_config(tmp_path, layout)
    with serving(config, ME) as (stub, dfs):
        first = stub.namespace.transactions.last_txid
        pool(dfs, "add", "plain")
        pool(dfs, "add", "full", ownerName="o", groupName="g", mode=0o700, limit=5, maxRelativeExpiry=60_000)
        pool(dfs, "add", "gone")
        pool(dfs, "modify", "plain", limit=9)
        drop_pool(dfs, "gone")
        expected = {
            "full": ("o", "g", 0o700, 5, 60_000),
            "plain": (ME, grp.getgrgid(pwd.getpwnam(ME).pw_gid).gr_name, 0o755, 9, FOREVER),
        }

        def found() -> dict[str, tuple[Any, ...]]:
            infos = [entry.info for entry in pools(dfs).entries]
            return {i.poolName: (i.ownerName, i.groupName, i.mode, i.limit, i.maxRelativeExpiry) for i in infos}

        assert found() == expected
        assert [entry.info.poolName for entry in pools(dfs, "full").entries] == ["plain"]
        logged = logged_since(stub, first)
        assert [op.name for op in logged] == [
            "OP_ADD_CACHE_POOL", "OP_ADD_CACHE_POOL", "OP_ADD_CACHE_POOL", "OP_MODIFY_CACHE_POOL",
            "OP_REMOVE_CACHE_POOL",
        ]  # fmt: skip
        # A new pool is logged completely; for a changed pool, only the changes are logged.
        assert logged[1].pool == ("full", "o", "g", 0o700, 5, 60_000, None if layout == -63 else 1)
        assert logged[3].pool == ("plain", None, None, None, 9, None, None)
        assert all(op.rpc_client_id for op in logged)
        calls: dict[Any, str] = {
            lambda d: pool(d, "add", "plain"): "InvalidRequestException",
            lambda d: pool(d, "add", ""): "IOException",
            lambda d: pool(d, "add", "x", limit=-1): "InvalidRequestException",
            lambda d: pool(d, "add", "x", maxRelativeExpiry=-1): "InvalidRequestException",
            lambda d: pool(d, "add", "x", maxRelativeExpiry=FOREVER + 1): "InvalidRequestException",
            lambda d: pool(d, "modify", "x"): "InvalidRequestException",
            lambda d: drop_pool(d, "gone"): "InvalidRequestException",
            lambda d: drop_pool(d, ""): "IOException",
        }
        assert [refused(dfs, call) for call in calls] == list(calls.values())
        other = Dfs(stub, "nobody-known")
        for call in (
            lambda d: pool(d, "add", "x"),
            lambda d: pool(d, "modify", "full"),
            lambda d: drop_pool(d, "full"),
        ):
            assert refused(other, call) == "AccessControlException"
        assert len(pools(other).entries) == 2
        other.rpc.close()
    with serving(config, ME) as (_, dfs):
        assert found() == expected


@pytest.mark.parametrize("layout", [-63, -67])
def test_cache_directives(tmp_path: Path, layout: int) -> None:
    config = rpc_config(tmp_path, layout)
    with serving(config, ME) as (stub, dfs):
        for name in ("one", "two"):
            pool(dfs, "add", name)
        first, before = stub.namespace.transactions.last_txid, time.time_ns() // 1_000_000
        assert add(dfs, directive(path="/a", pool="one")) == 1
        assert add(dfs, directive(3_600_000, relative=True, path="/b/", pool="one", replication=3)) == 2
        assert add(dfs, directive(5, path="/old", pool="two")) == 3
        modify(dfs, directive(id=1, replication=2, pool="two"))
        modify(dfs, directive(7_200_000, relative=True, id=2))
        assert add(dfs, directive(path="/c", pool="one")) == 4
        drop(dfs, 4)
        logged = logged_since(stub, first)
        assert [op.name.removesuffix("_CACHE_DIRECTIVE") for op in logged] == [
            "OP_ADD", "OP_ADD", "OP_ADD", "OP_MODIFY", "OP_MODIFY", "OP_ADD", "OP_REMOVE",
        ]  # fmt: skip
        assert logged[0].directive[:4] == (1, "/a", 1, "one")
        # A relative time is logged as an absolute time, because the result of a replay must not depend on its date.
        assert logged[4].directive.expiration >= before + 7_200_000
        found = directives(dfs)
        assert [(e.info.id, e.info.path, e.info.pool, e.info.replication, e.stats.hasExpired) for e in found] == [
            (1, "/a", "two", 2, False), (2, "/b", "one", 3, False), (3, "/old", "two", 1, True),
        ]  # fmt: skip
        assert not any(each.info.expiration.isRelative for each in found)
        assert [each.info.id for each in directives(dfs, pool="two")] == [1, 3]
        assert [each.info.id for each in directives(dfs, path="/b")] == [2]
        assert [each.info.id for each in directives(dfs, after=1)] == [2, 3]
        assert [each.info.id for each in directives(dfs, after=3, id=2)] == [2]
    with serving(config, ME) as (stub, dfs):
        assert directives(dfs) == found
        drop_pool(dfs, "two")
        assert [each.info.id for each in directives(dfs)] == [2]
        assert add(dfs, directive(path="/d", pool="one")) == 5


def test_required_bytes_and_files_of_directives(tmp_path: Path) -> None:
    with serving(rpc_config(tmp_path), ME) as (stub, dfs):
        dfs.mkdirs("/d/below")
        stub.namespace.create("/d/f")
        stub.namespace.files.add_block("/d/f")
        stub.namespace.files.close("/d/f", 100)
        dfs.touch("/d/empty")
        pool(dfs, "add", "small", limit=250)
        add(dfs, directive(path="/d", pool="small", replication=2))
        add(dfs, directive(path="/none", pool="small"))
        stats = [each.stats for each in directives(dfs)]
        assert [(s.bytesNeeded, s.filesNeeded, s.filesCached) for s in stats] == [(200, 2, 1), (0, 0, 0)]
        assert refused(dfs, lambda d: add(d, directive(path="/d/f", pool="small"))) == "InvalidRequestException"
        add(dfs, directive(path="/d/f", pool="small"), force=True)
        total = pools(dfs).entries[0].stats
        assert (total.bytesNeeded, total.bytesOverlimit, total.filesNeeded) == (300, 50, 3)


def test_invalid_directives_are_refused(tmp_path: Path) -> None:
    with serving(rpc_config(tmp_path), ME) as (stub, dfs):
        pool(dfs, "add", "p", maxRelativeExpiry=1000)
        add(dfs, directive(path="/a", pool="p"))
        last = stub.namespace.transactions.last_txid
        calls: list[Any] = [
            lambda d: add(d, directive(path="/a")),
            lambda d: add(d, directive(path="/a", pool="")),
            lambda d: add(d, directive(path="/a", pool="none")),
            lambda d: add(d, directive(pool="p")),
            lambda d: add(d, directive(path="a", pool="p")),
            lambda d: add(d, directive(path="/a", pool="p", replication=0)),
            lambda d: add(d, directive(-1, path="/a", pool="p")),
            lambda d: add(d, directive(FOREVER + 1, relative=True, path="/a", pool="p")),
            lambda d: add(d, directive(5000, relative=True, path="/a", pool="p")),
            lambda d: modify(d, directive(path="/a")),
            lambda d: modify(d, directive(id=9)),
            lambda d: modify(d, directive(id=-9)),
            lambda d: modify(d, directive(id=1, pool="none")),
            lambda d: drop(d, 9),
            lambda d: directives(d, id=9),
            lambda d: directives(d, replication=1),
        ]
        assert {refused(dfs, call) for call in calls} == {"InvalidRequestException"}
        assert refused(dfs, lambda d: add(d, directive(id=1, path="/a", pool="p"))) == "IOException"
        dfs.safe_mode(2)
        calls = [lambda d: add(d, directive(path="/a", pool="p")), lambda d: drop(d, 1), lambda d: drop_pool(d, "p")]
        assert {refused(dfs, call) for call in calls} == {"SafeModeException"}
        assert stub.namespace.transactions.last_txid == last


def test_a_repeated_call_adds_no_second_directive(tmp_path: Path) -> None:
    """Before a restart, the call is answered from memory; afterwards, from the edits."""
    config = rpc_config(tmp_path)
    request = pb.CacheDirectiveRequestProto(info=directive(path="/a", pool="p"))
    context = CallContext(ME, "", "127.0.0.1", "p", b"0123456789abcdef", 7, 0)
    for _ in range(2):
        with serving(config, ME) as (stub, dfs):
            if not pools(dfs).entries:
                pool(dfs, "add", "p")
            calls = caching_calls(stub.namespace, OnceOnly(stub.retry_cache), ServiceSwitch(ME, ""))
            answers = [calls["addCacheDirective"](request, context) for _ in range(2)]
            assert answers == [pb.AddCacheDirectiveResponseProto(id=1)] * 2
            assert len(directives(dfs)) == 1


def test_long_lists_are_returned_in_pages(tmp_path: Path) -> None:
    with serving(rpc_config(tmp_path), ME) as (_, dfs):
        for number in range(101):
            pool(dfs, "add", f"p{number:03d}")
            add(dfs, directive(path="/a", pool="p000"))
        page = pools(dfs)
        assert (len(page.entries), page.hasMore) == (100, True)
        assert [entry.info.poolName for entry in pools(dfs, "p099").entries] == ["p100"]
        request = pb.ListCacheDirectivesRequestProto(prevId=0, filter=directive())
        answer = dfs.call("listCacheDirectives", request, pb.ListCacheDirectivesResponseProto)
        assert (len(answer.elements), answer.hasMore) == (100, True)
        assert [each.info.id for each in directives(dfs, after=100)] == [101]

"""ClientProtocol over real sockets: attributes, ACLs and extended attributes."""

from __future__ import annotations

import getpass
import grp
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_rpc.client_values import AclEntryView
from hadoop_rpc.errors import RemoteError
from hadoop_rpc.proto import client_namenode_pb2 as pb
from image_format.permission import AclScope, AclType
from namenode_stub.names.acl_rules import AclRefusedError, filtered, merged, replaced, without_defaults
from namenode_stub.node import NameNodeStub
from tests.namenode_stub.rpc_support import MASK64, Dfs, mode_message, refused, rpc_config, serving

ME = getpass.getuser()


@pytest.fixture
def dfs(tmp_path: Path) -> Iterator[Dfs]:
    with serving(rpc_config(tmp_path), ME) as (_, client):
        client.touch("/d/f")
        yield client


def test_permission_owner_times_and_replication(dfs: Dfs) -> None:
    dfs.call(
        "setPermission",
        pb.SetPermissionRequestProto(src="/d/f", permission=pb.FsPermissionProto(perm=0o100640)),
        pb.EmptyProto,
    )
    dfs.call("setOwner", pb.SetOwnerRequestProto(src="/d/f", groupname="staff"), pb.EmptyProto)
    dfs.call("setTimes", pb.SetTimesRequestProto(src="/d/f", mtime=5, atime=MASK64), pb.EmptyProto)
    file, directory = (pb.SetReplicationRequestProto(src=path, replication=2) for path in ("/d/f", "/d"))
    assert dfs.call("setReplication", file, pb.ResultProto).result
    assert not dfs.call("setReplication", directory, pb.ResultProto).result
    info = dfs.info("/d/f")
    assert info is not None
    assert (info.permission.perm, info.owner, info.group) == (0o640, ME, "staff")
    assert (info.modification_time, info.block_replication) == (5, 2)
    assert info.access_time > 5


def quota(names: int, space: int = MASK64 >> 1, path: str = "/d") -> pb.SetQuotaRequestProto:
    return pb.SetQuotaRequestProto(path=path, namespaceQuota=names & MASK64, storagespaceQuota=space)


def test_quotas_are_set_reported_and_enforced(dfs: Dfs) -> None:
    dfs.call("setQuota", quota(3), pb.EmptyProto)
    summary = dfs.path("getContentSummary", "/d", pb.GetContentSummaryResponseProto).summary
    assert (summary.quota, summary.spaceQuota) == (3, MASK64)
    dfs.touch("/d/last")
    assert refused(dfs, lambda d: d.mkdirs("/d/more")) == "NSQuotaExceededException"
    assert dfs.rename("/d/f", "/d/renamed")
    dfs.call("setQuota", quota(-1), pb.EmptyProto)
    assert dfs.mkdirs("/d/more")
    with_type = quota(1)
    with_type.storageType = pb.SSD
    assert refused(dfs, lambda d: d.call("setQuota", with_type, pb.EmptyProto)) == "IOException"
    on_file = quota(1, path="/d/last")
    assert refused(dfs, lambda d: d.call("setQuota", on_file, pb.EmptyProto)) == "ParentNotDirectoryException"


def test_only_superusers_administer(tmp_path: Path) -> None:
    with serving(rpc_config(tmp_path), "nobody-known") as (_, dfs):
        dfs.mkdirs("/d")
        calls: list[Callable[[Dfs], Any]] = [
            lambda d: d.allow("/d"),
            lambda d: d.path("disallowSnapshot", "/d", pb.EmptyProto),
            lambda d: d.safe_mode(2),
            lambda d: d.call("setQuota", quota(3), pb.EmptyProto),
            lambda d: d.call("saveNamespace", pb.SaveNamespaceRequestProto(), pb.SaveNamespaceResponseProto),
            lambda d: d.call("rollEdits", pb.EmptyProto(), pb.RollEditsResponseProto),
            lambda d: d.call("finalizeUpgrade", pb.EmptyProto(), pb.EmptyProto),
            lambda d: d.call("rollingUpgrade", pb.RollingUpgradeRequestProto(action=1), pb.RollingUpgradeResponseProto),
        ]
        assert {refused(dfs, call) for call in calls} == {"AccessControlException"}
        assert not dfs.safe_mode(3)


def entry(kind: AclType, permission: int, name: str = "", scope: AclScope = AclScope.ACCESS) -> pb.AclEntryProto:
    return pb.AclEntryProto(type=kind, scope=scope, permissions=permission, name=name or None)


def acl(dfs: Dfs, method: str, path: str, *entries: pb.AclEntryProto) -> None:
    dfs.call(method, pb.AclSpecRequestProto(src=path, aclSpec=entries), pb.EmptyProto)


def reported(dfs: Dfs, path: str) -> list[tuple[int, int, str, int]]:
    status = dfs.path("getAclStatus", path, pb.GetAclStatusResponseProto).result
    return [(e.scope, e.type, e.name, e.permissions) for e in status.entries]


@pytest.mark.parametrize(("layout", "sent"), [(-63, b"\x08\xbc\x23"), (-67, b"\x08\xbc\x03")])
@pytest.mark.parameters(2)
def test_acl_changes_of_setfacl(tmp_path: Path, layout: int, sent: bytes) -> None:
    config = rpc_config(tmp_path, layout)
    with serving(config, ME) as (stub, dfs):
        dfs.touch("/d/f")
        assert reported(dfs, "/d/f") == []
        acl(dfs, "modifyAclEntries", "/d/f", entry(AclType.USER, 7, "bob"))
        assert reported(dfs, "/d/f") == [(0, AclType.USER, "bob", 7), (0, AclType.GROUP, "", 4)]
        info = dfs.info("/d/f")
        assert info is not None
        # The mask takes the group's place in the mode 0o674; in Hadoop 2, an extra bit shows that an ACL exists.
        assert (info.permission.SerializeToString(), info.flags) == (sent, 1)
        acl(dfs, "modifyAclEntries", "/d", entry(AclType.GROUP, 5, "ops", AclScope.DEFAULT))
        dfs.mkdirs("/d/sub")
        assert (1, AclType.GROUP, "ops", 5) in reported(dfs, "/d/sub")
        assert (0, AclType.GROUP, "ops", 5) in reported(dfs, "/d/sub")
        mine = pb.MkdirsRequestProto(
            src="/d/mine", masked=mode_message(0o700), unmasked=mode_message(0o777), createParent=False
        )
        assert dfs.call("mkdirs", mine, pb.ResultProto).result
        made = dfs.info("/d/mine")
        # in Hadoop 3, the default ACL applies instead of the client's umask
        assert made is not None
        assert made.permission.perm & 0o777 == (0o700 if layout == -63 else 0o754)
        dfs.path("removeDefaultAcl", "/d/sub", pb.EmptyProto)
        assert all(scope == AclScope.ACCESS for scope, *_ in reported(dfs, "/d/sub"))
        acl(dfs, "removeAclEntries", "/d/f", entry(AclType.USER, 0, "bob"))
        acl(dfs, "removeAclEntries", "/d/f", entry(AclType.MASK, 0))
        assert reported(dfs, "/d/f") == []
        spec = [
            entry(AclType.USER, 6),
            entry(AclType.GROUP, 4),
            entry(AclType.OTHER, 0),
            entry(AclType.GROUP, 6, "ops"),
        ]
        acl(dfs, "setAcl", "/d/f", *spec)
        assert reported(dfs, "/d/f") == [(0, AclType.GROUP, "", 4), (0, AclType.GROUP, "ops", 6)]
        assert refused(dfs, lambda d: acl(d, "setAcl", "/d/f", entry(AclType.USER, 6))) == "AclException"
        on_file = entry(AclType.USER, 6, "x", AclScope.DEFAULT)
        assert refused(dfs, lambda d: acl(d, "modifyAclEntries", "/d/f", on_file)) == "AclException"
        dfs.path("removeAcl", "/d", pb.EmptyProto)
        assert reported(dfs, "/d") == []
        before = [reported(dfs, path) for path in ("/d", "/d/f", "/d/sub")], stub.namespace.walk()
    with serving(config, ME) as (stub, dfs):
        assert ([reported(dfs, path) for path in ("/d", "/d/f", "/d/sub")], stub.namespace.walk()) == before


def test_extended_attribute_calls(dfs: Dfs) -> None:
    def put(name: str, value: bytes, flag: int, namespace: int = 0) -> None:
        xattr = pb.XAttrProto(namespace=namespace, name=name, value=value)
        dfs.call("setXAttr", pb.SetXAttrRequestProto(src="/d/f", xAttr=xattr, flag=flag), pb.EmptyProto)

    def held(*names: str) -> list[tuple[str, bytes]]:
        wanted = [pb.XAttrProto(namespace=0, name=name) for name in names]
        request = pb.GetXAttrsRequestProto(src="/d/f", xAttrs=wanted)
        return [(x.name, x.value) for x in dfs.call("getXAttrs", request, pb.GetXAttrsResponseProto).xAttrs]

    put("a", b"1", 1)
    put("b", b"2", 3)
    put("a", b"3", 2)
    assert sorted(held()) == [("a", b"3"), ("b", b"2")]
    assert held("b") == [("b", b"2")]
    listed = dfs.path("listXAttrs", "/d/f", pb.GetXAttrsResponseProto).xAttrs
    assert sorted(xattr.name for xattr in listed) == ["a", "b"]
    remove = pb.RemoveXAttrRequestProto(src="/d/f", xAttr=pb.XAttrProto(namespace=0, name="a"))
    dfs.call("removeXAttr", remove, pb.EmptyProto)
    assert held() == [("b", b"2")]
    for call in (
        lambda d: put("b", b"", 1),
        lambda d: put("new", b"", 2),
        lambda d: put("x", b"", 1, namespace=3),
        lambda d: held("a"),
        lambda d: d.call("removeXAttr", remove, pb.EmptyProto),
    ):
        assert refused(dfs, call) == "IOException"
    with pytest.raises(RemoteError, match=r"security\.hdfs\.unreadable\.by\.superuser cannot be changed"):
        put("hdfs.unreadable.by.superuser", b"", 1, namespace=2)


# ---- the rules of ACLs, without a namespace -----------------------------------------------------------------------

ENTRIES = st.builds(
    AclEntryView,
    st.sampled_from([0, 1]),
    st.sampled_from([AclType.USER, AclType.GROUP]),
    st.sampled_from(["", "a", "b"]),
    st.integers(0, 7),
) | st.builds(
    AclEntryView,
    st.sampled_from([0, 1]),
    st.sampled_from([AclType.MASK, AclType.OTHER]),
    st.just(""),
    st.integers(0, 7),
)
MINIMAL = [AclEntryView(0, kind, "", 5) for kind in (AclType.USER, AclType.GROUP, AclType.OTHER)]


def check(entries: list[AclEntryView]) -> None:
    """Check the invariants of AclStorage."""
    keys = [(e.scope, e.type, e.name) for e in entries]
    assert keys == sorted(set(keys))
    for scope in {0} | {e.scope for e in entries}:
        own = [e for e in entries if e.scope == scope]
        assert {e.type for e in own if not e.name} >= {AclType.USER, AclType.GROUP, AclType.OTHER}
        named = any(e.name for e in own)
        assert not named or any(e.type == AclType.MASK for e in own)


@given(st.lists(st.tuples(st.sampled_from([replaced, merged, filtered]), st.lists(ENTRIES, max_size=6)), max_size=6))
def test_any_changes_leave_a_valid_acl(
    changes: list[tuple[Callable[..., list[AclEntryView]], list[AclEntryView]]],
) -> None:
    entries = MINIMAL
    for change, spec in changes:
        try:
            entries = change(entries, spec)
        except AclRefusedError:
            continue
        check(entries)
    check(without_defaults(entries))


def test_an_acl_mask_is_kept_computed_or_required() -> None:
    named = AclEntryView(0, AclType.USER, "a", 2)
    mask = AclEntryView(0, AclType.MASK, "", 4)
    worked_out = merged(MINIMAL, [named])
    assert AclEntryView(0, AclType.MASK, "", 7) in worked_out
    given_mask = merged(MINIMAL, [named, mask])
    assert mask in given_mask
    # A change of the same scope recomputes the mask; a change of another scope does not.
    assert mask not in merged(given_mask, [AclEntryView(0, AclType.USER, "b", 1)])
    assert mask in merged(given_mask, [AclEntryView(1, AclType.USER, "b", 1)])
    with pytest.raises(AclRefusedError, match="mask is required"):
        filtered(given_mask, [mask])
    with pytest.raises(AclRefusedError, match="exceeds maximum"):
        merged(MINIMAL, [AclEntryView(0, AclType.USER, str(number), 1) for number in range(33)])


def test_members_of_the_supergroup_are_superusers(tmp_path: Path) -> None:
    groups = [group for group in grp.getgrall() if set(group.gr_mem) - {ME}]
    if not groups:
        pytest.skip("no group of this machine has a member")
    member = min(set(groups[0].gr_mem) - {ME})
    with NameNodeStub(rpc_config(tmp_path, supergroup=groups[0].gr_name)) as stub:
        dfs = Dfs(stub, member)
        dfs.allow("/")
        dfs.rpc.close()

"""ClientProtocol over real sockets: storage policies and erasure coding policies."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hadoop_rpc.proto import client_namenode_pb2 as pb
from namenode_stub.node import NameNodeStub
from tests.namenode_stub.rpc_support import CREATE, Dfs, logged_since, refused, rpc_config, serving

ME = getpass.getuser()
HADOOP_2, HADOOP_3 = -63, -67
LAZY_PERSIST, SHOULD_REPLICATE = 0x10, 0x80
DISABLED, ENABLED, REMOVED = 1, 2, 3
RS_6_3, XOR = "RS-6-3-1024k", "XOR-2-1-1024k"


@contextmanager
def another(stub: NameNodeStub, user: str) -> Iterator[Dfs]:
    dfs = Dfs(stub, user)
    try:
        yield dfs
    finally:
        dfs.rpc.close()


# ---- storage policies -------------------------------------------------------------------------------------------


def set_policy(dfs: Dfs, path: str, name: str) -> None:
    dfs.call("setStoragePolicy", pb.SetStoragePolicyRequestProto(src=path, policyName=name), pb.EmptyProto)


def policy(dfs: Dfs, path: str) -> str:
    return dfs.path("getStoragePolicy", path, pb.GetStoragePolicyResponseProto).storagePolicy.name


def policy_id(dfs: Dfs, path: str) -> int:
    info = dfs.info(path)
    assert info is not None
    return info.storagePolicy


@pytest.mark.parametrize(
    ("layout", "extra"), [(HADOOP_2, set()), (-66, {"PROVIDED"}), (HADOOP_3, {"PROVIDED", "ALL_NVDIMM"})]
)
def test_storage_policies_of_each_layout(tmp_path: Path, layout: int, extra: set[str]) -> None:
    with serving(rpc_config(tmp_path, layout), ME) as (_, dfs):
        found = dfs.call("getStoragePolicies", pb.EmptyProto(), pb.GetStoragePoliciesResponseProto).policies
        assert {each.name for each in found} == {
            "COLD", "WARM", "HOT", "ONE_SSD", "ALL_SSD", "LAZY_PERSIST", *extra,
        }  # fmt: skip
        assert [each.policyId for each in found] == sorted(each.policyId for each in found)
        hot = next(each for each in found if each.name == "HOT")
        assert list(hot.creationPolicy.storageTypes) == [pb.DISK]
        assert list(hot.replicationFallbackPolicy.storageTypes) == [pb.ARCHIVE]


def test_storage_policies_are_inherited_and_survive_a_restart(tmp_path: Path) -> None:
    config = rpc_config(tmp_path)
    with serving(config, ME) as (stub, dfs):
        dfs.touch("/d/e/f")
        assert (policy(dfs, "/d/e/f"), policy_id(dfs, "/d/e/f")) == ("HOT", 0)
        first = stub.namespace.transactions.last_txid
        set_policy(dfs, "/d", "cold")
        set_policy(dfs, "/d/e/f", "ALL_SSD")
        assert [policy(dfs, path) for path in ("/d", "/d/e", "/d/e/f", "/")] == ["COLD", "COLD", "ALL_SSD", "HOT"]
        page = dfs.page("/d")
        assert page is not None
        assert [entry.storagePolicy for entry in page.partialListing] == [2]
        dfs.path("unsetStoragePolicy", "/d/e/f", pb.EmptyProto)
        assert (policy(dfs, "/d/e/f"), policy_id(dfs, "/d/e/f")) == ("COLD", 2)
        assert [(op.name, op.path, op.policy_id) for op in logged_since(stub, first)] == [
            ("OP_SET_STORAGE_POLICY", "/d", 2),
            ("OP_SET_STORAGE_POLICY", "/d/e/f", 12),
            ("OP_SET_STORAGE_POLICY", "/d/e/f", 0),
        ]
        # Clients cannot see HDFS's internal attributes.
        assert not dfs.path("listXAttrs", "/d", pb.GetXAttrsResponseProto).xAttrs
        asked = dfs.call("getXAttrs", pb.GetXAttrsRequestProto(src="/d"), pb.GetXAttrsResponseProto)
        assert not asked.xAttrs
    with serving(config, ME) as (_, dfs):
        assert [policy(dfs, path) for path in ("/d", "/d/e", "/d/e/f", "/")] == ["COLD", "COLD", "COLD", "HOT"]
        dfs.path("unsetStoragePolicy", "/d", pb.EmptyProto)
        assert policy(dfs, "/d/e/f") == "HOT"


def test_lazy_persist_of_existing_files_cannot_be_changed(tmp_path: Path) -> None:
    with serving(rpc_config(tmp_path), ME) as (_, dfs):
        dfs.mkdirs("/d")
        dfs.touch("/d/before")
        set_policy(dfs, "/d", "LAZY_PERSIST")
        dfs.touch("/d/after")
        dfs.create("/own", flags=CREATE | LAZY_PERSIST)
        dfs.create("/named", storagePolicy="ALL_SSD")
        assert (policy(dfs, "/own"), policy(dfs, "/named")) == ("LAZY_PERSIST", "ALL_SSD")
        set_policy(dfs, "/d", "HOT")
        assert (policy(dfs, "/d/before"), policy(dfs, "/d/after")) == ("HOT", "LAZY_PERSIST")
        for path, name in (("/d/after", "HOT"), ("/d/before", "LAZY_PERSIST"), ("/d", "LUKEWARM")):
            assert refused(dfs, lambda d, p=path, n=name: set_policy(d, p, n)) == "HadoopIllegalArgumentException"
        assert refused(dfs, lambda d: d.path("unsetStoragePolicy", "/own", pb.EmptyProto)).endswith("ArgumentException")
        assert refused(dfs, lambda d: d.create("/x", storagePolicy="none")) == "HadoopIllegalArgumentException"


def test_storage_policies_of_missing_paths_are_an_error(tmp_path: Path) -> None:
    with serving(rpc_config(tmp_path), ME) as (_, dfs):
        link = pb.CreateSymlinkRequestProto(
            target="/t", link="/link", dirPerm=pb.FsPermissionProto(perm=0o755), createParent=False
        )
        dfs.call("createSymlink", link, pb.EmptyProto)
        calls = [
            lambda d: set_policy(d, "/none", "HOT"),
            lambda d: policy(d, "/none"),
            lambda d: set_policy(d, "/link", "HOT"),
            lambda d: d.path("unsetStoragePolicy", "/none", pb.EmptyProto),
        ]
        assert {refused(dfs, call) for call in calls} == {"FileNotFoundException"}


# ---- erasure coding ---------------------------------------------------------------------------------------------


def coding(dfs: Dfs, path: str) -> str:
    answer = dfs.path("getErasureCodingPolicy", path, pb.GetErasureCodingPolicyResponseProto)
    return answer.ecPolicy.name if answer.HasField("ecPolicy") else ""


def code(dfs: Dfs, path: str, name: str | None) -> None:
    dfs.call(
        "setErasureCodingPolicy", pb.SetErasureCodingPolicyRequestProto(src=path, ecPolicyName=name), pb.EmptyProto
    )


def change(dfs: Dfs, verb: str, name: str) -> None:
    dfs.call(f"{verb}ErasureCodingPolicy", pb.PolicyNameRequestProto(ecPolicyName=name), pb.EmptyProto)


def states(dfs: Dfs) -> dict[str, int]:
    answer = dfs.call("getErasureCodingPolicies", pb.EmptyProto(), pb.GetErasureCodingPoliciesResponseProto)
    return {policy.name: policy.state for policy in answer.ecPolicies}


def custom(codec: str = "rs", data: int = 4, parity: int = 2, cell: int = 64 << 10) -> pb.ErasureCodingPolicyProto:
    schema = pb.ECSchemaProto(codecName=codec, dataUnits=data, parityUnits=parity)
    return pb.ErasureCodingPolicyProto(id=0, schema=schema, cellSize=cell)


def add(dfs: Dfs, *policies: pb.ErasureCodingPolicyProto) -> list[pb.AddErasureCodingPolicyResponseProto]:
    request = pb.AddErasureCodingPoliciesRequestProto(ecPolicies=policies)
    return list(dfs.call("addErasureCodingPolicies", request, pb.AddErasureCodingPoliciesResponseProto).responses)


def test_a_namespace_of_hadoop_2_refuses_calls_of_hadoop_3(tmp_path: Path) -> None:
    with serving(rpc_config(tmp_path, HADOOP_2), ME) as (_, dfs):
        calls = [
            states,
            lambda d: coding(d, "/"),
            lambda d: code(d, "/", RS_6_3),
            lambda d: change(d, "enable", RS_6_3),
            lambda d: add(d, custom()),
            lambda d: policy(d, "/"),
            lambda d: d.path("unsetStoragePolicy", "/", pb.EmptyProto),
        ]
        assert {refused(dfs, call) for call in calls} == {"RpcNoSuchMethodException"}


def test_erasure_coding_policies_are_added_enabled_and_removed(tmp_path: Path) -> None:
    config = rpc_config(tmp_path)
    with serving(config, ME) as (stub, dfs):
        first = stub.namespace.transactions.last_txid
        assert states(dfs) == {
            RS_6_3: ENABLED, "RS-3-2-1024k": DISABLED, "RS-LEGACY-6-3-1024k": DISABLED, XOR: DISABLED,
            "RS-10-4-1024k": DISABLED,
        }  # fmt: skip
        answers = add(dfs, custom(), custom(codec="none"), custom(cell=8 << 20), custom(cell=1000), custom(data=0))
        assert [answer.succeed for answer in answers] == [True, False, False, False, False]
        assert (answers[0].policy.name, answers[0].policy.id) == ("RS-4-2-64k", 64)
        assert "Codec name none is not supported" in answers[1].errorMsg
        assert add(dfs, custom())[0].policy.id == 64
        change(dfs, "enable", "RS-4-2-64k")
        change(dfs, "enable", "RS-4-2-64k")
        change(dfs, "enable", XOR)
        change(dfs, "disable", RS_6_3)
        change(dfs, "disable", RS_6_3)
        change(dfs, "remove", "RS-4-2-64k")
        assert [op.name for op in logged_since(stub, first)] == [
            "OP_ADD_ERASURE_CODING_POLICY",
            "OP_ADD_ERASURE_CODING_POLICY",
            "OP_ENABLE_ERASURE_CODING_POLICY",
            "OP_ENABLE_ERASURE_CODING_POLICY",
            "OP_DISABLE_ERASURE_CODING_POLICY",
            "OP_REMOVE_ERASURE_CODING_POLICY",
        ]
        live = states(dfs)
        assert (live[RS_6_3], live[XOR], live["RS-4-2-64k"]) == (DISABLED, ENABLED, REMOVED)
        calls = [
            lambda d: change(d, "remove", RS_6_3),
            lambda d: change(d, "remove", "none"),
            lambda d: change(d, "enable", "none"),
            lambda d: change(d, "disable", "none"),
            lambda d: code(d, "/", RS_6_3),
        ]
        assert {refused(dfs, call) for call in calls} == {"HadoopIllegalArgumentException"}
        codecs = dfs.call("getErasureCodingCodecs", pb.EmptyProto(), pb.GetErasureCodingCodecsResponseProto).codec
        assert {codec.codec for codec in codecs} == {"rs", "rs-legacy", "xor"}
        with another(stub, "nobody-known") as other:
            calls = [lambda d: change(d, "enable", XOR), lambda d: add(d, custom(data=8))]
            assert {refused(other, call) for call in calls} == {"AccessControlException"}
    with serving(config, ME) as (_, dfs):
        # As in Hadoop, the default policy is enabled at every start.
        assert states(dfs) == {**live, RS_6_3: ENABLED}


def test_files_below_an_erasure_coded_directory_inherit_its_policy(tmp_path: Path) -> None:
    config = rpc_config(tmp_path)
    with serving(config, ME) as (stub, dfs):
        for path in ("/d/e", "/plain"):
            dfs.mkdirs(path)
        code(dfs, "/d", None)
        code(dfs, "/d/e", "REPLICATION")
        dfs.touch("/d/coded")
        dfs.touch("/d/e/replicated")
        dfs.create("/d/own", flags=CREATE | SHOULD_REPLICATE)
        change(dfs, "enable", XOR)
        dfs.create("/plain/coded", ecPolicyName=XOR)
        paths = ["/d", "/d/e", "/plain", "/d/coded", "/d/e/replicated", "/d/own", "/plain/coded"]
        expected = [RS_6_3, "", "", RS_6_3, "", "", XOR]
        assert [coding(dfs, path) for path in paths] == expected
        info = dfs.info("/d/coded")
        assert info is not None
        assert (info.ecPolicy.name, info.ecPolicy.id, info.flags & 4, info.block_replication) == (RS_6_3, 1, 4, 1)
        assert dfs.call("setReplication", pb.SetReplicationRequestProto(src="/d/coded", replication=2), pb.ResultProto)
        # The blocks of an erasure-coded file are block groups.
        stub.namespace.create("/d/grouped")
        groups = [stub.namespace.files.add_block("/d/grouped") for _ in range(2)]
        assert groups == [-(1 << 63) + 16, -(1 << 63) + 32]
        stub.namespace.files.close("/d/grouped", 5)
        assert stub.namespace.status("/d/grouped").length == 6 * (128 << 20) + 5
        dfs.call(
            "truncate", pb.TruncateRequestProto(src="/d/e/replicated", newLength=0, clientName="c"), pb.ResultProto
        )
        dfs.path("unsetErasureCodingPolicy", "/d/e", pb.EmptyProto)
        assert coding(dfs, "/d/e") == RS_6_3
        before = stub.namespace.walk()
        calls = {
            "NoECPolicySetException": lambda d: d.path("unsetErasureCodingPolicy", "/d/e", pb.EmptyProto),
            "FileNotFoundException": lambda d: coding(d, "/none"),
            "IOException": lambda d: code(d, "/d/coded", RS_6_3),
            "HadoopIllegalArgumentException": lambda d: d.create(
                "/d/x", flags=CREATE | SHOULD_REPLICATE, ecPolicyName=XOR
            ),
            "UnsupportedOperationException": lambda d: d.call(
                "truncate", pb.TruncateRequestProto(src="/d/grouped", newLength=0, clientName="c"), pb.ResultProto
            ),
        }
        assert {name: refused(dfs, call) for name, call in calls.items()} == {name: name for name in calls}
    with serving(config, ME) as (stub, dfs):
        assert stub.namespace.walk() == before
        assert [coding(dfs, path) for path in paths] == [RS_6_3, RS_6_3, "", RS_6_3, "", "", XOR]


def test_policies_are_unsupported_without_datanodes(tmp_path: Path) -> None:
    with serving(rpc_config(tmp_path), ME) as (_, dfs):
        for names, reported in (([XOR], "3 DataNodes are required"), (["none"], "does not exist")):
            request = pb.GetECTopologyResultForPoliciesRequestProto(policies=names)
            answer = dfs.call("getECTopologyResultForPolicies", request, pb.GetECTopologyResultForPoliciesResponseProto)
            assert (answer.response.isSupported, reported in answer.response.resultMessage) == (False, True)

"""JSON lines, compared with the results of an independent decoder for the same images."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_format.permission import AclScope, AclType, XAttrNamespace, pack_acl_entry, pack_xattr_name
from image_format.proto import fsimage_pb2 as pb
from image_tools.dump.json_lines import dump_json
from image_tools.dump.records import ImageRecords
from tests.image_format.image_support import build_image, delimited, minimal_sections, store
from tests.image_tools.dump_support import Viewed, joined, open_image, recorded_views
from tests.recorded_cases import imgcmp

Record = dict[str, Any]


def records_of(path: Path) -> list[Record]:
    with open_image(path) as image:
        return [json.loads(line) for line in joined(dump_json(ImageRecords(image))).splitlines()]


def chosen(records: list[Record], section: str, kind: str) -> list[Record]:
    return [record for record in records if (record["section"], record["record"]) == (section, kind)]


def views() -> list[Viewed]:
    # the independent decoder reports sub-sections that do not tile, and a missing child, as errors
    odd = ("sub-sections-partial", "dangling-child")
    return [view for view in recorded_views(large=False) if not any(name in view.id for name in odd)]


@pytest.mark.recorded
@pytest.mark.parametrize("view", views(), ids=lambda view: view.id)
def test_all_records_are_printed(view: Viewed) -> None:
    records = records_of(view.image)
    other = imgcmp.Image(str(view.image))
    assert records[0]["layoutVersion"] == other.layout
    assert [entry["name"] for entry in records[0]["sections"]] == [name for name, _, _ in other.entries]
    inodes = chosen(records, "INODE", "inode")
    assert {inode["id"]: summary_of(inode) for inode in inodes} == {
        inode_id: expected_of(inode) for inode_id, inode in other.inodes.items()
    }
    references = chosen(records, "INODE_REFERENCE", "reference")
    assert [reference["index"] for reference in references] == list(range(len(other.refs)))
    assert [reference["referredId"] for reference in references] == [reference[0] for reference in other.refs]
    assert {entry["parent"]: entry.get("children", []) for entry in chosen(records, "INODE_DIR", "directory")} == {
        parent: list(children) for parent, (children, _) in other.dirs.items()
    }
    assert {found["snapshotId"] for found in chosen(records, "SNAPSHOT", "snapshot")} == set(other.snaps)
    strings = chosen(records, "STRING_TABLE", "string")
    assert {found["id"]: found["str"] for found in strings} == other.strings
    diffs = [*chosen(records, "SNAPSHOT_DIFF", "fileDiffs"), *chosen(records, "SNAPSHOT_DIFF", "directoryDiffs")]
    found = {(1 + (d["record"] == "directoryDiffs"), d["inodeId"]): len(d["diffs"]) for d in diffs if d["diffs"]}
    assert found == {key: len(expected) for key, expected in other.diffs.items()}
    for section, kinds, expected in (
        ("SECRET_MANAGER", ("header", "key", "token"), other.secret),
        ("CACHE_MANAGER", ("header", "pool", "directive"), other.cache),
    ):
        assert [len(chosen(records, section, kind)) for kind in kinds] == [len(part) for part in expected]
    open_files = chosen(records, "FILES_UNDERCONSTRUCTION", "file")
    assert {found["inodeId"] for found in open_files} == {inode_id for inode_id, _ in other.uc}


def summary_of(inode: Record) -> Record:
    body = inode.get("file") or inode.get("directory") or inode.get("symlink") or {}
    return {
        "type": inode["type"],
        "name": inode.get("name", "").encode(),
        "owner": (body["user"], body["group"], body["mode"]),
        "mtime": body["modificationTime"],
        "blocks": [(block["blockId"], block["genStamp"], block["numBytes"]) for block in body.get("blocks", [])],
        "acl": len(body.get("acl", [])),
        "xattrs": sorted((x["name"].split(".", 1)[1], raw(x)) for x in body.get("xAttrs", [])),
    }


def raw(xattr: Record) -> bytes:
    return base64.b64decode(xattr["valueBase64"]) if "valueBase64" in xattr else xattr["value"].encode()


def signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def expected_of(inode: Record) -> Record:
    body = inode.get("file") or inode.get("dir")
    if body is None:
        permission, _, modified, _ = inode["symlink"]
        body = {"perm": permission, "mtime": modified}
    user, group, mode = body["perm"]
    blocks = [dict(block) for block in body.get("blocks", [])]
    return {
        "type": {1: "FILE", 2: "DIRECTORY", 3: "SYMLINK"}[inode["type"]],
        "name": inode["name"],
        "owner": (user, group, f"{int(mode, 8):04o}"),
        "mtime": signed(body["mtime"]),
        "blocks": [(signed(b[1][0]), b[2][0], b.get(3, (0,))[0]) for b in blocks],
        "acl": len(body.get("acl", ())),
        "xattrs": sorted((name, value) for _, name, value in body.get("xattrs", ())),
    }


def image_of(folder: Path, inode: pb.INode, **sections: bytes) -> Path:
    header = pb.INodeSection(lastInodeId=(1 << 64) - 1, numInodes=1)
    changed = dict(minimal_sections()) | {"INODE": delimited([header, inode])} | sections
    return store(folder, build_image(list(changed.items())))


def test_every_field_of_a_file_is_printed(tmp_path: Path) -> None:
    inode = pb.INode(type=pb.INode.FILE, id=5, name=b"\xff\x00")
    file = inode.file
    file.replication, file.modificationTime, file.permission = 3, (1 << 64) - 7, 1 << 40 | 2 << 16 | 0o640
    file.blocks.add(blockId=(1 << 64) - 5, genStamp=9)
    file.fileUC.clientName = "c"
    file.acl.entries.append(pack_acl_entry(AclScope.DEFAULT, AclType.USER, 1, 5))
    file.acl.entries.append(pack_acl_entry(AclScope.ACCESS, AclType.MASK, 0, 0))
    file.xAttrs.xAttrs.add(name=pack_xattr_name(XAttrNamespace.RAW, 2), value=b"\xfe")
    file.xAttrs.xAttrs.add(name=pack_xattr_name(XAttrNamespace.USER, 1), value="é".encode())
    file.blockType = pb.STRIPED
    records = records_of(image_of(tmp_path, inode))
    assert chosen(records, "INODE", "header") == [
        {"section": "INODE", "record": "header", "lastInodeId": -1, "numInodes": 1}
    ]
    assert chosen(records, "INODE", "inode") == [
        {
            "section": "INODE",
            "record": "inode",
            "type": "FILE",
            "id": 5,
            "nameBase64": "/wA=",
            "file": {
                "replication": 3,
                "modificationTime": -7,
                "user": "hdfs",
                "group": "supergroup",
                "mode": "0640",
                "blocks": [{"blockId": -5, "genStamp": 9}],
                "fileUC": {"clientName": "c"},
                "acl": ["default:user:hdfs:r-x", "mask::---"],
                "xAttrs": [{"name": "raw.supergroup", "valueBase64": "/g=="}, {"name": "user.hdfs", "value": "é"}],
                "blockType": "STRIPED",
            },
        }
    ]


def test_keys_are_always_base64(tmp_path: Path) -> None:
    secrets = [pb.SecretManagerSection(numKeys=1), pb.DelegationKey(id=1, key=b"text")]
    path = image_of(tmp_path, pb.INode(type=pb.INode.FILE, id=5), SECRET_MANAGER=delimited(secrets))
    key = chosen(records_of(path), "SECRET_MANAGER", "key")[0]
    assert key == {"section": "SECRET_MANAGER", "record": "key", "id": 1, "keyBase64": "dGV4dA=="}


@given(name=st.binary(max_size=20))
def test_names_round_trip(tmp_path_factory: pytest.TempPathFactory, name: bytes) -> None:
    path = image_of(tmp_path_factory.mktemp("image"), pb.INode(type=pb.INode.FILE, id=5, name=name))
    inode = chosen(records_of(path), "INODE", "inode")[0]
    found = base64.b64decode(inode["nameBase64"]) if "nameBase64" in inode else inode["name"].encode()
    assert found == name

"""Rows of the `inodes` table from the XML of Hadoop's viewer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.pipeline.oiv_tables import Element, OivTables, Row, number, text, time

STORAGE_POLICIES = {
    1: "PROVIDED",
    2: "COLD",
    5: "WARM",
    7: "HOT",
    10: "ONE_SSD",
    12: "ALL_SSD",
    14: "ALL_NVDIMM",
    15: "LAZY_PERSIST",
}
FILE_ONLY = ("length", "replication", "block_size", "block_count")
DIRECTORY_ONLY = ("ns_quota", "ds_quota")


def inode_rows(oiv: OivTables) -> Iterator[Row]:
    """Yield rows in the order of the image, each with the columns that this release's viewer prints."""
    for inode in oiv._inodes:
        inode_id = number(inode, "id")
        path = oiv.path(inode_id)
        if path is None:
            continue
        row: Row = dict.fromkeys((*FILE_ONLY, *DIRECTORY_ONLY))
        row |= {
            "id": inode_id,
            "parent": oiv.parents.get(inode_id),
            "path": path,
            "name": text(inode, "name"),
            "type": text(inode, "type"),
            "mtime": time(number(inode, "mtime")),
            "atime": None if inode.findtext("type") == "DIRECTORY" else time(number(inode, "atime")),
            **_permission(text(inode, "permission")),
        }
        if inode.findtext("type") == "FILE":
            row |= _file(inode)
        elif inode.findtext("type") == "DIRECTORY":
            row |= {"ns_quota": number(inode, "nsquota"), "ds_quota": number(inode, "dsquota")}
        yield row | (_policies(oiv, inode) if oiv.release3 else {})


def _file(inode: Element) -> dict[str, Any]:
    sizes = [number(block, "numBytes") for block in inode.findall("blocks/block")]
    # the viewer of Hadoop 2.7 misspells the tag
    block_size = inode.findtext("preferredBlockSize") or inode.findtext("perferredBlockSize")
    striped = inode.findtext("blockType") == "STRIPED"
    return {
        "length": sum(sizes),
        "block_count": len(sizes),
        "block_size": int(block_size or 0),
        "replication": 0 if striped else number(inode, "replication"),
    }


def _permission(shown: str) -> dict[str, Any]:
    owner, group, mode = shown.rsplit(":", 2)
    return {"owner": owner, "group": group, "permission": int(mode, 8) if mode.isdigit() else _mode(mode)}


def _mode(symbols: str) -> int:
    bits = sum(1 << (8 - place) for place, symbol in enumerate(symbols) if symbol not in "-T")
    return bits | (0o1000 if symbols[-1] in "tT" else 0)


def _policies(oiv: OivTables, inode: Element) -> dict[str, Any]:
    storage = number(inode, "storagePolicyId")
    coding = inode.findtext("erasureCodingPolicyId")
    name = None if coding is None else oiv._policy(int(coding), "policyName")
    for each in inode.findall("xattrs/xattr") if inode.findtext("type") == "DIRECTORY" else ():
        if each.findtext("ns") == "SYSTEM" and text(each, "name") == "hsm.block.storage.policy.id":
            storage = ord(text(each, "val"))
        elif each.findtext("ns") == "SYSTEM" and text(each, "name") == "hdfs.erasurecoding.policy":
            name = text(each, "val")[4:]
    return {"storage_policy": STORAGE_POLICIES[storage] if storage else None, "ec_policy": name}

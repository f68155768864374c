"""Rows of the pipeline's tables from the XML of Hadoop's viewer.

This module reads only the recorded XML, without our code. Each row has the columns that this release's viewer prints.
"""

from __future__ import annotations

import gzip
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Element = ElementTree.Element

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MANGLED = re.compile(r"\\([0-9a-f]{4,});")
_NEVER = (1 << 63) // 4 - 1
_TYPES = ("DISK", "SSD", "ARCHIVE", "RAM_DISK", "PROVIDED", "NVDIMM")
_ROOT = 16385
_DELETED = (1 << 63) - 1  # BlockCommand.NO_ACK


def time(millis: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=millis)


def utc(shown: str) -> datetime:
    return datetime.fromisoformat(shown + "+00:00")


def text(element: Element | None, tag: str) -> str:
    """Return the unescaped text of a child, or "" if it is missing."""
    found = element.findtext(tag) if element is not None else None
    return _MANGLED.sub(lambda match: chr(int(match[1], 16)), found or "")


def number(element: Element, tag: str) -> int:
    return int(element.findtext(tag) or 0)


class OivTables:
    """The tables of one recorded `oiv_*.xml.gz`."""

    def __init__(self, path: Path) -> None:
        # The viewer writes a carriage return unescaped; a parser would replace it with a line feed.
        self._root = ElementTree.fromstring(gzip.decompress(path.read_bytes()).replace(b"\r", b"&#13;"))
        self.release3 = self._root.find("version") is not None
        self._inodes = self._root.findall("INodeSection/inode")
        self._reference_records = self._root.findall("INodeReferenceSection/ref")
        self._names = {number(inode, "id"): text(inode, "name") for inode in self._inodes}
        self.parents: dict[int, int] = {}
        for directory in self._root.findall("INodeDirectorySection/directory"):
            for child in self._children(directory):
                self.parents[child] = number(directory, "parent")

    def _children(self, directory: Element) -> Iterator[int]:
        for child in directory.findall("child" if self.release3 else "inode"):
            yield int(child.text or 0)
        for child in self._reference_children(directory):
            yield number(self._reference_records[int(child.text or 0)], "referredId")

    def _reference_children(self, directory: Element) -> list[Element]:
        return directory.findall("refChild" if self.release3 else "inodereference-index")

    def path(self, inode_id: int) -> str | None:
        """Return the path of an inode in the current tree; None if the tree does not contain the inode."""
        names: list[str] = []
        while inode_id != _ROOT:
            if inode_id not in self.parents:
                return None
            names.append(self._names[inode_id])
            inode_id = self.parents[inode_id]
        return "/" + "/".join(reversed(names))

    def table(self, name: str) -> list[Row] | None:
        """Return rows in the order of the image; None if this release's viewer does not print them."""
        if not self.release3 and name in {"acls", "xattrs", "tokens"}:
            return None
        rows: Iterator[Row] = getattr(self, f"_{name}")()
        return list(rows)

    # ---- inodes ----------------------------------------------------------------------------------------------

    def _blocks(self) -> Iterator[Row]:
        for inode in self._inodes:
            for index, block in enumerate(inode.findall("blocks/block")):
                row = {"inode_id": number(inode, "id"), "index": index, **_block(block)}
                row["under_construction"] = inode.find("file-under-construction") is not None
                if not self.release3:
                    row["replication"] = number(inode, "replication")
                    row["raw_bytes"] = self._raw_bytes(row, None)
                else:
                    striped = inode.findtext("blockType") == "STRIPED"
                    row["striped"] = striped
                    row["replication"] = 0 if striped else number(inode, "replication")
                    policy = inode.findtext("erasureCodingPolicyId")
                    row["ec_policy"] = None if policy is None else self._policy(int(policy), "policyName")
                    row["raw_bytes"] = self._raw_bytes(row, policy)
                yield row

    def _policy(self, policy_id: int, field: str) -> str:
        for policy in self._root.findall("ErasureCodingSection/erasureCodingPolicy"):
            if number(policy, "policyId") == policy_id:
                return policy.findtext(field) or policy.findtext(f"ecSchema/{field}") or ""
        raise AssertionError(f"no policy {policy_id}")

    def _raw_bytes(self, row: Row, policy: str | None) -> int | None:
        if row["bytes"] == _DELETED:
            return None
        if policy is None:
            return int(row["bytes"] * row["replication"])
        data, parity = (int(self._policy(int(policy), unit)) for unit in ("dataUnits", "parityUnits"))
        cell = int(self._policy(int(policy), "cellSize"))
        left, total = row["bytes"], row["bytes"]
        while left > 0:
            total += parity * min(left, cell)
            left -= data * cell
        return int(total)

    def _directories(self) -> Iterator[Row]:
        entries = {number(d, "parent"): d for d in self._root.findall("INodeDirectorySection/directory")}
        section = self._root.find("SnapshotSection")
        assert section is not None
        allowed = {int(each.text or 0) for each in section.findall("snapshottableDir/dir")}
        roots = [number(root, "id") for root in section.findall("snapshot/root")]
        tag = "*/inodeId" if self.release3 else "diff/inodeid"
        with_diffs = {int(each.text or 0) for each in self._root.findall(f"SnapshotDiffSection/{tag}")}
        for inode in self._inodes:
            if inode.findtext("type") != "DIRECTORY":
                continue
            inode_id = number(inode, "id")
            entry = entries.get(inode_id)
            references = [] if entry is None else self._reference_children(entry)
            children = [] if entry is None else list(self._children(entry))
            row: Row = {
                "id": inode_id,
                "parent": self.parents.get(inode_id) if self.path(inode_id) else None,
                "path": self.path(inode_id),
                "children": len(children) - len(references),
                "reference_children": len(references),
                "snapshottable": inode_id in allowed,
                "with_snapshot": inode_id in with_diffs,
                "ns_quota": number(inode, "nsquota"),
                "ds_quota": number(inode, "dsquota"),
            }
            if self.release3:
                row["snapshots"] = roots.count(inode_id)
                limits = {text(each, "type"): number(each, "quota") for each in inode.findall("typeQuota")}
                row |= {f"{kind.lower()}_quota": limits.get(kind) for kind in _TYPES}
            yield row

    def _acls(self) -> Iterator[Row]:
        for inode in self._inodes:
            for index, entry in enumerate(inode.findall("acls/acl")):
                parts = _MANGLED.sub(lambda match: chr(int(match[1], 16)), entry.text or "").split(":")
                scope = "DEFAULT" if parts[0] == "default" else "ACCESS"
                kind, name, permission = parts[-3:]
                yield {
                    "inode_id": number(inode, "id"),
                    "path": self.path(number(inode, "id")),
                    "index": index,
                    "scope": scope,
                    "type": kind.upper(),
                    "name": name or None,
                    "permission": permission,
                }

    def _xattrs(self) -> Iterator[Row]:
        for inode in self._inodes:
            for index, attribute in enumerate(inode.findall("xattrs/xattr")):
                in_hex = attribute.findtext("valHex")
                value = text(attribute, "val").encode() if in_hex is None else bytes.fromhex(in_hex)
                yield {
                    "inode_id": number(inode, "id"),
                    "path": self.path(number(inode, "id")),
                    "index": index,
                    "namespace": text(attribute, "ns"),
                    "name": text(attribute, "name"),
                    "value": value,
                }

    def _under_construction(self) -> Iterator[Row]:
        leases = {
            number(each, "id"): text(each, "path") for each in self._root.findall("FileUnderConstructionSection/inode")
        }
        for inode in self._inodes:
            inode_id, feature = number(inode, "id"), inode.find("file-under-construction")
            if inode_id not in leases and feature is None:
                continue
            blocks = [_block(block) for block in inode.findall("blocks/block")]
            yield {
                "inode_id": inode_id,
                "path": leases.get(inode_id),
                "client_name": None if feature is None else text(feature, "clientName"),
                "client_machine": None if feature is None else text(feature, "clientMachine"),
                "mtime": time(number(inode, "mtime")),
                "length": _total(blocks),
                "block_count": len(blocks),
                "block_ids": [block["block_id"] for block in blocks],
                "last_block_genstamp": blocks[-1]["genstamp"] if blocks else None,
                "last_block_bytes": blocks[-1]["bytes"] if blocks else None,
            }

    # ---- snapshots -------------------------------------------------------------------------------------------

    def _snapshots(self) -> Iterator[Row]:
        section = self._root.find("SnapshotSection")
        assert section is not None
        counter = number(section, "snapshotCounter")
        for snapshot in section.findall("snapshot"):
            if not self.release3:
                yield {"snapshot_id": int(snapshot.text or 0), "snapshot_counter": counter}
                continue
            root = snapshot.find("root")
            assert root is not None
            yield {
                "snapshot_id": number(snapshot, "id"),
                "name": text(root, "name"),
                "root_id": number(root, "id"),
                "root_path": self.path(number(root, "id")),
                "creation_time": time(number(root, "mtime")),
                **_owner(root),
                "ns_quota": number(root, "nsquota"),
                "ds_quota": number(root, "dsquota"),
                "deleted": "hdfs.snapshot.deleted" in [text(each, "name") for each in root.findall("xattrs/xattr")],
                "snapshot_counter": counter,
            }

    def _snapshot_diffs(self) -> Iterator[Row]:
        section = self._root.find("SnapshotDiffSection")
        for entry in section if section is not None else ():
            inode_id = number(entry, "inodeId" if self.release3 else "inodeid")
            diffs = [each for each in entry if each.tag.lower() in {"filediff", "dirdiff"}]
            for index, diff in enumerate(diffs):
                row = _file_diff(diff) if diff.tag.lower() == "filediff" else self._directory_diff(diff)
                name = {"snapshot_id": number(diff, "snapshotId"), "name": text(diff, "name")}
                yield {"inode_id": inode_id, "index": index, **name, **row}

    def _directory_diff(self, diff: Element) -> Row:
        created = [text(each, "name") for each in diff.findall("created")]
        row: Row = {
            "kind": "DIRECTORYDIFF",
            "children_size": number(diff, "childrenSize"),
            "created_count": len(created),
            "created_names": created,
        }
        if self.release3:
            deleted, references = diff.findall("deletedInode"), diff.findall("deletedInoderef")
            row["is_snapshot_root"] = diff.find("isSnapshotRoot") is not None
            copy = diff.find("snapshotCopy")
            row["has_copy"] = copy is not None
            if copy is not None:
                row |= {**_owner(copy), "mtime": time(number(copy, "mtime"))}
                row |= {"ns_quota": number(copy, "nsquota"), "ds_quota": number(copy, "dsquota")}
        else:
            deleted, references = diff.findall("deleted/inode"), diff.findall("deleted/inodereference-index")
            row["is_snapshot_root"] = diff.findtext("isSnapshotroot") == "true"
        row["deleted_inodes"] = [int(each.text or 0) for each in deleted]
        row["deleted_references"] = [int(each.text or 0) for each in references]
        row["deleted_count"] = len(deleted) + len(references)
        return row

    def _references(self) -> Iterator[Row]:
        holders = {}
        for directory in self._root.findall("INodeDirectorySection/directory"):
            for child in self._reference_children(directory):
                holders[int(child.text or 0)] = (number(directory, "parent"), True)
        for row in self._snapshot_diffs():
            for held in row.get("deleted_references", ()):
                holders[held] = (row["inode_id"], False)
        for index, reference in enumerate(self._reference_records):
            holder, current = holders.get(index, (None, False))
            row = {
                "number": index,
                "inode_id": number(reference, "referredId"),
                "holder_id": holder,
                "current": current,
            }
            if name := text(reference, "name"):
                last = number(reference, "lastSnapshotId")
                yield {**row, "kind": "WithName", "name": name, "last_snapshot_id": last, "dst_snapshot_id": None}
            else:
                dst = number(reference, "dstSnapshotId")
                yield {**row, "kind": "DstReference", "name": None, "last_snapshot_id": None, "dst_snapshot_id": dst}

    # ---- managers --------------------------------------------------------------------------------------------

    def _cache(self) -> Iterator[Row]:
        for pool in self._root.findall("CacheManagerSection/pool"):
            yield {
                "kind": "POOL",
                "pool": text(pool, "poolName"),
                "owner": text(pool, "ownerName"),
                "group": text(pool, "groupName"),
                "permission": number(pool, "mode"),
                "byte_limit": number(pool, "limit"),
                # The viewer prints 0 if the image has no value.
                "max_relative_expiry": number(pool, "maxRelativeExpiry") or None,
                "path": None,
            }
        for directive in self._root.findall("CacheManagerSection/directive"):
            expiration = directive.find("expiration")
            assert expiration is not None
            millis = number(expiration, "millis")
            relative = expiration.find("relative") is not None or expiration.findtext("relatilve") == "true"
            yield {
                "kind": "DIRECTIVE",
                "pool": text(directive, "pool"),
                "owner": None,
                "directive_id": number(directive, "id"),
                "path": text(directive, "path"),
                "replication": number(directive, "replication"),
                "expiration_millis": millis,
                "expiration_is_relative": relative,
                "expiration": None if relative or millis >= _NEVER else time(millis),
            }

    def _tokens(self) -> Iterator[Row]:
        for key in self._root.findall("SecretManagerSection/delegationKey"):
            yield {"kind": "KEY", "master_key_id": number(key, "id"), "expiry_date": utc(text(key, "expiry"))}
        for token in self._root.findall("SecretManagerSection/token"):
            yield {
                "kind": "TOKEN",
                "master_key_id": number(token, "masterKeyId"),
                "sequence_number": number(token, "sequenceNumber"),
                "owner": text(token, "owner"),
                "renewer": text(token, "renewer"),
                "real_user": text(token, "realUser"),
                "issue_date": utc(text(token, "issueDate")),
                "max_date": utc(text(token, "maxDate")),
                "expiry_date": utc(text(token, "expiryDate")),
            }

    def secrets(self) -> list[bytes]:
        """Return the bytes of the master keys."""
        return [bytes.fromhex(text(key, "key")) for key in self._root.findall("SecretManagerSection/delegationKey")]

    def header_values(self) -> dict[tuple[str, str], int]:
        """Return the numbers in section headers that the viewer prints, by (section, field)."""
        found = {}
        for (section, field), (element, tag) in _HEADERS.items():
            shown = self._root.findtext(f"{element}/{tag}")
            if shown is not None:
                found[section, field] = int(shown)
        return found

    def record_counts(self) -> dict[str, int]:
        """Return the number of records of each section that is in every image, if this viewer prints its records."""
        elements = {
            "INODE": "INodeSection/inode",
            "INODE_DIR": "INodeDirectorySection/directory",
            "INODE_REFERENCE": "INodeReferenceSection/ref",
            "SNAPSHOT": "SnapshotSection/snapshot",
            "SNAPSHOT_DIFF": "SnapshotDiffSection/*",
            "FILES_UNDERCONSTRUCTION": "FileUnderConstructionSection/inode",
        }
        return {section: len(self._root.findall(path)) for section, path in elements.items()}


_HEADERS = {
    ("NS_INFO", "namespaceId"): ("NameSection", "namespaceId"),
    ("NS_INFO", "genstampV1"): ("NameSection", "genstampV1"),
    ("NS_INFO", "genstampV2"): ("NameSection", "genstampV2"),
    ("NS_INFO", "genstampV1Limit"): ("NameSection", "genstampV1Limit"),
    ("NS_INFO", "lastAllocatedBlockId"): ("NameSection", "lastAllocatedBlockId"),
    ("NS_INFO", "transactionId"): ("NameSection", "txid"),
    ("INODE", "lastInodeId"): ("INodeSection", "lastInodeId"),
    ("INODE", "numInodes"): ("INodeSection", "numInodes"),
    ("SNAPSHOT", "snapshotCounter"): ("SnapshotSection", "snapshotCounter"),
    ("SNAPSHOT", "numSnapshots"): ("SnapshotSection", "numSnapshots"),
    ("SECRET_MANAGER", "currentId"): ("SecretManagerSection", "currentId"),
    ("SECRET_MANAGER", "tokenSequenceNumber"): ("SecretManagerSection", "tokenSequenceNumber"),
    ("SECRET_MANAGER", "numKeys"): ("SecretManagerSection", "numDelegationKeys"),
    ("SECRET_MANAGER", "numTokens"): ("SecretManagerSection", "numTokens"),
    ("CACHE_MANAGER", "nextDirectiveId"): ("CacheManagerSection", "nextDirectiveId"),
    ("CACHE_MANAGER", "numPools"): ("CacheManagerSection", "numPools"),
    ("CACHE_MANAGER", "numDirectives"): ("CacheManagerSection", "numDirectives"),
}


def _total(blocks: list[Row]) -> int:
    return sum(block["bytes"] for block in blocks if block["bytes"] != _DELETED)


def _block(block: Element) -> Row:
    return {"block_id": number(block, "id"), "genstamp": number(block, "genstamp"), "bytes": number(block, "numBytes")}


def _owner(element: Element) -> Row:
    owner, group, mode = text(element, "permission").rsplit(":", 2)
    return {"owner": owner, "group": group, "permission": int(mode, 8)}


def _file_diff(diff: Element) -> Row:
    row: Row = {"kind": "FILEDIFF", "file_size": number(diff, "size"), "is_snapshot_root": None}
    copy = diff.find("snapshotCopy")
    if copy is None:
        return row
    blocks = [_block(block) for block in diff.findall("blocks/block")]
    row |= {"block_count": len(blocks), "block_ids": [block["block_id"] for block in blocks]}
    row["block_bytes"] = _total(blocks)
    # The viewer prints a copy even for a diff without a copy, with zeros and without an owner.
    row["has_copy"] = copy.findtext("permission") not in {None, "null:null:0000"}
    if row["has_copy"]:
        striped = copy.find("erasureCodingPolicyId") is not None
        row |= {**_owner(copy), "mtime": time(number(copy, "mtime")), "atime": time(number(copy, "atime"))}
        row["replication"] = 0 if striped else number(copy, "replication")
        row["block_size"] = number(copy, "preferredBlockSize")
    return row

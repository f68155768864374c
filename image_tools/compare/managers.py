"""Compares the counters, leases, secrets, caches and erasure coding policies of two images."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from hadoop_common.java_numbers import signed32, signed64
from image_format.proto import fsimage_pb2 as pb
from image_format.token_identity import token_identity
from image_tools.compare.difference import Difference, ItemKind, changed_attributes, compare_tables
from image_tools.compare.record_attributes import (
    cache_directive_meaning,
    cache_pool_meaning,
    erasure_coding_meaning,
    master_key_meaning,
    plain,
    token_meaning,
)
from image_tools.compare.side import ComparedImage

_NO_STRIPED_BLOCK = -(1 << 63)


def compare_counters(a: ComparedImage, b: ComparedImage) -> Iterator[Difference]:
    """Compare the layout version, NS_INFO and the numbers in the headers of sections."""
    yield from changed_attributes(ItemKind.COUNTER, "", _counters(a), _counters(b))


def _counters(side: ComparedImage) -> dict[str, Any]:
    info, inodes = side.image.ns_info(), side.records.inode_header()
    snapshots, secrets, caches = side.records.snapshot_header(), side.records.secrets().header, side.records.caches()
    striped = info.HasField("lastAllocatedStripedBlockId")
    return {
        "layoutVersion": side.image.layout_version,
        "namespaceId": signed32(info.namespaceId),
        "genstampV1": signed64(info.genstampV1),
        "genstampV2": signed64(info.genstampV2),
        "genstampV1Limit": signed64(info.genstampV1Limit),
        "lastAllocatedBlockId": signed64(info.lastAllocatedBlockId),
        "transactionId": signed64(info.transactionId),
        "rollingUpgradeStartTime": signed64(info.rollingUpgradeStartTime),
        "lastAllocatedStripedBlockId": signed64(info.lastAllocatedStripedBlockId) if striped else _NO_STRIPED_BLOCK,
        "lastInodeId": signed64(inodes.lastInodeId),
        "numInodes": signed64(inodes.numInodes),
        "snapshotCounter": signed32(snapshots.snapshotCounter),
        "numSnapshots": signed32(snapshots.numSnapshots),
        "currentMasterKeyId": signed32(secrets.currentId),
        "tokenSequenceNumber": signed32(secrets.tokenSequenceNumber),
        "nextDirectiveId": signed64(caches.header.nextDirectiveId),
        **_unknown_fields(info),
    }


def _unknown_fields(message: Message) -> dict[str, Any]:
    fields = UnknownFieldSet(message)
    found = [fields[i] for i in range(len(fields))]
    return {f"unknown field {f.field_number}": f.data if isinstance(f.data, int) else repr(f.data) for f in found}


def compare_managers(a: ComparedImage, b: ComparedImage) -> Iterator[Difference]:
    """Compare erasure coding policies, leases, master keys, tokens, cache pools and directives."""
    yield from compare_tables(ItemKind.ERASURE_CODING_POLICY, _policies(a), _policies(b))
    yield from compare_tables(ItemKind.LEASE, _leases(a), _leases(b))
    ours, theirs = a.records.secrets(), b.records.secrets()
    yield from compare_tables(
        ItemKind.MASTER_KEY,
        {signed32(key.id): master_key_meaning(key) for key in ours.keys},
        {signed32(key.id): master_key_meaning(key) for key in theirs.keys},
    )
    yield from compare_tables(ItemKind.TOKEN, _tokens(ours.tokens), _tokens(theirs.tokens), _name_token)
    old, new = a.records.caches(), b.records.caches()
    yield from compare_tables(
        ItemKind.CACHE_POOL,
        {plain(pool.poolName): cache_pool_meaning(pool) for pool in old.pools},
        {plain(pool.poolName): cache_pool_meaning(pool) for pool in new.pools},
    )
    yield from compare_tables(
        ItemKind.CACHE_DIRECTIVE,
        {directive.id: cache_directive_meaning(directive) for directive in old.directives},
        {directive.id: cache_directive_meaning(directive) for directive in new.directives},
    )


def _tokens(tokens: Iterable[pb.PersistToken]) -> dict[tuple[object, ...], dict[str, Any]]:
    """Return the tokens by sequence number, owner, time of issue and the other fields that identify a token."""
    return {
        (signed32(each.sequenceNumber), plain(each.owner), signed64(each.issueDate), token_identity(each)): (
            token_meaning(each)
        )
        for each in tokens
    }


def _name_token(key: tuple[object, ...]) -> tuple[str, str]:
    # different tokens may have the same sequence number
    return str(key[0]), f"owner {key[1]}, issueDate {key[2]}"


def _policies(side: ComparedImage) -> dict[int, dict[str, Any]]:
    return {policy.id: erasure_coding_meaning(policy) for policy in side.records.erasure_coding().policies}


def _leases(side: ComparedImage) -> dict[int, dict[str, Any]]:
    leases: dict[int, dict[str, Any]] = {}
    for entry in side.records.files_under_construction():
        inode_id = signed64(entry.inodeId)
        leases.setdefault(inode_id, {"inode": inode_id, "paths": []})["paths"].append(plain(entry.fullPath))
    for lease in leases.values():
        lease["paths"].sort()
    return leases

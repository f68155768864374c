"""Check and repair of SECRET_MANAGER, CACHE_MANAGER and ERASURE_CODING: counts, duplicates and dangling references."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError, Message

from hadoop_common.java_numbers import signed64
from hadoop_common.quantities import counted
from image_format.proto import fsimage_pb2 as pb
from image_format.token_identity import token_identity
from image_format.varint import Record, encode_delimited
from image_tools.verify.findings import Findings
from image_tools.verify.fixes import Fixes
from image_tools.verify.frame import ImageFrame
from image_tools.verify.view import SectionView

_SYSTEM_POLICIES = range(1, 6)


def check_secrets(frame: ImageFrame, findings: Findings, fixes: Fixes | None) -> None:
    """Check SECRET_MANAGER; a record with a number in field 2 is a key, otherwise a token."""
    view = SectionView(frame, "SECRET_MANAGER", findings)
    if not view.present:
        return
    header, start = view.header(pb.SecretManagerSection)
    if view.damaged:
        return
    keys: dict[int, bytes] = {}
    tokens: dict[tuple[object, ...], tuple[pb.PersistToken, Record]] = {}
    key_count = token_count = 0
    for record in view.records(start):
        if not _has(record, pb.DelegationKey, "expiryDate"):
            token = view.parse(pb.PersistToken, record)
            if token is None:
                continue
            token_count += 1
            identity = token_identity(token)
            if identity in tokens:
                view.add("secret-token-twice", f"token {token.sequenceNumber} is listed twice", record.offset)
                continue
            tokens[identity] = token, record
        elif (key := view.parse(pb.DelegationKey, record)) is not None:
            key_count += 1
            if key.id in keys:
                view.add("secret-key-twice", f"two master keys have the id {key.id}", record.offset)
                del keys[key.id]
            keys[key.id] = _stored(view, record)
    for identity, (token, record) in list(tokens.items()):
        if token.masterKeyId not in keys:
            text = f"token {token.sequenceNumber} needs master key {token.masterKeyId}, which is missing"
            view.add("secret-token-key", text, record.offset)
            del tokens[identity]
    if (header.numKeys, header.numTokens) != (key_count, token_count):
        text = f"the header counts {counted(header.numKeys, 'key')} and {counted(header.numTokens, 'token')}"
        view.add("secret-count", f"{text}, found {key_count} and {token_count}", 0)
    repaired = pb.SecretManagerSection()
    repaired.CopyFrom(header)
    _set_count(repaired, "numKeys", len(keys))
    _set_count(repaired, "numTokens", len(tokens))
    last = max((token.sequenceNumber for token, _ in tokens.values()), default=0)
    for field, used in (("currentId", max(keys, default=0)), ("tokenSequenceNumber", last)):
        if getattr(header, field) < used:
            view.add("secret-counter", f"{field} is {getattr(header, field)}, but {used} is in use", 0)
            setattr(repaired, field, used)
    records = [*keys.values(), *(_stored(view, record) for _, record in tokens.values())]
    _rewrite(view, fixes, header, repaired, records, key_count + token_count)


def check_caches(frame: ImageFrame, findings: Findings, fixes: Fixes | None) -> None:
    """Check CACHE_MANAGER; a record with a number in field 1 is a directive, otherwise a pool."""
    view = SectionView(frame, "CACHE_MANAGER", findings)
    if not view.present:
        return
    header, start = view.header(pb.CacheManagerSection)
    if view.damaged:
        return
    pools: dict[str, bytes] = {}
    directives: dict[int, bytes] = {}
    wanted: dict[int, tuple[str, Record]] = {}
    pool_count = directive_count = 0
    for record in view.records(start):
        if not _has(record, pb.CacheDirectiveInfoProto, "id"):
            pool = view.parse(pb.CachePoolInfoProto, record)
            if pool is None:
                continue
            pool_count += 1
            if pool.poolName in pools:
                view.add("cache-pool-twice", f"two pools have the name {pool.poolName}", record.offset)
                continue
            pools[pool.poolName] = _stored(view, record)
        elif (directive := view.parse(pb.CacheDirectiveInfoProto, record)) is not None:
            directive_count += 1
            if directive.id in directives:
                view.add("cache-directive-twice", f"two directives have the id {directive.id}", record.offset)
                continue
            directives[directive.id] = _stored(view, record)
            wanted[directive.id] = (directive.pool, record)
    for number, (name, record) in wanted.items():
        if name not in pools:
            view.add("cache-directive-pool", f"directive {number} belongs to the missing pool {name!r}", record.offset)
            del directives[number]
    if (header.numPools, header.numDirectives) != (pool_count, directive_count):
        text = f"the header counts {counted(header.numPools, 'pool')} and {counted(header.numDirectives, 'directive')}"
        view.add("cache-count", f"{text}, found {pool_count} and {directive_count}", 0)
    repaired = pb.CacheManagerSection()
    repaired.CopyFrom(header)
    _set_count(repaired, "numPools", len(pools))
    _set_count(repaired, "numDirectives", len(directives))
    highest = max(wanted, default=0)
    following = signed64(header.nextDirectiveId)
    if following <= highest:
        view.add("cache-next-id", f"nextDirectiveId is {following}, but a directive has {highest}", 0)
        repaired.nextDirectiveId = highest + 1
    _rewrite(view, fixes, header, repaired, [*pools.values(), *directives.values()], pool_count + directive_count)


class ErasureCodingCheck:
    """Check and repair of ERASURE_CODING.

    Attributes:
        known: 1 for a system policy or a policy in the image, by id.
    """

    def __init__(self, frame: ImageFrame, findings: Findings, fixes: Fixes | None) -> None:
        self.known: npt.NDArray[np.uint8] = np.zeros(256, np.uint8)
        self.known[list(_SYSTEM_POLICIES)] = 1
        view = SectionView(frame, "ERASURE_CODING", findings)
        if not view.present:
            return
        section, end = view.header(pb.ErasureCodingSection)
        if end < len(view.data):
            view.add(
                "record-damaged",
                f"the section contains {counted(len(view.data) - end, 'byte')} after the policies",
                end,
            )
        kept = []
        names: set[str] = set()
        numbers: set[int] = set()
        for policy in section.policies:
            if policy.id in numbers or (policy.name and policy.name in names):
                view.add("ec-twice", f"two policies have the id {policy.id} or the name {policy.name!r}", 0)
                continue
            numbers.add(policy.id)
            names.add(policy.name)
            kept.append(policy)
            if policy.id < self.known.size:
                self.known[policy.id] = 1
        if fixes is not None and len(kept) < len(section.policies):
            repaired = pb.ErasureCodingSection(policies=kept)
            fixes.replace(view.name, 0, len(view.data), encode_delimited(repaired))


def _has(record: Record, kind: type[Message], field: str) -> bool:
    """Return whether a record is a message of `kind` with `field`."""
    message = kind()
    try:
        message.ParseFromString(bytes(record.body))
    except DecodeError:
        return False
    return message.HasField(field)


def _stored(view: SectionView, record: Record) -> bytes:
    return bytes(view.data[record.offset : record.end])


def _set_count(header: Message, field: str, count: int) -> None:
    """Set a count, unless the stored count is correct."""
    if getattr(header, field) != count:
        setattr(header, field, count)


def _rewrite(
    view: SectionView, fixes: Fixes | None, old: Message, new: Message, records: list[bytes], count: int
) -> None:
    """Replace the section with a corrected header and the kept records, if either differs."""
    if fixes is not None and (old != new or len(records) != count):
        fixes.replace(view.name, 0, len(view.data), encode_delimited(new) + b"".join(records))

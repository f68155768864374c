"""Fast check for content that a NameNode refuses to load, by the rules of its parser and loaders for each record.

If another program wrote the base image, a merge checks the base image before it publishes the new image. `verify_image`
reports the same faults. Relations between records are checked when an index is built.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from google.protobuf.message import Message

from hadoop_common.hdfs_constants import ROOT_INODE_ID
from hadoop_common.quantities import counted
from image_format.errors import BufferOrigin, RecordError
from image_format.index import ImageIndex
from image_format.layout import LayoutVersion, is_unknown, supports
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.summary import SECTIONS, SectionName, is_known_section
from image_format.token_identity import token_identity
from image_format.varint import parse_message, read_record
from image_tools.loadable.inodes import REJECTED, SYSTEM_POLICIES, InodePieces, InodeRules, Kinds, Section, Sections
from image_tools.loadable.kernels.records import (
    PARSED,
    first_lost_child,
    first_odd_reference,
    first_unloadable_diff,
    first_unparsable,
)
from image_tools.loadable.tables import REQUIRED, Fields, fields_of, number_of

_Number = TypeVar("_Number", bound=np.integer[Any])

# indexed by the numbers of `next_in_diffs`
_DIFFS = np.array(
    [number_of(each) for each in (pb.DiffEntry, pb.FileDiff, pb.DirectoryDiff, pb.CreatedListEntry)], np.int64
)
_SNAPSHOT_SECTIONS = ("SNAPSHOT_DIFF", "INODE_REFERENCE")
_FIRST_POLICY_OF_USERS = 64
_POLICY_FIELDS = ("name", "schema", "cellSize")
_PIECE = 1 << 17
_CELL_UNIT = 1024
_LAST_RESERVED_BLOCK = 1 << 30
_NEVER = ((1 << 63) - 1) // 4
# KerberosName: the forms of a name with an @
_PRINCIPAL = re.compile("[^/@]+(/[^/@]+)?(@[^/@]+)?")
_PRINCIPAL_OF_HADOOP_2 = re.compile("[^/@]*(/[^/@]*)?@[^/@]*")
_NO_KINDS: Kinds = np.zeros(0, np.uint8)
_HINT = (
    "A NameNode cannot load the image correctly. If its MD5 is correct, the image was written in this state, and its "
    "copies are no better. `checkpointer image verify` lists the faults and can write a repaired copy (--repair OUT). "
    "Otherwise use an older image whose edits still exist."
)


@dataclass(frozen=True, slots=True)
class LoadFault:
    """A fault for which a NameNode refuses an image; `offset` is relative to the section."""

    section: str
    offset: int
    what: str


def load_faults(
    section: Sections, layout_version: int, kinds: Kinds = _NO_KINDS, inodes: InodePieces | None = None
) -> Iterator[LoadFault]:
    """Yield the first fault of each section, but nothing for an unknown layout.

    Args:
        section: returns the decompressed bytes of a section, or None if absent.
        kinds: array of zeros, filled with the type of each inode in two bits; see `_kinds_at`.
        inodes: results for INODE if its records are already checked.
    """
    if is_unknown(layout_version):
        return
    fields = fields_of(layout_version)
    for name in SECTIONS:
        data = section(name)
        if data is None:
            continue
        start, fault = _header_fault(name, data, layout_version)
        if fault is None and name == "INODE":
            fault = (
                InodeRules(section, layout_version).first_fault(data[start:], start, kinds)
                if inodes is None
                else inodes.fault
            )
        elif fault is None and name == "SNAPSHOT_DIFF":
            fault = _diff_fault(section, InodeRules(section, layout_version))
        elif fault is None:
            fault = _fault(name, data, start, fields)
        if fault is None and name == "INODE_REFERENCE":
            fault = _reference_fault(data)
        if fault is not None:
            yield LoadFault(name, *fault)
    yield from _missing(section)


def check_loadable(
    image: ImageFile,
    index: ImageIndex | None = None,
    before_section: Callable[[], object] = lambda: None,
    inodes: InodePieces | None = None,
) -> None:
    """Raise RecordError if a NameNode does not load an image.

    Args:
        inodes: results for INODE if its records are already checked.
        before_section: called before each section is read; an exception aborts.
        index: index of the image, or of an image with the same inodes; enables the checks of the owners of children and
            diffs.
    """
    kinds: Kinds = np.zeros(0 if index is None else index.slot_count // 4 + 1, np.uint8)
    if inodes is not None:
        kinds = inodes.kinds

    def section(name: str) -> Section | None:
        before_section()
        return image.section(name)

    _check_names(image)
    for fault in load_faults(section, image.layout_version, kinds, inodes):
        place = image.place(fault.section) if image.has_section(fault.section) else _whole(image, fault.section)
        raise place.error(RecordError, fault.what, fault.offset, _HINT)
    if index is not None and not is_unknown(image.layout_version):
        _check_directories(image, index, kinds)
        _check_diffs(image, index, kinds)


def _check_names(image: ImageFile) -> None:
    for entry in () if is_unknown(image.layout_version) else image.summary.sections:
        if not is_known_section(entry.name):
            what = f"NameNodes do not support a section named {str(entry.name)!r}"
            raise _whole(image, entry.name).error(RecordError, what, entry.offset, _HINT)


def _whole(image: ImageFile, section: str) -> BufferOrigin:
    return BufferOrigin(str(image.path), section)


def _kinds_at(kinds: Kinds, slots: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the types of the inodes in these slots."""
    found: npt.NDArray[np.int64] = kinds[slots >> 2] >> (slots & 3) * 2 & 3
    return found


def _pieces(column: npt.NDArray[_Number]) -> Iterator[npt.NDArray[_Number]]:
    """Divide a column into pieces, so that temporary arrays stay small.

    An empty column is one piece, so that the warm-up compiles the functions for pieces.
    """
    return (column[start : start + _PIECE] for start in range(0, max(column.size, 1), _PIECE))


def _check_directories(image: ImageFile, index: ImageIndex, kinds: Kinds) -> None:
    """Raise RecordError for children of an inode that is not a directory, and for missing children."""
    directories, place = np.asarray(index.arrays.directory_ids), image.place("INODE_DIR")
    for ids in _pieces(directories):
        others = ids[_kinds_at(kinds, index.arrays.slots_of(ids)) != pb.INode.DIRECTORY]
        if others.size:
            raise place.error(RecordError, f"inode {int(others[0])} has children but is not a directory", 0, _HINT)
    section = image.section("INODE_DIR")
    offset, child = first_lost_child(section, index.arrays.ids, index.snapshot_index.reference_count)
    if offset != PARSED:
        raise place.error(RecordError, f"a directory's child {child} does not exist", offset, _HINT)


def _check_diffs(image: ImageFile, index: ImageIndex, kinds: Kinds) -> None:
    """Raise RecordError for diffs whose inode has another type."""
    snapshot_index = index.snapshot_index
    for owners, found in zip(_pieces(snapshot_index.owners), _pieces(snapshot_index.kinds), strict=True):
        wanted = np.where(found == pb.DiffEntry.FILEDIFF, pb.INode.FILE, pb.INode.DIRECTORY)
        others = owners[_kinds_at(kinds, index.arrays.slots_of(owners)) != wanted]
        if others.size:
            what = f"the snapshot diffs of inode {int(others[0])} belong to another type of inode"
            raise image.place("SNAPSHOT_DIFF").error(RecordError, what, 0, _HINT)


def _header_fault(name: SectionName, data: Section, layout_version: int) -> tuple[int, tuple[int, str] | None]:
    """Return (end offset of the section's header, fault in the header); the offset is 0 if there is no header."""
    header = SECTIONS[name].header
    if header is None:
        return 0, None
    if not data.size:
        return 0, (0, f"the section has no {header.DESCRIPTOR.name}")
    try:
        record = read_record(data.data)
        message = parse_message(header, record)
    except RecordError as error:
        return 0, (0, error.detail)
    hadoop3 = supports(LayoutVersion.ERASURE_CODING, layout_version)
    return record.end, _record_fault(message, data, record.end, hadoop3=hadoop3)


def _fault(name: SectionName, data: Section, start: int, fields: Fields) -> tuple[int, str] | None:
    kind = SECTIONS[name].record
    if kind is None:
        return None
    at = int(first_unparsable(data, start, number_of(kind), fields, REQUIRED))
    return None if at == PARSED else (at, f"NameNodes cannot parse the record as {kind.DESCRIPTOR.name}")


def _reference_fault(data: Section) -> tuple[int, str] | None:
    at = int(first_odd_reference(data))
    return None if at == PARSED else (at, "no NameNode writes a reference with these fields")


def _diff_fault(section: Sections, rules: InodeRules) -> tuple[int, str] | None:
    at, parsed = first_unloadable_diff(
        section("SNAPSHOT_DIFF"), _DIFFS, rules.fields, REQUIRED, rules.policies, rules.bounds
    )
    if at == PARSED:
        return None
    if parsed:
        return at, f"{REJECTED} in a snapshot"
    return at, "NameNodes cannot parse the record"


def _missing(section: Sections) -> Iterator[LoadFault]:
    """Yield a fault for each missing section that an image with snapshots must have."""
    data = section("SNAPSHOT")
    if data is None or not data.size:
        return
    try:
        header = parse_message(pb.SnapshotSection, read_record(data.data))
    except RecordError:
        return
    for name in _SNAPSHOT_SECTIONS:
        if header.numSnapshots and section(name) is None:
            yield LoadFault(name, 0, f"the image has {counted(header.numSnapshots, 'snapshot')} but lacks the section")


# ---- sections of few records -----------------------------------------------------------------------------------------


def _record_fault(message: Message, data: Section, start: int, *, hadoop3: bool) -> tuple[int, str] | None:
    """Return the offset of the header or counted record that a loader refuses, and the fault."""
    if isinstance(message, pb.SecretManagerSection):
        return _token_fault(message, data, start, _PRINCIPAL if hadoop3 else _PRINCIPAL_OF_HADOOP_2)
    if isinstance(message, pb.CacheManagerSection):
        return _cache_fault(message, data, start, hadoop3=hadoop3)
    what = ""
    if isinstance(message, pb.NameSystemSection):
        what = _counter_fault("block", message.lastAllocatedBlockId, _LAST_RESERVED_BLOCK) or _striped_fault(message)
    elif isinstance(message, pb.INodeSection):
        what = _counter_fault("inode", message.lastInodeId, ROOT_INODE_ID)
    elif isinstance(message, pb.ErasureCodingSection):
        listed = {policy.id & 0xFF for policy in message.policies}
        what = next(filter(None, (_policy_fault(policy, listed) for policy in message.policies)), "")
    return (0, what) if what else None


def _counter_fault(what: str, last: int, first: int) -> str:
    """Return a fault if a NameNode cannot advance a counter of ids that begins at `first`; `last` 0 means absent."""
    return "" if first <= last < 1 << 63 else f"the last {what} id {last} is reserved"


def _striped_fault(info: pb.NameSystemSection) -> str:
    """Return a fault if a NameNode cannot allocate another id of a striped block; these ids are negative."""
    last = info.lastAllocatedStripedBlockId
    negative = last >> 63 or not info.HasField("lastAllocatedStripedBlockId")
    return "" if negative else f"the last striped block id {last} is not negative"


def _token_fault(
    header: pb.SecretManagerSection, data: Section, position: int, principal: re.Pattern[str]
) -> tuple[int, str] | None:
    """Return the token that DelegationTokenIdentifier or addPersistedDelegationToken refuses, and the fault.

    A NameNode ignores a token whose master key is missing.
    """
    has_material: dict[int, bool] = {}
    tokens: set[tuple[object, ...]] = set()
    try:
        for number in range(header.numKeys + header.numTokens):
            record = read_record(data.data, position)
            if number < header.numKeys:
                key = parse_message(pb.DelegationKey, record)
                has_material[key.id] = bool(key.key)
            else:
                token = parse_message(pb.PersistToken, record)
                identity, fault = token_identity(token), ""
                if "@" in token.renewer and not principal.fullmatch(token.renewer):
                    fault = f"has the malformed renewer {token.renewer!r}"
                elif not has_material.get(token.masterKeyId, True):
                    fault = f"belongs to master key {token.masterKeyId}, which has no key material"
                elif identity in tokens:
                    fault = "is listed twice"
                if fault:
                    return position, f"delegation token {token.sequenceNumber} {fault}"
                if token.masterKeyId in has_material:
                    tokens.add(identity)
            position = record.end
    except RecordError as error:
        return position, error.detail
    return None


def _policy_fault(policy: pb.ErasureCodingPolicyProto, listed: set[int]) -> str:
    """Return a fault if PBHelperClient.convertErasureCodingPolicyInfo, which casts ids to bytes, refuses the policy.

    Args:
        listed: ids of all policies in the section. A NameNode lists every built-in policy of its release.
    """
    name = f"erasure coding policy {policy.id}"
    if not policy.HasField("state"):
        return f"{name} has no state"
    number = policy.id & 0xFF
    if number in SYSTEM_POLICIES:
        return ""
    lacking = [each for each in _POLICY_FIELDS if not policy.HasField(each)]
    bare = len(lacking) == len(_POLICY_FIELDS) and 0 < number < _FIRST_POLICY_OF_USERS
    if bare and listed.issuperset(range(1, number)):
        # the policy is built into the writer's release
        return ""
    if lacking:
        return f"{name} has no {lacking[0]}"
    if policy.cellSize >> 31 or not policy.cellSize or policy.cellSize % _CELL_UNIT:
        return f"{name} has cells of {policy.cellSize} bytes"
    schema = policy.schema
    units = (schema.dataUnits, schema.parityUnits)
    return (
        "" if all(0 < each < 1 << 31 for each in units) else f"{name} has {units[0]} data and {units[1]} parity units"
    )


def _cache_fault(
    header: pb.CacheManagerSection, data: Section, position: int, *, hadoop3: bool
) -> tuple[int, str] | None:
    """Return the record that CacheManager.loadState refuses, and the fault."""
    pools: set[str] = set()
    directives: set[int] = set()
    try:
        for number in range(header.numPools + header.numDirectives):
            record = read_record(data.data, position)
            if number < header.numPools:
                pool = parse_message(pb.CachePoolInfoProto, record)
                fault = _pool_fault(pool, pools, hadoop3=hadoop3)
                pools.add(pool.poolName)
            else:
                directive = parse_message(pb.CacheDirectiveInfoProto, record)
                fault = _directive_fault(directive, pools, directives)
                directives.add(directive.id)
            if fault:
                return position, fault
            position = record.end
    except RecordError as error:
        return position, error.detail
    return None


def _pool_fault(pool: pb.CachePoolInfoProto, known: set[str], *, hadoop3: bool) -> str:
    name = f"cache pool {pool.poolName!r}"
    if not pool.poolName or pool.poolName in known:
        return f"{name} is listed twice" if pool.poolName else "a cache pool has no name"
    if pool.limit < 0:
        return f"{name} has the limit {pool.limit}"
    # Java reads the value as a short
    if hadoop3 and pool.defaultReplication & 1 << 15:
        return f"{name} has the default replication {pool.defaultReplication}"
    return "" if 0 <= pool.maxRelativeExpiry <= _NEVER else f"{name} has the expiry {pool.maxRelativeExpiry}"


def _directive_fault(directive: pb.CacheDirectiveInfoProto, pools: set[str], known: set[int]) -> str:
    name = f"cache directive {directive.id}"
    if directive.id <= 0 or directive.id in known:
        return f"{name} is listed twice" if directive.id in known else f"{name} has an invalid id"
    # Java reads the value as a short
    if not 0 < directive.replication & 0xFFFF < 1 << 15:
        return f"{name} has the replication {directive.replication}"
    if not directive.path:
        return f"{name} has no path"
    return "" if directive.pool in pools else f"{name} belongs to the missing pool {directive.pool!r}"

"""Conversion of NS_INFO, ERASURE_CODING and CACHE_MANAGER."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from image_format.errors import BufferOrigin, UnsupportedConversionError
from image_format.layout import LayoutVersion, supports
from image_format.messages import MessageReader
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited

_NO_STRIPED_BLOCK = 1 << 63
_SYSTEM_POLICIES = range(1, 6)
_NEVER = ((1 << 63) - 1) // 4

_Section = npt.NDArray[np.uint8]


def convert_ns_info(section: _Section, layout_version: int, place: BufferOrigin) -> bytes:
    """Convert NS_INFO to Hadoop 3 or 2; lastAllocatedStripedBlockId exists from layout -64 on.

    Raises:
        UnsupportedConversionError: striped blocks were allocated, but the layout lacks their counter.
        RecordError: the section is damaged.
    """
    reader = MessageReader(section, place)
    info = reader.read(pb.NameSystemSection)
    reader.finish()
    if supports(LayoutVersion.ERASURE_CODING, layout_version):
        if not info.HasField("lastAllocatedStripedBlockId"):
            info.lastAllocatedStripedBlockId = _NO_STRIPED_BLOCK
    else:
        if info.HasField("lastAllocatedStripedBlockId") and info.lastAllocatedStripedBlockId != _NO_STRIPED_BLOCK:
            raise _lost(place, layout_version, "the counter of allocated striped blocks")
        info.ClearField("lastAllocatedStripedBlockId")
    return encode_delimited(info)


def erasure_coding_section() -> bytes:
    """Return the first ERASURE_CODING section of an upgraded NameNode: the system policies, all disabled."""
    policies = [pb.ErasureCodingPolicyProto(id=number, state=pb.DISABLED) for number in _SYSTEM_POLICIES]
    return encode_delimited(pb.ErasureCodingSection(policies=policies))


def refuse_erasure_coding(section: _Section, layout_version: int, place: BufferOrigin) -> None:
    """Refuse to drop a section unless the section has the content that a NameNode writes directly after an upgrade.

    Raises:
        UnsupportedConversionError: a policy is enabled, removed or defined by a user.
        RecordError: the section is damaged.
    """
    reader = MessageReader(section, place)
    if reader.done:
        return
    policies = reader.read(pb.ErasureCodingSection).policies
    reader.finish()
    enabled_text = [
        policy.name or f"id {policy.id}"
        for policy in policies
        if policy.id not in _SYSTEM_POLICIES or policy.state != pb.DISABLED
    ]
    if enabled_text:
        raise _lost(
            place,
            layout_version,
            f"erasure coding policies that are enabled or user-defined: {', '.join(enabled_text)}",
        )


def convert_cache_manager(section: _Section, layout_version: int, place: BufferOrigin) -> bytes:
    """Convert CACHE_MANAGER to Hadoop 3 or 2; maxRelativeExpiry of a pool is set from layout -64 on.

    Raises:
        UnsupportedConversionError: a pool has limits that Hadoop 2 images lack.
        RecordError: the section is damaged.
    """
    reader = MessageReader(section, place)
    if reader.done:
        return b""
    header = reader.read(pb.CacheManagerSection)
    pools = [reader.read(pb.CachePoolInfoProto) for _ in range(header.numPools)]
    rest = section[reader.position :].tobytes()
    if supports(LayoutVersion.ERASURE_CODING, layout_version):
        for pool in pools:
            if not pool.HasField("maxRelativeExpiry"):
                pool.maxRelativeExpiry = _NEVER
    else:
        for pool in pools:
            if pool.HasField("maxRelativeExpiry") and pool.maxRelativeExpiry != _NEVER:
                raise _lost(place, layout_version, f"the maximum relative expiry of cache pool {pool.poolName}")
            if pool.defaultReplication != 1:
                raise _lost(place, layout_version, f"the default replication of cache pool {pool.poolName}")
            pool.ClearField("maxRelativeExpiry")
            pool.ClearField("defaultReplication")
    return b"".join(map(encode_delimited, [header, *pools])) + rest


def _lost(place: BufferOrigin, layout_version: int, what: str) -> UnsupportedConversionError:
    text = f"layout version {layout_version} cannot represent {what}"
    return UnsupportedConversionError(text, file=place.file, section=place.section)

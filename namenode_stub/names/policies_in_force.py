"""Effective storage and erasure coding policies of a path: its own, or those of the nearest directory above."""

from __future__ import annotations

import struct

from engine.namespace import Namespace
from engine.namespace.erasure_coding import ErasureCodingPolicy
from image_format.kernels.inode import DIRECTORY, FILE
from image_format.permission import XAttrNamespace
from image_format.proto import fsimage_pb2 as pb
from journal.ops import XAttr
from namenode_stub.names.inode_views import NO_POLICIES, EffectivePolicies, xattrs_of
from namenode_stub.names.past_states import DotSnapshot, InodePlace, places_along
from namenode_stub.refusals import NotThereError

_STORAGE_XATTR = "hsm.block.storage.policy.id"
_ERASURE_XATTR = "hdfs.erasurecoding.policy"
REPLICATION = ErasureCodingPolicy(0, "replication", "replication", 1, 2, (), 1 << 20, pb.ENABLED)
"""The policy of a directory whose files are replicated whatever applies above it."""


def erasure_coding_xattr(name: str) -> XAttr:
    """Return the attribute that stores a directory's policy (WritableUtils.writeString)."""
    text = name.encode()
    return XAttr(XAttrNamespace.SYSTEM, _ERASURE_XATTR, struct.pack(">i", len(text)) + text)


def _attribute(namespace: Namespace, place: InodePlace, name: str) -> bytes | None:
    for xattr in xattrs_of(namespace, place):
        if (xattr.namespace, xattr.name) == (XAttrNamespace.SYSTEM, name):
            return xattr.value
    return None


def own_erasure_coding(namespace: Namespace, place: InodePlace) -> str | None:
    """Return the name of the policy set on a directory itself."""
    value = _attribute(namespace, place, _ERASURE_XATTR)
    return None if value is None else value[4:].decode("utf-8", "replace")


def policies_at(namespace: Namespace, place: InodePlace, above: EffectivePolicies) -> EffectivePolicies:
    """Return the effective policies of an inode, given those of its directory."""
    table, row = namespace.table, place.row
    if table.kind[row] == FILE:
        coded = int(table.ec_policy[row])
        erasure = namespace.erasure_coding.by_id(coded) if coded >= 0 else None
        return EffectivePolicies(int(table.policy[row]) or above.storage, erasure)
    if table.kind[row] != DIRECTORY:
        return NO_POLICIES
    storage = _attribute(namespace, InodePlace(row), _STORAGE_XATTR)
    name = own_erasure_coding(namespace, place)
    erasure = above.erasure if name is None else _named(namespace, name)
    return EffectivePolicies(storage[0] if storage else above.storage, erasure)


def _named(namespace: Namespace, name: str) -> ErasureCodingPolicy | None:
    if name == REPLICATION.name:
        return REPLICATION
    return next((policy for policy in namespace.erasure_coding.policies() if policy.name == name), None)


def place_and_policies(
    namespace: Namespace, path: str, *, follow: bool = False
) -> tuple[InodePlace | DotSnapshot | None, EffectivePolicies]:
    """Resolve a path as `resolve`, with the effective policies there or at the nearest existing directory above.

    Raises:
        InvalidPathRefusalError, SymlinkInPathError: as `resolve`.
    """
    found = NO_POLICIES
    for place in places_along(namespace, path, follow=follow):
        if isinstance(place, InodePlace):
            found = policies_at(namespace, place, found)
    return place, found


def in_force(namespace: Namespace, path: str) -> EffectivePolicies:
    """Return the effective policies of a path; raises NotThereError if it does not exist, and as
    `place_and_policies`.
    """
    place, found = place_and_policies(namespace, path)
    if place is None:
        raise NotThereError(f"File/Directory does not exist: {path}")
    return found

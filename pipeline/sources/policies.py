"""Names of storage and erasure coding policies, also those that directories have as extended attributes."""

from __future__ import annotations

from collections.abc import Mapping

from hadoop_common.storage_policies import UNSPECIFIED_POLICY, storage_policy
from image_format.permission import XAttrNamespace
from image_format.proto import fsimage_pb2 as pb
from image_tools.dump.values import Names, java_text

_STORAGE_XATTR = (XAttrNamespace.SYSTEM.name, "hsm.block.storage.policy.id")
_EC_XATTR = (XAttrNamespace.SYSTEM.name, "hdfs.erasurecoding.policy")
_LENGTH_BYTES = 4


def storage_policy_name(number: int) -> str | None:
    """Name of a storage policy, its number where Hadoop 3.4 has none of that number; None for none set."""
    if number <= UNSPECIFIED_POLICY:
        return None
    policy = storage_policy(number)
    return str(number) if policy is None else policy.name


def ec_policy_name(number: int, policies: Mapping[int, str]) -> str | None:
    """Name of a file's erasure coding policy, its number where the image does not name it; None for -1."""
    return policies.get(number, str(number)) if number >= 0 else None


def directory_policies(directory: pb.INodeDirectory, names: Names) -> tuple[str | None, str | None]:
    """(storage policy, erasure coding policy) that are set on a directory.

    The values are those of BlockStoragePolicySuite (one byte) and FSDirErasureCodingOp (WritableUtils.writeString).

    Raises:
        RecordError: the string table lacks the name of an attribute.
    """
    storage = coding = None
    for xattr in directory.xAttrs.xAttrs:
        name = names.xattr(xattr.name)
        if name == _STORAGE_XATTR and xattr.value:
            storage = storage_policy_name(xattr.value[0])
        elif name == _EC_XATTR and len(xattr.value) > _LENGTH_BYTES:
            coding = java_text(xattr.value[_LENGTH_BYTES:])
    return storage, coding

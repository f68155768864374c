"""Names of storage and erasure coding policies, including those in extended attributes of directories."""

from __future__ import annotations

from collections.abc import Mapping

from hadoop_common.hdfs_constants import UNSPECIFIED_POLICY, storage_policy
from image_format.permission import XAttrNamespace
from image_format.policies import BUILT_IN
from image_format.proto import fsimage_pb2 as pb
from image_tools.dump.values import SerialNames, java_text

_STORAGE_XATTR = (XAttrNamespace.SYSTEM.name, "hsm.block.storage.policy.id")
_EC_XATTR = (XAttrNamespace.SYSTEM.name, "hdfs.erasurecoding.policy")
_LENGTH_BYTES = 4


def storage_policy_name(number: int) -> str | None:
    """Return the name of a storage policy, or its number if Hadoop 3.4 does not know it; None for no policy."""
    if number <= UNSPECIFIED_POLICY:
        return None
    policy = storage_policy(number)
    return str(number) if policy is None else policy.name


def ec_policy_name(number: int, policies: Mapping[int, str]) -> str | None:
    """Return the name of a file's erasure coding policy, or its number if the image has no name; None for -1."""
    return policies.get(number, str(number)) if number >= 0 else None


def viewer_policies(inode: pb.INode, names: SerialNames) -> tuple[str, str]:
    """Return (storage policy, erasure coding policy) of an inode like Hadoop's viewer: a number, and a name or "-".

    Raises:
        RecordError: the string table lacks the name of an attribute.
    """
    if inode.HasField("file"):
        coding = inode.file.erasureCodingPolicyID if inode.file.HasField("erasureCodingPolicyID") else 0
        return str(inode.file.storagePolicyID), BUILT_IN[coding].name if coding in BUILT_IN else "-"
    storage, name = own_policies(inode.directory, names)
    return str(storage), name or "-"


def directory_policies(directory: pb.INodeDirectory, names: SerialNames) -> tuple[str | None, str | None]:
    """Return (storage policy, erasure coding policy) set on a directory itself.

    Raises:
        RecordError: the string table lacks the name of an attribute.
    """
    storage, coding = own_policies(directory, names)
    return storage_policy_name(storage), coding


def own_policies(directory: pb.INodeDirectory, names: SerialNames) -> tuple[int, str | None]:
    """Return the id of the storage policy set on a directory, 0 for none, and the name of its erasure coding policy.

    The attributes are encoded by BlockStoragePolicySuite (one byte) and FSDirErasureCodingOp
    (WritableUtils.writeString).

    Raises:
        RecordError: the string table lacks the name of an attribute.
    """
    storage, coding = UNSPECIFIED_POLICY, None
    for xattr in directory.xAttrs.xAttrs:
        name = names.xattr(xattr.name)
        if name == _STORAGE_XATTR and xattr.value:
            storage = xattr.value[0]
        elif name == _EC_XATTR and len(xattr.value) > _LENGTH_BYTES:
            coding = java_text(xattr.value[_LENGTH_BYTES:])
    return storage, coding

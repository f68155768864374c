"""Decodes records to named attributes, with defaults and with names for string serials (fsimage.proto)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hadoop_common.java_numbers import signed32, signed64
from image_format.proto import fsimage_pb2 as pb
from image_tools.dump.values import SerialNames

_Meaning = dict[str, Any]
_NO_ACK = (1 << 63) - 1
"""Length of a block marked as deleted (BlockCommand.NO_ACK), which a snapshot may still contain."""


def plain(value: str | bytes) -> str:
    """Decode text without loss, even if the bytes are not UTF-8."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def inode_meaning(inode: pb.INode, names: SerialNames) -> _Meaning:
    """Return the type, the name and all attributes of a file, directory or symlink.

    Raises:
        RecordError: the record refers to a string that is missing from the table.
    """
    out: _Meaning = {"type": pb.INode.Type.Name(inode.type), "name": plain(inode.name)}
    if inode.HasField("file"):
        out |= file_meaning(inode.file, names)
    if inode.HasField("directory"):
        out |= directory_meaning(inode.directory, names)
    if inode.HasField("symlink"):
        link = inode.symlink
        out |= {"modificationTime": signed64(link.modificationTime), "accessTime": signed64(link.accessTime)}
        out |= _owner(link.permission, names) | {"target": plain(link.target)}
    return out


def file_meaning(file: pb.INodeFile, names: SerialNames) -> _Meaning:
    """Return the attributes of a file or of its copy in a snapshot; raise the same errors as `inode_meaning`."""
    striped = file.HasField("erasureCodingPolicyID")
    writer = file.fileUC if file.HasField("fileUC") else None
    return {
        "replication": signed32(file.replication),
        "modificationTime": signed64(file.modificationTime),
        "accessTime": signed64(file.accessTime),
        "preferredBlockSize": signed64(file.preferredBlockSize),
        **_owner(file.permission, names),
        "blocks": blocks_meaning(file.blocks),
        "clientName": None if writer is None else plain(writer.clientName),
        "clientMachine": None if writer is None else plain(writer.clientMachine),
        **_features(file, names),
        "storagePolicyID": file.storagePolicyID,
        "blockType": pb.BlockTypeProto.Name(file.blockType),
        "erasureCodingPolicyID": file.erasureCodingPolicyID if striped else None,
    }


def directory_meaning(directory: pb.INodeDirectory, names: SerialNames) -> _Meaning:
    """Return the attributes of a directory or of its copy in a snapshot; raise the same errors as `inode_meaning`."""
    quotas = directory.typeQuotas.quotas
    return {
        "modificationTime": signed64(directory.modificationTime),
        **_owner(directory.permission, names),
        **_features(directory, names),
        "nsQuota": signed64(directory.nsQuota),
        "dsQuota": signed64(directory.dsQuota),
        "typeQuotas": sorted(f"{pb.StorageTypeProto.Name(q.storageType)}={signed64(q.quota)}" for q in quotas),
    }


def blocks_meaning(blocks: Iterable[pb.BlockProto]) -> list[str]:
    """Return each block as `id_genstamp:bytes`, in order; `NO_ACK` for the bytes of a block marked as deleted."""
    return [f"{signed64(b.blockId)}_{signed64(b.genStamp)}:{_length(b)}" for b in blocks]


def _length(block: pb.BlockProto) -> str:
    return "NO_ACK" if block.numBytes == _NO_ACK else str(signed64(block.numBytes))


def _owner(permission: int, names: SerialNames) -> _Meaning:
    user, group, mode = names.owner(permission)
    return {"user": user, "group": group, "mode": f"{mode:04o}"}


def _features(holder: pb.INodeFile | pb.INodeDirectory, names: SerialNames) -> _Meaning:
    attributes = []
    for attribute in holder.xAttrs.xAttrs:
        namespace, name = names.xattr(attribute.name)
        attributes.append(f"{namespace.lower()}.{name or ''}={_quoted(attribute.value)}")
    return {"acl": [names.acl_entry(entry) for entry in holder.acl.entries], "xAttrs": sorted(attributes)}


def _quoted(value: bytes) -> str:
    """Format a value as `hdfs dfs -getfattr` prints it: text in quotes, or 0x and hexadecimal digits."""
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return f"0x{value.hex()}"
    return f'"{text}"' if text.isprintable() else f"0x{value.hex()}"


def master_key_meaning(key: pb.DelegationKey) -> _Meaning:
    """Return the expiry time and the bytes of a master key."""
    return {"expiryDate": signed64(key.expiryDate), "key": key.key.hex()}


def token_meaning(token: pb.PersistToken) -> _Meaning:
    """Return all attributes of a delegation token except its sequence number."""
    return {
        "version": token.version,
        "owner": plain(token.owner),
        "renewer": plain(token.renewer),
        "realUser": plain(token.realUser),
        "issueDate": signed64(token.issueDate),
        "maxDate": signed64(token.maxDate),
        "masterKeyId": signed32(token.masterKeyId),
        "expiryDate": signed64(token.expiryDate),
    }


def cache_pool_meaning(pool: pb.CachePoolInfoProto) -> _Meaning:
    """Return all attributes of a cache pool except its name."""
    return {
        "owner": plain(pool.ownerName),
        "group": plain(pool.groupName),
        "mode": f"{pool.mode:04o}",
        "limit": pool.limit,
        "maxRelativeExpiry": pool.maxRelativeExpiry,
        "defaultReplication": pool.defaultReplication,
    }


def cache_directive_meaning(directive: pb.CacheDirectiveInfoProto) -> _Meaning:
    """Return all attributes of a cache directive except its id."""
    expiration = directive.expiration if directive.HasField("expiration") else None
    return {
        "path": plain(directive.path),
        "replication": directive.replication,
        "pool": plain(directive.pool),
        "expiration": None if expiration is None else expiration.millis,
        "isRelative": None if expiration is None else expiration.isRelative,
    }


def erasure_coding_meaning(policy: pb.ErasureCodingPolicyProto) -> _Meaning:
    """Return all attributes of a policy except its id; for a built-in policy, an image contains only the state."""
    schema = policy.schema
    return {
        "name": plain(policy.name),
        "codec": plain(schema.codecName),
        "dataUnits": schema.dataUnits,
        "parityUnits": schema.parityUnits,
        "options": sorted(f"{plain(option.key)}={plain(option.value)}" for option in schema.options),
        "cellSize": policy.cellSize,
        "state": pb.ErasureCodingPolicyState.Name(policy.state),
    }

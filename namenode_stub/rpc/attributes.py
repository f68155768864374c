"""ClientProtocol: changes to mode, owner, times, replication, quotas, ACLs and extended attributes."""

from __future__ import annotations

from hadoop_common.java_numbers import signed64
from hadoop_rpc.client_values import AclEntryView
from hadoop_rpc.proto import client_namenode_pb2 as pb
from hadoop_rpc.service import CallContext, Handler
from journal.ops import XAttr
from namenode_stub.active_namespace import ActiveNamespace
from namenode_stub.names.acls import AclOperations
from namenode_stub.names.paths import client_path
from namenode_stub.refusals import OperationRefusedError
from namenode_stub.rpc.handlers import MODE_MASK, OnceOnly, change, result
from namenode_stub.rpc.service_switch import ServiceSwitch


def attribute_changes(names: ActiveNamespace, once: OnceOnly, switch: ServiceSwitch) -> dict[str, Handler]:
    """Return the handlers by method."""
    attributes, acls = names.attributes, AclOperations(names.transactions)

    def set_replication(request: pb.SetReplicationRequestProto, _: CallContext) -> pb.ResultProto:
        return result(attributes.set_replication(client_path(request.src), request.replication))

    def set_quota(request: pb.SetQuotaRequestProto) -> None:
        if request.HasField("storageType"):
            raise OperationRefusedError(f"{request.path} cannot have a storage type quota: there are no DataNodes")
        quotas = signed64(request.namespaceQuota), signed64(request.storagespaceQuota)
        attributes.set_quota(client_path(request.path), *quotas)

    return {
        "setPermission": change(
            lambda each: attributes.set_permission(client_path(each.src), each.permission.perm & MODE_MASK)
        ),
        "setOwner": change(lambda each: attributes.set_owner(client_path(each.src), each.username, each.groupname)),
        "setTimes": change(
            lambda each: attributes.set_times(client_path(each.src), signed64(each.mtime), signed64(each.atime))
        ),
        "setReplication": set_replication,
        "setQuota": switch.for_superusers(change(set_quota)),
        "setAcl": change(lambda each: acls.replace(client_path(each.src), _entries(each))),
        "modifyAclEntries": change(lambda each: acls.modify(client_path(each.src), _entries(each))),
        "removeAclEntries": change(lambda each: acls.remove_entries(client_path(each.src), _entries(each))),
        "removeDefaultAcl": change(lambda each: acls.remove_default(client_path(each.src))),
        "removeAcl": change(lambda each: acls.remove(client_path(each.src))),
        "setXAttr": once.change(
            lambda each, caller: attributes.set_xattr(client_path(each.src), _xattr(each.xAttr), each.flag, caller)
        ),
        "removeXAttr": once.change(
            lambda each, caller: attributes.remove_xattr(client_path(each.src), _xattr(each.xAttr), caller)
        ),
    }


def _entries(request: pb.AclSpecRequestProto) -> list[AclEntryView]:
    return [AclEntryView(e.scope, e.type, e.name, e.permissions) for e in request.aclSpec]


def _xattr(message: pb.XAttrProto) -> XAttr:
    return XAttr(message.namespace, message.name, message.value or None)

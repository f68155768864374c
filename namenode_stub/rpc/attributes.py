"""ClientProtocol: calls for mode, owner, times, replication, quotas, ACLs and extended attributes."""

from __future__ import annotations

from hadoop_rpc.client_messages import acl_message, signed
from hadoop_rpc.client_values import AclEntryView, ClientAcl
from hadoop_rpc.proto import client_namenode_pb2 as pb
from hadoop_rpc.service import CallContext, Handler
from image_format.permission import XAttrNamespace
from journal.ops import XAttr
from namenode_stub.active_namespace import ActiveNamespace
from namenode_stub.names.acls import AclOperations
from namenode_stub.names.retry_cache import RetryCache
from namenode_stub.refusals import OperationRefusedError
from namenode_stub.rpc.handlers import EMPTY, caller_of, client_path, result
from namenode_stub.rpc.service_switch import ServiceSwitch

_MODE_MASK = 0o1777


class AttributeChanges:
    def __init__(self, names: ActiveNamespace, cache: RetryCache, switch: ServiceSwitch) -> None:
        self._names = names
        self._attributes = names.attributes
        self._acls = AclOperations(names.transactions)
        self._cache = cache
        self._switch = switch

    def methods(self) -> dict[str, Handler]:
        return {
            "setPermission": self.set_permission,
            "setOwner": self.set_owner,
            "setTimes": self.set_times,
            "setReplication": self.set_replication,
            "setQuota": self.set_quota,
            "getAclStatus": self.acl_status,
            "setAcl": self.set_acl,
            "modifyAclEntries": self.modify_acl,
            "removeAclEntries": self.remove_acl_entries,
            "removeDefaultAcl": self.remove_default_acl,
            "removeAcl": self.remove_acl,
            "setXAttr": self.set_xattr,
            "getXAttrs": self.xattrs,
            "listXAttrs": self.list_xattrs,
            "removeXAttr": self.remove_xattr,
        }

    # ---- plain attributes --------------------------------------------------------------------------------------

    def set_permission(self, request: pb.SetPermissionRequestProto, _: CallContext) -> pb.EmptyProto:
        self._attributes.set_permission(client_path(request.src), request.permission.perm & _MODE_MASK)
        return EMPTY

    def set_owner(self, request: pb.SetOwnerRequestProto, _: CallContext) -> pb.EmptyProto:
        self._attributes.set_owner(client_path(request.src), request.username, request.groupname)
        return EMPTY

    def set_times(self, request: pb.SetTimesRequestProto, _: CallContext) -> pb.EmptyProto:
        self._attributes.set_times(client_path(request.src), signed(request.mtime), signed(request.atime))
        return EMPTY

    def set_replication(self, request: pb.SetReplicationRequestProto, _: CallContext) -> pb.ResultProto:
        return result(self._attributes.set_replication(client_path(request.src), request.replication))

    def set_quota(self, request: pb.SetQuotaRequestProto, context: CallContext) -> pb.EmptyProto:
        self._switch.check_superuser(context)
        if request.HasField("storageType"):
            raise OperationRefusedError(f"{request.path} cannot have a storage type quota: there are no DataNodes")
        self._attributes.set_quota(
            client_path(request.path), signed(request.namespaceQuota), signed(request.storagespaceQuota)
        )
        return EMPTY

    # ---- ACLs --------------------------------------------------------------------------------------------------

    def acl_status(self, request: pb.PathRequestProto, _: CallContext) -> pb.GetAclStatusResponseProto:
        view = self._names.views.existing(client_path(request.src))
        acl = ClientAcl(view.owner, view.group, view.mode, view.acl or ())
        return pb.GetAclStatusResponseProto(result=acl_message(acl))

    def set_acl(self, request: pb.AclSpecRequestProto, _: CallContext) -> pb.EmptyProto:
        self._acls.replace(client_path(request.src), _entries(request))
        return EMPTY

    def modify_acl(self, request: pb.AclSpecRequestProto, _: CallContext) -> pb.EmptyProto:
        self._acls.modify(client_path(request.src), _entries(request))
        return EMPTY

    def remove_acl_entries(self, request: pb.AclSpecRequestProto, _: CallContext) -> pb.EmptyProto:
        self._acls.remove_entries(client_path(request.src), _entries(request))
        return EMPTY

    def remove_default_acl(self, request: pb.PathRequestProto, _: CallContext) -> pb.EmptyProto:
        self._acls.remove_default(client_path(request.src))
        return EMPTY

    def remove_acl(self, request: pb.PathRequestProto, _: CallContext) -> pb.EmptyProto:
        self._acls.remove(client_path(request.src))
        return EMPTY

    # ---- extended attributes -----------------------------------------------------------------------------------

    def set_xattr(self, request: pb.SetXAttrRequestProto, context: CallContext) -> pb.EmptyProto:
        caller = caller_of(context)
        xattr = XAttr(request.xAttr.namespace, request.xAttr.name, request.xAttr.value or None)

        def perform() -> None:
            self._attributes.set_xattr(client_path(request.src), xattr, request.flag, caller)

        self._cache.once(caller, perform, lambda: None)
        return EMPTY

    def remove_xattr(self, request: pb.RemoveXAttrRequestProto, context: CallContext) -> pb.EmptyProto:
        caller = caller_of(context)
        xattr = XAttr(request.xAttr.namespace, request.xAttr.name, None)

        def perform() -> None:
            self._attributes.remove_xattr(client_path(request.src), xattr, caller)

        self._cache.once(caller, perform, lambda: None)
        return EMPTY

    def xattrs(self, request: pb.GetXAttrsRequestProto, _: CallContext) -> pb.GetXAttrsResponseProto:
        held = self._visible(request.src)
        wanted = [(xattr.namespace, xattr.name) for xattr in request.xAttrs]
        if not wanted:
            return pb.GetXAttrsResponseProto(xAttrs=map(_xattr_message, held))
        found = {(xattr.namespace, xattr.name): xattr for xattr in held}
        missing = [name for name in wanted if name not in found]
        if missing:
            raise OperationRefusedError("At least one of the attributes provided was not found.")
        return pb.GetXAttrsResponseProto(xAttrs=[_xattr_message(found[name]) for name in wanted])

    def _visible(self, path: str) -> list[XAttr]:
        """Return the attributes visible to clients; others are reserved for HDFS (XAttrPermissionFilter)."""
        held = self._names.views.xattrs(client_path(path))
        return [xattr for xattr in held if xattr.namespace in (XAttrNamespace.USER, XAttrNamespace.TRUSTED)]

    def list_xattrs(self, request: pb.PathRequestProto, _: CallContext) -> pb.GetXAttrsResponseProto:
        held = self._visible(request.src)
        return pb.GetXAttrsResponseProto(
            xAttrs=[pb.XAttrProto(namespace=xattr.namespace, name=xattr.name) for xattr in held]
        )


def _entries(request: pb.AclSpecRequestProto) -> list[AclEntryView]:
    return [AclEntryView(e.scope, e.type, e.name, e.permissions) for e in request.aclSpec]


def _xattr_message(xattr: XAttr) -> pb.XAttrProto:
    return pb.XAttrProto(namespace=xattr.namespace, name=xattr.name, value=xattr.value)

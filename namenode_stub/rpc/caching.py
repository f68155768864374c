"""ClientProtocol: calls for cache pools and directives."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message

from hadoop_rpc.proto import client_namenode_pb2 as pb
from hadoop_rpc.service import CallContext, Handler
from journal.ops import CacheDirectiveInfo, CachePoolInfo
from namenode_stub.active_namespace import ActiveNamespace
from namenode_stub.names.cache_rules import DirectiveRequest, Expiration
from namenode_stub.names.caching import CacheDemand
from namenode_stub.names.paths import client_path
from namenode_stub.rpc.handlers import OnceOnly
from namenode_stub.rpc.service_switch import ServiceSwitch

_FORCE = 0x01  # CacheFlagProto


def caching_calls(names: ActiveNamespace, once: OnceOnly, switch: ServiceSwitch) -> dict[str, Handler]:
    """Return the handlers of cache pools and directives by method."""
    caching = names.caching

    def pools(request: pb.ListCachePoolsRequestProto, _: CallContext) -> pb.ListCachePoolsResponseProto:
        found, more = caching.pools(request.prevPoolName)
        answer = pb.ListCachePoolsResponseProto(hasMore=more)
        for view in found:
            needed, limit = view.needed, view.info.limit or 0
            answer.entries.add(
                info=_pool_message(view.info),
                stats=pb.CachePoolStatsProto(
                    bytesNeeded=needed.bytes,
                    bytesCached=0,
                    bytesOverlimit=max(0, needed.bytes - limit),
                    filesNeeded=needed.files,
                    filesCached=needed.empty_files,
                ),
            )
        return answer

    def directives(request: pb.ListCacheDirectivesRequestProto, _: CallContext) -> pb.ListCacheDirectivesResponseProto:
        found, more = caching.directives(request.prevId, _directive(request.filter))
        answer = pb.ListCacheDirectivesResponseProto(hasMore=more)
        for view in found:
            answer.elements.add(
                info=_directive_message(view.info), stats=_directive_stats(view.needed, has_expired=view.has_expired)
            )
        return answer

    pool_changes = {
        "addCachePool": once.change(lambda each, caller: caching.add_pool(_pool(each.info), caller)),
        "modifyCachePool": once.change(lambda each, caller: caching.modify_pool(_pool(each.info), caller)),
        "removeCachePool": once.change(lambda each, caller: caching.remove_pool(each.poolName, caller)),
    }
    return {
        **{name: switch.for_superusers(handler) for name, handler in pool_changes.items()},
        "listCachePools": pools,
        "addCacheDirective": once.answer(
            lambda each, caller: caching.add_directive(
                _directive(each.info), caller, force=bool(each.cacheFlags & _FORCE)
            ),
            lambda each: caching.newest_like(_directive(each.info)),
            lambda added: pb.AddCacheDirectiveResponseProto(id=added),
        ),
        "modifyCacheDirective": once.change(
            lambda each, caller: caching.modify_directive(
                _directive(each.info), caller, force=bool(each.cacheFlags & _FORCE)
            )
        ),
        "removeCacheDirective": once.change(lambda each, caller: caching.remove_directive(each.id, caller)),
        "listCacheDirectives": directives,
    }


def _pool(info: pb.CachePoolInfoProto) -> CachePoolInfo:
    return CachePoolInfo(
        info.poolName,
        *_given(info, "ownerName", "groupName", "mode", "limit", "maxRelativeExpiry", "defaultReplication"),
    )


def _given(message: Message, *fields: str) -> list[Any]:
    """Return the values of fields; the value of a missing field is None."""
    return [getattr(message, field) if message.HasField(field) else None for field in fields]


def _pool_message(info: CachePoolInfo) -> pb.CachePoolInfoProto:
    return pb.CachePoolInfoProto(
        poolName=info.pool_name,
        ownerName=info.owner_name,
        groupName=info.group_name,
        mode=info.mode,
        limit=info.limit,
        maxRelativeExpiry=info.max_relative_expiry,
        defaultReplication=info.default_replication,
    )


def _directive(info: pb.CacheDirectiveInfoProto) -> DirectiveRequest:
    expiration = Expiration(info.expiration.millis, info.expiration.isRelative)
    number, path, replication, pool = _given(info, "id", "path", "replication", "pool")
    return DirectiveRequest(
        number,
        None if path is None else client_path(path),
        replication,
        pool,
        expiration if info.HasField("expiration") else None,
    )


def _directive_message(info: CacheDirectiveInfo) -> pb.CacheDirectiveInfoProto:
    return pb.CacheDirectiveInfoProto(
        id=info.id,
        path=info.path,
        replication=info.replication,
        pool=info.pool,
        expiration=pb.CacheDirectiveInfoExpirationProto(millis=info.expiration or 0, isRelative=False),
    )


def _directive_stats(needed: CacheDemand, *, has_expired: bool) -> pb.CacheDirectiveStatsProto:
    return pb.CacheDirectiveStatsProto(
        bytesNeeded=needed.bytes,
        bytesCached=0,
        filesNeeded=needed.files,
        filesCached=needed.empty_files,
        hasExpired=has_expired,
    )

"""ClientProtocol: calls for cache pools and directives."""

from __future__ import annotations

from hadoop_rpc.proto import client_namenode_pb2 as pb
from hadoop_rpc.service import CallContext, Handler
from journal.ops import CacheDirectiveInfo, CachePoolInfo
from namenode_stub.active_namespace import ActiveNamespace
from namenode_stub.names.cache_rules import DirectiveRequest, Expiration
from namenode_stub.names.caching import CacheDemand
from namenode_stub.names.retry_cache import RetryCache
from namenode_stub.rpc.handlers import EMPTY, caller_of, client_path
from namenode_stub.rpc.service_switch import ServiceSwitch

_FORCE = 0x01  # CacheFlagProto


class CachingCalls:
    """Handlers of cache pools and directives."""

    def __init__(self, names: ActiveNamespace, cache: RetryCache, switch: ServiceSwitch) -> None:
        self._caching = names.caching
        self._cache = cache
        self._switch = switch

    def methods(self) -> dict[str, Handler]:
        return {
            "addCachePool": self.add_pool,
            "modifyCachePool": self.modify_pool,
            "removeCachePool": self.remove_pool,
            "listCachePools": self.pools,
            "addCacheDirective": self.add_directive,
            "modifyCacheDirective": self.modify_directive,
            "removeCacheDirective": self.remove_directive,
            "listCacheDirectives": self.directives,
        }

    # ---- pools ---------------------------------------------------------------------------------------------------

    def add_pool(self, request: pb.CachePoolRequestProto, context: CallContext) -> pb.EmptyProto:
        self._switch.check_superuser(context)
        caller, pool = caller_of(context), _pool(request.info)
        self._cache.once(caller, lambda: self._caching.add_pool(pool, caller), lambda: None)
        return EMPTY

    def modify_pool(self, request: pb.CachePoolRequestProto, context: CallContext) -> pb.EmptyProto:
        self._switch.check_superuser(context)
        caller, pool = caller_of(context), _pool(request.info)
        self._cache.once(caller, lambda: self._caching.modify_pool(pool, caller), lambda: None)
        return EMPTY

    def remove_pool(self, request: pb.RemoveCachePoolRequestProto, context: CallContext) -> pb.EmptyProto:
        self._switch.check_superuser(context)
        caller = caller_of(context)
        self._cache.once(caller, lambda: self._caching.remove_pool(request.poolName, caller), lambda: None)
        return EMPTY

    def pools(self, request: pb.ListCachePoolsRequestProto, _: CallContext) -> pb.ListCachePoolsResponseProto:
        found, more = self._caching.pools(request.prevPoolName)
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

    # ---- directives ----------------------------------------------------------------------------------------------

    def add_directive(
        self, request: pb.CacheDirectiveRequestProto, context: CallContext
    ) -> pb.AddCacheDirectiveResponseProto:
        caller, wanted = caller_of(context), _directive(request.info)

        def perform() -> int:
            return self._caching.add_directive(wanted, caller, force=bool(request.cacheFlags & _FORCE))

        added = self._cache.once(caller, perform, lambda: self._caching.newest_like(wanted))
        return pb.AddCacheDirectiveResponseProto(id=added)

    def modify_directive(self, request: pb.CacheDirectiveRequestProto, context: CallContext) -> pb.EmptyProto:
        caller, wanted = caller_of(context), _directive(request.info)

        def perform() -> None:
            self._caching.modify_directive(wanted, caller, force=bool(request.cacheFlags & _FORCE))

        self._cache.once(caller, perform, lambda: None)
        return EMPTY

    def remove_directive(self, request: pb.RemoveCacheDirectiveRequestProto, context: CallContext) -> pb.EmptyProto:
        caller = caller_of(context)
        self._cache.once(caller, lambda: self._caching.remove_directive(request.id, caller), lambda: None)
        return EMPTY

    def directives(
        self, request: pb.ListCacheDirectivesRequestProto, _: CallContext
    ) -> pb.ListCacheDirectivesResponseProto:
        found, more = self._caching.directives(request.prevId, _directive(request.filter))
        answer = pb.ListCacheDirectivesResponseProto(hasMore=more)
        for view in found:
            answer.elements.add(
                info=_directive_message(view.info), stats=_directive_stats(view.needed, has_expired=view.has_expired)
            )
        return answer


def _pool(info: pb.CachePoolInfoProto) -> CachePoolInfo:
    return CachePoolInfo(
        info.poolName,
        info.ownerName if info.HasField("ownerName") else None,
        info.groupName if info.HasField("groupName") else None,
        info.mode if info.HasField("mode") else None,
        info.limit if info.HasField("limit") else None,
        info.maxRelativeExpiry if info.HasField("maxRelativeExpiry") else None,
        info.defaultReplication if info.HasField("defaultReplication") else None,
    )


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
    return DirectiveRequest(
        info.id if info.HasField("id") else None,
        client_path(info.path) if info.HasField("path") else None,
        info.replication if info.HasField("replication") else None,
        info.pool if info.HasField("pool") else None,
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

"""Cache pools and directives: the CACHE_MANAGER section."""

from __future__ import annotations

from engine.errors import NamespaceError
from engine.namespace.op_paths import encodable, java_path
from image_format.index import ImageIndex
from image_format.messages import MessageReader
from image_format.permission import MODE_BITS
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited
from journal.ops import CacheDirectiveInfo, CachePoolInfo

_SECTION = "CACHE_MANAGER"
_UNLIMITED = (1 << 63) - 1
_NEVER = _UNLIMITED // 4
_DEFAULT_MODE = 0o755


class CacheManager:
    """Cache pools and directives (`fsimage.proto CacheManagerSection`).

    Args:
        hadoop3: whether Hadoop 3's rules apply.
    """

    def __init__(self, base: ImageIndex, *, hadoop3: bool) -> None:
        reader = MessageReader(base.section(_SECTION), base.place(_SECTION))
        header = pb.CacheManagerSection(nextDirectiveId=1, numPools=0, numDirectives=0)
        if not reader.done:
            header = reader.read(pb.CacheManagerSection)
        self._header = header
        self._hadoop3 = hadoop3
        pools = [reader.read(pb.CachePoolInfoProto) for _ in range(header.numPools)]
        # Hadoop 2.7 images lack a pool's maxRelativeExpiry; Hadoop 2.10 stores this field in the same layout.
        self._writes_expiry = hadoop3 or any(pool.HasField("maxRelativeExpiry") for pool in pools)
        # Keyed by the name in edits; the image contains "?" instead of a lone surrogate.
        self._pools = {pool.poolName: pool for pool in pools}
        directives = (reader.read(pb.CacheDirectiveInfoProto) for _ in range(header.numDirectives))
        self._directives = {directive.id: directive for directive in directives}
        # Pool attributes that the release's images cannot store: (maxRelativeExpiry, defaultReplication).
        self._unsaved: dict[str, tuple[int, int]] = {}
        reader.finish()
        self.changed = False

    def copy_unsaved_from(self, before: CacheManager) -> None:
        """Copy the pool attributes that images do not contain from another manager of the same pools."""
        self._unsaved = {name: unsaved for name, unsaved in before._unsaved.items() if name in self._pools}

    def pools(self) -> list[CachePoolInfo]:
        """Return all pools by name, including the attributes that only edits have set."""
        return [self._whole(name, self._pools[name]) for name in sorted(self._pools)]

    def _whole(self, name: str, pool: pb.CachePoolInfoProto) -> CachePoolInfo:
        expiry, replication = self._unsaved.get(name, (_NEVER, pool.defaultReplication))
        if self._writes_expiry and pool.HasField("maxRelativeExpiry"):
            expiry = pool.maxRelativeExpiry
        limit = pool.limit if pool.HasField("limit") else _UNLIMITED
        mode = pool.mode if pool.HasField("mode") else _DEFAULT_MODE
        return CachePoolInfo(pool.poolName, pool.ownerName, pool.groupName, mode, limit, expiry, replication)

    def directives(self) -> list[CacheDirectiveInfo]:
        return [
            CacheDirectiveInfo(each.id, each.path, each.replication, each.pool, each.expiration.millis)
            for _, each in sorted(self._directives.items())
        ]

    @property
    def next_directive_id(self) -> int:
        return self._header.nextDirectiveId

    def add_pool(self, info: CachePoolInfo) -> None:
        _check_pool(info)
        name = encodable(info.pool_name)
        if info.pool_name in self._pools:
            raise NamespaceError(f"cache pool {name} exists")
        if "?" in name and any(pool.poolName == name for pool in self._pools.values()):
            raise NamespaceError(f"no NameNode loads an image with two cache pools that are both saved as {name}")
        pool = pb.CachePoolInfoProto(poolName=name, mode=_DEFAULT_MODE, limit=_UNLIMITED)
        if self._writes_expiry:
            pool.maxRelativeExpiry = _NEVER
        self._pools[info.pool_name] = pool
        self.modify_pool(info)

    def modify_pool(self, info: CachePoolInfo) -> None:
        _check_pool(info)
        pool = self._pool(info.pool_name)
        if info.owner_name is not None:
            pool.ownerName = encodable(info.owner_name)
        if info.group_name is not None:
            pool.groupName = encodable(info.group_name)
        if info.mode is not None:
            pool.mode = info.mode & MODE_BITS
        if info.limit is not None:
            pool.limit = info.limit
        expiry, replication = self._unsaved.get(info.pool_name, (_NEVER, pool.defaultReplication))
        if info.max_relative_expiry is not None:
            expiry = info.max_relative_expiry
        if info.default_replication is not None:
            replication = info.default_replication
        self._unsaved[info.pool_name] = expiry, replication
        if info.max_relative_expiry is not None and self._writes_expiry:
            pool.maxRelativeExpiry = info.max_relative_expiry
        self.changed = True

    def remove_pool(self, name: str) -> None:
        pool = self._pool(name)
        del self._pools[name]
        self._unsaved.pop(name, None)
        for directive_id in [d.id for d in self._directives.values() if d.pool == pool.poolName]:
            del self._directives[directive_id]
        self.changed = True

    def _pool(self, name: str) -> pb.CachePoolInfoProto:
        pool = self._pools.get(name)
        if pool is None:
            raise NamespaceError(f"cache pool {name} does not exist")
        return pool

    def add_directive(self, info: CacheDirectiveInfo) -> None:
        if info.id is None or info.pool is None:
            raise NamespaceError(f"cache directive {info.id} has no pool")
        _check_directive(info)
        self._pool(info.pool)
        directive = pb.CacheDirectiveInfoProto(id=info.id)
        self._directives[info.id] = directive
        self._header.nextDirectiveId = max(self._header.nextDirectiveId, info.id + 1)
        self._update(directive, info)

    def modify_directive(self, info: CacheDirectiveInfo) -> None:
        directive = self._directive(info.id)
        if info.replication is not None and info.replication <= 0:
            raise NamespaceError(f"cache directive {info.id} cannot have the replication {info.replication}")
        if info.pool is not None:
            self._pool(info.pool)
        self._update(directive, info)

    def remove_directive(self, directive_id: int) -> None:
        self._directive(directive_id)
        del self._directives[directive_id]
        self.changed = True

    def _directive(self, directive_id: int | None) -> pb.CacheDirectiveInfoProto:
        directive = None if directive_id is None else self._directives.get(directive_id)
        if directive is None:
            raise NamespaceError(f"cache directive {directive_id} does not exist")
        return directive

    def _update(self, directive: pb.CacheDirectiveInfoProto, info: CacheDirectiveInfo) -> None:
        if info.path is not None:
            directive.path = encodable(self._path(info.path))
        if info.replication is not None:
            directive.replication = info.replication
        if info.pool is not None:
            directive.pool = encodable(info.pool)
        if info.expiration is not None:
            directive.expiration.millis = info.expiration
            directive.expiration.isRelative = False
        self.changed = True

    def _path(self, path: str) -> str:
        found = java_path(path, hadoop3=self._hadoop3)
        if not found.startswith("/"):
            raise NamespaceError(f"path {path!r} of a cache directive is not absolute")
        # When Hadoop saves the result, it converts the result to another `Path`. The conversion removes a trailing
        # slash that `..` caused.
        return java_path(found, hadoop3=self._hadoop3)

    def encode(self) -> bytes:
        self._header.numPools = len(self._pools)
        self._header.numDirectives = len(self._directives)
        pools = [self._pools[name] for name in sorted(self._pools)]
        directives = [self._directives[directive_id] for directive_id in sorted(self._directives)]
        return b"".join(map(encode_delimited, (self._header, *pools, *directives)))


def _check_pool(info: CachePoolInfo) -> None:
    """Raise NamespaceError in the cases that CachePoolInfo.validate rejects."""
    if not info.pool_name:
        raise NamespaceError("a cache pool has no name")
    if info.limit is not None and info.limit < 0:
        raise NamespaceError(f"cache pool {info.pool_name} cannot have the limit {info.limit}")
    if info.max_relative_expiry is not None and not 0 <= info.max_relative_expiry <= _NEVER:
        raise NamespaceError(f"cache pool {info.pool_name} cannot have the expiry {info.max_relative_expiry}")


def _check_directive(info: CacheDirectiveInfo) -> None:
    """Raise NamespaceError in the cases that the constructor of CacheDirective rejects."""
    if info.id is None or info.id <= 0 or info.replication is None or info.replication <= 0:
        raise NamespaceError(f"cache directive {info.id} cannot have the replication {info.replication}")

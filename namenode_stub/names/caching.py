"""Cache pools and directives (CacheManager, FSNDNCacheOp). The stub has no DataNodes, so nothing is cached."""

from __future__ import annotations

import grp
import pwd
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from image_format.inode_table import NO_ROW
from image_format.kernels.inode import DIRECTORY, FILE
from journal import ops
from journal.ops import CacheDirectiveInfo, CachePoolInfo
from namenode_stub.names.cache_rules import (
    MAX_LIFETIME,
    DirectiveRequest,
    Expiration,
    absolute_expiry,
    check_pool,
    check_pool_name,
    has_expired,
    valid_path,
    valid_replication,
)
from namenode_stub.names.caller import LOCAL_CALL, ClientCall
from namenode_stub.names.paths import find
from namenode_stub.names.transactions import NamespaceOperations
from namenode_stub.refusals import InvalidRequestError, OperationRefusedError, SymlinkInPathError

_UNLIMITED = (1 << 63) - 1
_DEFAULT_MODE = 0o755
_PAGE = 100  # dfs.namenode.list.cache.{pools,directives}.num.responses

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CacheDemand:
    """Amount of data to be cached. As in Hadoop, only empty files count as cached."""

    bytes: int = 0
    files: int = 0
    empty_files: int = 0

    def __add__(self, other: CacheDemand) -> CacheDemand:
        return CacheDemand(self.bytes + other.bytes, self.files + other.files, self.empty_files + other.empty_files)


@dataclass(frozen=True, slots=True)
class PoolView:
    info: CachePoolInfo
    needed: CacheDemand


@dataclass(frozen=True, slots=True)
class DirectiveView:
    info: CacheDirectiveInfo
    needed: CacheDemand
    has_expired: bool


class Caching(NamespaceOperations):
    """Cache operations; changes raise the same errors as `Transactions.change` and `perform`."""

    # ---- pools ---------------------------------------------------------------------------------------------------

    def add_pool(self, wanted: CachePoolInfo, caller: ClientCall = LOCAL_CALL) -> None:
        """Add a pool; missing fields receive defaults, such as the caller's name and group."""
        check_pool(wanted)
        with self._transactions.change(f"add cache pool {wanted.pool_name}"):
            if self._find_pool(wanted.pool_name) is not None:
                raise InvalidRequestError(f"Cache pool {wanted.pool_name} already exists.")
            pool = CachePoolInfo(
                wanted.pool_name,
                caller.user if wanted.owner_name is None else wanted.owner_name,
                _primary_group(caller.user) if wanted.group_name is None else wanted.group_name,
                _default(wanted.mode, _DEFAULT_MODE),
                _default(wanted.limit, _UNLIMITED),
                _default(wanted.max_relative_expiry, MAX_LIFETIME),
                _default(wanted.default_replication, 1) if self._namespace.hadoop3 else None,
            )
            self._transactions.perform(ops.AddCachePoolOp(pool=pool), caller)

    def modify_pool(self, wanted: CachePoolInfo, caller: ClientCall = LOCAL_CALL) -> None:
        """Change the given fields of a pool."""
        check_pool(wanted)
        with self._transactions.change(f"modify cache pool {wanted.pool_name}"):
            if self._find_pool(wanted.pool_name) is None:
                raise InvalidRequestError(f"Cache pool {wanted.pool_name} does not exist.")
            if not self._namespace.hadoop3:
                wanted = wanted._replace(default_replication=None)
            self._transactions.perform(ops.ModifyCachePoolOp(pool=wanted), caller)

    def remove_pool(self, name: str, caller: ClientCall = LOCAL_CALL) -> None:
        check_pool_name(name)
        with self._transactions.change(f"remove cache pool {name}"):
            if self._find_pool(name) is None:
                raise InvalidRequestError(f"Cannot remove non-existent cache pool {name}")
            self._transactions.perform(ops.RemoveCachePoolOp(pool_name=name), caller)

    def pools(self, after: str = "") -> tuple[list[PoolView], bool]:
        """Return a page of the pools after a name, and whether more pools exist."""
        with self._transactions.view() as namespace:
            found, more = _page([pool for pool in namespace.caches.pools() if pool.pool_name > after])
            return [PoolView(pool, self._needed_of(pool.pool_name)) for pool in found], more

    def _find_pool(self, name: str) -> CachePoolInfo | None:
        return next((pool for pool in self._namespace.caches.pools() if pool.pool_name == name), None)

    def _known_pool(self, name: str | None) -> CachePoolInfo:
        if name is None:
            raise InvalidRequestError("No pool specified.")
        if not name:
            raise InvalidRequestError("Invalid empty pool name.")
        pool = self._find_pool(name)
        if pool is None:
            raise InvalidRequestError(f"Unknown pool {name}")
        return pool

    # ---- directives ----------------------------------------------------------------------------------------------

    def add_directive(self, wanted: DirectiveRequest, caller: ClientCall = LOCAL_CALL, *, force: bool = False) -> int:
        """Add a directive for a path; return its id.

        Args:
            force: ignore the pool's limit.
        """
        with self._transactions.change("add cache directive"):
            if wanted.id is not None:
                raise OperationRefusedError("addDirective: you cannot specify an ID for this operation.")
            pool = self._known_pool(wanted.pool)
            path = valid_path(wanted.path)
            replication = valid_replication(_default(wanted.replication, pool.default_replication))
            expiry = absolute_expiry(wanted.expiration or Expiration(_most(pool), is_relative=True), _most(pool))
            if not force:
                self._check_limit(pool, path, replication)
            directive_id = self._namespace.caches.next_directive_id
            self._transactions.perform(
                ops.AddCacheDirectiveOp(
                    directive=CacheDirectiveInfo(directive_id, path, replication, pool.pool_name, expiry)
                ),
                caller,
            )
            return directive_id

    def modify_directive(
        self, wanted: DirectiveRequest, caller: ClientCall = LOCAL_CALL, *, force: bool = False
    ) -> None:
        """Change the given fields of a directive."""
        with self._transactions.change("modify cache directive"):
            if wanted.id is None:
                raise InvalidRequestError("Must supply an ID.")
            before = self._known_directive(wanted.id)
            path = valid_path(before.path if wanted.path is None else wanted.path)
            replication = valid_replication(_default(wanted.replication, before.replication))
            pool = self._known_pool(before.pool if wanted.pool is None else wanted.pool)
            if pool.pool_name != before.pool and not force:
                self._check_limit(pool, path, replication)
            assert before.expiration is not None
            expiry = absolute_expiry(wanted.expiration or Expiration(before.expiration, is_relative=False), _most(pool))
            self._transactions.perform(
                ops.ModifyCacheDirectiveOp(
                    directive=CacheDirectiveInfo(
                        wanted.id,
                        None if wanted.path is None else path,
                        wanted.replication,
                        wanted.pool,
                        None if wanted.expiration is None else expiry,
                    )
                ),
                caller,
            )

    def remove_directive(self, directive_id: int, caller: ClientCall = LOCAL_CALL) -> None:
        with self._transactions.change("remove cache directives"):
            self._known_directive(directive_id)
            self._transactions.perform(ops.RemoveCacheDirectiveOp(id=directive_id), caller)

    def directives(self, after: int = 0, wanted: DirectiveRequest | None = None) -> tuple[list[DirectiveView], bool]:
        """Return a page of the directives after an id, and whether more directives exist.

        Args:
            wanted: filter by id, path or pool.
        """
        wanted = wanted or DirectiveRequest()
        path = None if wanted.path is None else valid_path(wanted.path)
        if wanted.replication is not None:
            raise InvalidRequestError("Filtering by replication is unsupported.")
        with self._transactions.view() as namespace:
            held = namespace.caches.directives()
            if wanted.id is not None and all(each.id != wanted.id for each in held):
                raise InvalidRequestError(f"Did not find requested id {wanted.id}")
            found, more = _page(
                [
                    each
                    for each in held
                    if (each.id > after if wanted.id is None else each.id == wanted.id)
                    and path in (None, each.path)
                    and wanted.pool in (None, each.pool)
                ]
            )
            return [self._view(each) for each in found], more

    def newest_like(self, wanted: DirectiveRequest) -> int:
        """Return the id of the newest directive for a path in a pool; 0 if there is none."""
        found, _ = self.directives(0, replace(wanted, id=None, replication=None, expiration=None))
        return found[-1].info.id if found else 0

    def _known_directive(self, directive_id: int) -> CacheDirectiveInfo:
        if directive_id <= 0:
            raise InvalidRequestError("Invalid negative ID.")
        for directive in self._namespace.caches.directives():
            if directive.id == directive_id:
                return directive
        raise InvalidRequestError(f"No directive with ID {directive_id} found.")

    # ---- needed data -------------------------------------------------------------------------------------------------

    def _view(self, directive: CacheDirectiveInfo) -> DirectiveView:
        expired = has_expired(directive)
        return DirectiveView(directive, CacheDemand() if expired else self._needed_by(directive), expired)

    def _needed_by(self, directive: CacheDirectiveInfo) -> CacheDemand:
        needed = CacheDemand()
        for size in self._sizes(directive.path or ""):
            needed += CacheDemand(size * (directive.replication or 0), 1, 1 if size == 0 else 0)
        return needed

    def _needed_of(self, pool: str) -> CacheDemand:
        needed = CacheDemand()
        for directive in self._namespace.caches.directives():
            if directive.pool == pool and not has_expired(directive):
                needed += self._needed_by(directive)
        return needed

    def _sizes(self, path: str) -> Iterator[int]:
        """Yield the size of the file at a path, or of each file in the directory at the path, without an open last
        block.
        """
        namespace = self._namespace
        try:
            top = find(namespace, path)
        except SymlinkInPathError:
            return
        rows = [] if top == NO_ROW else [top]
        if rows and namespace.table.kind[top] == DIRECTORY:
            rows = [row for _, row in namespace.tree.children(top)]
        for row in rows:
            if namespace.table.kind[row] == FILE:
                blocks = namespace.table.file_blocks(row)
                whole = blocks[:-1] if namespace.table.is_under_construction(row) else blocks
                yield sum(block.num_bytes for block in whole)

    def _check_limit(self, pool: CachePoolInfo, path: str, replication: int) -> None:
        if pool.limit is None or pool.limit == _UNLIMITED:
            return
        size, used = sum(self._sizes(path)), self._needed_of(pool.pool_name).bytes
        if used + size * replication > pool.limit:
            raise InvalidRequestError(
                f"Caching path {path} of size {size} bytes at replication {replication} would exceed pool "
                f"{pool.pool_name}'s remaining capacity of {pool.limit - used} bytes."
            )


def _default(value: int | None, default: int | None) -> int:
    found = default if value is None else value
    assert found is not None
    return found


def _most(pool: CachePoolInfo) -> int:
    return _default(pool.max_relative_expiry, MAX_LIFETIME)


def _page(found: Sequence[T]) -> tuple[list[T], bool]:
    return list(found[:_PAGE]), len(found) > _PAGE


def _primary_group(user: str) -> str:
    try:
        return grp.getgrgid(pwd.getpwnam(user).pw_gid).gr_name
    except KeyError as error:
        raise OperationRefusedError(f"There is no primary group for UGI {user} (auth:SIMPLE)") from error

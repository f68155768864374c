"""Crafted operation lists: every operation of a layout, with values that clients send and impossible values.

A `Crafter` makes a list for a seed. The crafter maintains a rough model of the namespace, so that most operations are
possible. Sometimes the list departs from the model: it contains other spellings of a path, reserved names, missing
paths, and values that no client can request.
"""

from __future__ import annotations

from collections.abc import Callable

from journal import ops
from journal.ops import Block, EditOp
from tests.engine.op_makers import add, close, mkdir
from tests.interop.crafted_values import FIRST_BLOCK, FIRST_STAMP, LARGEST, ODD_NAMES, CraftedValues, link, token


class Crafter(CraftedValues):
    """A generator of one list."""

    def make(self) -> list[EditOp]:
        """Return the list: 5 to 30 operations between the markers of a segment."""
        kinds: list[Callable[[], EditOp]] = [make for make, weight in self._kinds() for _ in range(weight)]
        made = [self._chance.choice(kinds)() for _ in range(self._chance.randint(5, 30))]
        return [ops.StartLogSegmentOp(), *made, ops.EndLogSegmentOp()]

    def _kinds(self) -> list[tuple[Callable[[], EditOp], int]]:
        return [
            (self._mkdir, 5),
            (self._add, 6),
            (self._close, 5),
            (self._add_block, 4),
            (self._update_blocks, 3),
            (self._append, 3),
            (self._truncate, 3),
            (self._concat, 3),
            (self._delete, 5),
            (self._rename_old, 6),
            (self._rename, 6),
            (self._symlink, 2),
            (self._set_replication, 3),
            (self._set_permissions, 3),
            (self._set_owner, 3),
            (self._times, 3),
            (self._set_quota, 3),
            (self._old_quota, 2),
            (self._type_quota, 3),
            (self._storage_policy, 3),
            (self._set_acl, 4),
            (self._set_xattr, 3),
            (self._remove_xattr, 2),
            (self._reassign, 2),
            (self._allow, 2),
            (self._disallow, 2),
            (self._create_snapshot, 4),
            (self._delete_snapshot, 3),
            (self._rename_snapshot, 2),
            (self._stamps, 2),
            (self._pool, 3),
            (self._directive, 4),
            (self._token, 3),
            (self._rolling_upgrade, 1),
            *([(self._policy, 4), (self._add_striped, 3)] if self._striped else []),
        ]

    # ---- files ---------------------------------------------------------------------------------------------

    def _mkdir(self) -> EditOp:
        path, acl = self._new(), self._acl(default=True) if self._happens(0.1) else None
        if not self._model.exists(path):
            self._model.directories.append(path)
        mode = self._permissions()
        fields = {"xattrs": self._xattrs()} if self._happens(0.1) else {}
        return mkdir(self._spelled(path), self._inode_id(), self._now(), permissions=mode, acl_entries=acl, **fields)

    def _add(self) -> EditOp:
        model, known = self._model, self._happens(0.3)
        path = self._of(model.files, model.opened) if known else self._new()
        overwrite = self._happens(0.5) if known else self._happens(0.1)
        if known and self._is_striped(path):
            overwrite = True
        if overwrite:
            model.forget(path)
        blocks = model.blocks.get(path, ()) if known and not overwrite else ()
        if not model.exists(path) or path in model.files:
            model.forget(path)
            model.opened.append(path)
        model.blocks[path] = blocks
        return add(
            self._spelled(path),
            self._inode_id(),
            self._now(),
            atime=self._now(),
            replication=self._value(3, 0, -1, 513, 32767, -32768),
            block_size=self._value(128, 0, 1, -1, (1 << 48) - 1, 1 << 48, LARGEST),
            blocks=blocks,
            permissions=self._permissions(),
            acl_entries=self._acl(default=False) if self._happens(0.1) else None,
            xattrs=self._xattrs() if self._happens(0.1) else (),
            client_name=self._chance.choice(("client", "other", "")),
            client_machine=self._chance.choice(("host", "")),
            overwrite=overwrite,
            storage_policy_id=self._value(0, 1, 2, 7, 12, 15, 16, -1, 127),
        )

    def _is_striped(self, path: str) -> bool:
        """Return whether a file has striped blocks; Hadoop 3 cannot reopen the last of these blocks."""
        return any(block.block_id < 0 for block in self._model.blocks.get(path, ()))

    def _add_striped(self) -> EditOp:
        """Return the creation of a file with any erasure coding policy."""
        path = self._new()
        if not self._model.exists(path):
            self._model.opened.append(path)
            self._model.blocks[path] = ()
        return add(
            self._spelled(path),
            self._inode_id(),
            self._now(),
            replication=self._value(1, 0, 3),
            erasure_coding_policy_id=self._value(self._chance.choice((1, 2, 4, 64)), 0, 6, 63, 127, -1),
            storage_policy_id=self._value(0, 1, 7, 12),
        )

    def _close(self) -> EditOp:
        path = self._of(self._model.opened)
        blocks = self._changed(self._model.blocks.get(path, ()))
        if path in self._model.opened:
            self._model.opened.remove(path)
            self._model.files.append(path)
            self._model.blocks[path] = blocks
        return close(self._spelled(path), self._now(), atime=self._now(), blocks=blocks, replication=self._value(3, 0))

    def _changed(self, blocks: tuple[Block, ...]) -> tuple[Block, ...]:
        """Return a block list as a later operation may contain it."""
        way = self._chance.random()
        if blocks and way < 0.3:
            last = blocks[-1]._replace(num_bytes=self._value(self._chance.randint(0, 128), -1, LARGEST))
            return (*blocks[:-1], last)
        if blocks and way < 0.4:
            self._model.block += 1
            return (*blocks[:-1], blocks[-1]._replace(genstamp=FIRST_STAMP + self._model.block))
        if blocks and way < 0.5:
            return blocks[:-1]
        if way < 0.6:
            return (*blocks, self._block(100, blocks))
        if blocks and way < 0.6 + self._odd_values:
            return self._chance.choice((blocks[1:], (), (blocks[0]._replace(genstamp=5), *blocks[1:])))
        return blocks

    def _add_block(self) -> EditOp:
        path = self._of(self._model.opened)
        blocks = self._model.blocks.get(path, ())
        added = self._block(0, blocks)
        self._model.blocks[path] = (*blocks, added)
        before = blocks[-1:] if not self._happens(self._odd_values) else self._chance.choice((blocks, (), blocks[:1]))
        if before and self._happens(0.3):
            before = (*before[:-1], before[-1]._replace(num_bytes=self._chance.randint(0, 128)))
        return ops.AddBlockOp(path=self._spelled(path), blocks=(*before, added))

    def _update_blocks(self) -> EditOp:
        path = self._of(self._model.opened)
        blocks = self._changed(self._model.blocks.get(path, ()))
        self._model.blocks[path] = blocks
        return ops.UpdateBlocksOp(path=self._spelled(path), blocks=blocks)

    def _append(self) -> EditOp:
        path = self._of(self._model.files)
        if path in self._model.files:
            self._model.files.remove(path)
            self._model.opened.append(path)
        name, machine = self._chance.choice(("client", "")), self._chance.choice(("host", ""))
        # A client can append to an erasure-coded file only with a new block.
        new = self._happens(0.4) or self._is_striped(path)
        return ops.AppendOp(path=self._spelled(path), client_name=name, client_machine=machine, new_block=new)

    def _truncate(self) -> EditOp:
        path = self._of(self._model.files)
        blocks = self._model.blocks.get(path, ())
        size = min(sum(block.num_bytes for block in blocks), LARGEST)
        length = self._value(self._chance.choice((0, 100, 128, 200, size)), -1, min(size + 1, LARGEST), LARGEST)
        kept = blocks[: -(-length // 128)] if 0 <= length < 1 << 20 else blocks
        inside = bool(kept) and length % 128 > 0
        if self._happens(self._odd_values):
            inside = not inside
        block = None
        if inside and kept:
            block = kept[-1]._replace(genstamp=FIRST_STAMP + self._model.block)
            if self._happens(0.2):
                block = self._block(kept[-1].num_bytes, kept)
            kept = (*kept[:-1], block)
            if path in self._model.files:
                self._model.files.remove(path)
                self._model.opened.append(path)
        self._model.blocks[path] = kept
        return ops.TruncateOp(
            src=self._spelled(path),
            client_name="client",
            client_machine="host",
            new_length=length,
            timestamp=self._now(),
            truncate_block=block,
        )

    def _concat(self) -> EditOp:
        target, sources = self._siblings()
        if self._happens(self._odd_values):
            sources = self._chance.choice(([], [target], [sources[0], sources[0]], [sources[0], target]))
        for path in sources:
            if path != target:
                self._model.blocks[target] = self._model.blocks.get(target, ()) + self._model.blocks.get(path, ())
                self._model.forget(path)
        spelled = tuple(self._spelled(path) for path in sources)
        return ops.ConcatDeleteOp(trg=self._spelled(target), srcs=spelled, timestamp=self._now())

    def _siblings(self) -> tuple[str, list[str]]:
        """Return a file and one or two other files of its directory.

        A client cannot join files of other directories; Hadoop 3 then changes directories outside of the snapshot.
        """
        directories: dict[str, list[str]] = {}
        for path in self._model.files:
            directories.setdefault(path.rpartition("/")[0], []).append(path)
        found = [paths for paths in directories.values() if len(paths) > 1]
        if not self._striped and (not found or self._happens(self._odd_values)):
            return self._of(self._model.files), [self._of(self._model.files)]
        if not found:
            return self._of(self._model.files), []
        paths = self._chance.choice(found)
        target, *others = self._chance.sample(paths, min(len(paths), self._chance.choice((2, 2, 3))))
        return target, others

    # ---- shape ---------------------------------------------------------------------------------------------

    def _delete(self) -> EditOp:
        path = self._any()
        if path != "/" and path not in [root for root, _ in self._model.snapshots]:
            self._model.forget(path)
        return ops.DeleteOp(path=self._spelled(path), timestamp=self._now())

    def _ends(self) -> tuple[str, str]:
        return self._any(), self._new() if self._happens(0.6) else self._any()

    def _rename_old(self) -> EditOp:
        source, target = self._ends()
        end = target
        if target in self._model.directories:
            end = ("" if target == "/" else target) + "/" + source.rpartition("/")[2]
        if source != "/" and not self._model.exists(end):
            self._model.move(source, end)
        return ops.RenameOldOp(src=self._spelled(source), dst=self._spelled(target), timestamp=self._now())

    def _rename(self) -> EditOp:
        source, target = self._ends()
        overwrite = self._happens(0.4)
        if source != "/" and source != target and (overwrite or not self._model.exists(target)):
            self._model.forget(target)
            self._model.move(source, target)
        options = bytes([ops.RENAME_OVERWRITE] if overwrite else [])
        if self._happens(self._odd_values):
            # Hadoop 2 does not know the option 2 (TO_TRASH)
            options = self._chance.choice((b"\0", b"\0\1", b"\1\1", *((b"\2", b"\1\2") if self._striped else ())))
        return ops.RenameOp(
            src=self._spelled(source), dst=self._spelled(target), timestamp=self._now(), options=options
        )

    def _symlink(self) -> EditOp:
        path = self._new()
        if not self._model.exists(path):
            self._model.links.append(path)
        return link(self._spelled(path), self._inode_id(), self._chance.choice(("/d1", "f", "", "/ü")), self._now())

    # ---- attributes ----------------------------------------------------------------------------------------

    def _set_replication(self) -> EditOp:
        path = self._of(self._model.files, self._model.opened)
        return ops.SetReplicationOp(path=self._spelled(path), replication=self._value(2, 0, -1, 513, 32767))

    def _set_permissions(self) -> EditOp:
        return ops.SetPermissionsOp(src=self._spelled(self._any()), mode=self._mode() & 0xFFFF)

    def _set_owner(self) -> EditOp:
        user, group = self._chance.choice((None, "eve", "ü")), self._chance.choice((None, "staff"))
        return ops.SetOwnerOp(src=self._spelled(self._any()), username=user, groupname=group)

    def _times(self) -> EditOp:
        mtime, atime = (self._chance.choice((-1, self._now())) for _ in range(2))
        return ops.TimesOp(path=self._spelled(self._any()), mtime=mtime, atime=atime)

    def _quota(self) -> int:
        return self._value(self._chance.choice((-1, 1000, 1 << 40, LARGEST)), 0, 1, -2, -5, LARGEST - 1, -LARGEST)

    def _set_quota(self) -> EditOp:
        path = self._spelled(self._of(self._model.directories))
        return ops.SetQuotaOp(src=path, ns_quota=self._quota(), ds_quota=self._quota())

    def _old_quota(self) -> EditOp:
        path = self._spelled(self._of(self._model.directories))
        if self._happens(0.5):
            return ops.ClearNsQuotaOp(src=path)
        return ops.SetNsQuotaOp(src=path, ns_quota=self._quota())

    def _type_quota(self) -> EditOp:
        kind = self._value(self._chance.choice((1, 2, 3)), 0, 4, 5, -1)
        path = self._spelled(self._of(self._model.directories))
        return ops.SetQuotaByStorageTypeOp(src=path, storage_type=kind, ds_quota=self._quota())

    def _storage_policy(self) -> EditOp:
        newer = (14,) if self._layout <= -67 else ()
        policy = self._value(self._chance.choice((0, 2, 5, 7, 10, 12, *newer)), 1, 3, 15, 16, -1, 127)
        if self._happens(0.1):
            policy = 15
        return ops.SetStoragePolicyOp(path=self._spelled(self._any()), policy_id=policy)

    def _set_acl(self) -> EditOp:
        path = self._any()
        entries = () if self._happens(0.3) else self._acl(default=path in self._model.directories)
        return ops.SetAclOp(src=self._spelled(path).encode("utf-8", "replace").decode(), acl_entries=entries)

    def _set_xattr(self) -> EditOp:
        path = self._spelled(self._any()).encode("utf-8", "replace").decode()
        return ops.SetXAttrOp(src=path, xattrs=self._xattrs())

    def _remove_xattr(self) -> EditOp:
        path = self._spelled(self._any()).encode("utf-8", "replace").decode()
        return ops.RemoveXAttrOp(src=path, xattrs=self._xattrs())

    def _reassign(self) -> EditOp:
        path, holder = self._spelled(self._of(self._model.opened)), self._chance.choice(("client", "none"))
        return ops.ReassignLeaseOp(lease_holder=holder, path=path, new_holder=self._chance.choice(("new", "")))

    # ---- snapshots -----------------------------------------------------------------------------------------

    def _allow(self) -> EditOp:
        path = self._of(self._model.directories)
        self._model.snapshottable.append(path)
        return ops.AllowSnapshotOp(snapshot_root=self._spelled(path))

    def _disallow(self) -> EditOp:
        return ops.DisallowSnapshotOp(snapshot_root=self._spelled(self._of(self._model.snapshottable)))

    def _snapshot_name(self) -> str:
        if self._happens(self._odd_values):
            return self._chance.choice((*ODD_NAMES, "a/b"))
        return f"s{self._chance.randint(1, 9)}"

    def _create_snapshot(self) -> EditOp:
        root, name = self._of(self._model.snapshottable), self._snapshot_name()
        self._model.snapshots.append((root, name))
        return ops.CreateSnapshotOp(snapshot_root=self._spelled(root), snapshot_name=name, **self._at())

    def _existing_snapshot(self) -> tuple[str, str]:
        return self._chance.choice(self._model.snapshots) if self._model.snapshots else ("/d2", "none")

    def _delete_snapshot(self) -> EditOp:
        root, name = self._existing_snapshot()
        self._model.snapshots = [each for each in self._model.snapshots if each != (root, name)]
        return ops.DeleteSnapshotOp(snapshot_root=self._spelled(root), snapshot_name=name, **self._at())

    def _rename_snapshot(self) -> EditOp:
        (root, old), new = self._existing_snapshot(), self._snapshot_name()
        self._model.snapshots = [(root, new) if each == (root, old) else each for each in self._model.snapshots]
        return ops.RenameSnapshotOp(
            snapshot_root=self._spelled(root), snapshot_old_name=old, snapshot_new_name=new, **self._at()
        )

    def _at(self) -> dict[str, int]:
        """Return the time of an operation on a snapshot; an operation of an older layout does not contain it."""
        return {"mtime": self._now()} if self._layout <= -66 else {}

    # ---- edits outside the tree --------------------------------------------------------------------------------

    def _stamps(self) -> EditOp:
        self._model.block += 1
        number = self._model.block
        stamp = self._value(FIRST_STAMP + number, 0, 5, -1, LARGEST)
        return self._chance.choice(
            (
                ops.SetGenstampV1Op(genstamp=stamp),
                ops.SetGenstampV2Op(genstamp=stamp),
                ops.AllocateBlockIdOp(block_id=self._value(FIRST_BLOCK + number, 0, 5, -1, LARGEST)),
            )
        )

    def _pool(self) -> EditOp:
        chance, model = self._chance, self._model
        if self._happens(0.2):
            name = chance.choice(model.pools or ["p1"])
            model.pools = [pool for pool in model.pools if pool != name]
            return ops.RemoveCachePoolOp(pool_name=name)
        adds = self._happens(0.5)
        name = f"p{chance.randint(2, 9)}" if adds else chance.choice(model.pools or ["p1"])
        info = ops.CachePoolInfo(
            self._chance.choice(("", "ü")) if self._happens(self._odd_values) else name,
            chance.choice(("eve",) if adds else (None, "eve")),
            chance.choice(("staff",) if adds else (None, "staff")),
            chance.choice((None, self._mode() & 0x7FFF)),
            chance.choice((None, self._value(1 << 30, 0, -1, LARGEST))),
            chance.choice((None, self._value(1000, 0, -1, LARGEST))),
        )
        if not adds:
            return ops.ModifyCachePoolOp(pool=info)
        model.pools.append(name)
        return ops.AddCachePoolOp(pool=info)

    def _directive(self) -> EditOp:
        chance, model = self._chance, self._model
        if self._happens(0.2):
            return ops.RemoveCacheDirectiveOp(id=self._value(chance.choice(model.directives), 0, -1, 99))
        adds = self._happens(0.5)
        number = (
            self._value(min(max(model.directives) + 1, LARGEST), 0, -1, LARGEST)
            if adds
            else chance.choice(model.directives)
        )
        path, pool = self._spelled(self._any()), chance.choice(model.pools or ["p1"])
        replication, expires = self._value(1, 0, -1, 3), self._value(LARGEST // 4, 0, -1, LARGEST)
        if adds:
            model.directives.append(number)
            return ops.AddCacheDirectiveOp(directive=ops.CacheDirectiveInfo(number, path, replication, pool, expires))
        return ops.ModifyCacheDirectiveOp(
            directive=ops.CacheDirectiveInfo(
                number,
                chance.choice((None, path)),
                chance.choice((None, replication)),
                chance.choice((None, pool)),
                chance.choice((None, expires)),
            )
        )

    def _token(self) -> EditOp:
        chance, model = self._chance, self._model
        far = self._value(LARGEST // 2, 0, -1, LARGEST)
        way = chance.random()
        if way < 0.2:
            number = self._value(chance.randint(1, 4), 0, -1)
            return ops.UpdateMasterKeyOp(key=ops.DelegationKey(number, far, chance.choice((b"key", b"", None))))
        if way < 0.5:
            number = max(model.tokens) + 1
            model.tokens.append(number)
            key = self._value(1, 2, 9, -1)
            return ops.GetDelegationTokenOp(token=token(number)._replace(master_key_id=key), expiry_time=far)
        given = token(chance.choice(model.tokens))
        if self._happens(self._odd_values):
            given = given._replace(owner=chance.choice(("", "ü")), real_user="root", sequence_number=-1)
        if way < 0.8:
            return ops.RenewDelegationTokenOp(token=given, expiry_time=far)
        return ops.CancelDelegationTokenOp(token=given)

    def _policy(self) -> EditOp:
        """Return an operation on an erasure coding policy."""
        chance, model = self._chance, self._model
        if self._happens(0.4):
            codec, units = chance.choice(("rs", "xor", "rs-legacy")), chance.choice(((3, 2), (6, 3), (2, 1), (4, 4)))
            data, parity = self._value(units[0], 0, 20), units[1]
            size = self._value(chance.choice((1 << 16, 1 << 20)), 0, -1, 100, 1025)
            options = chance.choice(((), (), (("k", "v"),), (("a", "ü"), ("k", "v"))))
            model.policies.append(f"{codec.upper()}-{data}-{parity}-{size // 1024}k")
            return ops.AddErasureCodingPolicyOp(
                codec_name=codec, data_units=data, parity_units=parity, cell_size=size, extra_options=options
            )
        kinds = (ops.EnableErasureCodingPolicyOp, ops.DisableErasureCodingPolicyOp, ops.RemoveErasureCodingPolicyOp)
        name = chance.choice(model.policies)
        if self._happens(self._odd_values):
            name = chance.choice(("none", "replication", name.lower()))
        return chance.choice(kinds)(policy_name=name)

    def _rolling_upgrade(self) -> EditOp:
        if self._happens(0.5):
            return ops.RollingUpgradeStartOp(time=self._now())
        return ops.RollingUpgradeFinalizeOp(time=self._now())

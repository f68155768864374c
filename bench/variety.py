"""Realistic variety for a generated namespace: many owners, sizes, ages, ACLs, xattrs and quotas."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from image_format.permission import AclScope, AclType, XAttrNamespace, pack_acl_entry, pack_permission, pack_xattr_name
from image_format.proto import fsimage_pb2 as pb
from image_format.string_table import StringKind, StringTable
from image_format.varint import encode_delimited

MOST_BLOCKS = 3
_USERS = ("etl", "hive", "spark", "hbase", "ana", "ben", "chris", "dora", "emil", "fay")
_GROUPS = ("hadoop", "analysts", "research")
_DAY = 86_400_000
_YEARS = 4 * 365 * _DAY
_MEDIAN_SIZE, _SIZE_SIGMA = 2 << 20, 2.6
_EMPTY_SHARE = 0.03
_RARE = 5_000  # one inode in 5,000 has an ACL, and another inode in 5,000 has an xattr
_QUOTA_STEP = 500
_SKEW = 3

Rows = npt.NDArray[np.void]
Ids = npt.NDArray[np.int64]


def skewed_homes(files: int, directories: int, seed: int) -> Ids:
    """Return the directory of each file: a few directories contain most files, and some contain none."""
    random = np.random.default_rng(seed)
    homes = (directories * random.random(files) ** _SKEW).astype(np.int64)
    # large directories can be anywhere
    places: Ids = random.permutation(directories)[np.minimum(homes, directories - 1)]
    return places


class Variety:
    """Variation of the attributes that are equal for all inodes of a plain generated namespace.

    Args:
        strings: receives users, groups and an xattr name.
        clock: newest modification time, ms since the epoch.
        group_of: number of a directory's branch below the root, by directory; one owner owns the whole branch.
    """

    def __init__(self, strings: StringTable, clock: int, group_of: Ids, seed: int) -> None:
        users = [strings.serial(name, StringKind.USER) for name in _USERS]
        groups = [strings.serial(name, StringKind.GROUP) for name in _GROUPS]
        random = np.random.default_rng(seed)
        branches = int(group_of.max()) + 1
        # the first users own the most inodes
        owner = (len(users) * random.random(branches) ** 2).astype(np.int64)
        packed = [pack_permission(user, groups[number % len(groups)], 0) for number, user in enumerate(users)]
        self._owned = np.array(packed, np.uint64)[owner][group_of]
        self._newest = clock - (_YEARS * random.random(branches) ** 2).astype(np.int64)[group_of]
        self._random = random
        entries = [(AclType.USER, users[4], 6), (AclType.GROUP, 0, 4), (AclType.MASK, 0, 6)]
        self._acl = [pack_acl_entry(AclScope.ACCESS, kind, name, bits) for kind, name, bits in entries]
        self._xattr = pack_xattr_name(XAttrNamespace.USER, strings.serial("origin", StringKind.XATTR))

    def directories(self, rows: Rows, numbers: Ids) -> None:
        """Vary owners and times, and set quotas on some directories; `numbers` are indices of directories."""
        rows["permission"] = self._owned[numbers] | np.uint64(0o755)
        rows["mtime"] = self._newest[numbers]
        limited = numbers % _QUOTA_STEP == 0
        rows["ns_quota"][limited] = 1_000_000
        rows["ds_quota"][limited & (numbers % (2 * _QUOTA_STEP) == 0)] = 50 << 40

    def files(self, rows: Rows, homes: Ids) -> Ids:
        """Vary owners, modes, times and replication; return the files' lengths in bytes."""
        random, count = self._random, rows.size
        modes = np.array([0o644, 0o640, 0o600, 0o664], np.uint64)
        rows["permission"] = self._owned[homes] | random.choice(modes, count, p=[0.7, 0.15, 0.05, 0.1])
        rows["mtime"] = self._newest[homes] - (180 * _DAY * random.random(count)).astype(np.int64)
        # half of the files were never read after they were written
        read = np.where(random.random(count) < 0.5, 0.0, random.random(count))
        rows["atime"] = rows["mtime"] + (read * 180 * _DAY).astype(np.int64)
        rows["replication"] = random.choice(np.array([3, 2, 1, 10]), count, p=[0.9, 0.05, 0.04, 0.01])
        sizes: Ids = np.exp(np.log(_MEDIAN_SIZE) + _SIZE_SIGMA * random.standard_normal(count)).astype(np.int64) + 1
        sizes[random.random(count) < _EMPTY_SHARE] = 0
        return sizes

    def decorate(self, encoded: memoryview, starts: Ids) -> list[bytes | memoryview]:
        """Return the encoded records, a few of them with an ACL or an xattr."""
        parts: list[bytes | memoryview] = []
        done = 0
        for number in range(_RARE // 2, starts.size - 1, _RARE // 2):
            start, stop = int(starts[number]), int(starts[number + 1])
            parts += [encoded[done:start], self._decorated(encoded[start:stop], with_acl=number % _RARE == 0)]
            done = stop
        return [*parts, encoded[done:]]

    def _decorated(self, delimited: memoryview, *, with_acl: bool) -> bytes:
        body = bytes(delimited)
        while body[0] & 0x80:
            body = body[1:]
        inode = pb.INode.FromString(body[1:])
        holder = inode.file if inode.type == pb.INode.FILE else inode.directory
        if with_acl:
            holder.acl.entries.extend(self._acl)
        else:
            holder.xAttrs.xAttrs.add(name=self._xattr, value=b"import")
        return encode_delimited(inode)

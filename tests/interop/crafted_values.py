"""The tree that crafted lists of operations begin with, and values for them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from journal import ops
from journal.ops import AclEntry, Block, EditOp, PermissionStatus, XAttr
from tests.engine.op_makers import add, close, mkdir
from tests.engine.snapshot_support import allow, create

STRIPED_SINCE = -64
FIRST_INODE = 16386
FIRST_BLOCK = (1 << 30) + 1
FIRST_STAMP = 1001
TIME = 5000
LARGEST = (1 << 63) - 1
FIRST_GROUP = -LARGEST - 1 + 16
"""Id of the first striped block of a cluster; the ids of block groups are multiples of 16."""
RS_3_2 = 2
EC_DIRECTORY, EC_FILE, EC_OPEN = "/ec", "/ec/f", "/ec/o"
EC_POLICY = "hdfs.erasurecoding.policy"
FLAT = ("/", "/d1", "/d1/sub", "/d2", "/d2/in", "/d3", "/d4", "/acl", "/x", "/x/y", "/x/y/z", "/ü")
FILES = ("/d1/f1", "/d1/f2", "/d1/sub/g", "/d2/a", "/d2/in/b", "/d3/q", "/x/y/z/deep", "/ü/ö", "/e1", "/e2")
OPEN = ("/open", "/d2/o", "/d1/sub/o")
LINKS = ("/l", "/d2/l")
ODD_NAMES = (
    ".snapshot",
    ".reserved",
    ".inodes",
    "raw",
    ".",
    "..",
    "",
    " ",
    "a:b",
    "ü",
    "\U0001d49c",
    "\ud800",
    "a\nb",
    "-",
)


_SWITCHES = ("capture.openfiles", "skip.capture.accesstime-only-change", "deletion.ordered")


def _blocks(first: int, count: int, size: int = 128) -> tuple[Block, ...]:
    return tuple(Block(FIRST_BLOCK + n, size, FIRST_STAMP + n) for n in range(first, first + count))


def keys_of(seed: int, layout: int) -> dict[str, str]:
    """Return the configuration of a list; half of the lists, and all lists of Hadoop 2, have only defaults."""
    chance = random.Random(seed)
    if layout > STRIPED_SINCE or chance.random() < 0.5:
        return {}
    switches = {f"dfs.namenode.snapshot.{name}": chance.choice(("true", "false")) for name in _SWITCHES}
    return {**switches, "dfs.namenode.replication.min": chance.choice("12"), "dfs.replication.max": "5"}


def policy_xattr(name: str) -> XAttr:
    """Return the attribute that sets a directory's erasure coding policy."""
    encoded = name.encode()
    return XAttr(3, EC_POLICY, len(encoded).to_bytes(4, "big") + encoded)


def _striped_setup(number: Iterator[int]) -> list[EditOp]:
    """Return operations with a closed and an open erasure-coded file, which a snapshot contains."""
    made: list[EditOp] = [
        mkdir(EC_DIRECTORY, next(number)),
        ops.EnableErasureCodingPolicyOp(policy_name="RS-3-2-1024k"),
        ops.SetXAttrOp(src=EC_DIRECTORY, xattrs=(policy_xattr("RS-3-2-1024k"),)),
        allow(EC_DIRECTORY),
    ]
    for at, path in enumerate((EC_FILE, EC_OPEN)):
        (block,) = group = striped(at)
        made += [
            add(path, next(number), erasure_coding_policy_id=RS_3_2, replication=1),
            ops.AllocateBlockIdOp(block_id=block.block_id),
            ops.AddBlockOp(path=path, blocks=(block._replace(num_bytes=0),)),
        ]
        if path == EC_FILE:
            made.append(close(path, blocks=group))
    return [*made, create("s1", EC_DIRECTORY)]


def striped(number: int) -> tuple[Block, ...]:
    """Return the only block of an erasure-coded file."""
    return (Block(FIRST_GROUP + 16 * number, 128, FIRST_STAMP),)


def setup_of(layout: int) -> Sequence[EditOp]:
    """Return the operations that make the tree."""
    return (
        SETUP
        if layout > STRIPED_SINCE
        else [*SETUP, *_striped_setup(iter(range(FIRST_INODE + 400, FIRST_INODE + 500)))]
    )


def _setup() -> list[EditOp]:
    made: list[EditOp] = []
    number = iter(range(FIRST_INODE, FIRST_INODE + 1000))
    block = iter(range(0, 1000, 2))
    made += [mkdir(path, next(number)) for path in FLAT[1:]]
    made += [allow("/d2"), allow("/x")]
    for path in (*FILES, *OPEN):
        blocks = _blocks(next(block), 2) if path[1] != "e" else ()
        made.append(add(path, next(number)))
        for at, each in enumerate(blocks):
            made.append(ops.AllocateBlockIdOp(block_id=each.block_id))
            made.append(ops.SetGenstampV2Op(genstamp=each.genstamp))
            empty = each._replace(num_bytes=0)
            made.append(ops.AddBlockOp(path=path, blocks=(*blocks[at - 1 : at], empty) if at else (empty,)))
        if path not in OPEN:
            made.append(close(path, blocks=blocks))
    for path in LINKS:
        made.append(link(path, next(number), "/d1/f1"))
    default = tuple(
        AclEntry(kind, 1, 5, name) for kind, name in ((0, None), (0, "eve"), (1, None), (2, None), (3, None))
    )
    access = tuple(
        AclEntry(kind, 0, 6, name) for kind, name in ((0, None), (0, "eve"), (1, None), (2, None), (3, None))
    )
    made += [
        create("s1", "/d2"),
        create("s1", "/x"),
        ops.SetAclOp(src="/acl", acl_entries=(*access, *default)),
        ops.SetAclOp(src="/d1/f2", acl_entries=access),
        ops.SetQuotaOp(src="/d3", ns_quota=1000, ds_quota=1 << 40),
        ops.SetQuotaByStorageTypeOp(src="/d4", storage_type=1, ds_quota=1 << 40),
        ops.SetXAttrOp(src="/d1", xattrs=(XAttr(0, "a", b"1"), XAttr(1, "b", None))),
        ops.SetStoragePolicyOp(path="/d4", policy_id=12),
        ops.AddCachePoolOp(pool=ops.CachePoolInfo("p1", "eve", "staff", 0o755, 1 << 30, 1000)),
        ops.AddCacheDirectiveOp(directive=ops.CacheDirectiveInfo(1, "/d1", 1, "p1", LARGEST // 4)),
        ops.UpdateMasterKeyOp(key=ops.DelegationKey(1, LARGEST // 2, b"key")),
        ops.GetDelegationTokenOp(token=token(1), expiry_time=LARGEST // 2),
        mkdir("/d2/in/late", next(number), 6000),
    ]
    return made


def link(path: str, inode_id: int, target: str, mtime: int = TIME) -> EditOp:
    owner = PermissionStatus("hdfs", "supergroup", 0o777)
    return ops.SymlinkOp(inode_id=inode_id, path=path, target=target, mtime=mtime, atime=mtime, permissions=owner)


def token(number: int) -> ops.DelegationTokenIdent:
    """Return a token of master key 1."""
    return ops.DelegationTokenIdent("eve", "yarn", "", TIME, LARGEST // 2, number, 1)


SETUP: Sequence[EditOp] = _setup()


@dataclass
class _Model:
    """The namespace after the list's operations so far, if all operations were applied."""

    directories: list[str] = field(default_factory=lambda: [*FLAT, "/d2/in/late"])
    files: list[str] = field(default_factory=lambda: [*FILES])
    opened: list[str] = field(default_factory=lambda: [*OPEN])
    links: list[str] = field(default_factory=lambda: [*LINKS])
    policies: list[str] = field(default_factory=lambda: ["RS-3-2-1024k", "XOR-2-1-1024k", "RS-6-3-1024k"])
    blocks: dict[str, tuple[Block, ...]] = field(
        default_factory=lambda: {path: _blocks(2 * number, 2) for number, path in enumerate((*FILES[:8], *OPEN))}
    )
    snapshottable: list[str] = field(default_factory=lambda: ["/d2", "/x"])
    snapshots: list[tuple[str, str]] = field(default_factory=lambda: [("/d2", "s1"), ("/x", "s1")])
    pools: list[str] = field(default_factory=lambda: ["p1"])
    directives: list[int] = field(default_factory=lambda: [1])
    tokens: list[int] = field(default_factory=lambda: [1])
    inode: int = FIRST_INODE + 500
    block: int = 500
    clock: int = 10_000

    def use_striped_files(self) -> None:
        """Add what `_striped_setup` makes."""
        self.directories.append(EC_DIRECTORY)
        self.files.append(EC_FILE)
        self.opened.append(EC_OPEN)
        self.snapshottable.append(EC_DIRECTORY)
        self.snapshots.append((EC_DIRECTORY, "s1"))
        self.blocks.update({EC_FILE: striped(0), EC_OPEN: striped(1)})

    def places(self) -> list[list[str]]:
        return [self.directories, self.files, self.opened, self.links]

    def forget(self, path: str) -> None:
        for kind in self.places():
            kind[:] = [each for each in kind if each != path and not each.startswith(path + "/")]

    def move(self, source: str, target: str) -> None:
        for kind in self.places():
            kind[:] = [
                target + each[len(source) :] if each == source or each.startswith(source + "/") else each
                for each in kind
            ]
        for path in [each for each in self.blocks if each == source or each.startswith(source + "/")]:
            self.blocks[target + path[len(source) :]] = self.blocks.pop(path)

    def exists(self, path: str) -> bool:
        return any(path in kind for kind in self.places())


class CraftedValues:
    """Values and paths of operations, mostly values that a client requests.

    Args:
        seed: fixes the list.
        layout: layout version of the list.
        odd_paths: the share of paths with an unusual spelling.
        odd_values: the share of values that a client cannot request.
    """

    def __init__(self, seed: int, layout: int, *, odd_paths: float = 0.05, odd_values: float = 0.06) -> None:
        self._chance = random.Random(seed)
        self._layout = layout
        self._odd_paths, self._odd_values = odd_paths, odd_values
        self._model = _Model()
        if self._striped:
            self._model.use_striped_files()

    @property
    def _striped(self) -> bool:
        """Whether the layout contains erasure-coded files."""
        return self._layout <= STRIPED_SINCE

    # ---- values --------------------------------------------------------------------------------------------

    def _happens(self, share: float) -> bool:
        return self._chance.random() < share

    def _value(self, usual: int, *odd: int) -> int:
        return self._chance.choice(odd) if self._happens(self._odd_values) else usual

    def _now(self) -> int:
        self._model.clock += self._chance.randint(0, 20)
        return self._value(self._model.clock, 0, -1, -2, 1, LARGEST, -LARGEST - 1)

    def _inode_id(self) -> int:
        self._model.inode += 1
        return self._value(self._model.inode, -1, 1, 16384, 16385, FIRST_INODE, self._model.inode + 100, LARGEST)

    def _permissions(self) -> PermissionStatus:
        user, group = self._chance.choice(("hdfs", "eve", "ü")), self._chance.choice(("supergroup", "staff"))
        return PermissionStatus(user, group, self._mode())

    def _mode(self) -> int:
        return self._value(self._chance.choice((0o755, 0o644, 0o700, 0o1777)), 0, 0o2755, 0o4755, 0o7777, 0o177777)

    def _block(self, size: int = 0, before: Sequence[Block] = ()) -> Block:
        """Return a new block of a file with the blocks `before`."""
        self._model.block += 1
        number = self._model.block
        if before and before[0].block_id < 0:
            return Block(FIRST_GROUP + 16 * number, size, FIRST_STAMP + number)
        return Block(FIRST_BLOCK + number, self._value(size, -1, 129, LARGEST), FIRST_STAMP + number)

    def _acl(self, *, default: bool) -> tuple[AclEntry, ...]:
        named = [AclEntry(self._chance.choice((0, 1)), 0, self._chance.randint(0, 7), n) for n in ("eve", "ü")]
        named = sorted(named[: self._chance.randint(0, 2)], key=lambda entry: entry.type)
        bits = self._chance.randint(0, 7)
        users = [entry for entry in named if entry.type == 0]
        groups = [entry for entry in named if entry.type == 1]
        mask = [AclEntry(2, 0, bits)] if named else []
        access = [AclEntry(0, 0, 7), *users, AclEntry(1, 0, 5), *groups, *mask, AclEntry(3, 0, bits)]
        entries = [*access, *(entry._replace(scope=1) for entry in access if default)]
        if self._happens(self._odd_values):
            self._chance.shuffle(entries)
        if self._happens(self._odd_values):
            del entries[self._chance.randrange(len(entries))]
        return tuple(entries)

    def _xattrs(self) -> tuple[XAttr, ...]:
        def one() -> XAttr:
            space, name = self._chance.choice((0, 1, 2, 3, 4)), self._chance.choice(("a", "b", "c", "ü"))
            return XAttr(space, name, self._chance.choice((b"", b"1", b"22", None)))

        given = tuple(one() for _ in range(self._value(self._chance.randint(1, 2), 0, 4)))
        if self._striped and self._happens(0.2):
            given = (policy_xattr(self._chance.choice(self._model.policies)), *given)
        return given

    # ---- paths ---------------------------------------------------------------------------------------------

    def _of(self, *kinds: list[str]) -> str:
        """Return a path of one of these kinds; sometimes of another kind, or a missing path."""
        if self._happens(0.04):
            kinds = tuple(self._model.places())
        if self._happens(0.03):
            return self._chance.choice(("/none", "/d1/none", "/none/none", "/d1/f1/none"))
        known = [path for kind in kinds for path in kind]
        return self._chance.choice(known) if known else "/none"

    def _new(self) -> str:
        """Return a path whose last name is new in most cases."""
        parent = self._of(self._model.directories)
        name = self._chance.choice(ODD_NAMES) if self._happens(self._odd_paths) else f"n{self._chance.randint(1, 99)}"
        return f"{'' if parent == '/' else parent}/{name}"

    def _any(self) -> str:
        return self._of(*self._model.places())

    def _spelled(self, path: str) -> str:
        """Return the path, sometimes with an unusual spelling."""
        if not self._happens(self._odd_paths):
            return path
        head, _, tail = path.rpartition("/")
        return self._chance.choice(
            (
                path + "/",
                path + "//",
                "/" + path,
                path.replace("/", "//"),
                path[1:],
                path + "/.",
                path + "/..",
                head + "/./" + tail,
                head + "/x/../" + tail,
                "/l/" + tail,
                "/.reserved/raw" + path,
                "/.reserved/.inodes/16386",
                "/.reserved/.inodes/16386/" + tail,
                "/.reserved",
                head + "/.snapshot/" + tail,
                path + "/.snapshot/s1",
                path + "/.snapshot",
                "",
                "/",
                "//",
            )
        )

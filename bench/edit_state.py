"""State of generated edits between two transactions, and operations that several kinds of edits contain."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from random import Random

from bench.image import BaseImage
from bench.kernels.records import BLOCK_SIZE, CLOCK
from bench.styles import GROUPS, USERS
from journal import ops

_TRIES = 24
_DELETABLE_EVERY = 3


class EditState:
    """Counters, the clock, and the parts of the image that were changed.

    Directories of the first three levels are never deleted, because jobs write there and snapshots are taken there.

    Attributes:
        made: paths of created directories that may be deleted.
        jobs: number of jobs that were begun.
    """

    def __init__(self, base: BaseImage, seed: int) -> None:
        self.tree = base.tree
        self.random = Random(seed)
        self.made: list[str] = []
        self.jobs = 0
        self._inode, self._block, self._genstamp = base.last_inode, base.last_block, base.last_genstamp
        self._now = CLOCK + 1_000_000
        self._calls = self._names = 0
        self._moved: set[int] = set()
        self._deleted: set[int] = set()

    def tick(self) -> int:
        """Advance to the time of the next transaction, which may equal the present time; return the new time."""
        self._now += self.random.getrandbits(1)
        return self._now

    def next_name(self) -> int:
        """Return a number for the name of a new inode or snapshot."""
        self._names += 1
        return self._names

    # ---- the image -----------------------------------------------------------------------------------------

    def upper_directory(self) -> int:
        """Choose a directory that is never deleted."""
        return 1 + self.random.randrange(int(self.tree.levels[4]) - 1)

    def owner(self, directory: int) -> int:
        return int(self.tree.arrays.owners[directory])

    def find_file(self, first: int, end: int) -> int | None:
        """Choose a file of the image between two positions that was neither moved nor deleted; return its position."""
        for _ in range(_TRIES if end > first else 0):
            rank = self.random.randrange(first, end)
            directory = self.tree.directory_of(rank)
            if rank not in self._moved and rank != self.tree.arrays.ranks[directory] and self._exists(directory):
                return rank
        return None

    def find_any_file(self) -> int | None:
        return self.find_file(0, self.tree.inodes)

    def path_of_file(self, rank: int) -> str:
        directory = self.tree.directory_of(rank)
        number = rank - int(self.tree.arrays.ranks[directory]) - 1
        return f"{self.tree.path(directory)}/{self.tree.file_name(directory, number).decode()}"

    def remove_file(self, rank: int) -> str:
        """Record that a file is moved or deleted; return its path."""
        self._moved.add(rank)
        return self.path_of_file(rank)

    def remove_directory(self) -> str:
        """Choose a directory and record that it is deleted with everything below it; return its path, or ""."""
        first, end = int(self.tree.levels[4]), self.tree.directories
        for _ in range(_TRIES if end > first else 0):
            directory = self.random.randrange(first, end)
            # only some directories, so that the image does not become empty
            if directory % _DELETABLE_EVERY == 0 and self._exists(directory):
                self._deleted.add(directory)
                return self.tree.path(directory)
        return ""

    def _exists(self, directory: int) -> bool:
        while directory:
            if directory in self._deleted:
                return False
            directory = int(self.tree.arrays.parents[directory])
        return True

    # ---- operations ----------------------------------------------------------------------------------------

    def mkdir(self, owner: int, path: str) -> ops.MkdirOp:
        self._inode += 1
        return ops.MkdirOp(
            inode_id=self._inode, path=path, timestamp=self.tick(), permissions=_permissions(owner, 0o755)
        )

    def partition(self) -> ops.MkdirOp:
        """Create a directory that may be deleted later."""
        directory = self.upper_directory()
        self.made.append(f"{self.tree.path(directory)}/dt=load-{self.next_name():09d}")
        return self.mkdir(self.owner(directory), self.made[-1])

    def add(self, owner: int, path: str, job: int, task: int) -> ops.AddOp:
        """Create a file as the client of a task."""
        self._inode += 1
        now = self.tick()
        client_id, call_id = self._rpc(job * 1000 + task)
        return ops.AddOp(
            inode_id=self._inode,
            path=path,
            replication=3,
            mtime=now,
            atime=now,
            block_size=BLOCK_SIZE,
            permissions=_permissions(owner, 0o644),
            overwrite=True,
            rpc_client_id=client_id,
            rpc_call_id=call_id,
            client_name=f"DFSClient_attempt_1700000000000_{job:06d}_m_{task:06d}_0",
            client_machine=f"10.0.{task >> 8 & 255}.{(job + task) & 255}",
        )

    def close(self, added: ops.AddOp, blocks: Sequence[ops.Block] = ()) -> ops.CloseOp:
        return ops.CloseOp(
            path=added.path,
            replication=3,
            mtime=self.tick(),
            atime=added.atime,
            block_size=BLOCK_SIZE,
            blocks=tuple(blocks),
            permissions=added.permissions,
        )

    def add_block(self, path: str, blocks: list[ops.Block]) -> list[ops.EditOp]:
        """Append a block to `blocks`; return its operations, which a NameNode logs under one lock."""
        self._block += 1
        self._genstamp += 1
        previous = [blocks[-1]._replace(num_bytes=BLOCK_SIZE)] if blocks else []
        blocks[-1:] = [*previous, ops.Block(self._block, 1 + self.random.randrange(BLOCK_SIZE), self._genstamp)]
        return [
            ops.AllocateBlockIdOp(block_id=self._block),
            ops.SetGenstampV2Op(genstamp=self._genstamp),
            ops.AddBlockOp(path=path, blocks=(*previous, ops.Block(self._block, 0, self._genstamp))),
        ]

    def delete(self, path: str, client: int) -> ops.DeleteOp:
        client_id, call_id = self._rpc(client)
        return ops.DeleteOp(path=path, timestamp=self.tick(), rpc_client_id=client_id, rpc_call_id=call_id)

    def rename(self, source: str, target: str, client: int) -> ops.RenameOldOp:
        client_id, call_id = self._rpc(client)
        return ops.RenameOldOp(
            src=source, dst=target, timestamp=self.tick(), rpc_client_id=client_id, rpc_call_id=call_id
        )

    def _rpc(self, client: int) -> tuple[bytes, int]:
        self._calls += 1
        return hashlib.md5(b"%d" % client).digest(), self._calls & 0x7FFFFFFF


def _permissions(owner: int, mode: int) -> ops.PermissionStatus:
    return ops.PermissionStatus(USERS[owner], GROUPS[owner % len(GROUPS)], mode)

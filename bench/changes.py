"""Operations on the content of the image: deletions, attributes of files, snapshots and changes below them."""

from __future__ import annotations

from bench.edit_state import EditState
from bench.jobs import Steps
from bench.styles import GROUPS, USERS
from journal import ops

_CLIENT = 77
_LONGEST_RUN = 8
_MOST_SNAPSHOTS = 6
_MODES = (0o644, 0o640, 0o600, 0o664, 0o444)


def delete_operations(state: EditState) -> Steps:
    """Yield new partitions, and deletions of new and old partitions and of files."""
    while True:
        choice, path = state.random.randrange(100), ""
        if choice < 20 and state.made:
            path = state.made.pop(state.random.randrange(len(state.made)))
        elif 20 <= choice < 50:
            path = state.remove_directory()
        elif 50 <= choice < 65 and (rank := state.find_any_file()) is not None:
            path = state.remove_file(rank)
        yield [state.delete(path, _CLIENT) if path else state.partition()]


def attribute_operations(state: EditState) -> Steps:
    """Yield changes of old files, often in the directory of the previous change, or new partitions."""
    ranks = state.tree.arrays.ranks
    directory = left = 0
    while True:
        rank = None
        if left:
            left -= 1
            rank = state.find_file(int(ranks[directory]) + 1, int(ranks[directory + 1]))
        if rank is None and (rank := state.find_any_file()) is not None:
            directory, left = state.tree.directory_of(rank), state.random.randrange(_LONGEST_RUN)
        yield [state.partition() if rank is None else _attribute(state, state.path_of_file(rank))]


def _attribute(state: EditState, path: str) -> ops.EditOp:
    choice = state.random.randrange(4)
    if choice == 0:
        return ops.SetPermissionsOp(src=path, mode=state.random.choice(_MODES))
    if choice == 1:
        owner = state.random.randrange(len(USERS))
        # half of the changes keep the group
        group = GROUPS[owner % len(GROUPS)] if state.random.getrandbits(1) else None
        return ops.SetOwnerOp(src=path, username=USERS[owner], groupname=group)
    if choice == 2:
        now = state.tick()
        return ops.TimesOp(path=path, mtime=-1 if state.random.randrange(4) else now, atime=now)
    return ops.SetReplicationOp(path=path, replication=1 + state.random.randrange(5))


def snapshot_operations(state: EditState, directories: tuple[int, ...]) -> Steps:
    """Yield snapshots of `directories` and changes below them; the first operation makes a directory snapshottable."""
    steps = [_below(state, directory) for directory in directories]
    while True:
        yield next(state.random.choice(steps))


def _below(state: EditState, root: int) -> Steps:
    path, owner, ranks = state.tree.path(root), state.owner(root), state.tree.arrays.ranks
    first, end = int(ranks[root]) + 1, int(ranks[root + 1])
    snapshots: list[str] = []
    yield [ops.AllowSnapshotOp(snapshot_root=path)]
    while True:
        if state.random.randrange(100) < 5:
            yield [_change_snapshots(state, path, snapshots)]
        choice, rank = state.random.randrange(100), state.find_file(first, end)
        number = state.next_name()
        if rank is None or choice < 30:
            added = state.add(owner, f"{path}/new-{number:09d}", _CLIENT, number % 1000)
            yield [added]
            if state.random.randrange(100) < 5:
                yield [_change_snapshots(state, path, snapshots)]
            yield [state.close(added)]
        elif choice < 40:
            yield [state.mkdir(owner, f"{path}/dir-{number:09d}")]
        elif choice < 70:
            yield [_attribute(state, state.path_of_file(rank))]
        elif choice < 85:
            yield [state.delete(state.remove_file(rank), _CLIENT)]
        else:
            yield [state.rename(state.remove_file(rank), f"{path}/moved-{number:09d}", _CLIENT)]


def _change_snapshots(state: EditState, path: str, snapshots: list[str]) -> ops.EditOp:
    """Create, rename or delete a snapshot."""
    choice, fresh = state.random.randrange(4), f"s{state.next_name():09d}"
    if len(snapshots) < 2 or (choice < 2 and len(snapshots) < _MOST_SNAPSHOTS):
        snapshots.append(fresh)
        return ops.CreateSnapshotOp(snapshot_root=path, snapshot_name=fresh)
    name = snapshots.pop(state.random.randrange(len(snapshots)))
    if choice == 2:
        snapshots.append(fresh)
        return ops.RenameSnapshotOp(snapshot_root=path, snapshot_old_name=name, snapshot_new_name=fresh)
    return ops.DeleteSnapshotOp(snapshot_root=path, snapshot_name=name)

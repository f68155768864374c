"""The shape of a generated namespace: directories of all sizes, up to twelve levels deep, and their names."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from bench.kernels.names import MOST_DEPTH, NAME_ROOM, PATH_ROOM, TreeArrays, put_file_name, put_path
from bench.styles import GROUPS, TOPS, USERS, Pool, build_styles
from hadoop_common.hdfs_constants import ROOT_INODE_ID

GAP = 8
"""Interval, in inodes, at which an id is skipped, as if its inode had been deleted."""
LEAST_INODES = 200
_INODES_A_DIRECTORY = 14
_MOST_ITEMS = 1_000_000  # slightly below dfs.namenode.fs-limits.max-directory-items
_MOST_OF_ALL = 0.02
"""Largest share of all files in one directory, so that its name style alone does not determine the image size."""
_MOST_AVERAGES = 200
"""Largest number of files in a directory if there are few directories, as a multiple of the average."""
_LEVELS = (0.0, 0.0, 0.0005, 0.01, 0.06, 0.17, 0.26, 0.22, 0.14, 0.08, 0.04, 0.015, 0.0045)
_DIRECTORY_TAIL, _FILE_TAIL = 1.3, 1.1  # the smaller the value, the more files are in a few directories
_CHILDLESS = 0.3
_OWN_OWNER = 0.05

Numbers = npt.NDArray[np.int64]


class Tree:
    """Directories, their files and all names, as a function of size and seed.

    The number of files per directory follows a Pareto distribution: half of the directories have two or fewer files,
    and a few directories have most of the files. The tree needs about 20 bytes of memory per directory, and no memory
    for files.

    Args:
        inodes: files and directories, including the root; at least LEAST_INODES.
        short_names: whether files have names of six bytes, for an image that is a quarter smaller.

    Raises:
        ValueError: `inodes` is below LEAST_INODES.
    """

    def __init__(self, inodes: int, seed: int = 1, *, short_names: bool = False) -> None:
        if inodes < LEAST_INODES:
            raise ValueError(f"a generated namespace has at least {LEAST_INODES} inodes, {inodes} were requested")
        self.inodes = inodes
        self.seed = seed
        self.directories = inodes // _INODES_A_DIRECTORY
        self.files = inodes - self.directories
        pool = Pool()
        styles, for_directories, for_files = build_styles(pool, short_names=short_names)
        texts, bounds = pool.arrays()
        numbers = [seed, for_directories, for_files, len(USERS), len(GROUPS)]
        random = np.random.default_rng(seed)
        levels = _level_bounds(self.directories)
        parents = _parents(levels, random)
        self.arrays = TreeArrays(
            parents=parents,
            first_child=_first_children(parents),
            ranks=_ranks(levels, self.files, random),
            depths=np.repeat(np.arange(levels.size - 1, dtype=np.uint8), np.diff(levels)),
            owners=_owners(levels, parents, random),
            pool=texts,
            bounds=bounds,
            styles=styles,
            counts=np.array(numbers, np.int64),
        )
        self.levels = levels

    @cached_property
    def last_id(self) -> int:
        """The largest inode id."""
        return self.id_at(self.inodes - 1)

    @staticmethod
    def id_at(rank: int) -> int:
        """Return the id of the inode at a position; the root is at 0."""
        return ROOT_INODE_ID + rank + rank // GAP

    def path(self, directory: int) -> str:
        """Return the path of a directory; "" for the root."""
        out = np.empty(PATH_ROOM, np.uint8)
        return out[: put_path(out, 0, self.arrays, directory)].tobytes().decode()

    def file_name(self, directory: int, number: int) -> bytes:
        """Return the local name of a file in a directory."""
        out = np.empty(NAME_ROOM, np.uint8)
        return out[: put_file_name(out, 0, self.arrays, directory, number)].tobytes()

    def directory_of(self, rank: int) -> int:
        """Return the directory at a position, or the directory of the file at that position."""
        return int(np.searchsorted(self.arrays.ranks, rank, "right")) - 1


def _level_bounds(directories: int) -> Numbers:
    """Return the number of the first directory at each depth, starting with the root, and the end of the last level."""
    sizes = np.maximum(1, (directories * np.array(_LEVELS)).astype(np.int64))
    sizes[0], sizes[1] = 1, min(len(TOPS), max(3, directories // 50))
    bounds = np.minimum(np.concatenate([[0], np.cumsum(sizes)]), directories)
    # the largest level absorbs the rounding error
    widest = int(np.argmax(_LEVELS)) + 1
    bounds[widest:] += directories - bounds[-1]
    assert bounds.size == MOST_DEPTH + 2
    return np.asarray(bounds, np.int64)


def _parents(levels: Numbers, random: np.random.Generator) -> npt.NDArray[np.int32]:
    """Return the parents, which increase within a level; some have many sub-directories, and some have none."""
    parents = np.zeros(levels[-1], np.int32)
    for depth in range(1, levels.size - 1):
        above, first, end = levels[depth - 1], levels[depth], levels[depth + 1]
        if first == end:
            break
        weights = 0.3 + random.pareto(_DIRECTORY_TAIL, first - above)
        weights[random.random(weights.size) < _CHILDLESS] = 0
        weights[0] += 0.3
        shares = np.cumsum(weights)
        wanted = (np.arange(end - first) + 0.5) * (shares[-1] / (end - first))
        parents[first:end] = above + np.minimum(np.searchsorted(shares, wanted), weights.size - 1)
    return parents


def _first_children(parents: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return the first sub-directory of each directory; the root is not a sub-directory."""
    counts = np.bincount(parents[1:], minlength=parents.size)
    return np.concatenate([[1], 1 + np.cumsum(counts)]).astype(np.int32)


def _ranks(levels: Numbers, files: int, random: np.random.Generator) -> Numbers:
    """Return the position of each directory among the inodes; its files follow it."""
    weights = 1 + random.pareto(_FILE_TAIL, int(levels[-1]))
    weights[: levels[2]] = 0
    most = max(_MOST_OF_ALL, _MOST_AVERAGES / levels[-1])
    np.minimum(weights, min(_MOST_ITEMS / files, most) * weights.sum(), out=weights)
    np.cumsum(weights, out=weights)
    weights *= files / weights[-1]
    ranks = np.zeros(weights.size + 1, np.int64)
    np.rint(weights, out=weights)
    ranks[1:] = weights
    ranks += np.arange(ranks.size)
    return ranks


def _owners(levels: Numbers, parents: npt.NDArray[np.int32], random: np.random.Generator) -> npt.NDArray[np.uint16]:
    """Choose owners: one user owns most of each third-level directory, and the first users own the most inodes."""
    fresh = (len(USERS) * random.random(parents.size) ** 2).astype(np.uint16)
    owners = fresh.copy()
    for depth in range(4, levels.size - 1):
        level = slice(int(levels[depth]), int(levels[depth + 1]))
        inherits = random.random(level.stop - level.start) >= _OWN_OWNER
        owners[level] = np.where(inherits, owners[parents[level]], fresh[level])
    return owners

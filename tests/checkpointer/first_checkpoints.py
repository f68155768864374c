"""First checkpoints and counts of each role in a process that has done only the work of `checkpointer compile`.

Run as a program in a separate folder, the module prints a JSON object. For each checkpoint or count, the object
contains the kernels that were not yet compiled, with the types of their arguments.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from checkpointer.roles.standby.role import StandbyRole
from engine.merge import MergeResult, merge
from engine.observer import SilentObserver
from engine.settings import MergeSettings
from engine.warm_namespace import WarmNamespace
from engine.warm_up import warm_up
from hadoop_common.configuration import Configuration
from hadoop_common.names import parse_segment
from image_format import direct_reader, reader
from image_format.kernels.jit import Kernel
from journal.segment_file import EditLogSegment, SegmentTransactions, list_segments
from site_config.checkpoint_config import CheckpointConfig, Role
from tests.checkpointer import backup_support
from tests.checkpointer.secondary_support import Secondary
from tests.namenode_stub.namenode_double import NamenodeDouble, streaming_double
from tests.recorded_cases import RECORDED

PLAIN, HADOOP_3 = "hadoop-2.7.3/segments", "hadoop-3.4.1/segments"
SNAPSHOTS = "hadoop-3.4.1/random-mixed-1", "hadoop-2.7.3/snapshots-rename-references"
COMPRESSED = "hadoop-3.4.1/compress-default"
OPEN_FILES = "hadoop-3.4.1/open-files-leases"
UPGRADED = "hadoop-3.4.1/upgrade-from-2.7.3"


def compiled() -> set[str]:
    """Return the kernels that have machine code in this process, for each kind of arguments."""
    kernels = [each for each in gc.get_objects() if type(each) is Kernel and "dispatcher" in each.__dict__]
    return {
        f"{each.py_func.__module__}.{each.py_func.__name__}{signature}"
        for each in kernels
        for signature in each.dispatcher.signatures
    }


def secondary(folder: Path, case: str) -> None:
    with NamenodeDouble(folder / "name", case, per_roll=8, release=3) as node, Secondary.of(folder, node) as daemon:
        assert daemon.checkpoint().details["outcome"] == "taken"


def standby(folder: Path, case: str, *, in_progress: bool = False) -> None:
    """Put the edits into a shared directory, with the last segment open if open segments are tailed."""
    own, shared = folder / "own", folder / "shared"
    for root in (own, shared):
        shutil.copytree(RECORDED / case / "before", root / "current", copy_function=shutil.copyfile)
    for path in list((own / "current").glob("edits*")) + list((shared / "current").glob("fsimage*")):
        path.unlink()
    if in_progress:
        last = list_segments(shared / "current")[-1]
        last.path.rename(last.path.with_name(f"edits_inprogress_{last.first:019d}"))
    values = {
        "dfs.namenode.name.dir": str(own),
        "dfs.namenode.shared.edits.dir": shared.as_uri(),
        "dfs.namenode.http-address": "127.0.0.1:9870",
        "dfs.ha.tail-edits.in-progress": str(in_progress).lower(),
    }
    config = CheckpointConfig.from_configuration(Configuration.from_mapping(values, {}), Role.STANDBY)
    role = StandbyRole(replace(config, namenode_http_addresses=(), namenode_rpc_addresses=()))
    role.open()
    try:
        role.tail()
        assert role.checkpoint(SilentObserver()).transactions
    finally:
        role.close()


def backup(folder: Path, case: str) -> None:
    with streaming_double(folder / "name", case) as node:
        config = backup_support.backup_config(folder / "own", node.rpc_port, node.http_port)
        with backup_support.Daemon(config) as daemon:
            daemon.follow(2)
            backup_support.play(node)
            daemon.checkpoint()


def before(case: str) -> tuple[Path, list[EditLogSegment]]:
    """Return the image of a recorded case, and the segments that follow it."""
    folder = RECORDED / case / "before"
    image = max(path for path in folder.glob("fsimage_*") if path.suffix != ".md5")
    return image, [each for each in list_segments(folder) if parse_segment(each.path.name) and not each.in_progress]


def counts(case: str, *, keeps_sums: bool) -> None:
    """Count the whole namespace before and after its edits, with and without a check of each directory."""
    image, segments = before(case)
    with WarmNamespace(keeps_sums=keeps_sums) as namespace:
        namespace.load(image)
        for edits in ((), SegmentTransactions(segments, int(image.name[-19:]) + 1)):
            namespace.apply(edits)
            with namespace.reading(0, 0) as browser:
                root = browser.root()
                assert root is not None
                for enter in (None, lambda _: None):
                    assert browser.content(root, enter).totals.directories


def merged(folder: Path, case: str, *, layout: int | None = None) -> MergeResult:
    """Perform a secondary's merge on any recorded case."""
    image, segments = before(case)
    first = int(image.name[-19:]) + 1
    return merge(image, SegmentTransactions(segments, first), [folder], MergeSettings(layout_version=layout))


def merged_around_cache(folder: Path) -> None:
    """Merge an image with open files as if the page cache could not hold it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "exceeds_page_cache", lambda size: True)
        # reads through the cache, because the file system may not support direct reads
        patch.setattr(direct_reader, "_DIRECT", os.O_CLOEXEC)
        merged(folder, OPEN_FILES)


CHECKPOINTS: dict[str, Callable[[Path], object]] = {
    "secondary": lambda folder: secondary(folder, PLAIN),
    "secondary, Hadoop 3": lambda folder: secondary(folder, HADOOP_3),
    "standby": lambda folder: standby(folder, PLAIN),
    "standby, in progress": lambda folder: standby(folder, PLAIN, in_progress=True),
    "backup": lambda folder: backup(folder, PLAIN),
    **{f"standby, {case}": lambda folder, case=case: standby(folder, case) for case in SNAPSHOTS},
    **{f"merge, {case}": lambda folder, case=case: merged(folder, case) for case in (*SNAPSHOTS, COMPRESSED, UPGRADED)},
    **{f"counts, {case}": lambda folder, case=case: counts(case, keeps_sums=False) for case in (PLAIN, *SNAPSHOTS)},
    **{f"sums, {case}": lambda folder, case=case: counts(case, keeps_sums=True) for case in (PLAIN, *SNAPSHOTS)},
    "a large image": merged_around_cache,
    "a new layout": lambda folder: merged(folder, SNAPSHOTS[1], layout=-66),
}


def main() -> None:
    warm_up()
    known, new = compiled(), {}
    for number, (name, make) in enumerate(CHECKPOINTS.items()):
        folder = Path.cwd() / str(number)
        folder.mkdir()
        make(folder)
        found = compiled()
        new[name] = sorted(found - known)
        known = found
    json.dump(new, sys.stdout)


if __name__ == "__main__":
    main()

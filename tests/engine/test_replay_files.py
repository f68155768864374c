"""Replay of the operations that create and write files, and of the related counters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.errors import ReplayError
from image_format.proto import fsimage_pb2 as pb
from journal import ops
from journal.ops import Block
from tests.engine.image_builder import HADOOP2, HADOOP3, LAYOUTS, ROOT, ImageBuilder, delimited, merged
from tests.engine.op_makers import LATER, add, close, delete, mkdir, rename, times

NEW = 20000
DIRECTORY_ID, FILE_ID, OPEN_ID = ROOT + 1, ROOT + 2, ROOT + 3
TWO_BLOCKS = [(1, 128, 1001), (2, 60, 1002)]

layouts = pytest.mark.parametrize("layout", LAYOUTS)


def store(layout: int = HADOOP2) -> ImageBuilder:
    """Return an image of /d with the closed file f (two blocks) and the open file o (one block)."""
    image = ImageBuilder(layout)
    image.directory("/d")
    image.file("/d/f", blocks=TWO_BLOCKS)
    image.file("/d/o", blocks=[(3, 0, 1003)], open_by="writer")
    return image


def blocks(*triples: tuple[int, int, int]) -> tuple[Block, ...]:
    return tuple(Block(*triple) for triple in triples)


@layouts
def test_new_file_is_open_until_closed(tmp_path: Path, layout: int) -> None:
    source = store(layout).save(tmp_path)
    image = merged(source, add("/d/n", NEW, replication=2, storage_policy_id=12, atime=6000))
    file = image["/d/n"].file
    assert (file.fileUC.clientName, file.fileUC.clientMachine) == ("client", "host")
    assert (file.replication, file.storagePolicyID, file.preferredBlockSize) == (2, 12, 128)
    assert (file.modificationTime, file.accessTime) == (LATER, 6000)
    assert image.leases() == {OPEN_ID: "/d/o", NEW: "/d/n"}
    assert image.mtime("/d") == LATER
    assert file.HasField("blockType") == (layout == HADOOP3)
    end = close("/d/n", 7000, atime=7001, blocks=blocks((9, 5, 1009)))
    image = merged(source, add("/d/n", NEW), ops.AddBlockOp(path="/d/n", blocks=blocks((9, 0, 1009))), end)
    file = image["/d/n"].file
    assert not file.HasField("fileUC")
    assert (file.modificationTime, file.accessTime) == (7000, 7001)
    assert image.blocks("/d/n") == [(9, 5, 1009)]
    assert image.leases() == {OPEN_ID: "/d/o"}
    assert image.mtime("/d") == LATER


@pytest.mark.parametrize(("asked", "kept"), [(0, 1), (-3, 1), (7, 7), (4000, 512)])
def test_replication_is_clamped_to_its_limits(tmp_path: Path, asked: int, kept: int) -> None:
    image = merged(
        store().save(tmp_path),
        add("/d/n", NEW, replication=asked),
        ops.SetReplicationOp(path="/d/f", replication=asked),
    )
    assert image["/d/n"].file.replication == image["/d/f"].file.replication == kept


@layouts
def test_overwrite_replaces_the_inode(tmp_path: Path, layout: int) -> None:
    image = merged(store(layout).save(tmp_path), add("/d/o", NEW, 900, overwrite=True), times("/d/f", mtime=3))
    assert image["/d/o"].id == NEW
    assert image.blocks("/d/o") == []
    assert image.leases() == {NEW: "/d/o"}
    assert len(image.inodes) == 4
    assert image.mtime("/d") == 1000


def test_add_of_a_closed_file_opens_it_for_append(tmp_path: Path) -> None:
    image = merged(store().save(tmp_path), add("/d/f", NEW, blocks=blocks(*TWO_BLOCKS)))
    assert image["/d/f"].id == FILE_ID
    assert image["/d/f"].file.fileUC.clientName == "client"
    assert image.leases() == {OPEN_ID: "/d/o", FILE_ID: "/d/f"}
    assert image.mtime("/d") == 1000


def test_add_of_an_open_file_only_updates_it(tmp_path: Path) -> None:
    image = merged(store().save(tmp_path), add("/d/o", NEW, blocks=blocks((3, 7, 1003), (4, 0, 1004))))
    assert image["/d/o"].file.fileUC.clientName == "writer"
    assert image.blocks("/d/o") == [(3, 7, 1003), (4, 0, 1004)]


@pytest.mark.parametrize("new_block", [True, False])
@layouts
def test_append_opens_a_closed_file(tmp_path: Path, layout: int, new_block: bool) -> None:
    source = store(layout).save(tmp_path)
    op = ops.AppendOp(path="/d/f", client_name="c", client_machine="m", new_block=new_block)
    again = ops.AppendOp(path="/d/o", client_name="c", client_machine="m", new_block=new_block)
    image = merged(source, op, again)
    assert image["/d/f"].file.fileUC.clientName == "c"
    assert image["/d/o"].file.fileUC.clientName == "writer"
    assert image.blocks("/d/f") == TWO_BLOCKS
    assert image["/d/f"].file.modificationTime == 1000
    assert set(image.leases()) == {FILE_ID, OPEN_ID}


# ---- blocks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("new", "result"),
    [
        ([(3, 9, 1003)], [(3, 9, 1003)]),
        ([(3, 9, 1050)], [(3, 9, 1050)]),
        ([], []),
        ([(3, 128, 1003), (5, 1, 1005), (6, 0, 1006)], [(3, 128, 1003), (5, 1, 1005), (6, 0, 1006)]),
    ],
)
@layouts
def test_update_blocks_replaces_the_block_list(
    tmp_path: Path, layout: int, new: list[tuple[int, int, int]], result: list[tuple[int, int, int]]
) -> None:
    source = store(layout).save(tmp_path)
    update = ops.UpdateBlocksOp(path="/d/o", blocks=blocks(*new))
    image = merged(source, update)
    assert image.blocks("/d/o") == result
    assert image["/d/o"].file.HasField("fileUC")
    image = merged(source, close("/d/o", blocks=blocks(*new)))
    assert image.blocks("/d/o") == result
    newest = max([1000, *(genstamp for _, _, genstamp in new)])
    assert image.info.genstampV2 == (newest if layout == HADOOP3 else 1000)


@pytest.mark.parametrize(
    ("path", "new", "problem"),
    [
        ("/d/o", [(4, 9, 1003)], "is 3_1003"),
        ("/d/o", [(3, 9, 1004), (5, 0, 1005)], "is 3_1003"),
        ("/d/f", [(1, 128, 1001)], "has 2 blocks"),
        ("/d/none", [], "does not exist"),
        ("/d", [], "not a file"),
    ],
)
def test_invalid_block_lists_are_refused(
    tmp_path: Path, path: str, new: list[tuple[int, int, int]], problem: str
) -> None:
    with pytest.raises(ReplayError, match=problem):
        merged(store().save(tmp_path), ops.UpdateBlocksOp(path=path, blocks=blocks(*new)))


@layouts
def test_add_block_completes_the_previous_block(tmp_path: Path, layout: int) -> None:
    source = store(layout).save(tmp_path)
    image = merged(
        source,
        ops.AddBlockOp(path="/d/o", blocks=blocks((3, 128, 1003), (4, 0, 1004))),
        ops.AddBlockOp(path="/d/o", blocks=blocks((4, 127, 1004), (5, 0, 1005))),
    )
    assert image.blocks("/d/o") == [(3, 128, 1003), (4, 127, 1004), (5, 0, 1005)]


@pytest.mark.parametrize(
    "given",
    [
        [(4, 0, 1004)],
        [(9, 128, 1003), (4, 0, 1004)],
        [(3, 128, 1009), (4, 0, 1004)],
        [],
        [(3, 1, 1003), (4, 1, 1004), (5, 1, 1005)],
    ],
)
def test_invalid_add_block_is_refused(tmp_path: Path, given: Sequence[tuple[int, int, int]]) -> None:
    with pytest.raises(ReplayError, match="OP_ADD_BLOCK at txid 101"):
        merged(store().save(tmp_path), ops.AddBlockOp(path="/d/o", blocks=blocks(*given)))


# ---- truncate ----------------------------------------------------------------------------------------------


def truncate(new_length: int, block: Block | None = None) -> ops.TruncateOp:
    return ops.TruncateOp(
        src="/d/f", client_name="c", client_machine="m", new_length=new_length, timestamp=LATER, truncate_block=block
    )


@pytest.mark.parametrize(("length", "kept"), [(0, 0), (128, 1), (188, 2)])
def test_truncate_at_a_block_boundary(tmp_path: Path, length: int, kept: int) -> None:
    image = merged(store().save(tmp_path), truncate(length))
    assert image.blocks("/d/f") == TWO_BLOCKS[:kept]
    assert not image["/d/f"].file.HasField("fileUC")
    assert image["/d/f"].file.modificationTime == LATER
    assert image.mtime("/d") == 1000


@layouts
def test_truncate_in_place_waits_for_the_recovery(tmp_path: Path, layout: int) -> None:
    source = store(layout).save(tmp_path)
    begin = truncate(100, Block(1, 128, 1010))
    image = merged(source, begin)
    assert image.blocks("/d/f") == TWO_BLOCKS[:1]
    assert image["/d/f"].file.fileUC.clientName == "c"
    assert image.leases()[FILE_ID] == "/d/f"
    assert image.info.genstampV2 == (1010 if layout == HADOOP3 else 1000)
    image = merged(source, begin, close("/d/f", blocks=blocks((1, 100, 1010))))
    assert image.blocks("/d/f") == [(1, 100, 1010)]
    assert FILE_ID not in image.leases()


def test_truncate_by_copy_takes_the_new_block(tmp_path: Path) -> None:
    image = merged(store().save(tmp_path), truncate(150, Block(77, 0, 1011)))
    assert image.blocks("/d/f") == [(1, 128, 1001), (77, 22, 1011)]


@pytest.mark.parametrize(("length", "kept"), [(128, [(1, 128, 1001)]), (0, [])])
def test_truncate_at_a_boundary_ignores_the_truncate_block(
    tmp_path: Path, length: int, kept: list[tuple[int, int, int]]
) -> None:
    image = merged(store().save(tmp_path), truncate(length, Block(1, 128, 1010)))
    assert image.blocks("/d/f") == kept
    assert FILE_ID not in image.leases()


def test_truncate_beyond_the_end_opens_the_file(tmp_path: Path) -> None:
    image = merged(store().save(tmp_path), truncate(189, Block(2, 128, 1010)))
    assert image["/d/f"].file.HasField("fileUC")


@pytest.mark.parametrize(
    "op", [truncate(189), truncate(100), truncate(-1, Block(1, 128, 1010)), truncate(256, Block(2, 60, 1010))]
)
def test_invalid_truncate_is_refused(tmp_path: Path, op: ops.TruncateOp) -> None:
    with pytest.raises(ReplayError, match="OP_TRUNCATE at txid 101"):
        merged(store().save(tmp_path), op)


# ---- concat, leases ----------------------------------------------------------------------------------------


@layouts
def test_concat_moves_the_blocks_and_removes_the_sources(tmp_path: Path, layout: int) -> None:
    builder = store(layout)
    builder.file("/d/s1", blocks=[(11, 1, 1011)])
    builder.file("/d/s2", blocks=[(12, 2, 1012), (13, 3, 1013)])
    op = ops.ConcatDeleteOp(trg="/d/f", srcs=("/d/s2", "/d/s1"), timestamp=LATER)
    image = merged(builder.save(tmp_path), op)
    assert image.blocks("/d/f") == [*TWO_BLOCKS, (12, 2, 1012), (13, 3, 1013), (11, 1, 1011)]
    assert set(image.paths) == {"/", "/d", "/d/f", "/d/o"}
    assert image["/d/f"].file.modificationTime == image.mtime("/d") == LATER


@layouts
def test_reassign_lease_changes_the_client_name(tmp_path: Path, layout: int) -> None:
    op = ops.ReassignLeaseOp(lease_holder="writer", path="/d/o", new_holder="HDFS_NameNode")
    image = merged(store(layout).save(tmp_path), op)
    found = image["/d/o"].file.fileUC
    assert (found.clientName, found.clientMachine) == ("HDFS_NameNode", "host")
    assert image.leases() == {OPEN_ID: "/d/o"}


@pytest.mark.parametrize(
    "op",
    [
        ops.ReassignLeaseOp(lease_holder="a", path="/d/f", new_holder="b"),
        close("/d/f", blocks=blocks(*TWO_BLOCKS)),
        close("/d/none"),
        add("/d", NEW),
        add("/d", NEW, overwrite=True),
        add("/none/f", NEW),
        add("/d/n", 0),
        add("/d/n", FILE_ID),
        add("/d/n", NEW, storage_policy_id=-1),
        ops.SetGenstampV2Op(genstamp=-5),
        ops.AllocateBlockIdOp(block_id=5),
        ops.ConcatDeleteOp(trg="/d/f", srcs=("/d/none",), timestamp=1),
    ],
)
def test_invalid_operation_is_refused_with_its_txid(tmp_path: Path, op: ops.EditOp) -> None:
    with pytest.raises(ReplayError, match=f"{op.name} at txid 101"):
        merged(store().save(tmp_path), op)


# ---- counters ----------------------------------------------------------------------------------------------


@layouts
def test_last_block_id_is_the_newest_allocated(tmp_path: Path, layout: int) -> None:
    first = (1 << 30) + 1
    image = merged(
        store(layout).save(tmp_path),
        ops.AllocateBlockIdOp(block_id=first),
        ops.AllocateBlockIdOp(block_id=first),
        ops.AllocateBlockIdOp(block_id=first + 9),
    )
    assert image.info.lastAllocatedBlockId == first + 9


def test_block_group_ids_are_counted_from_the_negative_range(tmp_path: Path) -> None:
    first = -(1 << 63) + 16
    source = store(HADOOP3).save(tmp_path)
    image = merged(source, ops.AllocateBlockIdOp(block_id=first), ops.AllocateBlockIdOp(block_id=first + 16))
    assert image.info.lastAllocatedStripedBlockId == (first + 16) % (1 << 64)
    assert image.info.lastAllocatedBlockId == 1 << 30
    with pytest.raises(ReplayError, match="below"):
        merged(source, ops.AllocateBlockIdOp(block_id=first), ops.AllocateBlockIdOp(block_id=first - 16))


@pytest.mark.parametrize(("layout", "kept"), [(-63, 2000), (-64, 1000), (-65, 1000), (-66, 1000), (-67, 1000)])
def test_generation_stamp_applies_at_once_or_with_its_block(tmp_path: Path, layout: int, kept: int) -> None:
    builder = store(layout)
    ops_given = [ops.SetGenstampV1Op(genstamp=1500), ops.SetGenstampV2Op(genstamp=2000)]
    image = merged(builder.save(tmp_path / "a"), *ops_given)
    assert (image.info.genstampV1, image.info.genstampV2) == (1500, kept)
    image = merged(
        builder.save(tmp_path / "b"), *ops_given, ops.UpdateBlocksOp(path="/d/o", blocks=blocks((3, 1, 2000)))
    )
    assert image.info.genstampV2 == 2000


def test_striped_files(tmp_path: Path) -> None:
    source = store(HADOOP3).save(tmp_path)
    image = merged(
        source, add("/d/ec", NEW, erasure_coding_policy_id=1), ops.SetReplicationOp(path="/d/ec", replication=5)
    )
    file = image["/d/ec"].file
    assert (file.blockType, file.erasureCodingPolicyID) == (1, 1)
    assert not file.HasField("replication")
    with pytest.raises(ReplayError, match="erasure coding policy 9"):
        merged(source, add("/d/ec", NEW, erasure_coding_policy_id=9))
    builder = ImageBuilder(HADOOP3)
    builder.directory("/d")
    coded = builder.file("/d/f", blocks=TWO_BLOCKS).file
    coded.ClearField("replication")
    coded.blockType, coded.erasureCodingPolicyID = pb.STRIPED, 1
    source = builder.save(tmp_path / "coded")
    for in_place_or_copy in (1, 77):
        with pytest.raises(ReplayError, match="txid 101: /d/f is erasure-coded"):
            merged(source, truncate(100, Block(in_place_or_copy, 128, 1010)))
    assert merged(source, truncate(128))["/d/f"].file.blockType == pb.STRIPED
    with pytest.raises(ReplayError, match="txid 102: /d/f and its sources are not all erasure-coded"):
        merged(source, add("/d/g", NEW), ops.ConcatDeleteOp(trg="/d/f", srcs=("/d/g",), timestamp=LATER))


def test_deleted_open_files_lose_their_leases(tmp_path: Path) -> None:
    image = merged(store().save(tmp_path), mkdir("/e", NEW), add("/e/f", NEW + 1), delete("/d"))
    assert image.leases() == {NEW + 1: "/e/f"}


STALE = {OPEN_ID: "/elsewhere/o", 777: "no path at all", FILE_ID: "a/b"}


def with_stale_paths(layout: int, folder: Path) -> Path:
    builder = store(layout)
    builder.sections["FILES_UNDERCONSTRUCTION"] = delimited(
        pb.FileUnderConstructionEntry(inodeId=number, fullPath=path) for number, path in STALE.items()
    )
    return builder.save(folder)


def test_stale_lease_path_is_corrected_by_an_edit_of_the_file(tmp_path: Path) -> None:
    source = with_stale_paths(HADOOP2, tmp_path)
    assert merged(source, mkdir("/e", NEW)).leases() == STALE
    image = merged(source, ops.ReassignLeaseOp(lease_holder="writer", path="/d/o", new_holder="n"))
    assert image.leases() == {OPEN_ID: "/d/o", FILE_ID: "a/b"}


def test_hadoop_3_derives_lease_paths_from_the_open_files(tmp_path: Path) -> None:
    source = with_stale_paths(HADOOP3, tmp_path)
    assert merged(source, mkdir("/e", NEW)).leases() == {OPEN_ID: "/d/o"}
    assert merged(source, mkdir("/e", NEW), rename("/d", "/e/d")).leases() == {OPEN_ID: "/e/d/o"}
    assert merged(source, ops.ReassignLeaseOp(lease_holder="writer", path="/d/o", new_holder="n")).leases() == {
        OPEN_ID: "/d/o"
    }
    assert merged(source, delete("/d"), add("/n", NEW)).leases() == {NEW: "/n"}

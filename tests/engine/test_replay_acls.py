"""ACLs that kernels set on new inodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import ReplayError
from engine.loaded_image import load_image
from engine.replay import replay
from hadoop_common.errors import HdfsError
from image_format.reader import ImageFile
from journal import ops
from journal.ops import EditOp
from tests.engine.image_builder import HADOOP2, LAYOUTS, merged
from tests.engine.op_makers import add, delete, mkdir, rename, set_permissions, times
from tests.engine.replay_scenes import base, needs_kernels, rare, segment_after

ACL = tuple(
    ops.AclEntry(*entry)
    for entry in ((0, 0, 7, None), (0, 0, 6, "bob"), (1, 0, 5, None), (2, 0, 6, None), (3, 0, 1, None))
)
DEFAULTS = tuple(entry._replace(scope=1) for entry in ACL)


def inheriting() -> list[EditOp]:
    return [
        ops.SetAclOp(src="/old", acl_entries=(*ACL, *DEFAULTS)),
        mkdir("/old/m", 20_003),
        add("/old/m/f", 20_004),
        mkdir("/old/m/deep", 20_005),
        add("/old/m/deep/own", 20_006, acl_entries=ACL),
        mkdir("/old/m/deep/own-too", 20_007, acl_entries=(*ACL[:1], *ACL[2:3], *ACL[4:], *DEFAULTS)),
        rename("/old/m/deep", "/old/deeper"),
        delete("/old/m"),
        add("/old/deeper/late", 20_008),
    ]


@needs_kernels
@pytest.mark.parametrize("layout", LAYOUTS)
def test_kernels_set_acls_of_new_inodes(tmp_path: Path, layout: int) -> None:
    path = base(layout).save(tmp_path)
    assert rare(path, inheriting(), layout) == ["OP_SET_ACL"]
    image = merged(path, *inheriting())
    named = [(0, 0, 6, "bob"), (1, 0, 5, "")]
    assert image.acl("/old/deeper/late") == named
    assert image.acl("/old/deeper")[:2] == named
    assert image.acl("/old/deeper/own") == named
    assert image.acl("/old/deeper/own-too") == image.acl("/old/deeper")[2:]


@needs_kernels
@pytest.mark.parametrize("layout", LAYOUTS)
def test_mode_change_after_inheritance_is_replayed_by_plain_functions(tmp_path: Path, layout: int) -> None:
    path = base(layout).save(tmp_path)
    steps = [*inheriting(), add("/old/n", 20_009), set_permissions("/old/n", 0o700), add("/old/o", 20_010)]
    image = merged(path, *steps)
    assert image.status(image["/old/n"].file.permission).mode == 0o700
    assert rare(path, steps, layout)[-1] == "OP_SET_PERMISSIONS"


@pytest.mark.parametrize("entries", [ACL[:2], DEFAULTS, (*ACL, *DEFAULTS)], ids=["few", "default", "both"])
def test_incomplete_acl_is_refused(tmp_path: Path, entries: tuple[ops.AclEntry, ...]) -> None:
    path = base(HADOOP2).save(tmp_path)
    with pytest.raises(HdfsError):
        merged(path, add("/old/known", 20_001), add("/old/n", 20_002, acl_entries=entries), times("/old", 5))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("tail", [0xD800, 0xDCFF])
def test_lone_surrogates_in_names_become_question_marks(tmp_path: Path, layout: int, tail: int) -> None:
    path = base(layout).save(tmp_path)
    name = f"b{chr(tail)}"
    entries = tuple(entry._replace(name=name) if entry.name else entry for entry in ACL)
    attribute = ops.SetXAttrOp(src="/old/n", xattrs=(ops.XAttr(0, name, b"v"),))
    image = merged(path, add("/old/known", 20_001), add("/old/n", 20_002, acl_entries=entries), attribute)
    assert image.acl("/old/n")[0] == (0, 0, 6, "b?")
    assert image.xattrs("/old/n") == [(0, "b?", b"v")]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_error_of_an_incomplete_default_acl_names_the_inheriting_operation(tmp_path: Path, layout: int) -> None:
    path = base(layout).save(tmp_path)
    halved = ops.SetAclOp(src="/old", acl_entries=(*ACL, *DEFAULTS[:2]))
    steps = [mkdir("/known", 20_001), halved, mkdir("/old/n", 20_002)]
    with ImageFile.open(path) as image:
        last_txid = load_image(image).namespace.last_txid
    with pytest.raises(ReplayError, match=f"OP_MKDIR at txid {last_txid + len(steps)}: "):
        merged(path, *steps, mkdir("/later", 20_003))


@needs_kernels
def test_error_of_an_acl_beyond_the_string_table_names_its_operation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = base(HADOOP2).save(tmp_path)

    def full(*_: object) -> None:
        raise OverflowError("no number is left for a name")

    monkeypatch.setattr("engine.replay.compiled.replace_acl", full)
    steps = [add("/old/known", 20_001), add("/old/n", 20_002, acl_entries=ACL), times("/old", 5)]
    with ImageFile.open(path) as image:
        loaded = load_image(image)
        first = loaded.namespace.last_txid + 1
        segment = segment_after(loaded.namespace, steps, HADOOP2)
        with pytest.raises(ReplayError, match=f"OP_ADD at txid {first + 1}: a value does not fit the image: no number"):
            replay(loaded.namespace, segment)


@needs_kernels
def test_more_acls_than_fit_in_the_acl_notes(tmp_path: Path) -> None:
    path = base(HADOOP2).save(tmp_path)
    made = [add(f"/old/n{number}", 21_000 + number) for number in range(5000)]
    steps = [*inheriting(), *made]
    assert rare(path, steps, HADOOP2) == ["OP_SET_ACL"]
    assert merged(path, *steps).acl("/old/n4999") == [(0, 0, 6, "bob"), (1, 0, 5, "")]

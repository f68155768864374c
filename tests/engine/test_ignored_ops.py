"""Operations without effect are counted, by plain functions and kernels; other operations are never skipped
silently.
"""

from __future__ import annotations

import ast
import inspect
import time
from pathlib import Path

import pytest

from engine.merge import load_image
from engine.replay import replay
from engine.replay.table import TABLE
from image_format.reader import ImageFile
from journal.ops import DeleteSnapshotOp
from tests.engine.ignored_ops import IGNORED, SCENE, Ignored, scene
from tests.engine.image_builder import LAYOUTS, merged, numbered

_UNTOLD = {"NS_INFO", "STRING_TABLE"}
_DONE_EARLY = {"OP_TRUNCATE", "OP_SET_STORAGE_POLICY"}
"""Operations whose functions return early after completing their work."""


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", IGNORED, ids=str)
def test_an_operation_without_effect_is_counted_and_changes_nothing(
    tmp_path: Path, case: Ignored, layout: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # during replay, Hadoop 2.7 reads a snapshot's time from the clock
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_000_000_000)
    if layout not in case.layouts:
        pytest.skip("it has an effect, or is refused, in this layout")
    source = scene(tmp_path, layout)
    # a merge rewrites every section that changed, so both images must come from a merge
    before = merged(source, *SCENE, *case.before)
    after = merged(source, *SCENE, *case.before, case.op)
    parts = [name for name in before.sections if name not in _UNTOLD]
    for name in parts:
        if case.keeps_header or name != "INODE":
            assert after.sections[name] == before.sections[name], name
    assert after.inodes == before.inodes
    with ImageFile.open(source) as image:
        namespace = load_image(image).namespace
        replay(namespace, numbered((*SCENE, *case.before, case.op), namespace.last_txid))
        assert namespace.ignored == 1


def test_every_ignorable_operation_has_a_case() -> None:
    # its effect depends on a setting: see test_second_deletion_of_a_snapshot_marked_as_deleted
    elsewhere = {DeleteSnapshotOp}
    assert {row.kind for row in TABLE if row.ignored} == {type(case.op) for case in IGNORED} | elsewhere


def test_table_marks_the_functions_that_ignore_operations() -> None:
    def ignores(function: object) -> bool:
        return ".ignore()" in inspect.getsource(function)  # type: ignore[arg-type]

    by_helper = {"set_quota", "set_ns_quota", "clear_ns_quota", "delete", "rename"}
    for row in TABLE:
        if row.plain.__name__ not in by_helper:
            assert bool(row.ignored) == ignores(row.plain), row.kind.name


def test_every_early_return_of_a_replay_function_is_counted() -> None:
    for row in TABLE:
        tree = ast.parse(inspect.getsource(row.plain))
        for block in ast.walk(tree):
            body = getattr(block, "body", None)
            if not isinstance(block, ast.If) or not isinstance(body, list) or not isinstance(body[-1], ast.Return):
                continue
            before = ast.unparse(body[-2]) if len(body) > 1 else ""
            assert before == "namespace.ignore()" or row.kind.name in _DONE_EARLY, f"{row.kind.name}: {before}"

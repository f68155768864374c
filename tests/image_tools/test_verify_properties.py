"""Verification never fails on damaged bytes, and a repair ends with a clean image or a refusal."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_tools.verify.checker import verify_image
from image_tools.verify.findings import UnrepairableError
from image_tools.verify.repair import repair_image
from tests.depth import examples
from tests.image_format.image_support import build_image, store
from tests.image_tools.verify_damage import DAMAGES
from tests.image_tools.verify_support import Model, recorded, shown

pytestmark = pytest.mark.recorded
SMALL = ("rename", "rename3", "acl3", "ec", "leases", "tokens", "cache")


@functools.cache
def sections(case: str) -> tuple[int, str, list[tuple[str, bytes]]]:
    model = Model(recorded(case))
    return model.layout, model.name, model.sections()


def check(folder: Path, path: Path) -> None:
    found = verify_image(path).findings
    output = folder / "out" / path.name
    output.parent.mkdir()
    try:
        done = repair_image(path, output, folder / "report")
    except UnrepairableError:
        assert not found.valid
        assert list(output.parent.iterdir()) == []
        return
    if done.output is not None:
        after = verify_image(output).findings
        assert after.clean, shown(after.listed)
    else:
        assert found.clean


@given(data=st.data(), case=st.sampled_from(SMALL))
@examples(50)
def test_random_bytes_are_verified_without_a_crash(data: st.DataObject, case: str) -> None:
    layout, name, parts = sections(case)
    index = data.draw(st.sampled_from([i for i, (_, body) in enumerate(parts) if body]))
    body = bytearray(parts[index][1])
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    changed = [(n, bytes(body) if i == index else b) for i, (n, b) in enumerate(parts)]
    # a random change of the transaction id would only make the name wrong
    name = "image" if parts[index][0] == "NS_INFO" else name
    with tempfile.TemporaryDirectory() as folder:
        check(Path(folder), store(Path(folder), build_image(changed, "", layout), name))


def test_an_invalid_reference_message_is_a_damaged_record(tmp_path: Path) -> None:
    layout, name, parts = sections("rename")
    changed = [(n, b"\x01\x0f" + b[1 + b[0] :] if n == "INODE_REFERENCE" else b) for n, b in parts]
    path = store(tmp_path, build_image(changed, "", layout), name)
    assert "record-damaged" in verify_image(path).findings.counts
    check(tmp_path, path)


@given(data=st.data(), case=st.sampled_from(sorted({each.case for each in DAMAGES})))
@examples(30)
def test_several_kinds_of_damage_together(data: st.DataObject, case: str) -> None:
    mine = [each for each in DAMAGES if each.case == case]
    chosen = data.draw(st.lists(st.sampled_from(mine), min_size=2, max_size=5, unique_by=lambda each: each.id))
    model = Model(recorded(case))
    for each in chosen:
        try:
            each.mutate(model)
        except (StopIteration, RuntimeError, LookupError, IndexError, ValueError):
            # an earlier mutation removed the records that this mutation needs
            continue
    with tempfile.TemporaryDirectory() as folder:
        check(Path(folder), model.save(Path(folder)))


@given(cut=st.integers(0, 3000))
@examples(20)
def test_a_truncated_file_is_never_valid(cut: int) -> None:
    source = recorded("acl")
    content = source.read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        path = store(Path(folder), content[: min(cut, len(content) - 1)], source.name)
        assert not verify_image(path).valid
        check(Path(folder), path)

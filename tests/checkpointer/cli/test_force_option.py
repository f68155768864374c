"""`--force` of all commands: which existing files it replaces."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.cli_runner import fingerprint, run_cli
from tests.recorded_cases import RECORDED, Case

CASE = Case(RECORDED / "hadoop-2.7.3" / "random-mixed-1")


@pytest.fixture
def image(tmp_path: Path) -> Path:
    return CASE.copy_of("after", tmp_path)


@pytest.mark.parametrize(
    "words",
    [
        ("image", "dump", "{image}", "--output", "{fifo}"),
        ("image", "convert", "{image}", "{fifo}"),
        ("image", "verify", "{bare}", "--repair", "{fifo}"),
        ("edits", "dump", "{segment}", "--output", "{fifo}"),
        ("edits", "load", "{json}", "{fifo}"),
        ("find", "--image", "{image}", "/", "--output", "{fifo}"),
    ],
    ids=" ".join,
)
def test_force_does_not_replace_a_device_or_fifo(tmp_path: Path, words: tuple[str, ...]) -> None:
    """If root replaced /dev/null with a file, every program on the host would break."""
    case = Case(RECORDED / "hadoop-2.7.3" / "basic-files")
    places = {name: tmp_path / name for name in ("fifo", "bare", "json")}
    os.mkfifo(places["fifo"])
    shutil.copy(case.image("before"), places["bare"])
    places["json"].write_text('{"layoutVersion":-63}\n{"opcode":"OP_START_LOG_SEGMENT","txid":1}\n')
    places |= {"image": case.image("before"), "segment": next((case.path / "before").glob("edits_*"))}
    before = sorted(tmp_path.iterdir())
    outcome = run_cli(*(word.format(**places) for word in words), "--force")
    assert (outcome.code, "does not replace a device, FIFO or socket" in outcome.err) == (6, True), outcome.err
    assert sorted(tmp_path.iterdir()) == before
    assert places["fifo"].is_fifo()


@pytest.mark.parametrize("by", ["itself", "link", "hard link"])
@pytest.mark.parametrize(
    "words",
    [
        ("image", "dump", "{image}", "--output"),
        ("image", "convert", "{image}"),
        ("image", "load", "{xml}"),
        ("edits", "dump", "{segment}", "--output"),
        ("edits", "load", "{json}"),
        ("find", "--image", "{image}", "/", "--output"),
        ("report", "{image}", "--format", "html", "--out"),
    ],
    ids=" ".join,
)
@pytest.mark.parameters(7)
def test_force_does_not_replace_the_input(tmp_path: Path, words: tuple[str, ...], by: str) -> None:
    case = Case(RECORDED / "hadoop-2.7.3" / "basic-files")
    places = {name: tmp_path / name for name in ("image", "segment", "json", "xml")}
    shutil.copy(case.image("before"), places["image"])
    shutil.copy(next((case.path / "before").glob("edits_*")), places["segment"])
    places["json"].write_text('{"layoutVersion":-63}\n{"opcode":"OP_START_LOG_SEGMENT","txid":1}\n')
    places["xml"].write_text(run_cli("image", "dump", "--release", "3.x", places["image"]).out)
    given = next(path for name, path in places.items() if f"{{{name}}}" in words)
    output = given
    if by != "itself":
        output = tmp_path / "output"
        (output.symlink_to if by == "link" else output.hardlink_to)(given)
    before = fingerprint(tmp_path)
    outcome = run_cli(*(word.format(**places) for word in words), output, "--force")
    assert (outcome.code, "is the input file" in outcome.err) == (2, True), outcome.err
    assert fingerprint(tmp_path) == before

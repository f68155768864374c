"""Every system call of every operation fails once: the error is one sentence, nothing is lost, and the next run is
correct.

The quick tier tries two calls of each operation.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.depth import deep, sample
from tests.faults.child import Outcome, run_in_child
from tests.faults.scenes import SCENES, Scene
from tests.faults.strace import Call, MissingStraceError, injected, strace_program, traced
from tests.required import skip

ERRORS = ("EIO", "ENOSPC")
# Threads do not always make the same calls in the same order, so a run may miss a call, mostly on a busy machine.
ATTEMPTS = 3
MISSED = 0.1
PARTS = 8 if deep() else 1
"""Parts of a daemon's thousand calls, which run on all cores and can be repeated one by one."""


@pytest.fixture(scope="module", autouse=True)
def strace() -> None:
    try:
        strace_program()
    except MissingStraceError as error:
        skip("strace", str(error))


@pytest.mark.timeout(7200 if deep() else 1800)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", SCENES)
def test_a_failed_system_call_is_reported_in_one_sentence(name: str, part: int, tmp_path: Path) -> None:
    # Paths identify calls, so all runs use the same folder.
    folder = tmp_path / "run"
    calls = good_run(SCENES[name], folder)
    missed, wrong, chosen = [], [], sample([(call, error) for call in calls for error in ERRORS], 2, name)
    chosen = chosen[part::PARTS]
    for call, error in chosen:
        try:
            if not any(emptied_run(SCENES[name], folder, call, error) for _ in range(ATTEMPTS)):
                missed.append(str(call))
        except Exception as fault:
            wrong.append(f"{call} {error}: {type(fault).__name__}: {fault}")
    print(f"{name}: {len(calls)} calls, {len(chosen)} faults, {len(missed)} missed: {missed}")
    assert not wrong, "\n".join(wrong)
    assert len(missed) <= max(1, MISSED * len(chosen)), missed


def emptied_run(kind: type[Scene], folder: Path, call: Call, error: str) -> bool:
    shutil.rmtree(folder)
    return faulty_run(kind, folder, call, error)


def good_run(kind: type[Scene], folder: Path) -> list[Call]:
    """Return the calls of an undisturbed operation."""
    scene = kind(folder)
    with scene.serving():
        outcome, calls = run_in_child(
            kind.run, *scene.arguments(), watched=lambda pid: traced(pid, scene.root, folder / "trace")
        )
        assert (outcome.code, outcome.tracebacks) == (0, []), outcome
        scene.remains(outcome)
    found = calls()
    assert len(found) > 10
    return found


def faulty_run(kind: type[Scene], folder: Path, call: Call, error: str) -> bool:
    """Return whether the process made the call; check the consequences if it did."""
    scene = kind(folder)
    with scene.serving():
        outcome, hits = run_in_child(
            kind.run, *scene.arguments(), watched=lambda pid: injected(pid, call, error, folder / "trace")
        )
        label = f"{call} {error}: {outcome}"
        assert_reported_well(kind, call, outcome, label)
        if hits() == 1:
            assert "lasting" not in outcome.facts, label
        scene.remains(outcome)
        scene.go_on()
    return hits() > 0


def assert_reported_well(kind: type[Scene], call: Call, outcome: Outcome, label: str) -> None:
    """Assert that the output has a message that names the file and a hint with the next step, and that the exit code is
    documented.
    """
    assert outcome.tracebacks == [], label
    assert outcome.code in kind.codes | {0}, label
    if outcome.code == 0:
        return
    message, _, hint = outcome.text.partition("\n  next: ")
    assert message, label
    assert hint.strip(), label
    for word in ("Traceback", "Errno", "Error("):
        assert word not in outcome.text, label
    path = Path(call.path)
    assert path.name.split("{pid}")[0] in message or str(path.parent) in message, label

"""Thresholds of checks, from the configuration and the command line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from checkpointer import checks
from checkpointer.checks.registry import CHECKS, FactGroup
from checkpointer.checks.thresholds import MEASURED, Thresholds, parse_thresholds
from checkpointer.checks.verdict import State
from tests.checkpointer.check_facts import BY_NAME, NOW, decide, image
from tests.cli_runner import run_cli


@pytest.mark.parametrize(
    ("warning", "critical", "fits"),
    [
        ({"age": 3600.0}, {"age": 7200.0}, True),
        ({"age": 36_000.0}, {"age": 5.0}, False),
        ({"space": 200.0}, {"space": 100.0}, True),
        ({"space": 100.0}, {"space": 200.0}, False),
        ({"tls": 1.0}, {"tls": 2.0}, False),
        ({"age": 36_000.0}, {"space": 5.0}, True),
    ],
)
def test_warning_threshold_must_precede_the_critical_one(
    warning: dict[str, float], critical: dict[str, float], fits: bool
) -> None:
    assert (Thresholds(warning, critical).disorder() == "") is fits


def test_contradicting_default_threshold_is_replaced() -> None:
    late = decide("age", Thresholds(warning={"age": 36_000.0}), image=image(modified=NOW - 35_999))
    assert (late.state, str(late.metrics[0])) == (State.OK, "age=35999s;36000;36000")
    early = decide("age", Thresholds(critical={"age": 60.0}), image=image(modified=NOW - 61))
    assert (early.state, str(early.metrics[0])) == (State.CRITICAL, "age=61s;60;60")


@pytest.mark.parametrize("texts", [["age=-5s"], ["transactions=-1"], ["space=-1"], ["age=5s", "age=7h"]])
def test_repeated_or_negative_threshold_is_rejected(texts: list[str]) -> None:
    with pytest.raises(ValueError, match=r"is negative|already has a threshold"):
        parse_thresholds(texts)


@pytest.mark.parametrize(
    "options",
    [
        ("checkpoint", "--timeout"),
        ("checkpoint", "--cancel", "--minutes"),
        ("status", "--watch"),
        ("history", "--days"),
        ("check", "--timeout"),
        ("silence", "transfer", "--minutes"),
        ("acknowledge", "transfer", "--minutes"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("number", ["nan", "inf"])
def test_options_accept_only_finite_numbers(tmp_path: Path, options: tuple[str, ...], number: str) -> None:
    found = run_cli(*options, number, "--conf", tmp_path)
    assert found.code == (State.UNKNOWN if options[0] == "check" else 2)
    assert "is not a finite number" in found.err or "is not in the range" in found.err


def test_thresholds_are_parsed() -> None:
    assert parse_thresholds(["age=3h", "transactions=5", "space=1k"]) == {
        "age": 10_800,
        "transactions": 5,
        "space": 1024,
    }


@pytest.mark.parametrize("text", ["age", "ages=1", "age=soon", "space=-", "=1", ""])
def test_invalid_thresholds_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"threshold|expects"):
        parse_thresholds([text])


def test_every_check_with_thresholds_uses_them() -> None:
    assert MEASURED.keys() <= BY_NAME.keys()
    sources = [path.read_text() for path in Path(checks.__file__).parent.glob("*_checks.py")]
    assert {name for text in sources for name in re.findall(r'thresholds\.limits\("(\w+)"', text)} == MEASURED.keys()
    assert all(check.hint and check.needs <= set(FactGroup) for check in CHECKS)

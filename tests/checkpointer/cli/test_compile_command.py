"""`checkpointer compile`: the preparations of installed packages."""

from __future__ import annotations

import json
from unittest import mock

import pytest

from tests.cli_runner import run_cli


def _package(name: str, sentence: str) -> mock.Mock:
    package = mock.Mock()
    package.name = name
    package.load.return_value = lambda: sentence
    return package


@pytest.fixture
def _prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    packages = [_package("spark", "classes archived"), _package("other", "")]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: packages)
    monkeypatch.setattr("engine.warm_up.warm_up", lambda **_: 0.5)


@pytest.mark.usefixtures("_prepared")
def test_compile_archives_classes_unless_first_is_given() -> None:
    assert run_cli("compile").out.splitlines() == ["all kernels are already compiled", "classes archived"]
    assert run_cli("compile", "--first").out.splitlines() == ["all kernels are already compiled"]
    assert json.loads(run_cli("compile", "--json").out) == {"seconds": 0.5, "compiled": 0}

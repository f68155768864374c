"""The kept warnings of a program."""

from __future__ import annotations

import importlib
import logging
from pathlib import Path

import pytest
from click.testing import CliRunner

from console.process_panels import process_panels
from console.warning_log import WarningLog


def test_log_record_that_cannot_be_formatted_raises_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    log = WarningLog()
    log.handle(logging.LogRecord("x", logging.WARNING, "x.py", 1, "%d files", ("some",), None))
    assert log.lines() == []


@pytest.mark.parametrize("command", ["checkpointer.cli.run_command", "checkpointer.cli.journalnode_run_command"])
@pytest.mark.parameters(2)
def test_configuration_warnings_are_kept(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module(command)
    monkeypatch.setattr(module, "set_up_logging", lambda *_: None)
    monkeypatch.setattr(module.os, "umask", lambda _: 0)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])

    def warn(_: Path, *, warns: bool = True) -> None:
        logging.getLogger("tests.console").warning("deprecated key of %s", command)
        raise OSError("no configuration")

    monkeypatch.setattr(module, "load_configuration", warn)
    CliRunner().invoke(module.command, ["--conf", str(tmp_path)])
    assert f"deprecated key of {command}" in [row[2].text for row in process_panels()[0].rows]

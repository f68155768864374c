"""The warning of `checkpointer edits dump` and `edits info` about bytes after the last complete transaction."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli_runner import run_cli
from tests.journal.journal_support import WHOLE


@pytest.mark.recorded
@pytest.mark.parametrize("form", ["xml", "json"])
def test_dump_and_info_warn_of_a_torn_tail(tmp_path: Path, form: str) -> None:
    (tmp_path / "whole").write_bytes(WHOLE.read_bytes() + bytes(100))
    assert run_cli("edits", "dump", tmp_path / "whole", "--format", form).err == ""
    (tmp_path / "torn").write_bytes(WHOLE.read_bytes()[:-3])
    for words in (("dump", "--format", form), ("dump", "--format", form, "--output", tmp_path / form), ("info",)):
        code, _, err = run_cli("edits", *words, tmp_path / "torn")
        assert code == 0
        assert "warning: torn tail: 14 bytes after offset " in err
    assert run_cli("edits", "load", tmp_path / form, tmp_path / "loaded", "--json").code == 0

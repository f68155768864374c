"""The warning of `checkpointer edits dump` and `edits info` about bytes after the last complete transaction."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli_runner import run_cli
from tests.journal.journal_support import WHOLE, segment_bytes, some_ops, unreadable_op


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


@pytest.mark.parametrize("kind", ["opcode", "further field"])
def test_complete_operation_of_other_software_is_never_cut_silently(tmp_path: Path, kind: str) -> None:
    source = tmp_path / f"edits_inprogress_{1:019d}"
    source.write_bytes(segment_bytes(some_ops(count=3), -63) + unreadable_op(kind, 4))
    for command in ("info", "dump"):
        refused = run_cli("edits", command, source)
        assert refused.code == 4
        assert "txid 4: " in refused.err
        assert "recover" not in refused.err
    code, out, err = run_cli("edits", "recover", source, tmp_path)
    assert code == 0
    offset = len(segment_bytes(some_ops(count=3), -63))
    assert f"lost: intact transaction 4, at offset {offset}" in out
    assert "warning: the result lacks operations that this program cannot decode; next: " in err
    assert "Use a release of this program" in err

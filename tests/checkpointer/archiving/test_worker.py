"""The temporary folder of the process that fills an archive, when that process hangs at its end."""

from __future__ import annotations

import threading
from io import BytesIO
from pathlib import Path
from unittest import mock

from archive.scratch import SCRATCH_PREFIX
from checkpointer.archiving.worker import Inbox


def test_hanging_process_removes_its_folder_before_it_exits(tmp_path: Path) -> None:
    scratch, ended = tmp_path / f"{SCRATCH_PREFIX}1", threading.Event()
    scratch.mkdir()
    (scratch / "edits").write_bytes(b"decrypted")
    with (
        mock.patch("checkpointer.archiving.worker._GRACE_SECONDS", 0),
        mock.patch("checkpointer.archiving.worker.gettempdir", return_value=str(scratch)),
        mock.patch("checkpointer.archiving.worker.os._exit", side_effect=lambda code: ended.set()),
    ):
        Inbox(BytesIO())
        assert ended.wait(600)
    assert not scratch.exists()

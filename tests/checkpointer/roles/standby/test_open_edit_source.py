"""Journals that a configuration names, of which each is a source of a standby's edits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from checkpointer.roles.standby import open_edit_source
from checkpointer.roles.standby.folder_edits import FolderEdits
from checkpointer.roles.standby.journal_edits import SharedJournalEdits
from checkpointer.storage.inspector import read_storage_info
from journal.file_journal import FileJournal
from journal.open_journal import open_journal
from namenode_stub.config import StubConfig
from namenode_stub.node import NameNodeStub
from servlets.status import TriggerState
from tests.checkpointer.service_support import standby_config
from tests.checkpointer.standby_support import Daemon, config_for, daemon_of, write_edits


@pytest.mark.parametrize("in_progress", [False, True])
def test_daemon_with_any_journal(stub_config: StubConfig, tmp_path: Path, in_progress: bool) -> None:
    shared = tmp_path / "active" / "shared" / "current"
    with NameNodeStub(stub_config) as stub:
        config = config_for(tmp_path, stub, tail_in_progress=in_progress)
        source = SharedJournalEdits("kind://place", lambda namespace: FileJournal(shared))
        with Daemon(config, source) as daemon:
            last = write_edits(stub, "a")
            daemon.role.tail()
            status = daemon.service.status()
            assert (status["journal"], status["appliedTxid"]) == ("kind://place", last + in_progress)
            assert daemon.service.poll().state is TriggerState.DONE
            stub.namespace.mkdirs("/open")
            assert stub.active.administration.start_rolling_upgrade() is not None
            end = stub.namespace.transactions.log.segment_first_txid - 1
            write_edits(stub, "during")
            assert daemon.role.tail()
            assert daemon.service.poll().details["txid"] == end


@pytest.mark.parametrize("in_progress", [False, True])
def test_daemon_with_a_configured_journal(stub_config: StubConfig, tmp_path: Path, in_progress: bool) -> None:
    uri = (tmp_path / "shared").as_uri().replace("file:", "json:")
    journal = open_journal(uri)
    journal.format(read_storage_info(stub_config.image_directories[0]))
    journal.close()
    with (
        NameNodeStub(replace(stub_config, edits=(*stub_config.edits, uri), shared_edits=uri)) as stub,
        daemon_of(stub, tmp_path, tail_in_progress=in_progress, shared_edits=uri) as daemon,
    ):
        last = write_edits(stub, "a")
        daemon.role.tail()
        assert daemon.service.status()["appliedTxid"] == last + in_progress
        assert daemon.service.poll().details["uploads"] == {stub.server.url: "SUCCESS"}
        assert daemon.service.status()["alarms"] == []


def test_kinds_of_edit_sources(tmp_path: Path) -> None:
    config = standby_config(**{"dfs.namenode.shared.edits.dir": (tmp_path / "a b").as_uri()})
    source = open_edit_source.open_edit_source(config)
    assert isinstance(source, FolderEdits)
    assert source.location == str(tmp_path / "a b" / "current")
    config = standby_config(**{"dfs.namenode.shared.edits.dir": "qjournal://a;b:1;c/ns"})
    source = open_edit_source.open_edit_source(config)
    assert source.location == "qjournal://a:8485;b:1;c:8485/ns"
    assert [node.answers for node in source.journal_nodes() or ()] == [None, None, None]

"""A real full disk, and a real directory that becomes read-only."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from journal.file_journal import FileJournal
from tests.journal.wal_support import contents, file_journal, read_all

ROOT = Path(__file__).parents[2]

# Write until the member in the first directory is dropped, then a little more, and print the acknowledged txids.
FILL = """
import sys
from pathlib import Path
from tests.journal.wal_support import INFO, LAYOUT, delete, file_journal, read_all
from journal.edit_log_writer import EditLogWriter
from journal.journal_set import JournalSet, JournalMember
full, other = Path(sys.argv[1]), Path(sys.argv[2])
journals = JournalSet([JournalMember(file_journal(root)) for root in (full, other)])
journals.recover(INFO)
with EditLogWriter(journals, LAYOUT, 1) as log:
    while len(journals.active) == 2:
        for _ in range(100):
            txid = log.write(delete(log.last_txid + 1))
        log.sync(txid)
    fault = journals.faults[full.as_uri()].message
    log.roll()
    acknowledged = log.write(delete(log.last_txid + 1))
    log.sync(acknowledged)
    assert read_all(journals, in_progress=True)[acknowledged]
    assert len(journals.active) == 1, "it was restored, though it is full"
    for path in (full / "current").glob("edits*"):
        path.unlink()
    log.roll()
    assert len(journals.active) == 2
print(acknowledged, fault)
"""

# Write, lose the permission for the first directory, and continue in the other directory.
FORBID = """
import os, sys
from pathlib import Path
from tests.journal.wal_support import INFO, LAYOUT, delete, file_journal
from journal.edit_log_writer import EditLogWriter
from journal.journal_set import JournalSet, JournalMember
if os.geteuid() == 0:
    nobody = 65534
    os.setgid(nobody)
    os.setuid(nobody)
forbidden, other = Path(sys.argv[1]), Path(sys.argv[2])
journals = JournalSet([JournalMember(file_journal(root)) for root in (forbidden, other)])
journals.recover(INFO)
with EditLogWriter(journals, LAYOUT, 1) as log:
    log.sync(log.write(delete(2)))
    (forbidden / "current").chmod(0o555)
    log.roll()
    log.sync(log.write(delete(log.last_txid + 1)))
    fault = journals.faults[forbidden.as_uri()].message
    (forbidden / "current").chmod(0o755)
    log.roll()
    assert len(journals.active) == 2
    assert journals.copy_missing() == 1
print(fault)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a folder that other users can reach."""
    made = Path(tempfile.mkdtemp(prefix="journal-"))
    made.chmod(0o777)
    yield made
    shutil.rmtree(made)


def can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", "mount -t tmpfs -o size=64k none /mnt"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not can_mount(), reason="this system mounts nothing for unprivileged users")
def test_full_disk_is_reported_and_acknowledged_transactions_are_kept(folder: Path) -> None:
    full, other = folder / "full", folder / "other"
    full.mkdir()
    mount = 'mount -t tmpfs -o size=64k none "$1" && exec "$0" -c "$3" "$1" "$2"'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount]
    done = subprocess.run(
        [*command, sys.executable, str(full), str(other), FILL], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    acknowledged, fault = done.stdout.split(maxsplit=1)
    assert "No space left on device" in fault
    assert int(acknowledged) in read_all(FileJournal(other / "current"))


def test_read_only_directory_is_dropped_and_later_restored(folder: Path) -> None:
    forbidden, other = folder / "forbidden", folder / "other"
    for root in (forbidden, other):
        root.mkdir()
        root.chmod(0o777)
    command = [sys.executable, "-c", FORBID, str(forbidden), str(other)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Permission denied" in done.stdout
    assert contents(forbidden) == contents(other)
    assert list(read_all(file_journal(other))) == [2, 5]

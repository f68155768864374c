"""All scenes by name."""

from __future__ import annotations

from tests.faults.command_scenes import Convert, FetchImage, Merge, Recover, Repair
from tests.faults.daemon_scenes import BackupStream, Retention, SecondaryCheckpoint, StandbyCheckpoint, Upload
from tests.faults.edit_scenes import EditLog, JournalNodeCalls
from tests.faults.scene import Scene

SCENES: dict[str, type[Scene]] = {
    "merge": Merge,
    "convert": Convert,
    "repair": Repair,
    "recover": Recover,
    "fetch-image": FetchImage,
    "edit-log": EditLog,
    "journal-node": JournalNodeCalls,
    "upload": Upload,
    "retention": Retention,
    "secondary": SecondaryCheckpoint,
    "standby": StandbyCheckpoint,
    "backup": BackupStream,
}

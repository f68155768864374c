"""Messages between a daemon and its archive process.

The daemon writes pickled values: first a `CheckpointConfig`, then an `ArchiveSource` whenever the source has changed.
After each round that changed something, the process writes an `ArchiveReport` as a line of JSON.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

PRUNE_HINT = (
    "Check that objects can be removed from the archive, and run `checkpointer archive prune`; the daemon "
    "retries in an hour."
)
"""Next step if the retention rules could not be applied."""


@dataclass(frozen=True, slots=True)
class ArchiveSource:
    """The sources of the archive.

    Attributes:
        storages: `current` folders with VERSION.
        edits: folders with segments; empty if the edits are in a journal that is read over the network.
        base_txid: transaction id of the node's newest image; a new archive of a journal begins after it.
        image: newest image that is confirmed to belong to the cluster's present past, or None if no image is confirmed.
        confirmations: number of confirmations of an image; each confirmation applies to the history archived at that
            time.
        replay_rate: transactions that the daemon replays per second, 0 if not measured.
        started_over: time of the node's last start-over, 0 if there is none. A new value requires that the process
            compare the archive with the present history.
    """

    storages: tuple[Path, ...]
    edits: tuple[Path, ...]
    base_txid: int
    image: Path | None = None
    confirmations: int = 0
    replay_rate: float = 0.0
    started_over: float = 0.0


@dataclass(frozen=True, slots=True)
class ArchiveReport:
    """The result of a round.

    Attributes:
        complete: whether all readable transactions are archived and can be restored.
        error: reason why the round failed, "" if it succeeded; `hint`: next step. After a failure, the other fields
            describe the previous round.
        pruning_error: reason why the process could not apply the retention rules, or "".
        lost: the missing objects without which the newest transactions cannot be restored, or "".
        started_over: value in the source of the last round that compared the archive with the source's history.
    """

    branch: str = ""
    last_txid: int = -1
    restorable_txid: int = -1
    missing: int = 0
    complete: bool = False
    error: str = ""
    hint: str = ""
    pruning_error: str = ""
    lost: str = ""
    started_over: float = 0.0

    def to_line(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_line(cls, line: str) -> Self:
        """Decode a line that `to_line` encoded; raise ValueError or TypeError for other lines."""
        return cls(**json.loads(line))

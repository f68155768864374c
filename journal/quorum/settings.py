"""What the quorum journal reads from Hadoop's configuration: its keys, timeouts and limits (DFSConfigKeys)."""

from __future__ import annotations

from dataclasses import dataclass

from hadoop_common.config_key import (
    ABSENT,
    MEGABYTES,
    MILLISECONDS,
    SWITCH,
    TRANSACTIONS,
    ConfigKey,
    keys_in,
)
from hadoop_common.configuration import Configuration

__all__ = [
    "HTTP_OPEN",
    "HTTP_READ",
    "MAX_TAIL_TRANSACTIONS",
    "READER_KEYS",
    "SELECT_INPUT_STREAMS",
    "TAIL_IN_PROGRESS",
    "WRITER_KEYS",
    "QuorumSettings",
]

TAIL_IN_PROGRESS = ConfigKey(
    "dfs.ha.tail-edits.in-progress", "false", SWITCH, "Whether it reads the open segment too.", release2=ABSENT
)
MAX_TAIL_TRANSACTIONS = ConfigKey(
    "dfs.ha.tail-edits.qjm.rpc.max-txns",
    "5000",
    TRANSACTIONS,
    "How many it asks the caches of JournalNodes for at once, where it reads the open segment too.",
    release2=ABSENT,
    least=1,
)
SELECT_INPUT_STREAMS = ConfigKey(
    "dfs.qjournal.select-input-streams.timeout.ms",
    "20000",
    MILLISECONDS,
    "Limit on waiting for a majority of the JournalNodes, and for an answer of each.",
    least=0.001,
)
HTTP_OPEN = ConfigKey(
    "dfs.qjournal.http.open.timeout.ms",
    "60000",
    MILLISECONDS,
    "Limit on connecting to a JournalNode that a segment is fetched from; 0 is none.",
    release2=ABSENT,
    least=0,
)
HTTP_READ = ConfigKey(
    "dfs.qjournal.http.read.timeout.ms",
    "60000",
    MILLISECONDS,
    "Limit on each wait for its answer; 0 is none.",
    release2=ABSENT,
    least=0,
)

READER_KEYS = keys_in(globals())


def _call(name: str, default: str) -> ConfigKey[float]:
    return ConfigKey(f"dfs.qjournal.{name}.timeout.ms", default, MILLISECONDS, _WRITER)


_WRITER = "Quorum journals, the NameNode's side."
OPERATIONS = ConfigKey("dfs.qjm.operations.timeout", "60s", MILLISECONDS, _WRITER, release2=ABSENT)
QUEUE_LIMIT = ConfigKey("dfs.qjournal.queued-edits.limit.mb", "10", MEGABYTES, _WRITER)
START_SEGMENT = _call("start-segment", "20000")
WRITE_TRANSACTIONS = _call("write-txns", "20000")
PREPARE_RECOVERY = _call("prepare-recovery", "120000")
ACCEPT_RECOVERY = _call("accept-recovery", "120000")
FINALIZE_SEGMENT = _call("finalize-segment", "120000")
GET_JOURNAL_STATE = _call("get-journal-state", "120000")
NEW_EPOCH = _call("new-epoch", "120000")

WRITER_KEYS = tuple(key for key in keys_in(globals()) if key not in READER_KEYS)


@dataclass(frozen=True, slots=True)
class QuorumSettings:
    """Timeouts in seconds, by the call of the same name; the defaults are Hadoop's.

    Attributes:
        operations: timeout of what concerns the journal as a whole: format, is it formatted, purge.
        http_open, http_read: of a segment's download.
        queue_limit: bytes of records that may wait for one node.
        tail_in_progress: ask the nodes' caches for newest transactions before segments are streamed.
        max_tail_transactions: how many a node sends from its cache at once.
    """

    start_segment: float = START_SEGMENT.fallback
    select_input_streams: float = SELECT_INPUT_STREAMS.fallback
    write_transactions: float = WRITE_TRANSACTIONS.fallback
    prepare_recovery: float = PREPARE_RECOVERY.fallback
    accept_recovery: float = ACCEPT_RECOVERY.fallback
    finalize_segment: float = FINALIZE_SEGMENT.fallback
    get_journal_state: float = GET_JOURNAL_STATE.fallback
    new_epoch: float = NEW_EPOCH.fallback
    operations: float = OPERATIONS.fallback
    http_open: float = HTTP_OPEN.fallback
    http_read: float = HTTP_READ.fallback
    queue_limit: int = QUEUE_LIMIT.fallback
    tail_in_progress: bool = TAIL_IN_PROGRESS.fallback
    max_tail_transactions: int = MAX_TAIL_TRANSACTIONS.fallback

    @property
    def longest_call(self) -> float:
        """Seconds that a call to a node may take, whichever it is."""
        return max(
            self.start_segment,
            self.select_input_streams,
            self.write_transactions,
            self.prepare_recovery,
            self.accept_recovery,
            self.finalize_segment,
            self.get_journal_state,
            self.new_epoch,
            self.operations,
        )

    @classmethod
    def from_configuration(cls, configuration: Configuration) -> QuorumSettings:
        """By the keys `dfs.qjournal.*`, `dfs.qjm.operations.timeout` and `dfs.ha.tail-edits.*`.

        Raises:
            ConfigurationError: a value is none that the key can have.
        """
        return cls(
            start_segment=START_SEGMENT.read(configuration),
            select_input_streams=SELECT_INPUT_STREAMS.read(configuration),
            write_transactions=WRITE_TRANSACTIONS.read(configuration),
            prepare_recovery=PREPARE_RECOVERY.read(configuration),
            accept_recovery=ACCEPT_RECOVERY.read(configuration),
            finalize_segment=FINALIZE_SEGMENT.read(configuration),
            get_journal_state=GET_JOURNAL_STATE.read(configuration),
            new_epoch=NEW_EPOCH.read(configuration),
            operations=OPERATIONS.read(configuration),
            http_open=HTTP_OPEN.read(configuration),
            http_read=HTTP_READ.read(configuration),
            queue_limit=QUEUE_LIMIT.read(configuration),
            tail_in_progress=TAIL_IN_PROGRESS.read(configuration),
            max_tail_transactions=MAX_TAIL_TRANSACTIONS.read(configuration),
        )

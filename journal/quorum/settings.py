"""Settings of the quorum journal in Hadoop's configuration: keys, timeouts and limits (DFSConfigKeys)."""

from __future__ import annotations

from dataclasses import dataclass

from hadoop_common.config_key import (
    ABSENT,
    MEGABYTES,
    MILLISECONDS,
    SWITCH,
    TRANSACTIONS,
    ConfigKey,
    bound,
    bound_keys,
    keys_in,
    read_bound,
)
from hadoop_common.configuration import Configuration

TAIL_IN_PROGRESS = ConfigKey(
    "dfs.ha.tail-edits.in-progress", "false", SWITCH, "Whether the open segment is also read.", release2=ABSENT
)
MAX_TAIL_TRANSACTIONS = ConfigKey(
    "dfs.ha.tail-edits.qjm.rpc.max-txns",
    "5000",
    TRANSACTIONS,
    "Maximum number of transactions per request to the caches of JournalNodes, if the open segment is also read.",
    release2=ABSENT,
    least=1,
)
SELECT_INPUT_STREAMS = ConfigKey(
    "dfs.qjournal.select-input-streams.timeout.ms",
    "20000",
    MILLISECONDS,
    "Maximum wait for a majority of the JournalNodes, and for each response.",
    least=0.001,
)
HTTP_OPEN = ConfigKey(
    "dfs.qjournal.http.open.timeout.ms",
    "60000",
    MILLISECONDS,
    "Connect timeout when a segment is fetched from a JournalNode; 0: unlimited.",
    release2=ABSENT,
    least=0,
)
HTTP_READ = ConfigKey(
    "dfs.qjournal.http.read.timeout.ms",
    "60000",
    MILLISECONDS,
    "Read timeout when a segment is fetched from a JournalNode; 0: unlimited.",
    release2=ABSENT,
    least=0,
)

READER_KEYS = keys_in(globals())


_CALL = "Timeout of a writer's call to JournalNodes."


def _call(name: str, default: str) -> ConfigKey[float]:
    return ConfigKey(f"dfs.qjournal.{name}.timeout.ms", default, MILLISECONDS, _CALL)


@dataclass(frozen=True, slots=True)
class QuorumSettings:
    """Settings of the quorum journal, with Hadoop's defaults. Timeouts are in seconds and named after their calls.

    Attributes:
        operations: timeout of calls about the whole journal: format, isFormatted, purge.
        http_open, http_read: timeouts for downloading a segment.
        queue_limit: bytes of records that may wait in the queue of one node.
        tail_in_progress: whether the newest transactions are requested from the nodes' caches before segments are
            streamed.
        max_tail_transactions: maximum number of transactions in one response from a node's cache.
    """

    start_segment: float = bound(_call("start-segment", "20000"))
    select_input_streams: float = bound(SELECT_INPUT_STREAMS)
    write_transactions: float = bound(_call("write-txns", "20000"))
    prepare_recovery: float = bound(_call("prepare-recovery", "120000"))
    accept_recovery: float = bound(_call("accept-recovery", "120000"))
    finalize_segment: float = bound(_call("finalize-segment", "120000"))
    get_journal_state: float = bound(_call("get-journal-state", "120000"))
    new_epoch: float = bound(_call("new-epoch", "120000"))
    operations: float = bound(ConfigKey("dfs.qjm.operations.timeout", "60s", MILLISECONDS, _CALL, release2=ABSENT))
    http_open: float = bound(HTTP_OPEN)
    http_read: float = bound(HTTP_READ)
    queue_limit: int = bound(
        ConfigKey(
            "dfs.qjournal.queued-edits.limit.mb",
            "10",
            MEGABYTES,
            "Maximum size of the edits that a writer queues for one JournalNode.",
        )
    )
    tail_in_progress: bool = bound(TAIL_IN_PROGRESS)
    max_tail_transactions: int = bound(MAX_TAIL_TRANSACTIONS)

    @property
    def longest_call(self) -> float:
        """The longest timeout of a call to a node, in seconds."""
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
        """Read the keys `dfs.qjournal.*`, `dfs.qjm.operations.timeout` and `dfs.ha.tail-edits.*`.

        Raises:
            ConfigurationError: a value is invalid.
        """
        return cls(**read_bound(cls, configuration))


WRITER_KEYS = tuple(key for key in bound_keys(QuorumSettings) if key not in READER_KEYS)

"""What the quorum journal reads from Hadoop's configuration: timeouts and limits (DFSConfigKeys)."""

from __future__ import annotations

from dataclasses import dataclass

from hadoop_common.configuration import Configuration, ConfigurationError

__all__ = ["QuorumSettings"]

_MEGABYTE = 1 << 20


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

    start_segment: float = 20.0
    select_input_streams: float = 20.0
    write_transactions: float = 20.0
    prepare_recovery: float = 120.0
    accept_recovery: float = 120.0
    finalize_segment: float = 120.0
    get_journal_state: float = 120.0
    new_epoch: float = 120.0
    operations: float = 60.0
    http_open: float = 60.0
    http_read: float = 60.0
    queue_limit: int = 10 * _MEGABYTE
    tail_in_progress: bool = False
    max_tail_transactions: int = 5000

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

        def timeout(call: str, default: int) -> float:
            return configuration.get_time(f"dfs.qjournal.{call}.timeout.ms", f"{default}ms", "ms")

        transactions_key = "dfs.ha.tail-edits.qjm.rpc.max-txns"
        max_transactions = configuration.get_int(transactions_key, 5000)
        if max_transactions < 1:
            raise ConfigurationError([configuration.fault(transactions_key, "has to be 1 or more")])
        return cls(
            start_segment=timeout("start-segment", 20000),
            select_input_streams=timeout("select-input-streams", 20000),
            write_transactions=timeout("write-txns", 20000),
            prepare_recovery=timeout("prepare-recovery", 120000),
            accept_recovery=timeout("accept-recovery", 120000),
            finalize_segment=timeout("finalize-segment", 120000),
            get_journal_state=timeout("get-journal-state", 120000),
            new_epoch=timeout("new-epoch", 120000),
            operations=configuration.get_time("dfs.qjm.operations.timeout", "60s", "ms"),
            http_open=timeout("http.open", 60000),
            http_read=timeout("http.read", 60000),
            queue_limit=configuration.get_int("dfs.qjournal.queued-edits.limit.mb", 10) * _MEGABYTE,
            tail_in_progress=configuration.get_bool("dfs.ha.tail-edits.in-progress", False),
            max_tail_transactions=max_transactions,
        )

"""The merge of a secondary's checkpoint, and the count of consecutive failures (CheckpointStorage.mergeErrorCount)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from checkpointer.errors import RoleGaveUpError
from checkpointer.merging.engine_process import merge_in_process
from checkpointer.merging.engines import LocalEngine, MergeTask, choose_engine
from checkpointer.roles.checkpoint_end import report_result
from checkpointer.roles.secondary.storage import SecondaryStorage
from engine.errors import CheckpointCancelledError
from engine.loaded_image import next_layout
from engine.merge import MergeResult, Observer
from hadoop_common.recurring_fault import Alarm
from hadoop_rpc.namenode_protocol import CheckpointSignature
from journal.segment_file import EditLogSegment
from site_config.checkpoint_config import CheckpointConfig


class MergeFailures:
    """The number `count` of consecutive failed merges, and `fault`, the last failure with its next step."""

    def __init__(self) -> None:
        self.count = 0
        self.fault = Alarm("")

    @contextmanager
    def counted(self, max_retries: int) -> Iterator[None]:
        """Run a merge; success resets the count, and a cancellation does not change it.

        Raises:
            RoleGaveUpError: the merge failed, and more than `max_retries` consecutive merges have now failed.
        """
        try:
            yield
        except CheckpointCancelledError:
            raise
        except Exception as error:
            self.count += 1
            self.fault = Alarm(str(error), getattr(error, "hint", ""))
            if self.count <= max_retries:
                raise
            raise RoleGaveUpError(
                f"failed merges since the last success: {self.count}, but dfs.namenode.checkpoint.max-retries "
                f"allows only {max_retries}; last error: {error}",
                hint=self.fault.hint or "Find the cause, then start the daemon again.",
            ) from error
        self.count = 0

    def alarms(self) -> list[Alarm]:
        """Return the problems that require an operator's attention, one sentence each."""
        if not self.count:
            return []
        return [Alarm(f"failed merges since the last success: {self.count}; last error: {self.fault}", self.fault.hint)]


def merge_checkpoint(
    image: Path,
    segments: Sequence[EditLogSegment],
    signature: CheckpointSignature,
    storage: SecondaryStorage,
    config: CheckpointConfig,
    failures: MergeFailures,
    observer: Observer,
) -> MergeResult:
    """Merge `segments` into `image` up to the roll of `signature`, and drop directories that cannot store the result.

    Raises:
        HdfsError: nothing was written, or no directory is left.
    """
    # After an upgrade, the NameNode's newest image may still have the old layout, but new edits have the new layout.
    layout = next_layout(image, signature.storage_info.layout_version)
    with failures.counted(config.max_retries):
        task = MergeTask(
            image=image,
            base_txid=signature.most_recent_checkpoint_txid,
            segments=tuple(segments),
            last_txid=signature.current_segment_txid - 1,
            folders=tuple(storage.image_folders()),
            settings=replace(config.merge_settings, layout_version=layout),
        )
        engine = choose_engine(config.engine, task)
        if isinstance(engine, LocalEngine):
            result = engine.merge(task, observer)
        else:
            result = merge_in_process(config.engine, task, observer)
    report_result(result, storage.drop)
    return result

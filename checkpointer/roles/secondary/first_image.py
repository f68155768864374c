"""Fetch of the first image in shadow mode; without this image, the daemon cannot make images."""

from __future__ import annotations

from collections.abc import Callable

from engine.errors import CheckpointCancelledError
from hadoop_common.back_off import BackOff
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.file_faults import error_text
from hadoop_common.quantities import duration
from hadoop_rpc.errors import RpcError

_BACK_OFF = BackOff(60.0, 3600.0)


class FirstImageFetch:
    """The fetch of an image, with a delay after a failure, so that the NameNode does not send its image at each poll.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._next, self._failures, self._problem = clock(), 0, ""

    def run(self, fetch: Callable[[], None]) -> None:
        """Call `fetch`, unless it failed recently.

        An RPC fault causes no delay, because it occurs before the transfer.

        Raises:
            StorageError: `fetch` failed recently.
            HdfsError, OSError: raised by `fetch`.
        """
        left = self._next - self._clock()
        if left > 0:
            again = f"it will be fetched again in {duration(left)}"
            problem = f"the first image has not been fetched yet: {self._problem}; {again}"
            raise StorageError(problem, hint="Repair the cause; the daemon retries automatically.")
        try:
            fetch()
        except (RpcError, CheckpointCancelledError):
            raise
        except (HdfsError, OSError) as fault:
            self._failures += 1
            self._next, self._problem = self._clock() + _BACK_OFF.wait(self._failures), error_text(fault)
            raise
        self._failures = 0
